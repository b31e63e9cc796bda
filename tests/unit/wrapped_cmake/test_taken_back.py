"""What a build was once told holds no longer than it is told so: in an existing build folder, too."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from wrapped_cmake import WrappedCMake, WrappedCMakeError

from tests.unit.wrapped_cmake.test_features import program

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(tiny C)
set(USE_SOMETHING ON CACHE STRING "")
set(A_CHOICE usual CACHE STRING "")
file(WRITE "${CMAKE_BINARY_DIR}/main.c" "int main(void) { return 0; }\\n")
add_executable(tiny "${CMAKE_BINARY_DIR}/main.c")
"""
LINKED = ("CMAKE_EXE_LINKER_FLAGS", "CMAKE_SHARED_LINKER_FLAGS", "CMAKE_MODULE_LINKER_FLAGS")


def test_a_flag_of_the_environment_that_is_unset(source: Path, tmp_path: Path) -> None:
    def configure(**said: str) -> object:
        project = WrappedCMake(source, tmp_path / "build", environ={**os.environ, **said})
        project.configure()
        return project.cache()["USE_SOMETHING"]

    assert [configure(), configure(USE_SOMETHING="0"), configure()] == ["ON", "0", "ON"]


def test_a_definition_that_is_not_given_again(source: Path, tmp_path: Path) -> None:
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    project.configure({"A_CHOICE": "other"})
    project.configure({"A_CHOICE:STRING": "third"})
    assert project.cache()["A_CHOICE"] == "third"
    project.configure()
    assert project.cache()["A_CHOICE"] == "usual"


@pytest.mark.parametrize("said", ["-DA_CHOICE=other", "-D A_CHOICE:STRING=other"])
def test_a_definition_of_cmake_args(source: Path, tmp_path: Path, said: str) -> None:
    WrappedCMake(source, tmp_path / "build", environ={**os.environ, "CMAKE_ARGS": said}).configure()
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    assert project.cache()["A_CHOICE"] == "other"
    project.configure()
    assert project.cache()["A_CHOICE"] == "usual"


def test_a_definition_of_a_run_that_failed(source: Path, tmp_path: Path) -> None:
    """CMake keeps it, and the run before had none."""
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    project.configure()
    text = (source / "CMakeLists.txt").read_text()
    (source / "CMakeLists.txt").write_text(text + 'message(FATAL_ERROR "no")\n')
    with pytest.raises(WrappedCMakeError, match="no"):
        project.configure({"A_CHOICE": "other"})
    (source / "CMakeLists.txt").write_text(text)
    project.configure()
    assert project.cache()["A_CHOICE"] == "usual"


def test_what_somebody_wrote_into_the_cache_stays(source: Path, tmp_path: Path) -> None:
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    project.configure()
    project._run(["cmake", "-DA_CHOICE=by hand", "."])
    project.configure({"ANOTHER": "1"})
    assert project.cache()["A_CHOICE"] == "by hand"


def test_compilers_and_flags_that_cmake_reads_once(source: Path, tmp_path: Path) -> None:
    """It keeps the first ones; told of another compiler by a definition, it drops all other definitions."""
    other = program(tmp_path, "other-cc", 'exec cc "$@"')
    environ = {name: value for name, value in os.environ.items() if name not in ("CC", "CFLAGS")}

    def configure(**said: str) -> tuple[object, ...]:
        project = WrappedCMake(source, tmp_path / "build", environ={**environ, **said})
        project.configure({"A_CHOICE": "other"})
        return tuple(project._read_cache()[name] for name in ("CMAKE_C_COMPILER", "CMAKE_C_FLAGS", "A_CHOICE"))

    usual, *_ = configure()
    assert configure(CFLAGS="-O1") == (usual, "-O1", "other")
    assert configure(CC=other) == (other, "", "other")
    assert configure() == (usual, "", "other")
    assert configure(CMAKE_C_COMPILER=other) == (other, "", "other")
    (tmp_path / "chain.cmake").write_text("set(CMAKE_C_FLAGS_INIT -O2)\n")
    assert configure(CMAKE_ARGS=f"--toolchain {tmp_path / 'chain.cmake'}") == (usual, "-O2", "other")
    assert configure() == (usual, "", "other")


def test_a_compiler_that_comes_first_on_the_path_now(source: Path, tmp_path: Path) -> None:
    """As a toolkit or a toolset of another version does: CMake went on with the first one."""
    environ = {name: value for name, value in os.environ.items() if name != "CC"}
    found = []
    for name in ("first", "second", "second"):
        (tmp_path / name).mkdir(exist_ok=True)
        program(tmp_path / name, "cc", f'PATH={shlex.quote(environ["PATH"])} exec cc "$@"')
        path = f"{tmp_path / name}{os.pathsep}{environ['PATH']}"
        project = WrappedCMake(source, tmp_path / "build", environ={**environ, "PATH": path})
        found.append((project.configure(), project._read_cache()["CMAKE_C_COMPILER"]))
    assert found == [(True, f"{tmp_path}/first/cc"), (True, f"{tmp_path}/second/cc"), (False, f"{tmp_path}/second/cc")]


@pytest.mark.parametrize("name", ["nvcc", "hipconfig"])
def test_another_toolkit_comes_first_on_the_path_now(source: Path, tmp_path: Path, name: str) -> None:
    """As `module load rocm/7` does: a build of torch_hip went on with the first ROCm."""
    with (source / "CMakeLists.txt").open("a") as file:
        file.write(f"find_program(FOUND {name})\n")
    for release in ("first", "second"):
        (tmp_path / release).mkdir()
        found = program(tmp_path / release, name, "exit 0")
        environ = {**os.environ, "PATH": f"{tmp_path / release}{os.pathsep}{os.environ['PATH']}"}
        project = WrappedCMake(source, tmp_path / "build", environ=environ)
        project.configure()
        assert project.cache()["FOUND"] == found


def test_a_compiler_behind_a_link_that_leads_elsewhere_now(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /usr/local/cuda does after an upgrade: version, flags and objects were those of the first one."""
    folder = tmp_path / "toolkit"
    monkeypatch.delenv("CC", raising=False)
    found = []
    for release in ("1", "2", "2"):
        (tmp_path / release).mkdir(exist_ok=True)
        program(tmp_path / release, "cc", f'PATH={shlex.quote(os.environ["PATH"])} exec cc -DRELEASE={release} "$@"')
        folder.unlink(missing_ok=True)
        folder.symlink_to(release)
        environ = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        project = WrappedCMake(source, tmp_path / "build", environ=environ)
        found.append((project.configure(), project.build(["all"]).edges))
    assert found == [(True, 2), (True, 2), (False, 0)]


def test_a_library_is_looked_for_where_it_is_named_now(source: Path, tmp_path: Path) -> None:
    """CMake keeps where it found something, whatever names the place later."""
    with (source / "CMakeLists.txt").open("a") as file:
        file.write('find_path(ACME_INCLUDE_DIR acme.h HINTS "${ACME_ROOT}/include")\n')
    for name in ("first", "second"):
        (tmp_path / name / "include").mkdir(parents=True)
        (tmp_path / name / "include/acme.h").touch()
        project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
        project.configure({"ACME_ROOT": str(tmp_path / name)})
        assert project.cache()["ACME_INCLUDE_DIR"] == str(tmp_path / name / "include")
        if name == "first":
            project.build(["all"])
    assert [*(tmp_path / "build").rglob("main.c.o")], "no object is deleted for it"


def test_a_compiler_cache_that_is_refused_or_removed(source: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    ccache = program(tools, "ccache")
    environ = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}

    def find_launcher(**said: str) -> object:
        project = WrappedCMake(source, tmp_path / "build", environ={**environ, **said})
        project.configure()
        return project.cache().get("CMAKE_C_COMPILER_LAUNCHER")

    assert find_launcher() == ccache
    assert find_launcher(WRAPPED_CMAKE_LAUNCHER="none") is None
    assert find_launcher() == ccache
    Path(ccache).unlink()
    assert find_launcher() != ccache


@pytest.fixture
def link(source: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Build with these variables; return the linker's flags for programs, libraries and modules."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("mold", "ld.mold", "ld.lld"):  # each is the usual one: the flag says which is meant
        (tools / name).symlink_to(str(shutil.which("ld")))
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"

    def build(linker: str, **said: str) -> list[str]:
        environ: Mapping[str, str] = {**os.environ, "PATH": path, "WRAPPED_CMAKE_LINKER": linker, **said}
        project = WrappedCMake(source, tmp_path / "build", environ=environ)
        project.configure()
        project.build(["all"])
        return [str(project.cache()[name]) for name in LINKED]

    return build


def test_a_linker_that_is_changed(link: Callable[..., list[str]]) -> None:
    for linker, flag in (("mold", "-fuse-ld=mold"), ("lld", "-fuse-ld=lld"), ("none", ""), ("auto", "-fuse-ld=mold")):
        assert link(linker) == [flag] * 3
    assert link("auto", LDFLAGS="-fuse-ld=bfd") == ["-fuse-ld=bfd"] * 3


def test_a_change_of_the_linker_keeps_the_flags_of_others(link: Callable[..., list[str]]) -> None:
    assert link("mold", LDFLAGS="-Wl,-O1") == ["-fuse-ld=mold -Wl,-O1"] * 3
    assert link("lld", LDFLAGS="-Wl,-O1") == ["-fuse-ld=lld -Wl,-O1"] * 3
    assert link("none", LDFLAGS="-Wl,-O1") == ["-Wl,-O1"] * 3
    mine = "-Wl,-z,now"
    for linker in ("none", "mold", "lld"):
        program, *others = link(linker, CMAKE_EXE_LINKER_FLAGS=mine)
        assert program == mine and mine not in others
    assert link("mold", LDFLAGS="-Wl,-O1") == ["-fuse-ld=mold -Wl,-O1"] * 3
