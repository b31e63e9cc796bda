"""The build backend hands the project to the toolkit: configured, compiled and packed in steps, or all at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from torch_cuda_build import backend

from tests.support.tools import require_tool
from tests.support.torch_cuda import INFO

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(tiny LANGUAGES NONE)
set(TORCH_CUDA_CORE "$ENV{TORCH_CUDA_CORE}")
set(CORE_FOUND_BESIDE "$ENV{CORE_FOLDER}" CACHE INTERNAL "")
configure_file(info.json.in build_info.json @ONLY)
add_custom_command(OUTPUT made.txt COMMAND "${CMAKE_COMMAND}" -E touch made.txt)
add_custom_target(made ALL DEPENDS made.txt)
install(FILES "${CMAKE_BINARY_DIR}/build_info.json" DESTINATION .)
install(FILES "${CMAKE_BINARY_DIR}/made.txt" DESTINATION lib)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of no language in the place of torch_cuda's, with its Python files."""
    require_tool("cmake", "ninja")
    root = tmp_path / "torch_cuda"
    for_torch = f"cmake/{Path(backend.IN_TORCH).name}"
    for name in (*(f"torch_cuda/{name}" for name in backend.OWN_FILES), *backend.START, for_torch):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(backend.ROOT / name, root / name)
    (root / "CMakeLists.txt").write_text(PROJECT)
    (root / "info.json.in").write_text(json.dumps({**INFO, "core": "@TORCH_CUDA_CORE@"}))
    monkeypatch.setattr(backend, "ROOT", root)
    monkeypatch.setenv("TORCH_CUDA_CORE", "built")
    monkeypatch.delenv("TORCH_CUDA_BUILD_DIR", raising=False)
    return root


def test_in_steps(project: Path, tmp_path: Path) -> None:
    assert backend.main(["configure"]) == 0
    backend.make_toolkit().build(())
    assert backend.main(["pack", str(tmp_path / "dist")]) == 0
    (wheel,) = (tmp_path / "dist").glob("torch_cuda-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {"torch_cuda/lib/made.txt", "torch_cuda/_core_preload.py", backend.IN_TORCH} < set(archive.namelist())
        assert "torch_cuda.pth" not in archive.namelist()
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        assert (
            archive.read(f"{info}/top_level.txt").decode() == "torch_cuda\n"
        )  # not torch: a file for CMake is no module


@pytest.mark.parametrize("in_place", [True, False])
def test_only_a_wheel_for_a_core_in_place_has_no_folder_called_torch(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    """Python took it for all of torch beside a core in place. CMake finds us by it beside an installed one."""
    core = tmp_path / "folder/torch"
    (core / "csrc").mkdir(parents=True)  # an installed one of 2.13 has that, too
    if in_place:
        (core.parent / "build_variables.bzl").touch()
    monkeypatch.setenv("CORE_FOLDER", str(core))
    name = backend.build_wheel(str(tmp_path / "dist"))
    with zipfile.ZipFile(tmp_path / "dist" / name) as archive:
        tops = {member.split("/")[0] for member in archive.namelist()}
    assert tops == {"torch_cuda", f"{name.rsplit('-', 3)[0]}.dist-info"} | (set() if in_place else {"torch"})


def test_all_at_once_and_again_with_another_choice(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.build_wheel(str(tmp_path / "one"))
    monkeypatch.setenv("TORCH_CUDA_CORE", "stock")  # a variable that only the project's own CMake reads
    name = backend.build_wheel(str(tmp_path / "two"), {"SOME_CHOICE": "a b"})
    assert "SOME_CHOICE:UNINITIALIZED=a b" in (project / "build" / "CMakeCache.txt").read_text()
    with zipfile.ZipFile(tmp_path / "two" / name) as archive:
        assert "torch_cuda.pth" in archive.namelist()


@pytest.mark.parametrize(
    ("name", "usual", "other"), [("USE_FLASH_ATTENTION", "ON", "0"), ("TORCH_CUDA_SLICE", "all", "runtime")]
)
def test_a_choice_holds_as_long_as_the_environment_has_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, usual: str, other: str
) -> None:
    options = Path(backend.__file__).parents[1] / "cmake/Options.cmake"
    (project / "CMakeLists.txt").write_text(f'{PROJECT}include("{options}")\n')
    (tmp_path / "build_variables.bzl").touch()
    monkeypatch.setenv("PYTORCH_SOURCE_DIR", str(tmp_path))
    for said, value in (("", usual), (other, other), (other, other), ("", usual)):
        monkeypatch.setenv(name, said)
        assert backend.configure_project().cache()[name] == value
    monkeypatch.setenv(name, other)
    assert backend.configure_project({name: usual}).cache()[name] == other, "the environment wins over -D"


def test_a_choice_of_a_vendors_toolkit_is_looked_up_again(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another ROCM_PATH the build took the version from the new folder, headers and libraries from the old one."""
    description = Path(backend.__file__).parents[1] / "cmake/toolkit/rocm.cmake"
    (project / "CMakeLists.txt").write_text(
        f'{PROJECT}set(TORCH_CUDA_TOOLKIT rocm CACHE STRING "")\nset(PYTORCH_SOURCE_DIR {tmp_path})\n'
        f'include("{backend.OPTIONS}")\ninclude("{description}")\n'
        'find_path(ROCM_INCLUDE_DIR hip.h HINTS "${ROCM_PATH}" NO_DEFAULT_PATH)\n'
    )
    (tmp_path / "build_variables.bzl").touch()
    for name in ("6.4", "7.1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hip.h").touch()
        monkeypatch.setenv("ROCM_PATH", str(tmp_path / name))
        assert backend.configure_project().cache()["ROCM_INCLUDE_DIR"] == str(tmp_path / name)
    monkeypatch.delenv("ROCM_PATH")
    assert backend.configure_project().cache()["ROCM_PATH"] == ""


def test_a_setting_that_pip_was_given_twice_is_refused(project: Path) -> None:
    """CMake was given "['1', '0']", which is true to it."""
    with pytest.raises(backend.BuildError, match=r"-C USE_NCCL is given with several values \(1, 0\)"):
        backend.configure_project({"--quiet": "", "USE_MAGMA": "0", "USE_NCCL": ["1", "0"]})


@pytest.mark.parametrize("words", [["--help"], ["pack"], ["pack", "--stored"], ["configure", "dist"], ["dist", "more"]])
def test_words_that_nobody_knows_start_no_build(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """They were taken for the folder of the wheel."""
    assert backend.main(words) == 2
    assert capsys.readouterr().err.startswith("usage: ") and not (project / "build").exists()


def test_a_failure_is_one_line_with_what_to_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "CMakeLists.txt").write_text(PROJECT + 'message(FATAL_ERROR "no CUDA compiler")\n')
    assert backend.main(["configure"]) == 1
    said = capsys.readouterr().err
    assert "no CUDA compiler" in said and "wrapped_cmake.log" in said and said.count("\n") == 1


@pytest.mark.parametrize("words", [["configure"], ["dist"]], ids=["in steps", "all at once"])
def test_a_cuda_version_without_pins_is_told_before_anything_is_compiled(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (project / "info.json.in").write_text(json.dumps({**INFO, "core": "built", "cuda": "99.9"}))
    assert backend.main(words) == 1
    said = capsys.readouterr().err
    assert "requirements.toml has no pins for CUDA 99.9 (it has 12.4, " in said and '["99.9"]' in said
    assert said.count("\n") == 1 and not (project / "build/made.txt").exists()


def test_a_toolkit_that_does_not_name_itself_is_told_before_anything_is_compiled(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the description that a vendor begins with, third_device/template_key."""
    info = {name: value for name, value in INFO.items() if name != "cuda"}
    (project / "info.json.in").write_text(json.dumps({**info, "newdevice": "1.0"}))
    assert backend.main(["configure"]) == 1
    said = capsys.readouterr().err
    assert "TOOLKIT_BUILD_INFO" in said and said.count("\n") == 1


def test_a_thin_folder_without_pins_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    thin = project.with_name("torch_acme")
    thin.mkdir()
    shutil.copy(project / "CMakeLists.txt", thin)
    (thin / "info.json.in").write_text(json.dumps({"toolkit": "ACME", "toolkit_version": "1.2"}))
    monkeypatch.setenv("TORCH_CUDA_PROJECT", str(thin))
    assert backend.main(["configure"]) == 1
    assert f"{thin / 'requirements.toml'} has no pins for ACME 1.2 (it has none)" in capsys.readouterr().err


def test_a_developed_package_has_what_was_compiled_and_the_python_files_of_the_checkout(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `pip install -e` leaves it; an edit of a Python file needs no second installation."""
    monkeypatch.setenv("TORCH_CUDA_CORE", "stock")
    name = backend.build_editable(str(tmp_path))
    name = backend.build_editable(str(tmp_path))  # over an earlier one
    site = tmp_path / "site"
    with zipfile.ZipFile(tmp_path / name) as archive:
        archive.extractall(site)
    (project / "torch_cuda/__init__.py").open("a").write("EDITED = True\n")
    ask = (
        f"import site; site.addsitedir({str(site)!r}); import sys, torch_cuda, torch_cuda_start;"
        "print(torch_cuda.EDITED, torch_cuda.__version__, (torch_cuda.library_dir() / 'made.txt').exists(),"
        " torch_cuda_start.CoreFinder in sys.meta_path)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True, text=True)
    assert done.stdout.split() == ["True", INFO["version"], "True", "True"], done.stderr
    folders = (site / "torch", project / "build/editable/torch")
    assert not any(map(Path.exists, folders)), "a core in place lies elsewhere, and would be hidden"


def test_a_thin_folder_is_packed_with_our_loader_under_its_own_name(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thin = project.with_name("torch_hip")
    thin.mkdir()
    shutil.copy(project / "CMakeLists.txt", thin)
    hip = {"package": "torch_hip", "word": "hip", "toolkit": "ROCm", "toolkit_version": "6.4"}
    info = {key: value for key, value in INFO.items() if key != "cuda"}
    (thin / "info.json.in").write_text(json.dumps({**info, **hip, "core": "@TORCH_CUDA_CORE@"}))
    (thin / "requirements.toml").write_text('["6.4"]\n')
    monkeypatch.setenv("TORCH_CUDA_PROJECT", str(thin))
    monkeypatch.setenv("TORCH_CUDA_CORE", "stock")
    assert backend.main([str(tmp_path / "dist")]) == 0
    (wheel,) = (tmp_path / "dist").glob("torch_hip-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert archive.read("torch_hip.pth") == b"import torch_hip_start; torch_hip_start.install()\n"
    assert {
        "torch_hip/lib/made.txt",
        "torch_hip/_preload.py",
        "torch_hip/_core_preload.py",
        "torch_hip_start.py",
    } < names
    assert not any("torch_cuda" in name for name in names)
