"""The stand-ins as data: ``libraries.toml``, read into frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simcuda import tables

HERE = Path(__file__).parent
#: What a compiler makes of templates of namespace std in our own objects. A stand-in lies in front of the program,
#: which would take these from it instead of from its own C++ library.
STANDARD = ("_ZSt*", "_ZNSt*", "_ZNKSt*", "_ZT?St*", "_ZT?NSt*")


@dataclass(frozen=True)
class FillRule:
    """What a function that computes nothing writes through one of its pointers.

    ``count`` names, as a pattern too, the parameter that says to how many places.
    """

    function: str
    type: str
    parameter: str
    value: str
    count: str = ""

    def matches(self, function: str, target: str, parameter: str) -> bool:
        """Return whether the rule holds for ``function`` and ``parameter`` to ``target``."""
        pairs = ((self.function, function), (self.type, target), (self.parameter, parameter))
        return all(re.fullmatch(pattern, text) for pattern, text in pairs)


@dataclass(frozen=True)
class Library:
    """One stand-in of one CUDA; ``needs`` has SONAMEs."""

    name: str
    soname: str
    wheel: str
    headers: tuple[str, ...]
    sources: tuple[str, ...]
    not_supported: int
    success: tuple[str, ...]
    needs: tuple[str, ...]
    versioned: bool = False
    export: tuple[str, ...] = ("*",)
    own_export: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    headers_of: tuple[str, ...] = ()
    unversioned: bool = False  # ``name_v2`` is exported as ``name`` too, as dlsym asks for it

    @property
    def header_wheels(self) -> tuple[str, ...]:
        """The wheels whose headers its own include, beside those that all include."""
        return (*filter(None, [self.wheel]), *self.headers_of)

    def answers_success(self, function: str) -> bool:
        """Return whether ``function`` answers success without computing anything."""
        return any(re.fullmatch(pattern, function) for pattern in self.success)

    def make_version_script(self) -> str:
        """Return the linker's script with the version that the real library has.

        It gives its symbols that version; nothing of the C++ library is exported.
        """
        exported = "".join(f" {pattern};" for pattern in self.export)
        name = f"{self.soname} " if self.versioned else ""
        own = "".join(f" {pattern};" for pattern in self.own_export)
        if own:
            return f"{name}{{ global:{exported} }};\nSIMCUDA {{ global:{own} local: *; }};\n"
        hidden = "".join(f" {pattern};" for pattern in STANDARD)
        return f"{name}{{ global:{exported} local:{hidden} }};\n"


def load_libraries(
    sonames: Mapping[str, str], path: Path = HERE / "libraries.toml"
) -> tuple[tuple[Library, ...], tuple[FillRule, ...]]:
    """Read each stand-in in link order, and the rules for what they write.

    ``sonames``: of the libraries that one CUDA has, by their names here; the others are left out.
    """
    table = tables.read_table(path)
    entries = {entry["name"]: entry for entry in table["library"]}
    known = {name: entry.get("soname", sonames.get(name)) for name, entry in entries.items()}
    libraries = []
    for name, entry in entries.items():
        if known[name]:
            needs = [known[other] for other in entry["needs"]]
            libraries.append(Library(**freeze_lists({**entry, "soname": known[name], "needs": needs})))
    return tuple(libraries), tuple(FillRule(**entry) for entry in table["fill"])


def freeze_lists(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the table with tuples for lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
