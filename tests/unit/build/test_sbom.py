"""The bill of materials in every wheel that is packed: real components of the real 2.6.0, the library's own
validator."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.spdx import is_expression
from cyclonedx.validation.json import JsonStrictValidator

from decouple.base.errors import DecoupleError
from decouple.build import sbom, wheel_finishing
from decouple.build.wheel_pair import pair_wheels
from decouple.cli import main
from decouple.index.wheel import read_wheel
from decouple.release.wheel_manifest import OverlayContent, SeriesContent, WheelManifest
from decouple.upstream import components
from tests.unit.index.wheels import make_wheel

PROJECT = Path(__file__).parents[3]
SHA = "a" * 64
EPOCH = 1738108800
MKL = "mkl_static-2024.2.2-py2.py3-none-manylinux1_x86_64.whl"
OFFICIAL = "torch-2.6.0-cp313-cp313-manylinux1_x86_64.whl"
ORIGIN = {"name": "pytorch_2.6.0+dfsg.orig.tar.xz", "url": "http://deb.debian.org/orig", "size": 1, "sha256": SHA}


def manifest(project: str, version: str, *sources: dict[str, Any], **more: Any) -> WheelManifest:
    return WheelManifest(
        release="2.6",
        project=project,
        version=version,
        upstream={"version": "2.6.0", "tag": "v2.6.0", "commit": "2236df1770800ffea5697b11b0bb0d910b2e59e1"},
        sources=(ORIGIN, *sources),
        series=SeriesContent("5" * 64, ({"path": "2.6/0001-x.patch", "sha256": SHA},)),
        overlay=OverlayContent("6" * 64),
        tree="7" * 40,
        times={"source_date_epoch": EPOCH},
        **more,
    )


def portable_core() -> WheelManifest:
    """What a portable build says of the core, with all that the list of third-party components has."""
    rows = [component.make_row() for component in components.load_components(PROJECT, "2.6").components]
    return manifest(
        *("torch", "2.6.0+decoupled", *rows),
        toolchain={"inputs": {"pypi": {MKL: SHA, "ninja-1.11.1.4-py3-none-any.whl": SHA}}},
        environment={"BLAS": "MKL", "USE_STATIC_MKL": "1"},
    )


def over_official_kernels() -> WheelManifest:
    wheel = {"name": OFFICIAL, "url": "https://files.pythonhosted.org/" + OFFICIAL, "size": 1, "sha256": "b" * 64}
    other = {"name": OFFICIAL.replace("313", "312"), "url": "https://e.org/x", "size": 1, "sha256": "c" * 64}
    return manifest("torch-cuda", "2.6.0+cu124.official", other, wheel, cuda="12.4", flags={"kernels": "official"})


def packed(folder: Path, of: WheelManifest, members: tuple[str, ...], *requires: str) -> Path:
    """A wheel of ``members``, finished as a build does it."""
    stem = f"{of.project.replace('-', '_')}-{of.version}"
    fields = ["Metadata-Version: 2.1", f"Name: {of.project}", f"Version: {of.version}", "License: BSD-3-Clause"]
    fields += [f"Requires-Dist: {one}" for one in requires]
    raw = folder / "raw" / f"{stem}-cp313-cp313-linux_x86_64.whl"
    raw.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(raw, "w") as out:
        for name in members:
            out.writestr(name, f"content of {name}")
        out.writestr(f"{stem}.dist-info/METADATA", "\n".join(fields) + "\n\ntext\n")
        tag = "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: false\nTag: cp313-cp313-linux_x86_64\n"
        out.writestr(f"{stem}.dist-info/WHEEL", tag)
    return wheel_finishing.finish_wheel(raw, folder / "dist", of, EPOCH)


def text_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"{wheel_finishing.find_dist_info(archive, wheel)}/sboms/decouple.cdx.json").decode()


def parts(wheel: Path) -> dict[str, Any]:
    """The components by name; the document holds to the schema, unknown keys refused."""
    text = text_of(wheel)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    return {one["name"]: one for one in json.loads(text)["components"]}


def said(component: dict[str, Any]) -> dict[str, str]:
    return {one["name"].removeprefix("decouple:"): one["value"] for one in component["properties"]}


def test_a_portable_core_lists_its_source_and_all_that_is_bundled(tmp_path: Path) -> None:
    grafted = "torch.libs/libgomp-a34b3233.so.1.0.0"
    wheel = packed(tmp_path, portable_core(), ("torch/__init__.py", grafted), "filelock", "sympy==1.13.1")
    found = parts(wheel)
    listed = components.load_components(PROJECT, "2.6").components
    assert {one.folder.rpartition("/")[2] for one in listed} < set(found)

    source = found["pytorch"]
    assert source["purl"] == "pkg:github/pytorch/pytorch@v2.6.0"
    (origin,) = source["externalReferences"]
    assert (origin["url"], origin["hashes"]) == (ORIGIN["url"], [{"alg": "SHA-256", "content": SHA}])

    onednn = next(one for one in listed if one.folder == "ideep/mkl-dnn")
    assert found["mkl-dnn"]["version"] == onednn.version
    assert found["mkl-dnn"]["externalReferences"][0]["hashes"][0]["content"] == onednn.sha256
    assert found["mkl-dnn"]["licenses"] == [{"acknowledgement": "declared", "expression": "Apache-2.0"}]
    assert found["eigen"]["licenses"] == [{"license": {"name": "NOASSERTION"}}]  # nobody has read which files count
    assert found["pybind11"]["purl"] == "pkg:pypi/pybind11@2.13.6?file_name=pybind11-2.13.6.tar.gz"
    assert found["ideep"]["purl"].startswith("pkg:deb/debian/libideep-dev@0.0~git20250115.9873ffc-2?arch=all")
    assert found["fmt"]["purl"].startswith("pkg:generic/fmt@10.1.1")

    assert (found["mkl-static"]["version"], found["mkl-static"]["hashes"][0]["content"]) == ("2024.2.2", SHA)
    assert "ninja" not in found  # built with it, not of it
    graft = found["libgomp-a34b3233.so.1.0.0"]
    assert graft["hashes"][0]["content"] == hashlib.sha256(f"content of {grafted}".encode()).hexdigest()
    assert graft["licenses"][0]["expression"] == "GPL-3.0-or-later WITH GCC-exception-3.1"
    assert said(found["sympy"])["bundled"] == "false" and said(found["fmt"])["bundled"] == "true"
    named = said(json.loads(text_of(wheel))["metadata"])
    assert named["series-sha256"] == "5" * 64
    assert "miniz" in named["not-listed"] and "packages" not in named["not-listed"]
    assert wheel_finishing.count_components(wheel) == (1 + len(listed) + 2, 2)


def test_what_is_nvidias_is_asked_for_and_the_official_wheel_is_named_with_its_hash(tmp_path: Path) -> None:
    nvidia = 'nvidia-cublas-cu12==12.4.5.8 ; platform_system == "Linux"'
    members = ("torch_cuda/_CUDAC.so", "torch_cuda/lib/libtorch_cuda.so", "torch_cuda/lib/libtorch_python_cuda.so")
    wheel = packed(tmp_path, over_official_kernels(), members, "torch==2.6.0", nvidia)
    document, found = json.loads(text_of(wheel)), parts(wheel)
    cublas = found["nvidia-cublas-cu12"]
    assert (cublas["version"], cublas["scope"], said(cublas)["bundled"]) == ("12.4.5.8", "required", "false")
    (ours,) = (one for one in document["dependencies"] if one["ref"] == document["metadata"]["component"]["bom-ref"])
    assert cublas["bom-ref"] in ours["dependsOn"]
    (official,) = (one for one in document["components"] if one.get("purl", "").endswith(f"file_name={OFFICIAL}"))
    assert official["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]
    assert "upstream linked" in said(document["metadata"])["not-listed"]  # its wheel has no list


def test_the_same_wheel_gives_the_same_bytes_and_another_one_another_serial_number(tmp_path: Path) -> None:
    first, second, other = (
        text_of(packed(tmp_path / name, portable_core(), ("torch/__init__.py", *more)))
        for name, more in (("a", ()), ("b", ()), ("c", ("torch/more.py",)))
    )
    assert first == second != other
    serials = {json.loads(text)["serialNumber"] for text in (first, other)}
    assert len(serials) == 2 and all(one.startswith("urn:uuid:") for one in serials)
    assert json.loads(first)["metadata"]["timestamp"].startswith("2025-01-29T00:00:00")  # that of the sources


def test_a_renamed_core_lists_what_it_asks_for_itself(tmp_path: Path) -> None:
    core = packed(tmp_path, portable_core(), ("torch/__init__.py",))
    bindings = make_wheel(
        *(tmp_path, "torch-cuda", "2.6.0+cu124"),
        requires=("torch==2.6.0+decoupled", "torch-cuda-libraries==2.6.0+cu124"),
        cuda="12.4",
        tag="cp313-cp313-linux_x86_64",
    )
    made = pair_wheels(core, bindings, tmp_path / "paired")
    assert parts(made.core)["torch-cuda"]["version"] == "2.6.0+cu124.paired"
    assert "mkl-static" in parts(made.core) and "mkl-static" not in parts(made.bindings)
    whole = json.loads(text_of(made.core))["metadata"]["component"]
    assert (whole["name"], whole["version"]) == ("torch", "2.6.0+cu124")


def test_index_and_explain_take_wheels_with_and_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = packed(tmp_path, portable_core(), ("torch/__init__.py",), "filelock")
    assert read_wheel(wheel).manifest == portable_core()  # RECORD holds, the manifest too
    assert main(["verify", str(wheel), "--explain"]) == 0
    assert "25 in it, 1 asked for" in capsys.readouterr().out
    before = make_wheel(tmp_path / "old", "torch", "2.6.0+decoupled")
    assert read_wheel(before).manifest.project == "torch"
    assert main(["verify", str(before), "--explain"]) == 0
    assert "  components  not listed in it" in capsys.readouterr().out


def test_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    name = "torch-2.6.0+decoupled.dist-info/sboms/decouple.cdx.json"
    for wrong in (b"no json", b'{"components": 3}'):
        wheel = make_wheel(tmp_path, "torch", "2.6.0+decoupled", extra_members={name: wrong})
        with pytest.raises(DecoupleError, match=r"decouple\.cdx\.json"):
            wheel_finishing.count_components(wheel)


def test_every_licence_of_the_list_is_an_spdx_expression() -> None:
    licences = {one.folder: one.licence for one in components.load_components(PROJECT, "2.6").components if one.licence}
    assert len(licences) == 22
    assert [folder for folder, licence in licences.items() if not is_expression(licence)] == []


def test_without_components_it_says_that_the_list_is_not_whole() -> None:
    text = sbom.make_bom(manifest("torch", "2.6.0+decoupled"), b"Name: torch\n", {}, EPOCH)
    assert "packages" in said(json.loads(text)["metadata"])["not-listed"]


def test_a_component_in_a_folder_of_the_users_own_has_no_address_and_no_licence(tmp_path: Path) -> None:
    (tmp_path / "fmt").mkdir()
    (tmp_path / "fmt/fmt.h").write_text("1")
    row = components.open_folder(tmp_path).rows[0]
    text = sbom.make_bom(manifest("torch", "2.6.0+decoupled", row), b"Name: torch\n", {}, EPOCH).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    (fmt,) = (one for one in json.loads(text)["components"] if one["name"] == "fmt")
    assert said(fmt)["sha256"] == row["sha256"] and "purl" not in fmt
    assert fmt["licenses"] == [{"license": {"name": "NOASSERTION"}}]
