"""Third-party CUDA extensions: what is laid out to compile, and that a project which does not compile is a verdict."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.build import toolkits
from decouple.release.manifest import RemoteFile
from decouple.verify import extensions
from decouple.verify.venvs import TorchEnvironment, Workplace, install_wheels

PROJECT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Here:
    """This machine as an environment."""

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        given = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
        return ["env", "-C", start, "-i", *(f"{name}={value}" for name, value in given.items()), *command]


def sdist(folder: Path, *tops: str) -> Path:
    path = folder / "project-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for top in tops:
            source = folder / top
            source.mkdir()
            (source / "setup.py").write_text("# nothing\n")
            archive.add(source, arcname=top)
    return path


def test_each_project_is_in_the_repository_or_pinned_by_its_hash() -> None:
    named = extensions.load_extensions()
    assert len(named) >= 2
    for one in named:
        if isinstance(one.source, RemoteFile):
            assert one.source.size and re.fullmatch(r"[0-9a-f]{64}", one.source.sha256 or "")
        else:
            assert (PROJECT / one.source / ("setup.py" if one.trial else Path(one.script).name)).is_file()
        assert not one.script or (PROJECT / one.script).is_file()


@pytest.mark.parametrize(
    "told", ["Found no NVIDIA driver on your system. ", "No CUDA GPUs are available", "kernel launched"]
)
def test_a_program_may_run_without_a_driver_without_a_device_and_with_one(told: str) -> None:
    """A machine of ours was red once Debian's driver, which the root has, had made its device node."""
    (app,) = extensions.select_extensions(["app"])
    assert re.fullmatch(app.says, f"cuDNN 90100, devices {int(told == 'kernel launched')}, {told}")


def test_a_project_that_asks_cmake_for_torch_says_so() -> None:
    """On an unmodified core it is left out: CMake's files of that torch do not know torch_cuda."""
    for one in extensions.load_extensions():
        if one.folder:
            texts = [path.read_text() for path in (PROJECT / one.folder).rglob("CMakeLists.txt")]
            assert one.finds_torch == any("find_package(Torch" in text for text in texts), one.name
    assert {one.name for one in extensions.load_extensions() if one.finds_torch} == {"fast_rnnt", "app"}


def test_a_name_that_is_none_is_refused_with_the_others() -> None:
    with pytest.raises(UsageError, match="no_such") as refused:
        extensions.select_extensions(["no_such"])
    assert "fast_rnnt" in str(refused.value.next_step)
    assert [one.name for one in extensions.select_extensions(["app"])] == ["app"]


def test_an_sdist_is_opened_to_the_folder_that_is_in_it(tmp_path: Path) -> None:
    extensions.unpack_project(sdist(tmp_path, "project-1.0"), tmp_path / "laid")
    assert [path.name for path in (tmp_path / "laid").iterdir()] == ["setup.py"]


def test_an_sdist_with_two_folders_at_its_top_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match=r"project-1\.0\.tar\.gz"):
        extensions.unpack_project(sdist(tmp_path, "one", "two"), tmp_path / "laid")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, TorchEnvironment]:
    """A place to compile in, and a virtual environment there. Making one takes seconds, so the tests share it."""
    folder = tmp_path_factory.mktemp("verify")
    place = Workplace(Here(), folder, str(folder), folder / "verify.log")
    return place, install_wheels(place, "both", [])


def test_a_project_that_does_not_build_is_a_failed_check_that_names_the_log(
    workplace: tuple[Workplace, TorchEnvironment], tmp_path: Path
) -> None:
    place, both = workplace
    (tmp_path / "setup.py").write_text("raise SystemExit('error: no compiler for you')\n")
    broken = extensions.Extension("broken", says="", trial="pass", folder=str(tmp_path))
    check = extensions.compile_and_try(place, both, broken, tmp_path, {})
    assert not check.passed
    assert str(place.log) in check.observed


def test_a_wheel_of_an_earlier_run_is_not_taken_for_the_one_that_was_asked_for(
    workplace: tuple[Workplace, TorchEnvironment], tmp_path: Path
) -> None:
    place, both = workplace
    stale = both.folder / "extensions" / "empty" / "wheel" / "empty-0.9-py3-none-any.whl"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"")
    empty = extensions.Extension("empty", says="", trial="pass", folder=str(tmp_path))
    extensions.compile_and_try(place, both, empty, tmp_path, {})
    assert not stale.exists()


SCRIPT = """
import os, pathlib, subprocess, sys
pathlib.Path("c.c").write_text("int main(void) { return 0; }")
pathlib.Path("cudart.c").write_text("int f(void) { return 0; }")
subprocess.run(["cc", "-shared", "-o", "libcudart.so.12", "-Wl,-soname,libcudart.so.12", "cudart.c"], check=True)
subprocess.run(["cc", "-o", "made", "c.c", *sys.argv[1:], *os.environ["LIBRARY"].split()], check=True)
print("other", pathlib.Path(os.environ["OTHER"], "setup.py").exists())
"""


@pytest.mark.tools("cc")
@pytest.mark.parametrize(
    "says, library, ok, seen",
    [
        ("other True", "-Wl,--no-as-needed libcudart.so.12", True, "other True; needs libcudart.so.12"),
        ("other True", "", False, "needs no CUDA library"),
        ("something else", "-Wl,--no-as-needed libcudart.so.12", False, "other True"),
        ("other True", "no_such_file", False, "read "),
    ],
)
def test_a_script_compiles_in_the_projects_folder_and_says_what_it_saw(
    workplace: tuple[Workplace, TorchEnvironment], tmp_path: Path, says: str, library: str, ok: bool, seen: str
) -> None:
    place, both = workplace
    (tmp_path / "script.py").write_text(SCRIPT)
    one = extensions.Extension(
        "scripted", says=says, script="script.py", folder=str(tmp_path), environment={"OTHER": "{project}/other"}
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other/setup.py").touch()
    laid = tmp_path / "laid"
    laid.mkdir()
    check = extensions.compile_and_try(place, both, one, laid, {"LIBRARY": library}, str(tmp_path))
    assert check.passed is ok
    assert seen in check.observed
    assert "other True" in place.log.read_text() or not ok


def test_another_vendors_compiler_is_told_where_its_toolkit_is() -> None:
    """Nothing of it is in the folders that a compiler knows: Debian's ROCm stands beside the root's packages."""
    for name, vendor in toolkits.read_toolkits().vendors.items():
        told = extensions.select_compilers(name)
        assert told, f"{name}: [compilers.{name}] of extensions.toml is missing"
        prefix = vendor.variables["ROCM_PATH"]
        assert all(value.startswith(prefix) for value in told.values())
