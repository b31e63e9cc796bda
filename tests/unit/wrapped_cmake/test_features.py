"""Launchers and linkers are taken when there, and named when asked for and missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from wrapped_cmake import Settings, WrappedCMake, WrappedCMakeError
from wrapped_cmake.features import build_environment, detect_features


def program(folder: Path, name: str, text: str = "") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_ccache_before_sccache_and_mold_before_lld(tmp_path: Path) -> None:
    program(tmp_path, "sccache")
    program(tmp_path, "ld.lld")
    settings = Settings({"PATH": str(tmp_path)})
    assert detect_features(settings).linker == "lld"
    assert detect_features(settings).launcher == str(tmp_path / "sccache")
    ccache = program(tmp_path, "ccache")
    program(tmp_path, "mold")
    found = detect_features(settings)
    assert (found.launcher, found.linker) == (ccache, "mold")
    assert found.definitions(settings)["CMAKE_CUDA_COMPILER_LAUNCHER"] == ccache
    assert found.definitions(settings)["CMAKE_SHARED_LINKER_FLAGS_INIT"] == "-fuse-ld=mold"


def test_what_the_user_set_wins(tmp_path: Path) -> None:
    program(tmp_path, "ccache")
    program(tmp_path, "mold")
    settings = Settings({"PATH": str(tmp_path), "CMAKE_CXX_COMPILER_LAUNCHER": "distcc", "LDFLAGS": "-fuse-ld=gold"})
    made = detect_features(settings).definitions(settings)
    assert "CMAKE_CXX_COMPILER_LAUNCHER" not in made
    assert not [name for name in made if "LINKER" in name]


@pytest.mark.parametrize("name", ["WRAPPED_CMAKE_LAUNCHER", "WRAPPED_CMAKE_LINKER"])
def test_asked_for_and_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises(WrappedCMakeError, match=f"{name}=(sccache|mold)"):
        detect_features(Settings({"PATH": str(tmp_path), name: "sccache" if "LAUNCHER" in name else "mold"}))


#: a compiler that answers as GCC 11 does
GCC_11 = """
case "$*" in *-fuse-ld=mold*) echo "$0: error: unrecognized command-line option '-fuse-ld=mold'" >&2; exit 1 ;; esac
"""


@pytest.mark.parametrize("variable", ["CC", "CXX", "CUDAHOSTCXX", "CMAKE_CXX_COMPILER", None])
def test_a_linker_that_a_compiler_does_not_know(tmp_path: Path, variable: str | None) -> None:
    """Ubuntu 22.04 has mold, and a GCC that refuses it: CMake could compile nothing."""
    program(tmp_path, "mold")
    for name in ("cc", "c++"):
        program(tmp_path, name)
    environ = {"PATH": str(tmp_path)}
    assert detect_features(Settings(environ)).linker == "mold"
    old = program(tmp_path, "g++-11" if variable else "c++", GCC_11)
    environ.update({variable: f"{old} -m64"} if variable else {})
    assert detect_features(Settings(environ)).linker is None
    with pytest.raises(WrappedCMakeError, match=r"WRAPPED_CMAKE_LINKER=mold: .*unrecognized .*auto or none"):
        detect_features(Settings({**environ, "WRAPPED_CMAKE_LINKER": "mold"}))
    program(tmp_path, "ld.lld")
    assert detect_features(Settings(environ)).linker == "lld"


def test_a_linker_that_a_compiler_of_a_definition_does_not_know(tmp_path: Path) -> None:
    for name in ("mold", "cc", "c++", "cmake", "ninja"):
        program(tmp_path, name)
    old = program(tmp_path, "g++-11", GCC_11)
    environ = {"PATH": str(tmp_path)}

    def find_flag(definitions: dict[str, str], **said: str) -> str | None:
        project = WrappedCMake(tmp_path, tmp_path / "build", environ={**environ, **said})
        return project.definitions(definitions).get("CMAKE_EXE_LINKER_FLAGS_INIT")

    assert find_flag({}) == "-fuse-ld=mold"
    assert find_flag({"CMAKE_CXX_COMPILER:FILEPATH": old}) is None
    assert find_flag({"CMAKE_CXX_COMPILER": f"{old};-m64"}) is None
    assert find_flag({"CMAKE_CXX_COMPILER": "c++"}, CXX=old) == "-fuse-ld=mold"
    assert find_flag({}, CMAKE_ARGS=f"-DCMAKE_CXX_COMPILER={old}") is None
    assert find_flag({}, CMAKE_TOOLCHAIN_FILE="/opt/acme.cmake") is None, "nobody can ask its compilers"
    for said in ("--toolchain /opt/acme.cmake", "--toolchain=/opt/acme.cmake"):
        assert find_flag({}, CMAKE_ARGS=said) is None


def test_two_build_directories_share_ccache_hits(tmp_path: Path) -> None:
    made = build_environment({"PATH": "/bin"}, tmp_path)
    assert build_environment({"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"}, tmp_path) == {
        name: value for name, value in made.items() if name != "PATH"
    }, "compilers say in English what is matched, whatever a person reads"
    assert made["CCACHE_BASEDIR"] == str(tmp_path)
    assert build_environment({"CCACHE_BASEDIR": "/mine"}, tmp_path)["CCACHE_BASEDIR"] == "/mine"
