"""The wheels of a whole build, published and looked at by other people's tools. Skipped where nothing was built."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.paths import find_cache, find_project
from decouple.build import root_description, rootfs, settings
from decouple.build.environment import Places, RootEnvironment
from decouple.build.wheel_finishing import read_manifest
from decouple.index import site
from decouple.index.check import check_index
from decouple.index.remote import Index
from decouple.index.wheel import read_wheel
from tests.support.server import serving

DIST = find_project() / "dist" / "2.6"
CORE, BACKEND = sorted(DIST.glob("torch-*.whl")), sorted(DIST.glob("torch_cuda-*.whl"))

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not (CORE and BACKEND), reason=f"{DIST}: no wheels; nox -s build-2.6 makes them (hours)"),
]


def tool(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_both_wheels_are_of_one_series_and_one_tree() -> None:
    core, backend = read_manifest(CORE[-1]), read_manifest(BACKEND[-1])
    assert core.series == backend.series
    assert core.upstream["commit"] == backend.upstream["commit"]
    assert (core.cuda, backend.cuda) == (None, "12.4")


def test_the_backend_asks_for_this_core_and_no_other_torch() -> None:
    pins = [text for text in read_wheel(BACKEND[-1]).requires if text.startswith("torch")]
    assert pins == [f"torch=={read_wheel(CORE[-1]).version}"]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with both wheels."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "dist").mkdir()
    for wheel in (CORE[-1], BACKEND[-1]):
        (folder / "dist" / wheel.name).symlink_to(wheel)
    site.build_site(folder / "dist", folder / "site")
    return folder / "site"


@pytest.fixture
def url(published: Path) -> Iterator[str]:
    with serving(published) as url:
        yield f"{url}/simple/"


@pytest.fixture
def root(tmp_path: Path) -> RootEnvironment:
    """The Debian root that the wheels were built in, with a Python that they fit, and folders of this test's own."""
    described = root_description.load_description()
    found = rootfs.Root(described, rootfs.choose_folder(find_cache(), described, described.layers), ("core", "cuda"))
    lacks = rootfs.verify_root(found) if found.tree.is_dir() else ["it was never made"]
    if lacks:
        pytest.skip(f"{found.folder}: {lacks[0]}; nox -s build-2.6 -- --env rootfs makes it")
    places = Places.of_release(tmp_path, "2.6", find_cache())
    places.create_folders()
    places.tree.mkdir(parents=True)
    return RootEnvironment(places, found)


def inside(root: RootEnvironment, *command: str, libraries: str = "") -> subprocess.CompletedProcess[str]:
    variables = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    return subprocess.run(root.argv(command, variables, "/"), capture_output=True, text=True, check=False)


def environment_in(root: RootEnvironment) -> str:
    """The Python of a new virtual environment without pip that sees the root's packages (sympy, filelock, ...)."""
    folder = f"{root.name_places()['verify']}/env"
    made = inside(root, "python3", "-m", "venv", "--without-pip", "--system-site-packages", folder)
    assert made.returncode == 0, made.stderr
    return f"{folder}/bin/python"


def pip_in(root: RootEnvironment, python: str, url: str, *names: str) -> subprocess.CompletedProcess[str]:
    """The root's own pip for that environment. What is NVIDIA's is in the root already, so no dependencies."""
    pip = ("python3", "-m", "pip", "--python", python, "install", "--no-deps", "--no-cache-dir", "--no-compile")
    return inside(root, *pip, "--index-url", url, *names)


def test_an_index_of_them_is_whole(published: Path) -> None:
    assert check_index(Index(str(published))) == []


def test_pip_installs_both_from_the_index_and_torch_finds_cuda(root: RootEnvironment, url: str) -> None:
    python = environment_in(root)
    done = pip_in(root, python, url, "torch-cuda", "torch")
    assert done.returncode == 0, done.stderr
    assert f"torch-{CORE[-1].name.split('-')[1]}" in done.stdout
    libraries = settings.find_core("built").find_libraries("rootfs")
    code = "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cuda.is_built())"
    said = inside(root, python, "-c", code, libraries=libraries)
    assert said.stdout.split() == [read_manifest(CORE[-1]).version, "12.4", "True"], said.stderr


def test_one_changed_byte_and_pip_installs_nothing(root: RootEnvironment, published: Path, tmp_path: Path) -> None:
    shutil.copytree(published, tmp_path / "site")
    core = tmp_path / "site/files/2.6" / CORE[-1].name
    with core.open("r+b") as file:
        file.seek(core.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    python = environment_in(root)
    with serving(tmp_path / "site") as url:
        done = pip_in(root, python, f"{url}/simple/", "torch-cuda", "torch")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not list((root.places.verify / "env").glob("lib/python3*/site-packages/torch*"))


def test_another_python_is_refused(url: str, tmp_path: Path) -> None:
    if CORE[-1].name.split("-")[2] == f"cp{sys.version_info.major}{sys.version_info.minor}":
        pytest.skip("these tests run under the Python that the wheels are for")
    command = [sys.executable, "-m", "pip", "--isolated", "download", "-q", "--no-deps", "-d", str(tmp_path / "got")]
    done = subprocess.run([*command, "--index-url", url, "torch-cuda"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "No matching distribution found for torch-cuda" in done.stderr
    assert not list(tmp_path.glob("got/*"))


def test_uv_resolves_the_whole_set_and_installs_both(url: str, tmp_path: Path) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    assert uv, "uv is one of the dev dependencies"
    minor = CORE[-1].name.split("-")[2].removeprefix("cp3")
    options = ["--index", url, "--index-strategy", "first-index", "--python-version", f"3.{minor}"]
    options += ["--python-platform", "x86_64-manylinux_2_40"]
    command = [uv, "--no-config", "pip", "compile", "-q", "--no-header", "--no-annotate", *options, "-"]
    done = subprocess.run(command, input="torch-cuda\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pins = dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)
    assert pins["torch"] == read_manifest(CORE[-1]).version
    assert pins["torch-cuda"] == read_manifest(BACKEND[-1]).version
    assert pins["nvidia-cudnn-cu12"].startswith("9.1.0")
    command = [
        uv,
        "--no-config",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-cache",
        "--target",
        str(tmp_path / "target"),
    ]
    done = subprocess.run([*command, *options, "torch-cuda", "torch"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "target/torch/lib/libtorch_cpu.so").is_file()
    assert (tmp_path / "target/torch_cuda/lib/libtorch_cuda.so").is_file()


@pytest.mark.parametrize("wheels", [CORE, BACKEND], ids=["torch", "torch_cuda"])
def test_other_tools_find_nothing_wrong(wheels: list[Path]) -> None:
    wheel = wheels[-1]
    tool("twine", "check", "--strict", str(wheel))
    # W002: identical files (upstream's headers); W009, W010: upstream's several top-level packages; _CUDAC is no .py.
    tool("check_wheel_contents", "--ignore", "W002,W005,W009,W010", str(wheel))
    assert "linux_x86_64" in tool("auditwheel", "show", str(wheel))
