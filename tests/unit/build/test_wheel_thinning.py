"""A wheel for one kind of GPU out of one for many: what is left in its libraries, and what it says of itself."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.build import wheel_thinning as thinning
from decouple.build.wheel_finishing import read_manifest
from decouple.cli import main
from decouple.flows.thin import thin_wheel
from decouple.index import site
from decouple.index.wheel import read_wheel
from decouple.verify.kernels import bundles, fatbin
from decouple.verify.kernels import code_object as code_objects
from tests.support.cubins import Made, bundle, code_object, cubin, library
from tests.support.cubins import fatbin as container
from tests.unit.index.wheels import make_manifest, make_wheel

pytestmark = pytest.mark.tools("cc")
ARCHS = ["sm_75", "sm_80", "sm_90"]


def image(text: str) -> bytes:
    return cubin([Made("kernel", text.encode() * 400)])


def whole(folder: Path, said: str = " ".join(ARCHS), newest: str = "9.0") -> Path:
    """A torch_cuda wheel for three architectures; one source has code for the newest in a form of its own, one has none
    for the oldest."""
    folder.mkdir()
    common = [(arch, image(arch)) for arch in ARCHS]
    cuda = library(
        folder / "libtorch_cuda.so",
        [
            container(common, "zstd"),
            container([*common, ("sm_90a", image("own"))]),
            container([("sm_80", image("new")), ("compute_80", image("text"))]),
        ],
    )
    bindings = library(folder / "libtorch_python_cuda.so", [], registers=[said])
    version = "2.6.0+cu124"
    manifest = replace(make_manifest("torch-cuda", version, "12.4", "a" * 64), arch_list=("7.5", "8.0", newest))
    libraries = {"cudnn": "9.1.0", "magma": "off", "tensorpipe": "off"}
    about = {"arch_list": [*ARCHS[:2], f"sm_{newest.replace('.', '')}"], "version": version, "libraries": libraries}
    return make_wheel(
        folder,
        "torch-cuda",
        version,
        requires=("torch==2.6.0+decoupled",),
        manifest=manifest.to_json(),
        extra_members={
            "torch_cuda/build_info.json": json.dumps(about).encode(),
            "torch_cuda/kernels.json": b'{"changed": "the run path", "libraries": {"libtorch_cuda.so": {}}}',
            "torch_cuda/lib/libtorch_cuda.so": cuda.read_bytes(),
            "torch_cuda/lib/libtorch_python_cuda.so": bindings.read_bytes(),
        },
    )


def test_what_a_wheel_was_made_with_and_without_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(whole(tmp_path / "whole")), "--explain"]) == 0
    said = capsys.readouterr().out
    assert "  libraries   with cudnn 9.1.0\n" in said
    assert "  libraries   without magma, tensorpipe: its METADATA says what is missed\n" in said


def unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder / "torch_cuda"


def code(library: Path) -> list[list[tuple[str, bytes]]]:
    """Per container, the architectures and images in it."""
    found: dict[int, list[tuple[str, bytes]]] = {}
    for one in fatbin.read_images(library):
        found.setdefault(one.container, []).append((one.arch, one.data))
    return [found[number] for number in sorted(found)]


def test_what_such_a_gpu_would_load_is_left_and_nothing_else_moves(tmp_path: Path) -> None:
    before = whole(tmp_path / "whole")
    made = thin_wheel(before, ["9.0"], tmp_path)
    assert made.name == "torch_cuda-2.6.0+cu124.sm90-py3-none-any.whl"
    assert made.stat().st_size < before.stat().st_size
    old, new = unpacked(before, tmp_path / "old"), unpacked(made, tmp_path / "new")
    for name in ("libtorch_cuda.so", "libtorch_python_cuda.so"):
        assert (new / "lib" / name).stat().st_size == (old / "lib" / name).stat().st_size
    first, second, third = code(new / "lib/libtorch_cuda.so")
    assert [arch for arch, _ in first] == ["sm_90"] and first[0][1] == image("sm_90")
    assert [arch for arch, _ in second] == ["sm_90", "sm_90a"]
    assert [arch for arch, _ in third] == ["compute_80"], "PTX is what that GPU has of this one"
    assert b"\0sm_90\0" in (new / "lib/libtorch_python_cuda.so").read_bytes(), "torch.cuda.get_arch_list()"
    assert json.loads((new / "build_info.json").read_text())["arch_list"] == ["sm_90"]
    origin = json.loads((new / "kernels.json").read_text())
    assert origin["changed"] == "the run path; machine code for other architectures than 9.0 taken out"
    with zipfile.ZipFile(made) as archive:
        [text] = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    assert "other architectures than 9.0 taken out" in text and read_manifest(made).flags["thinned"] is True
    assert str(read_wheel(made).version) == "2.6.0+cu124.sm90" and read_manifest(made).arch_list == ("9.0",)


def test_a_source_without_code_for_the_gpu_stays_as_it_is(tmp_path: Path) -> None:
    made = thin_wheel(whole(tmp_path / "whole"), ["7.5"], tmp_path)
    (first, _, third) = code(unpacked(made, tmp_path / "new") / "lib/libtorch_cuda.so")
    assert [arch for arch, _ in first] == ["sm_75"]
    assert [arch for arch, _ in third] == ["sm_80", "compute_80"], "the wheel for all has no more for it either"


def test_an_architecture_may_be_specific(tmp_path: Path) -> None:
    """It was "no architecture (e.g. --arch 9.0)", and of 9.0 there was none (name some of 8.0, 9.0a)."""
    before = whole(tmp_path / "whole", "sm_75 sm_80 sm_90a", "9.0a")
    made = thin_wheel(before, ["9.0a"], tmp_path)
    assert made.name == "torch_cuda-2.6.0+cu124.sm90a-py3-none-any.whl"
    new = unpacked(made, tmp_path / "new")
    assert [arch for arch, _ in code(new / "lib/libtorch_cuda.so")[1]] == ["sm_90", "sm_90a"]
    assert json.loads((new / "build_info.json").read_text())["arch_list"] == ["sm_90a"]
    assert read_manifest(made).arch_list == ("9.0a",)
    with pytest.raises(UsageError, match=r"has no 9\.0 .*name some of 7\.5, 8\.0, 9\.0a"):
        thin_wheel(before, ["9.0"], tmp_path)


def test_two_kinds_of_gpu_and_the_same_bytes_again(tmp_path: Path) -> None:
    before = whole(tmp_path / "whole")
    made = [
        thin_wheel(before, archs, tmp_path / name) for name, archs in (("a", ["9.0", "8.0"]), ("b", ["8.0", "9.0"]))
    ]
    assert made[0].name == "torch_cuda-2.6.0+cu124.sm80.sm90-py3-none-any.whl"
    assert made[0].read_bytes() == made[1].read_bytes()
    again = thin_wheel(made[0], ["9.0", "9.0"], tmp_path)
    assert again.name == "torch_cuda-2.6.0+cu124.sm90-py3-none-any.whl", "its index is that of such GPUs"


@pytest.mark.parametrize(
    ("names", "arch", "left"),
    [
        ({"sm_80", "sm_86", "sm_90"}, "8.6", {"sm_86"}),
        ({"sm_80", "sm_90"}, "8.9", {"sm_80"}),  # binary compatible within a major version
        ({"sm_86"}, "8.0", set()),  # never with an older one
        ({"sm_70", "compute_70"}, "8.0", {"compute_70"}),
        ({"sm_90", "compute_90"}, "8.0", set()),
        ({"sm_90", "sm_90a"}, "9.0", {"sm_90", "sm_90a"}),
        ({"sm_100", "sm_90"}, "10.0", {"sm_100"}),
        ({"sm_80", "sm_90", "sm_90a"}, "9.0a", {"sm_90", "sm_90a"}),
        ({"sm_100", "sm_100f"}, "10.3", {"sm_100", "sm_100f"}),
        ({"sm_100a", "compute_100a", "compute_90"}, "10.3", {"compute_90"}),  # for 10.0 alone
        ({"compute_90", "compute_100f"}, "12.0", {"compute_90"}),  # another family's
    ],
)
def test_what_a_gpu_loads(names: set[str], arch: str, left: set[str]) -> None:
    assert thinning.select_loadable(names, arch) == left


@pytest.mark.parametrize(
    ("archs", "said"),
    [
        (["8.6"], r"has no 8\.6 .*name some of 7\.5, 8\.0, 9\.0"),
        ([], "has no architecture that was named"),
        (["7.5", "8.0", "9.0"], "is for 7.5, 8.0, 9.0 as it is"),
    ],
)
def test_what_it_was_not_made_for_is_refused(tmp_path: Path, archs: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        thin_wheel(whole(tmp_path / "whole"), archs, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_architectures_are_listed_as_for_a_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has commas between them, which --arch did not take."""
    words = ["--arch", "7.5, 8.0", "--arch", "9.0;7.5"]
    assert main(["repack", "thin", str(whole(tmp_path / "whole")), *words]) == 2
    assert "is for 7.5, 8.0, 9.0 as it is" in capsys.readouterr().err


def test_a_list_of_architectures_that_is_not_found_is_no_wheel(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="sm_75 sm_80 sm_90"):
        thin_wheel(whole(tmp_path / "whole", said="sm_75 sm_80"), ["9.0"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_in_an_index_it_has_a_place_of_its_own(tmp_path: Path) -> None:
    """pip would take it for the newest beside the one for all."""
    dist = tmp_path / "dist"
    before = whole(dist, "sm_75 sm_80 sm_90a", "9.0a")
    thin_wheel(before, ["9.0a"], dist)
    thin_wheel(before, ["8.0"], dist)
    make_wheel(dist, "torch", "2.6.0+decoupled")
    site.build_site(dist, tmp_path / "site")
    pages = {
        str(path.parent.parent.relative_to(tmp_path / "site")): path.read_text()
        for path in (tmp_path / "site").rglob("torch-cuda/index.html")
    }
    assert {name for name, text in pages.items() if "sm90a" in text} == {"cu124.sm90a/simple"}
    assert {name for name, text in pages.items() if "sm80" in text} == {"cu124.sm80/simple"}
    assert {name for name, text in pages.items() if before.name.replace("+", "%2B") in text} == {
        "simple",
        "cu124/simple",
    }
    assert (tmp_path / "site/cu124.sm90a/simple/torch/index.html").is_file(), "with its core"


GFX = ["gfx90a", "gfx1100"]


def whole_hip(folder: Path) -> Path:
    """A torch_hip wheel for two architectures of AMD's; one source has code for one of them alone."""
    folder.mkdir()
    images = [(arch, code_object([Made("kernel", arch.encode() * 400)])) for arch in GFX]
    hip = library(
        folder / "libtorch_hip.so", [bundle(images), bundle(images), bundle(images[:1])], section=".hip_fatbin"
    )
    bindings = library(folder / "libtorch_python_hip.so", [], registers=[" ".join(GFX)])
    version = "2.6.0+rocm6.4"
    manifest = replace(make_manifest("torch-hip", version, None, "a" * 64), arch_list=tuple(GFX))
    return make_wheel(
        folder,
        "torch-hip",
        version,
        requires=("torch==2.6.0+decoupled",),
        manifest=manifest.to_json(),
        extra_members={
            "torch_hip/build_info.json": json.dumps({"arch_list": GFX, "version": version}).encode(),
            "torch_hip/lib/libtorch_hip.so": hip.read_bytes(),
            "torch_hip/lib/libtorch_python_hip.so": bindings.read_bytes(),
        },
    )


def list_architectures(library: Path) -> list[list[str]]:
    """Per bundle, the architectures in it."""
    content = library.read_bytes()
    return [[one.arch for one in found.entries if one.arch] for found in bundles.list_bundles(content, 0, len(content))]


def test_of_a_wheel_for_amd_the_images_of_one_gpu_are_left_in_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = whole_hip(tmp_path / "whole")
    made = thin_wheel(before, ["gfx1100"], tmp_path)
    assert made.name == "torch_hip-2.6.0+rocm6.4.gfx1100-py3-none-any.whl"
    assert made.stat().st_size < before.stat().st_size
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path / "new")
    library = tmp_path / "new/torch_hip/lib/libtorch_hip.so"
    assert list_architectures(library) == [["gfx1100"], ["gfx1100"], ["gfx90a"]], "nothing else of the last for any"
    first, *_ = code_objects.read_device_objects(library, "")
    assert [(one.name, one.size) for one in first.kernels] == [("kernel", len("gfx1100") * 400)]
    assert library.read_bytes().count(b"gfx90agfx90a") == 200, "of the bundles for both it is gone"
    assert b"\0gfx1100\0" in (tmp_path / "new/torch_hip/lib/libtorch_python_hip.so").read_bytes(), "get_arch_list()"
    assert read_manifest(made).arch_list == ("gfx1100",)
    assert main(["verify", str(made), "--explain"]) == 0
    assert "rocm6.4.gfx1100 for gfx1100\n" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"gfx942.*gfx90a, gfx1100"):
        thin_wheel(before, ["gfx942"], tmp_path)


def test_each_vendor_s_files_have_an_index_of_their_own_with_the_one_core(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    thin_wheel(whole_hip(dist), ["gfx90a"], dist)
    thin_wheel(whole(tmp_path / "cuda"), ["9.0"], dist)
    make_wheel(dist, "torch", "2.6.0+decoupled")
    site.build_site(dist, tmp_path / "site")

    def listed(project: str) -> set[str]:
        pages = (tmp_path / "site").rglob(f"{project}/index.html")
        return {str(path.parent.parent.relative_to(tmp_path / "site")) for path in pages}

    assert listed("torch-hip") == {"simple", "rocm64/simple", "rocm64.gfx90a/simple"}
    assert listed("torch-cuda") == {"cu124.sm90/simple"}
    assert listed("torch") == {"simple", "cpu/simple", "rocm64/simple", "rocm64.gfx90a/simple", "cu124.sm90/simple"}
    assert "gfx90a" not in (tmp_path / "site/rocm64/simple/torch-hip/index.html").read_text()
