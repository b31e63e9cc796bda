"""CMake without a PyTorch source tree: a real configure, and its cache read back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from wrapped_cmake import Settings, WrappedCMake, WrappedCMakeError, standalone, upstream
from wrapped_cmake.commands import main

from tests.unit.wrapped_cmake.conftest import configure

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(tiny LANGUAGES NONE)
option(USE_SOMETHING "" OFF)
set(A_TEXT "" CACHE STRING "")
add_custom_target(install_nothing ALL)
"""


def test_a_project_outside_any_pytorch_tree_is_configured_once(source: Path, tmp_path: Path) -> None:
    project = WrappedCMake(source, tmp_path / "build", environ={**os.environ, "USE_SOMETHING": "1"})
    assert project.configure({"A_TEXT": "a b=c"})
    assert not project.configure({"A_TEXT": "a b=c"})
    found = project.cache()
    assert found["USE_SOMETHING"] is True and found["A_TEXT"] == "a b=c" and found["CMAKE_BUILD_TYPE"] == "Release"
    assert project.configure({"A_TEXT": "other"}) and project.cache()["A_TEXT"] == "other"


def test_a_project_that_moved_with_its_build_is_configured_anew(source: Path, tmp_path: Path) -> None:
    WrappedCMake(source, source / "build", environ=os.environ).configure()
    moved = shutil.move(source, tmp_path / "moved")
    project = WrappedCMake(moved, moved / "build", environ=os.environ)
    assert project.configure() and project.cache()["CMAKE_HOME_DIRECTORY"] == str(moved)


@pytest.mark.parametrize("change", [shutil.move, shutil.copytree])
def test_a_build_folder_in_another_place_is_configured_there(
    project: Path, tmp_path: Path, change: Callable[[Path, Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    """It was taken for configured: a copy installed what the first folder had built, a moved one found no files."""
    with (project / "source/CMakeLists.txt").open("a") as file:
        file.write("install(TARGETS tiny DESTINATION .)\n")
    WrappedCMake(project / "source", project / "build", environ=os.environ).configure()
    change(project / "build", project / "other")
    assert main(["build", str(project / "other")]) == 1
    assert f"{project / 'other'}: a copy of {project / 'build'}" in capsys.readouterr().err
    made = WrappedCMake(project / "source", project / "other", environ=os.environ)
    assert made.configure() and made.cache()["CMAKE_CACHEFILE_DIR"] == str(project / "other")
    made.build(["all"])
    assert (made.install(tmp_path / "installed") / "tiny").is_file()


@pytest.mark.parametrize("first", ["link", "folder"])
def test_a_build_folder_entered_by_a_link_keeps_its_objects(project: Path, first: str) -> None:
    """A shell names its folder by the way it came, in PWD: CMake wrote that name down, and all objects were deleted."""
    (project / "link").symlink_to(project, target_is_directory=True)
    ways = [project / "link/build", project / "build"]
    for way in ways if first == "link" else reversed(ways):
        made = WrappedCMake(project / "source", project / "build", environ={**os.environ, "PWD": str(way)})
        made.configure(always=True)
        edges = made.build(["all"]).edges
    assert edges == 0


def test_a_cache_that_names_its_folder_by_a_link_is_kept(project: Path) -> None:
    (project / "link").symlink_to(project, target_is_directory=True)
    configure(project / "link")
    subprocess.run(["ninja", "-C", str(project / "build")], check=True, capture_output=True)
    objects = sorted((project / "build").rglob("*.o"))
    WrappedCMake(project / "source", project / "build", environ=os.environ).configure()
    assert objects and sorted((project / "build").rglob("*.o")) == objects


def test_cmake_s_error_is_told_after_a_log_that_is_not_ascii(source: Path, tmp_path: Path) -> None:
    """GCC quotes with three bytes a character where the locale is UTF-8."""
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    project.configure()
    with project.log.open("a", encoding="utf-8") as log:
        log.write("error: \N{LEFT SINGLE QUOTATION MARK}x\N{RIGHT SINGLE QUOTATION MARK} was not declared\n" * 500)
    (source / "CMakeLists.txt").write_text(PROJECT + 'message(FATAL_ERROR "no runtime of acme")\n')
    with pytest.raises(WrappedCMakeError, match=r"CMakeLists\.txt:7.*acme"):
        project.configure({"A_TEXT": "again"})


def test_a_long_error_is_one_line_with_its_next_step(source: Path, tmp_path: Path) -> None:
    """CMake breaks its messages at 77 columns."""
    text = "libacme.so.2 needs libother.so.11, the toolkit that was found here has libother.so.12; next: name another"
    (source / "CMakeLists.txt").write_text(PROJECT + "include(more.cmake)\n")
    (source / "more.cmake").write_text(f'message(FATAL_ERROR "{text}")\n')  # in it CMake tells the way there too
    with pytest.raises(WrappedCMakeError, match=re.escape(f"(message): {text} (read ")):
        WrappedCMake(source, tmp_path / "build", environ=os.environ).configure()


def test_an_error_that_quotes_is_told_to_its_end(source: Path, tmp_path: Path) -> None:
    (source / "CMakeLists.txt").write_text(PROJECT.replace("LANGUAGES NONE", "C"))
    environ = {**os.environ, "CC": "/bin/false", "WRAPPED_CMAKE_LAUNCHER": "none"}
    with pytest.raises(WrappedCMakeError, match='compiler "/bin/false" is not able to compile a simple') as told:
        WrappedCMake(source, tmp_path / "build", environ=environ).configure()
    assert len(told.value.what) < 800 and "\n" not in told.value.what


def locate(command: str) -> str:
    """The path of a command that the fixture ``source`` asks for."""
    return str(shutil.which(command))


def test_a_build_outlives_the_environment_whose_ninja_and_cmake_began_it(source: Path, tmp_path: Path) -> None:
    (source / "main.c").write_text("int main(void) { return 0; }\n")
    (source / "CMakeLists.txt").write_text(PROJECT.replace("LANGUAGES NONE", "C") + "add_executable(tiny main.c)\n")
    venv = tmp_path / "venv"
    venv.mkdir()
    shutil.copy(locate("ninja"), venv / "ninja")
    (venv / "cmake").symlink_to(locate("cmake"))
    path = f"{venv}{os.pathsep}{os.environ['PATH']}"
    project = WrappedCMake(source, tmp_path / "build", environ={**os.environ, "PATH": path})
    assert project.configure() and not project.configure()
    project.build(["all"])
    shutil.rmtree(venv)
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    assert project.configure() and project.cache()["CMAKE_MAKE_PROGRAM"] == locate("ninja")
    assert project.build(["all"]).edges == 0


def test_another_cmake_configures_again(source: Path, tmp_path: Path) -> None:
    """Rules that CMake wrote call it by its path; a deleted one cannot be called."""
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "cmake").symlink_to(locate("cmake"))
    path = f"{venv}{os.pathsep}{os.environ['PATH']}"
    assert WrappedCMake(source, tmp_path / "build", environ={**os.environ, "PATH": path}).configure()
    assert WrappedCMake(source, tmp_path / "build", environ=os.environ).configure()


def test_a_build_installs_where_its_caller_looks(source: Path, tmp_path: Path) -> None:
    """conda-build has a folder of its own in CMAKE_ARGS; a backend's package is packed from another."""
    environ = {**os.environ, "CMAKE_ARGS": "-DCMAKE_BUILD_TYPE=Debug -DCMAKE_INSTALL_PREFIX=/opt/conda"}
    project = WrappedCMake(source, tmp_path / "build", install_prefix=tmp_path / "package", environ=environ)
    project.configure()
    assert project.cache()["CMAKE_INSTALL_PREFIX"] == str(tmp_path / "package")
    assert project.cache()["CMAKE_BUILD_TYPE"] == "Debug"


def test_a_packagers_destdir_takes_nothing_away(project: Path, tmp_path: Path) -> None:
    """CMake installed below it, and the wheel was packed from a folder without libraries."""
    with (project / "source/CMakeLists.txt").open("a") as file:
        file.write("install(TARGETS tiny DESTINATION .)\n")
    environ = {**os.environ, "DESTDIR": str(tmp_path / "image")}
    made = WrappedCMake(project / "source", project / "build", install_prefix=tmp_path / "one", environ=environ)
    made.configure()
    made.build()
    made.install(tmp_path / "two")
    assert (tmp_path / "one/tiny").is_file() and (tmp_path / "two/tiny").is_file()


def test_a_relative_prefix_is_one_of_the_callers_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMake took it for a folder below the build folder."""
    with (project / "source/CMakeLists.txt").open("a") as file:
        file.write("install(TARGETS tiny DESTINATION .)\n")
    monkeypatch.chdir(tmp_path)
    assert main(["configure", "source", "build", "--prefix", "one"]) == 0
    assert main(["build", "build", "install"]) == 0
    WrappedCMake(Path("source"), Path("build"), environ=os.environ).install(Path("two"))
    assert (tmp_path / "one/tiny").is_file() and (tmp_path / "two/tiny").is_file()


def test_the_toolkit_in_a_checkout_lies_in_no_tree() -> None:
    assert upstream.find_tree(Settings({})) is None


def test_a_tree_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrappedCMakeError, match=r"helpers/cmake\.py.*unset"):
        upstream.find_tree(Settings({"WRAPPED_CMAKE_TREE": str(tmp_path)}))


def test_absent_tools_are_named(source: Path, tmp_path: Path) -> None:
    with pytest.raises(WrappedCMakeError, match="pip install cmake"):
        WrappedCMake(source, tmp_path / "build", environ={"PATH": str(tmp_path)})
    (tmp_path / "cmake").touch(mode=0o755)
    project = WrappedCMake(source, tmp_path / "build", environ={"PATH": str(tmp_path)})
    with pytest.raises(WrappedCMakeError, match="ninja is not on the PATH"):
        project.configure()


@pytest.mark.tools("cmake")
def test_a_cache_says_what_cmake_means_by_true(tmp_path: Path) -> None:
    (tmp_path / "CMakeCache.txt").write_text(
        "# a comment\n//help:STRING=no entry\nA:BOOL=ON\nB:BOOL=0\nC:BOOL=\nD:FILEPATH=/x-NOTFOUND\nE:STRING=a:b=c\n"
    )
    found = standalone.CMake(tmp_path, os.environ).cache()
    assert found == {"A": True, "B": False, "C": False, "D": "/x-NOTFOUND", "E": "a:b=c"}
