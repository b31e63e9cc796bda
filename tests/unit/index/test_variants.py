"""Variant wheels in an index of their own: which one a real uv takes on which machine, and that others take none."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from variantlib.variants_json import VariantsJson

from decouple.base.errors import DecoupleError, UsageError
from decouple.build import variants
from decouple.cli import main
from decouple.index import catalog, choose, site, wheel
from decouple.index.remote import Index
from tests.support.server import serving
from tests.support.tools import leave_test
from tests.unit.index.wheels import installed, make_environment, make_pair, make_wheel

CORE = "2.6.0+decoupled"
LISTED = "torch_cuda-2.6.0+variants-variants.json"
VARIANTS = {
    "cu118": {"nvidia": {"cuda_version_lower_bound": ["11.0", "11.8"]}},
    "cu124": {"nvidia": {"cuda_version_lower_bound": ["12.0", "12.4"]}},
    "cu124.sm80": {"nvidia": {"cuda_version_lower_bound": ["12.0", "12.4"], "sm_arch": ["80_real"]}},
    "cu124.sm90": {"nvidia": {"cuda_version_lower_bound": ["12.0", "12.4"], "sm_arch": ["90_real"]}},
    "null": {},
}
Run = Callable[..., subprocess.CompletedProcess[str]]


def bindings(folder: Path, label: str, cuda: str, core: str = CORE, arch: str = "9.0", **other: str) -> Path:
    """The wheel of bindings as `split` leaves it, with its libraries beside it."""
    make_wheel(folder, "torch-cuda-libraries", f"2.6.0+{label}", cuda=cuda)
    pins = (f"torch=={core}", f"torch-cuda-libraries==2.6.0+{label}")
    return make_wheel(folder, "torch-cuda", f"2.6.0+{label}", requires=pins, cuda=cuda, arch=arch, **other)


def published(folder: Path) -> Path:
    """A site of wheels for two CUDAs and two kinds of GPU, with variants of them all."""
    dist = folder / "dist"
    make_wheel(dist, "torch", CORE)
    given = [bindings(dist, "cu118", "11.8"), bindings(dist, "cu124", "12.4")]
    given += [bindings(dist, f"cu124.sm{arch.replace('.', '')}", "12.4", arch=arch) for arch in ("8.0", "9.0")]
    assert main(["repack", "variants", *map(str, given)]) == 0
    site.build_site(dist, folder / "site")
    site.build_site(dist / "variants", folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("variants"))


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[str]:
    with serving(root) as url:
        yield f"{url}/variants/simple/"


@pytest.fixture
def uv(tmp_path: Path, served: str) -> Run:
    """The uv of this environment, on a machine of that driver and GPU; left where it knows no variants."""
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", str(tmp_path / "env/bin/python")]
    venv.create(tmp_path / "env", with_pip=False)

    def run(*words: str, driver: str = "", gpu: str = "") -> subprocess.CompletedProcess[str]:
        said = {"CUDA_DRIVER_VERSION": driver, "SM_ARCH": gpu}
        machine = {f"NV_VARIANT_PROVIDER_FORCE_{name}": value for name, value in said.items() if value}
        return subprocess.run(
            [*command, "--no-cache", "--index-url", served, *words],
            capture_output=True,
            text=True,
            env=make_environment(**machine),
        )

    return run


@pytest.fixture
def knowing(uv: Run) -> Run:
    asked = uv("--preview-features", "wheel-variants", "--dry-run", "torch")
    if asked.returncode or "wheel-variants" in asked.stderr:
        said = subprocess.run([sys.executable, "-m", "uv", "--version"], capture_output=True, text=True).stdout
        leave_test(f"{said.strip()} has no preview feature wheel-variants: {asked.stderr.strip()}")

    def run(*words: str, driver: str = "", gpu: str = "") -> subprocess.CompletedProcess[str]:
        return uv("--preview-features", "wheel-variants", *words, driver=driver, gpu=gpu)

    return run


@pytest.mark.parametrize(
    ("driver", "gpu", "libraries"),
    [
        ("", "", None),  # no driver
        ("11.8", "7.5", "cu118"),
        ("12.4", "7.5", "cu124"),
        ("12.4", "9.0", "cu124.sm90"),
        ("12.4", "8.0", "cu124.sm80"),
        ("12.8", "8.6", "cu124.sm80"),  # machine code of its generation
        ("12.1", "9.0", "cu124.sm90"),  # minor version compatibility, as `decouple wheels` chooses
        ("12.4", "12.0", "cu124"),
        ("12.4", "", "cu124"),
        ("10.2", "7.0", None),
    ],
)
def test_uv_takes_the_one_for_the_machine(
    knowing: Run, tmp_path: Path, driver: str, gpu: str, libraries: str | None
) -> None:
    if not driver and choose.read_driver_cuda() is not None:
        pytest.skip("this machine has a driver, and uv can be told of another one, not of none")
    done = knowing("torch-cuda", driver=driver, gpu=gpu)
    assert done.returncode == 0, done.stderr
    wanted = {"torch": CORE, "torch_cuda": "2.6.0+variants"}
    assert installed(tmp_path) == wanted | ({"torch_cuda_libraries": f"2.6.0+{libraries}"} if libraries else {})
    assert bool(list(tmp_path.glob("env/lib/python*/site-packages/torch_cuda"))) == (libraries is not None)


def test_another_machine_is_another_variant_of_the_same_version(knowing: Run, tmp_path: Path) -> None:
    for driver, libraries in (("12.4", "cu124"), ("11.8", "cu118")):
        done = knowing("--reinstall", "torch-cuda", driver=driver, gpu="7.5")
        assert installed(tmp_path)["torch_cuda_libraries"] == f"2.6.0+{libraries}", done.stderr


def test_pip_and_a_uv_that_is_not_asked_take_the_ordinary_wheel(uv: Run, served: str, tmp_path: Path) -> None:
    ordinary = {"torch": CORE, "torch_cuda": "2.6.0+cu124", "torch_cuda_libraries": "2.6.0+cu124"}
    done = uv("torch-cuda", driver="12.4", gpu="9.0")
    assert done.returncode == 0 and installed(tmp_path) == ordinary, done.stderr
    venv.create(tmp_path / "env", with_pip=False, clear=True)
    python = str(tmp_path / "env/bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-cache-dir", "--index-url", served]
    done = subprocess.run([*pip, "torch-cuda"], capture_output=True, text=True, env=make_environment())
    assert done.returncode == 0 and installed(tmp_path) == ordinary, done.stderr
    assert "variants" not in done.stderr


def test_the_page_says_what_the_labels_stand_for(root: Path) -> None:
    said = json.loads((root / "variants/simple/torch-cuda" / LISTED).read_text())
    assert said["variants"] == VARIANTS
    assert said["default-priorities"] == {"namespace": ["nvidia"]} and list(said["providers"]) == ["nvidia"]
    for label, stands_for in VARIANTS.items():
        path = root / f"files/2.6/torch_cuda-2.6.0+variants-py3-none-any-{label}.whl"
        with zipfile.ZipFile(path) as opened:
            inside = json.loads(opened.read("torch_cuda-2.6.0+variants.dist-info/variant.json"))
        assert inside == said | {"variants": {label: stands_for}}
        assert wheel.read_wheel(path).manifest.flags["variant"] == label


def test_an_independent_reader_takes_both_documents(root: Path) -> None:
    path = root / "variants/simple/torch-cuda" / LISTED
    found = VariantsJson(json.loads(path.read_text()))
    assert {label: one.to_dict() for label, one in found.variants.items()} == VARIANTS


def test_only_an_index_of_their_own_has_them(root: Path) -> None:
    named = {path.relative_to(root).parts[0] for path in root.rglob("index.html") if "+variants" in path.read_text()}
    assert named == {"variants", "index.html"}
    assert "sm90" not in (root / "simple/torch-cuda-libraries/index.html").read_text()
    assert main(["index", "check", str(root)]) == 0
    offered = Index(str(root / "variants")).read_project("torch-cuda")
    assert [str(one.version) for one in offered.offers] == ["2.6.0+cu118", "2.6.0+cu124"] and not offered.refused
    assert sorted(str(one.variant) for one in offered.variants) == sorted(VARIANTS)


def test_an_older_decouple_can_read_the_list_of_files(root: Path) -> None:
    document = json.loads((root / "releases/2.6.json").read_text())
    assert not [one for one in document["files"] if "+variants" in one["filename"]]
    assert len(document["variants"]) == len(VARIANTS)
    assert len(catalog.read_entries(root / "releases/2.6.json")) == len(document["files"]) + len(VARIANTS)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda text: text.replace("80_real", "86_real"), "its sha256 is not the one in the link"),
        (None, "nothing there|leads nowhere|No such file|does not exist"),
    ],
    ids=["changed", "lost"],
)
def test_check_finds_a_page_that_says_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[str], str] | None, fault: str
) -> None:
    root = published(tmp_path)
    path = root / "variants/simple/torch-cuda" / LISTED
    path.unlink() if change is None else path.write_text(change(path.read_text()))
    capsys.readouterr()
    assert main(["index", "check", str(root)]) == 1
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith(LISTED)]
    assert re.search(fault, line)


def test_check_finds_labels_that_stand_for_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = published(tmp_path)
    path = root / "variants/simple/torch-cuda" / LISTED
    was = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_text(path.read_text().replace("80_real", "86_real"))
    for name in ("index.html", "index.json"):
        page = path.with_name(name)
        page.write_text(page.read_text().replace(was, hashlib.sha256(path.read_bytes()).hexdigest()))
    capsys.readouterr()
    assert main(["index", "check", str(root)]) == 1
    assert f"{LISTED}: does not say" in capsys.readouterr().out


def test_a_signed_list_with_variants_serves_those_who_know_none(tmp_path: Path) -> None:
    root = published(tmp_path)
    assert main(["index", "key", str(tmp_path / "key")]) == 0
    assert main(["index", "sign-list", "--site", str(root), "--key", str(tmp_path / "key")]) == 0
    assert main(["index", "check", str(root), "--root", str(root / "tuf/root.json")]) == 0


def test_a_wheel_whose_label_says_something_else_is_not_published(tmp_path: Path) -> None:
    [made, _] = variants.make_variants([bindings(tmp_path, "cu124", "12.4")], tmp_path / "variants")
    other = made.with_name(made.name.replace("cu124", "cu118"))
    made.rename(other)
    with pytest.raises(DecoupleError, match=r"variant\.json.*cu124"):
        wheel.read_wheel(other)


def test_what_no_variant_can_be_made_of(tmp_path: Path) -> None:
    good = bindings(tmp_path, "cu124", "12.4")
    core, _ = make_pair(tmp_path / "pair")
    paired = bindings(tmp_path, "cu124.paired", "12.4")
    again = bindings(tmp_path / "again", "cu124", "12.4")
    elsewhere = bindings(tmp_path, "cu118", "11.8", core="2.6.0+decoupled.7")
    ready, _ = variants.make_variants([good], tmp_path / "ready")
    for given, said in (
        ([core], "a wheel of torch"),
        ([paired], "for a core that brings its CUDA"),
        ([good, again], "both would be cu124"),
        ([good, elsewhere], r"for two cores, ==2\.6\.0\+decoupled\.7 and ==2\.6\.0\+decoupled \("),
        ([ready], "its version names no CUDA"),
    ):
        with pytest.raises(UsageError, match=said):
            variants.make_variants(given, tmp_path / "variants")
    assert not (tmp_path / "variants").exists()


def test_the_same_wheels_give_the_same_bytes(tmp_path: Path) -> None:
    given = [bindings(tmp_path, "cu124", "12.4")]
    one, two = (variants.make_variants(given, tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
