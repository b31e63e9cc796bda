"""A vendor's own parameters and compiler, in a file of the vendor's, and a real build of sources that only it reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from wrapped_cmake import Settings, WrappedCMake, WrappedCMakeError, help_text, plan_jobs, read_project
from wrapped_cmake.commands import main

from decouple.base.paths import find_project

PROJECT = f"""
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES C CXX)
list(APPEND CMAKE_MODULE_PATH "{find_project()}/third_device/tools/wrapped_cmake/cmake")
include(DeviceCompiler)
add_executable(tiny)
target_include_directories(tiny PRIVATE "${{CMAKE_CURRENT_SOURCE_DIR}}/with space" "${{CMAKE_CURRENT_SOURCE_DIR}}/more")
target_compile_definitions(tiny PRIVATE WANTED=42)
wrapped_cmake_sources(tiny main.c kernels.acme other/kernels.acme)
set_target_properties(tiny PROPERTIES LINKER_LANGUAGE C)
install(TARGETS tiny DESTINATION .)
"""
TABLE = """
[[parameter]]
name = "ACME_HOME"
kind = "path"
meaning = "the SDK of acme"
cmake = "ACME_ROOT"

[[parameter]]
name = "ACMEFLAGS"
kind = "flags"
default = "-O1"
meaning = "flags of acmecc"

[[compiler]]
name = "acme"
suffixes = [".acme", ".mu"]
command = ["{ACME_HOME}/bin/acmecc", "{ACMEFLAGS}", "{defines}", "{includes}", "-fPIC", "-MD", "-MF", "{depfile}",
           "-c", "{source}", "-o", "{object}"]
memory = 6000
"""


@pytest.fixture
def vendor(source: Path) -> Path:
    """A project with a compiler of its own: the C compiler, for sources that only it takes."""
    (source / "wrapped_cmake.toml").write_text(TABLE)
    compiler = source / "sdk" / "bin" / "acmecc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/calls"\nexec cc -x c "$@"\n')
    compiler.chmod(0o755)
    for folder in ("with space", "more", "other"):
        (source / folder).mkdir()
    (source / "with space" / "answer.h").write_text("#define ANSWER WANTED\n")
    (source / "main.c").write_text("int first(void); int second(void); int main(void) { return first() - second(); }\n")
    (source / "kernels.acme").write_text('#include "answer.h"\nint first(void) { return ANSWER; }\n')
    (source / "other" / "kernels.acme").write_text("int second(void) { return 42; }\n")
    return source


def environment(vendor: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "ACME_HOME": str(vendor / "sdk"), "WRAPPED_CMAKE_LAUNCHER": "none", **more}


def test_a_compiler_of_the_vendor_s_own(vendor: Path, tmp_path: Path) -> None:
    calls, program = vendor / "sdk" / "bin" / "calls", tmp_path / "build" / "tiny"

    def build(**more: str) -> int:
        made = WrappedCMake(vendor, tmp_path / "build", environ=environment(vendor, **more))
        made.configure()
        calls.unlink(missing_ok=True)
        made.build(["tiny"])
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    assert build() == 2 and subprocess.run([program], check=False).returncode == 0
    assert build() == 0, "nothing changed"
    (vendor / "with space" / "answer.h").write_text("#define ANSWER (WANTED + 1)\n")
    assert build() == 1, "its file of dependencies names the header"
    assert subprocess.run([program], check=False).returncode == 1
    assert build(ACMEFLAGS="-O2 -g") == 2 and "-O2 -g -DWANTED=42" in calls.read_text()
    (vendor / "sdk" / "bin" / "acmecc").touch()
    assert build(ACMEFLAGS="-O2 -g") == 2, "another compiler"


@pytest.mark.parametrize("command", ["{ACME_HOME}/bin/acmecc", "acmecc"], ids=["by its path", "on the PATH"])
def test_another_release_of_the_compiler_makes_other_objects(vendor: Path, tmp_path: Path, command: str) -> None:
    """An SDK behind a link, as /opt/acme is: its files keep the older time that they were packed with."""
    (vendor / "wrapped_cmake.toml").write_text(TABLE.replace("{ACME_HOME}/bin/acmecc", command))
    shutil.copytree(vendor / "sdk", vendor / "sdk-2")
    os.utime(vendor / "sdk-2/bin/acmecc", (0, 0))
    (vendor / "sdk").rename(vendor / "sdk-1")
    built = []
    for release in ("sdk-1", "sdk-2", "sdk-2"):
        (vendor / "sdk").unlink(missing_ok=True)
        (vendor / "sdk").symlink_to(release)
        path = f"{vendor / 'sdk/bin'}{os.pathsep}{os.environ['PATH']}"
        made = WrappedCMake(vendor, tmp_path / "build", environ=environment(vendor, PATH=path))
        made.configure()
        made.build(["tiny"])
        calls = vendor / release / "bin/calls"
        built.append(len(calls.read_text().splitlines()) if calls.exists() else 0)
    assert built == [2, 2, 2]


def test_one_source_in_two_targets(vendor: Path, tmp_path: Path) -> None:
    """Each has an object of its own, as with CMake's languages: their definitions differ."""
    with (vendor / "CMakeLists.txt").open("a") as file:
        file.write(
            'add_library(again SHARED)\ntarget_include_directories(again PRIVATE "with space")\n'
            "target_compile_definitions(again PRIVATE WANTED=43)\nwrapped_cmake_sources(again kernels.acme)\n"
            "set_target_properties(again PROPERTIES LINKER_LANGUAGE C)\n"
        )
    project = WrappedCMake(vendor, tmp_path / "build", environ=environment(vendor))
    project.configure()
    project.build(["all"])
    calls = (vendor / "sdk/bin/calls").read_text()
    assert "-DWANTED=42" in calls and "-DWANTED=43" in calls


def test_what_the_vendor_adds_is_the_build_s(vendor: Path, tmp_path: Path) -> None:
    project = WrappedCMake(vendor, tmp_path / "build", environ=environment(vendor))
    made = project.definitions()
    assert made["ACME_ROOT"] == str(vendor / "sdk") and made["WRAPPED_CMAKE_COMPILER_acme_SUFFIXES"] == ".acme;.mu"
    read = read_project(vendor)
    limits = plan_jobs(Settings({}, read.parameters), read, processors=8, memory=20 << 30)
    assert limits.jobs == 8 and limits.pools == {"link": 5, "acme": 3}
    assert "acme=3" in limits.definitions()["CMAKE_JOB_POOLS"]


def test_the_vendor_s_parameters_are_shown(vendor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parameters", str(vendor)]) == 0
    said = capsys.readouterr().out
    assert "ACMEFLAGS  flags   flags of acmecc [-O1]" in said and ".acme .mu: {ACME_HOME}/bin/acmecc" in said


def test_what_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without its cache, too: a configuration that was broken off leaves one."""
    none, file, build = (tmp_path / name for name in ("none", "file", "build"))
    file.touch()
    build.mkdir()
    (build / "build.ninja").touch()
    for words, said in (
        (["parameters", none], f"{none}: no such folder"),
        (["configure", tmp_path, file], f"{file}: "),
        (["build", build], f"{build}: no CMakeCache.txt"),
    ):
        assert main([str(word) for word in words]) == 1
        assert f"wrapped_cmake: {said}" in capsys.readouterr().err


def test_a_parameter_without_a_value_is_named(vendor: Path, tmp_path: Path) -> None:
    environ = environment(vendor)
    del environ["ACME_HOME"]
    with pytest.raises(WrappedCMakeError, match=r"acme.*ACME_HOME"):
        WrappedCMake(vendor, tmp_path / "build", environ=environ).configure()


def test_an_error_of_its_compiler_ends_the_build(vendor: Path, tmp_path: Path) -> None:
    (vendor / "kernels.acme").write_text("int first(void) { return nothing; }\n")
    project = WrappedCMake(vendor, tmp_path / "build", environ=environment(vendor))
    project.configure()
    with pytest.raises(WrappedCMakeError, match=r"kernels\.acme"):
        project.build(["tiny"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[parameter]]", "[[parameters]]", "'parameters' is not known"),
        ('kind = "path"', 'kind = "folder"', "parameter ACME_HOME: kind 'folder' is not known"),
        ('meaning = "the SDK of acme"', "", "parameter ACME_HOME: 'meaning' is missing"),
        ('meaning = "the SDK of acme"', "meaning = 3", "parameter ACME_HOME: meaning: 3"),
        ('cmake = "ACME_ROOT"', 'cmkae = "ACME_ROOT"', "parameter ACME_HOME: 'cmkae' is not known"),
        ('name = "ACMEFLAGS"', 'name = "ACME_HOME"', "parameter ACME_HOME is there twice"),
        ('name = "ACMEFLAGS"', 'name = "MAX_JOBS"', "parameter MAX_JOBS is there twice, or the toolkit's own"),
        ('name = "ACMEFLAGS"', 'name = "acmeflags"', "parameter acmeflags: not a name in capitals"),
        ('"{ACMEFLAGS}"', '"{ACMEFLAG}"', r"compiler acme: \{ACMEFLAG\} is no parameter"),
        ('"{source}"', '"kernels.acme"', r"compiler acme: command has no argument '\{source\}'"),
        ('"{includes}"', '"-I{includes}"', "a place of the rule is an argument of its own"),
        ('".acme"', '"acme"', "suffix 'acme'"),
        ('name = "acme"', 'name = "link"', "compiler link: not a name of its own"),
        ("memory = 6000", 'memory = "6000"', "compiler acme: memory: '6000'"),
        ("memory = 6000", "memory =", "not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in TABLE
    (tmp_path / "wrapped_cmake.toml").write_text(TABLE.replace(old, new))
    with pytest.raises(WrappedCMakeError, match=said) as error:
        read_project(tmp_path)
    assert str(tmp_path / "wrapped_cmake.toml") in error.value.what and error.value.next_step


def test_a_value_that_cmake_would_split_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrapped_cmake.toml").write_text(TABLE)
    project = read_project(tmp_path)
    settings = Settings({"ACME_HOME": "/opt/a;b"}, project.parameters)
    with pytest.raises(WrappedCMakeError, match="has a semicolon"):
        project.definitions(settings)


def test_no_parameter_of_the_toolkit_is_one_vendor_s() -> None:
    assert not [word for word in ("CUDA", "cuDNN", "NCCL", "nvcc") if word in help_text()]


def test_a_project_without_a_file_adds_nothing(tmp_path: Path) -> None:
    assert read_project(tmp_path).definitions(Settings({})) == {}
    shutil.rmtree(tmp_path)
    assert read_project(tmp_path).parameters == ()


def test_an_extension_of_the_backend_is_told_of_its_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    third_device = find_project() / "third_device"
    monkeypatch.syspath_prepend(str(third_device / "layer"))
    from backend_build.extension import list_compilers

    (tmp_path / "wrapped_cmake.toml").write_text(TABLE)
    (told,) = list_compilers(tmp_path, third_device)
    assert (told["name"], list(told["suffixes"])) == ("acme", [".acme", ".mu"])
    assert told["parameters"] == {
        "ACMEFLAGS": {"kind": "flags", "default": "-O1"},
        "ACME_HOME": {"kind": "path", "default": None},
    }
