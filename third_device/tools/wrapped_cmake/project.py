"""What one project adds to the toolkit, in ``wrapped_cmake.toml``.

The file lies beside its ``CMakeLists.txt``. Parameters of its own, read from the environment and passed to CMake as
those of `parameters` are, and compilers for sources that CMake has no language for::

    [[parameter]]
    name = "ACME_HOME"
    kind = "path"                  # one of parameters.KINDS
    default = "/opt/acme"          # optional
    meaning = "the SDK of acme"
    cmake = "ACME_HOME"            # optional: the variable that CMake gets

    [[compiler]]
    name = "acme"                  # of its ninja pool, and in messages
    suffixes = [".acme"]
    command = ["{ACME_HOME}/bin/acmecc", "{ACMEFLAGS}", "{defines}", "{includes}", "-fPIC", "-MD", "-MF", "{depfile}",
               "-c", "{source}", "-o", "{object}"]
    memory = 2000                  # MiB to reckon with for one compile; optional

A name in capitals stands for a parameter's value; one of kind ``flags`` is split as a shell splits it. The others are
the rule's: ``{source}`` and ``{object}`` must be there, ``{depfile}`` is a file of dependencies in make's syntax,
``{includes}`` and ``{defines}`` become ``-I`` and ``-D`` arguments, ``{launcher}`` the compiler cache, if there is one.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import WrappedCMakeError
from .parameters import BY_NAME, KINDS, Parameter, Settings

FILE = "wrapped_cmake.toml"
RULE = ("source", "object", "depfile", "includes", "defines", "launcher")
"""What a rule fills in for each source; CMake gets them as ``<SOURCE>`` and so on, in one argument each."""

_PLACE = re.compile(r"\{(\w*)\}")
_ALLOWED: dict[str, dict[str, type]] = {
    "parameter": {"name": str, "kind": str, "default": str, "meaning": str, "cmake": str, "pool": str, "pattern": str},
    "compiler": {"name": str, "suffixes": list, "command": list, "memory": int},
}
_NEEDED = {"parameter": ("name", "kind", "meaning"), "compiler": ("name", "suffixes", "command")}


@dataclasses.dataclass(frozen=True)
class Compiler:
    """How sources with one of ``suffixes`` become objects.

    ``memory`` is the MiB to reckon with for one of them.
    """

    name: str
    suffixes: tuple[str, ...]
    command: tuple[str, ...]
    memory: int

    def list_parameters(self) -> set[str]:
        """Return the parameters that its command names."""
        return {name for part in self.command for name in _PLACE.findall(part)} - set(RULE)

    def fill_command(self, settings: Settings) -> list[str]:
        """Return the compiler's command with every parameter filled in.

        The rule's places stand as ``<SOURCE>``. Raises WrappedCMakeError for a parameter without a value, and for one
        that has a semicolon, of which CMake's lists know no other meaning.
        """
        made: list[str] = []
        for part in self.command:
            whole = _PLACE.fullmatch(part)
            if whole and whole[1] not in RULE and settings.find_parameter(whole[1]).kind == "flags":
                made += settings.list_words(whole[1])
            else:
                made.append(_PLACE.sub(lambda place: self._fill_place(place[1], settings), part))
        wrong = next((part for part in made if ";" in part), None)
        if wrong is not None:
            raise WrappedCMakeError(f"compiler {self.name}: {wrong!r} has a semicolon", "write it without")
        return made

    def _fill_place(self, name: str, settings: Settings) -> str:
        if name in RULE:
            return f"<{name.upper()}>"
        value = settings.text(name)
        if value is None:
            raise WrappedCMakeError(f"compiler {self.name}: {name} is not set", f"set {name}")
        return value

    def definitions(self, settings: Settings) -> dict[str, str]:
        """Return the variables by which DeviceCompiler.cmake knows it.

        Raises WrappedCMakeError as `fill_command` does.
        """
        prefix, command = f"WRAPPED_CMAKE_COMPILER_{self.name}", self.fill_command(settings)
        return {
            f"{prefix}_SUFFIXES": ";".join(self.suffixes),
            f"{prefix}_COMMAND": ";".join(command),
            f"{prefix}_PROGRAM": _describe_program(next(part for part in command if part != "<LAUNCHER>"), settings),
        }


def _describe_program(name: str, settings: Settings) -> str:
    """Return which file a command runs, behind links, with its size and time.

    Empty for none.
    """
    path = shutil.which(name, path=settings.environ.get("PATH", os.defpath))
    if path is None:
        return ""
    file = Path(path).resolve()
    found = file.stat()
    return f"{file} {found.st_size} {found.st_mtime_ns}"  # an older time is a change, too: packages keep theirs


@dataclasses.dataclass(frozen=True)
class Project:
    """The parameters and compilers of one project; none without a file."""

    parameters: tuple[Parameter, ...] = ()
    compilers: tuple[Compiler, ...] = ()

    def definitions(self, settings: Settings) -> dict[str, str]:
        """Return what goes to CMake for its compilers; nothing where it has none."""
        if not self.compilers:
            return {}
        made = {"WRAPPED_CMAKE_COMPILERS": ";".join(compiler.name for compiler in self.compilers)}
        for compiler in self.compilers:
            made.update(compiler.definitions(settings))
        return made

    def list_memory(self) -> dict[str, int]:
        """Return the MiB for one job of each ninja pool that the compilers have."""
        return {compiler.name: compiler.memory for compiler in self.compilers}


def read_project(folder: Path) -> Project:
    """Read ``wrapped_cmake.toml`` in ``folder``.

    Raises WrappedCMakeError with the file, the entry and what is wrong with it.
    """
    path = folder / FILE
    if not path.is_file():
        return Project()
    reader = next(filter(importlib.util.find_spec, ("tomllib", "tomli")), None)  # tomllib is Python 3.11's
    if reader is None:
        raise WrappedCMakeError(f"{path}: this Python reads no TOML", "pip install tomli")
    try:
        text: dict[str, Any] = importlib.import_module(reader).loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of both readers, and of UTF-8
        raise WrappedCMakeError(f"{path}: not TOML: {error}", "correct it") from None
    for key, value in text.items():
        if key not in _ALLOWED or not isinstance(value, list):
            raise WrappedCMakeError(f"{path}: {key!r} is not known", "there are [[parameter]] and [[compiler]]")
    parameters = tuple(_read_parameter(path, entry) for entry in text.get("parameter", []))
    names = [parameter.name for parameter in parameters]
    twice = next((name for name in names if name in BY_NAME or names.count(name) > 1), None)
    if twice:
        raise WrappedCMakeError(f"{path}: parameter {twice} is there twice, or the toolkit's own", "rename it")
    compilers = tuple(_read_compiler(path, entry, {*BY_NAME, *names}) for entry in text.get("compiler", []))
    suffixes = [suffix for compiler in compilers for suffix in compiler.suffixes]
    if len({compiler.name for compiler in compilers}) < len(compilers) or len(set(suffixes)) < len(suffixes):
        raise WrappedCMakeError(f"{path}: two compilers have one name or one suffix", "give each its own")
    return Project(parameters, compilers)


def _read_parameter(path: Path, entry: Mapping[str, Any]) -> Parameter:
    where = _check_entry(path, "parameter", entry)
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", entry["name"]):
        raise WrappedCMakeError(f"{where}: not a name in capitals", "write it as ACME_HOME")
    if entry["kind"] not in KINDS:
        raise WrappedCMakeError(f"{where}: kind {entry['kind']!r} is not known", f"use one of {', '.join(KINDS)}")
    unit = "MiB" if entry["name"].endswith("_MEMORY") else ""
    return Parameter(**{"default": None, "unit": unit, **entry})


def _read_compiler(path: Path, entry: Mapping[str, Any], parameters: set[str]) -> Compiler:
    where = _check_entry(path, "compiler", entry)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", entry["name"]) or entry["name"] == "link":
        raise WrappedCMakeError(f"{where}: not a name of its own in small letters", "write it as acme")
    made = Compiler(entry["name"], tuple(entry["suffixes"]), tuple(entry["command"]), entry.get("memory", 2000))
    for suffix in made.suffixes:
        if not re.fullmatch(r"\.\w+", suffix):
            raise WrappedCMakeError(f"{where}: suffix {suffix!r}", "write it as '.acme'")
    unknown = sorted(made.list_parameters() - parameters)
    if unknown:
        raise WrappedCMakeError(
            f"{where}: {{{unknown[0]}}} is no parameter", f"add a [[parameter]], or use one of {', '.join(RULE)}"
        )
    for place in ("{source}", "{object}"):
        if place not in made.command:
            raise WrappedCMakeError(f"{where}: command has no argument {place!r}", "add it")
    for part in made.command:
        if any(name in RULE for name in _PLACE.findall(part)) and not _PLACE.fullmatch(part):
            raise WrappedCMakeError(f"{where}: {part!r}: a place of the rule is an argument of its own", "split it")
    return made


def _check_entry(path: Path, group: str, entry: Mapping[str, Any]) -> str:
    """Return how messages name the entry.

    Raises WrappedCMakeError for a key that is missing, unknown or of no use.
    """
    where = f"{path}: {group} {entry.get('name', '')}".rstrip()
    allowed = _ALLOWED[group]
    for key, value in entry.items():
        if key not in allowed:
            raise WrappedCMakeError(f"{where}: {key!r} is not known", f"there are {', '.join(allowed)}")
        parts = value if isinstance(value, list) else [""]
        if not isinstance(value, allowed[key]) or not all(isinstance(part, str) for part in parts):
            raise WrappedCMakeError(f"{where}: {key}: {value!r}", f"write a {allowed[key].__name__}")
    missing = next((key for key in _NEEDED[group] if not entry.get(key)), None)
    if missing:
        raise WrappedCMakeError(f"{where}: {missing!r} is missing", "add it")
    return where
