"""Every parameter of a backend's build, in one typed table.

Names and spellings are upstream's: ``setup.py`` documents them at its top and ``tools/setup_helpers/cmake.py`` reads
them (PyTorch 2.6). As there, each variable of the environment that starts with ``BUILD_``, ``USE_`` or ``CMAKE_`` goes
to CMake whether it is listed here or not; the table adds types, defaults, help, and the few other names that upstream
passes on. Names that begin with ``WRAPPED_CMAKE_`` are the toolkit's own. What a project adds stands in its own file:
`project`.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import WrappedCMakeError

#: Spellings that upstream's ``check_env_flag`` and ``check_negative_env_flag`` take.
TRUE = frozenset({"ON", "1", "YES", "TRUE", "Y"})
FALSE = frozenset({"OFF", "0", "NO", "FALSE", "N"})

KINDS = ("flag", "switch", "text", "path", "number", "flags", "list")
_PASSED_ON = ("BUILD_", "USE_", "CMAKE_")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One variable that a build reads.

    ``cmake`` is the variable that CMake gets, ``pool`` the ninja pool that its MiB make the depth of. ``kind`` is flag,
    switch (a flag, or auto: where it is found), text, path, number (of ``unit``), flags (of a compiler) or list (space,
    comma or semicolon between entries, each of which matches ``pattern``).
    """

    name: str
    kind: str
    default: str | None
    meaning: str
    cmake: str | None = None
    unit: str = ""
    pool: str = ""
    pattern: str = ""


def _make_parameter(name: str, kind: str, default: str | None, meaning: str, cmake: str | None = None) -> Parameter:
    unit = "MiB" if name.endswith("_MEMORY") else ""
    return Parameter(name, kind, default, meaning, cmake, unit)


PARAMETERS: tuple[Parameter, ...] = (
    _make_parameter("MAX_JOBS", "number", None, "compile jobs at once; default: what cores and free memory allow"),
    _make_parameter("CMAKE_BUILD_TYPE", "text", "Release", "Debug, Release or RelWithDebInfo"),
    _make_parameter("CMAKE_ARGS", "text", None, "more arguments for CMake, as a shell splits them"),
    _make_parameter("DEBUG", "flag", "0", "build with -O0 -g (unless CMAKE_BUILD_TYPE is set)"),
    _make_parameter("REL_WITH_DEB_INFO", "flag", "0", "build optimised with -g (unless CMAKE_BUILD_TYPE is set)"),
    _make_parameter(
        "WRAPPED_CMAKE_LAUNCHER", "text", "auto", "compiler launcher: auto, ccache, sccache, none or a path"
    ),
    _make_parameter(
        "WRAPPED_CMAKE_LINKER",
        "text",
        "auto",
        "linker: auto (mold, then lld, as the compilers know it), mold, lld, none",
    ),
    _make_parameter("WRAPPED_CMAKE_JOB_MEMORY", "number", "1500", "memory to reckon with for one C++ compile"),
    _make_parameter("WRAPPED_CMAKE_LINK_JOB_MEMORY", "number", "4096", "memory to reckon with for one link"),
    _make_parameter("WRAPPED_CMAKE_TREE", "path", None, "PyTorch's source tree; default: the one this toolkit lies in"),
)
BY_NAME: dict[str, Parameter] = {parameter.name: parameter for parameter in PARAMETERS}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The parameters of one environment: the toolkit's, and ``more`` of the project."""

    environ: Mapping[str, str]
    more: tuple[Parameter, ...] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All of them, the toolkit's first."""
        return PARAMETERS + self.more

    def find_parameter(self, name: str) -> Parameter:
        """Return the parameter of that name. Raises KeyError for an unlisted one."""
        own = {parameter.name: parameter for parameter in self.more}
        return own.get(name) or BY_NAME[name]

    def text(self, name: str) -> str | None:
        """Return the value, or its default; an empty variable counts as not set.

        Raises KeyError for an unlisted name.
        """
        return self.environ.get(name) or self.find_parameter(name).default

    def list_words(self, name: str) -> list[str]:
        """Read a list of arguments, quoted as in a shell.

        Raises WrappedCMakeError for a quotation that is not closed.
        """
        value = self.text(name) or ""
        try:
            return shlex.split(value)
        except ValueError as error:
            raise WrappedCMakeError(f"{name}={value}: {error}", "close the quotation in it") from None

    def flag(self, name: str) -> bool:
        """Read a flag in upstream's spellings.

        Raises WrappedCMakeError for anything else.
        """
        value = self.text(name) or "0"
        if value.upper() not in TRUE | FALSE:
            raise WrappedCMakeError(f"{name}={value}: not a flag", "use 1 or 0")
        return value.upper() in TRUE

    def switch(self, name: str) -> bool | None:
        """Read a flag, or None for "auto".

        Raises WrappedCMakeError for anything else.
        """
        value = self.text(name) or "0"
        if value.lower() == "auto":
            return None
        if value.upper() not in TRUE | FALSE:
            raise WrappedCMakeError(f"{name}={value}: not a switch", "use 1, 0 or auto")
        return value.upper() in TRUE

    def number(self, name: str) -> int | None:
        """Read a positive whole number.

        Raises WrappedCMakeError for anything else.
        """
        value = self.text(name)
        if value is None:
            return None
        if not value.isdigit() or int(value) == 0:
            raise WrappedCMakeError(f"{name}={value}: not a positive number", f"set {name} to a whole number")
        return int(value)

    def read_list(self, name: str) -> list[str]:
        """Read a list, split at spaces, commas and semicolons.

        Raises WrappedCMakeError for an entry that is none.
        """
        found = [part for part in re.split(r"[ ;,]+", self.text(name) or "") if part]
        pattern = self.find_parameter(name).pattern
        for part in found:
            if pattern and not re.fullmatch(pattern, part):
                raise WrappedCMakeError(f"{name}: {part!r} does not match {pattern}", f"correct {name}")
        return found

    def build_type(self) -> str:
        """Return the build type by upstream's rule.

        It is CMAKE_BUILD_TYPE, else DEBUG, else REL_WITH_DEB_INFO, else Release.
        """
        if self.environ.get("CMAKE_BUILD_TYPE"):
            return self.environ["CMAKE_BUILD_TYPE"]
        return "Debug" if self.flag("DEBUG") else "RelWithDebInfo" if self.flag("REL_WITH_DEB_INFO") else "Release"

    def definitions(self) -> dict[str, str]:
        """Return what goes to CMake as ``-D``.

        That is the ``cmake`` names and every BUILD_*, USE_* and CMAKE_* variable.
        """
        self.check()
        found = {
            name: value
            for name, value in self.environ.items()
            if value
            and name.startswith(_PASSED_ON)
            and name not in ("CMAKE_ARGS", "CMAKE_GENERATOR", "CMAKE_INSTALL_PREFIX")
        }
        for parameter in self.parameters:
            value = self.text(parameter.name)
            if parameter.cmake and value:
                found.setdefault(parameter.cmake, value)
        found["CMAKE_BUILD_TYPE"] = self.build_type()
        return found

    def check(self) -> None:
        """Read every listed variable, so that a wrong one stops before the build."""
        readers: dict[str, Any] = {
            "flag": self.flag,
            "switch": self.switch,
            "number": self.number,
            "list": self.read_list,
        }
        for parameter in self.parameters:
            if parameter.name in self.environ and parameter.kind in readers:
                readers[parameter.kind](parameter.name)


def help_text(parameters: Sequence[Parameter] = PARAMETERS) -> str:
    """Write ``--help``: a line per variable with its kind, default and meaning."""
    width = max((len(parameter.name) for parameter in parameters), default=0)
    lines = ["environment variables:"]
    for parameter in parameters:
        kind = parameter.unit or parameter.kind
        default = f" [{parameter.default}]" if parameter.default is not None else ""
        lines.append(f"  {parameter.name:<{width}}  {kind:<6}  {parameter.meaning}{default}")
    lines.append("  BUILD_*, USE_*, CMAKE_*: passed on to CMake, as upstream's setup.py does")
    return "\n".join(lines)
