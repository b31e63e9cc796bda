"""Find what the machine offers to make a build faster.

It is a compiler cache, a fast linker; and the environment they need.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import WrappedCMakeError
from .parameters import Settings

_LANGUAGES = ("C", "CXX", "CUDA")
_LINKER_FLAGS = ("CMAKE_EXE_LINKER_FLAGS", "CMAKE_SHARED_LINKER_FLAGS", "CMAKE_MODULE_LINKER_FLAGS")
#: linker name -> (program that must be there, what -fuse-ld= takes)
_LINKERS = {"mold": ("mold", "mold"), "lld": ("ld.lld", "lld")}
#: variables that name a compiler, in CMake's order -> the programs that it looks for without them
_COMPILERS: dict[tuple[str, str], Sequence[str]] = {
    ("CMAKE_C_COMPILER", "CC"): ("cc", "gcc", "clang"),
    ("CMAKE_CXX_COMPILER", "CXX"): ("c++", "g++", "clang++"),
    ("CMAKE_CUDA_HOST_COMPILER", "CUDAHOSTCXX"): (),
}
#: compilers and their flags: CMake's cmake-env-variables(7), and the variables that those fill; and where things are
#: looked for, since CMake keeps what it found there
_READ_ONCE = (
    *("ASM", "ASMFLAGS", "CC", "CFLAGS", "CUDAARCHS", "CUDACXX", "CUDAFLAGS", "CUDAHOSTCXX", "CXX", "CXXFLAGS", "FC"),
    *("FFLAGS", "HIPCXX", "HIPFLAGS", "HIPHOSTCXX", "LDFLAGS"),
)
_GIVEN_ONCE = re.compile(r"CMAKE_(\w+_COMPILER|\w+_FLAGS_INIT|TOOLCHAIN_FILE)|\w+_(ROOT|HOME|PATH)")


@dataclasses.dataclass(frozen=True)
class Features:
    """The launcher's path and the linker's ``-fuse-ld`` name, None where none."""

    launcher: str | None
    linker: str | None

    def definitions(self, settings: Settings) -> dict[str, str]:
        """``-D`` values for CMake; whatever the user set by hand wins."""
        found: dict[str, str] = {}
        if self.launcher:
            found.update({f"CMAKE_{language}_COMPILER_LAUNCHER": self.launcher for language in _LANGUAGES})
        if self.linker:
            found.update({f"{flags}_INIT": f"-fuse-ld={self.linker}" for flags in _LINKER_FLAGS})
        return {name: value for name, value in found.items() if not settings.environ.get(name)}


def detect_features(settings: Settings, given: Mapping[str, str] | None = None) -> Features:
    """Look for a launcher on the PATH, and for a linker that the compilers know.

    Definitions that are ``given`` may name these, before the environment does. Raises WrappedCMakeError when one was
    asked for by name and is not there, or is not known.
    """
    path = settings.environ.get("PATH", os.defpath)
    return Features(
        launcher=_choose_launcher(settings.text("WRAPPED_CMAKE_LAUNCHER") or "auto", path),
        linker=_choose_linker(settings, {**settings.environ, **(given or {})}, path),
    )


def _choose_launcher(asked: str, path: str) -> str | None:
    if asked == "none":
        return None
    candidates: Sequence[str] = ("ccache", "sccache") if asked == "auto" else (asked,)
    for candidate in candidates:
        found = shutil.which(candidate, path=path)
        if found:
            return found
    if asked != "auto":
        raise WrappedCMakeError(f"WRAPPED_CMAKE_LAUNCHER={asked}: no such program", "install it, or set it to none")
    return None


def _choose_linker(settings: Settings, named: Mapping[str, str], path: str) -> str | None:
    asked = settings.text("WRAPPED_CMAKE_LINKER") or "auto"
    if asked == "auto" and named.get("CMAKE_TOOLCHAIN_FILE"):  # the file knows which compilers; nobody can ask them
        return None
    if asked == "none" or "-fuse-ld=" in settings.environ.get("LDFLAGS", ""):
        return None
    if asked != "auto" and asked not in _LINKERS:
        raise WrappedCMakeError(
            f"WRAPPED_CMAKE_LINKER={asked}: unknown", f"use one of auto, none, {', '.join(_LINKERS)}"
        )
    for name in _LINKERS if asked == "auto" else (asked,):
        program, flag = _LINKERS[name]
        if not shutil.which(program, path=path):
            continue
        refused = _find_refusal(flag, settings.environ, _list_compilers(named, path))
        if refused is None:
            return flag
        if asked != "auto":
            raise WrappedCMakeError(
                f"WRAPPED_CMAKE_LINKER={asked}: {refused}", "set it to auto or none, or name a compiler that knows it"
            )
    if asked != "auto":
        raise WrappedCMakeError(f"WRAPPED_CMAKE_LINKER={asked}: {_LINKERS[asked][0]} is not on the PATH", "install it")
    return None


def _find_refusal(linker: str, environ: Mapping[str, str], compilers: Sequence[Sequence[str]]) -> str | None:
    """Return what a compiler says against ``-fuse-ld=``; None where all take it.

    GCC knows mold from 12.1 on.
    """
    for compiler in compilers:
        command = [*compiler, f"-fuse-ld={linker}", "-Wl,--version"]
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        if done.returncode:
            return f"{' '.join(command)} failed: {' '.join(done.stderr.split()) or 'without a word'}"
    return None


def _list_compilers(variables: Mapping[str, str], path: str) -> list[list[str]]:
    """List the compilers that CMake will take, as commands.

    ``variables`` are those of the environment and of CMake. One that is not there is for CMake to report.
    """
    found = []
    for names, usual in _COMPILERS.items():
        named = next((variables[name] for name in names if variables.get(name)), "")
        # a path may have spaces; in a list of CMake's arguments follow the program
        words = [named] if Path(named).is_file() else named.replace(";", " ").split()
        commands = [words] if words else [[name] for name in usual]
        found.extend([command for command in commands if shutil.which(command[0], path=path)][:1])
    return found


def describe_read_once(settings: Settings, given: Mapping[str, str]) -> str:
    """Describe what CMake reads when it configures a directory first, and keeps.

    It is in the environment, which PATH is of, or in the definitions ``given``: the project's paths are such, too.
    """
    paths = {one.cmake for one in settings.parameters if one.kind == "path"}
    named = {name: settings.environ[name] for name in _READ_ONCE if settings.environ.get(name)}
    named |= {f"-D{name}": value for name, value in given.items() if _GIVEN_ONCE.fullmatch(name) or name in paths}
    path = settings.environ.get("PATH", os.defpath)
    found = [command[0] for command in _list_compilers({**settings.environ, **given}, path)]
    found += ["nvcc", "hipconfig"]  # of toolkits, which CMake finds by them
    named |= {f"{name} on PATH": shutil.which(name, path=path) or "" for name in found if not Path(name).is_absolute()}
    return "\n".join(f"{name}={value}" for name, value in sorted(named.items()))


def build_environment(environ: Mapping[str, str], base: Path) -> dict[str, str]:
    """Return the environment that a build runs in.

    It is ``environ``, and what a compiler cache needs to hit across build directories.

    ``base`` is the folder that sources and build directories share: ccache rewrites paths below it to relative ones,
    so that two build directories share hits. Values that are already set stay, but for the language: messages of
    compilers and of distcc are matched.
    """
    made = {name: value for name, value in environ.items() if name != "LANGUAGE"} | {"LC_ALL": "C.UTF-8"}
    defaults = {
        "CCACHE_BASEDIR": str(base),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime",
        "SCCACHE_BASEDIRS": str(base),
    }
    for name, value in defaults.items():
        made.setdefault(name, value)
    return made
