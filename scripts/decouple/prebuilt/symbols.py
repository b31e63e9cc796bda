"""Check that a core has the symbols that libraries with kernels need.

It is done before anything is built or fetched whole.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from packaging.version import InvalidVersion, Version

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.prebuilt.dynamic_symbols import DynamicSymbols

_FILE = Path(__file__).with_name("providers.toml")
ABI = {True: "C++11", False: "pre-C++11", None: "any"}


class MissingSymbol(Struct, frozen=True):
    """A symbol that no library has: ``library`` needs it.

    ``provider`` (a name in providers.toml) would have it.
    """

    symbol: str
    library: str
    provider: str


class SymbolReport(Struct, frozen=True):
    """What libraries with kernels need of a core.

    ``asked`` counts names per provider, ``versions`` says which version of which other library is the least that will
    do (``{"libc.so.6": "GLIBC_2.17"}``); ABIs are those of :data:`ABI`.
    """

    libraries: tuple[str, ...]
    kernels_abi: str
    core_abi: str
    asked: Mapping[str, int]
    lacking: tuple[MissingSymbol, ...]
    versions: Mapping[str, str]
    core: tuple[str, ...] = field(default=())

    @property
    def other_abi(self) -> bool:
        """Whether the two are of different C++ ABIs, so that no count means anything."""
        return "any" not in (self.kernels_abi, self.core_abi) and self.kernels_abi != self.core_abi

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON; missing symbols by provider, sorted."""
        lacking: dict[str, list[str]] = {}
        for missing in self.lacking:
            lacking.setdefault(missing.provider, []).append(missing.symbol)
        return {
            "libraries": list(self.libraries),
            "core": list(self.core),
            "kernels_abi": self.kernels_abi,
            "core_abi": self.core_abi,
            "asked": dict(sorted(self.asked.items())),
            "lacking": {name: sorted(symbols) for name, symbols in sorted(lacking.items())},
            "versions": dict(sorted(self.versions.items())),
        }


class SymbolOrigin(msgspec.Struct, frozen=True, rename={"pattern": "match", "origin": "from"}):
    """One table of providers.toml.

    ``elsewhere``: no core is expected to have these symbols.
    """

    name: str
    pattern: re.Pattern[str]
    origin: str
    elsewhere: bool = False


class _ProviderTable(Struct, frozen=True):
    provider: tuple[SymbolOrigin, ...]


UNKNOWN = SymbolOrigin("not known", re.compile(""), "no library that this program knows")


@functools.cache
def load_providers() -> tuple[SymbolOrigin, ...]:
    """Return the providers in the order in which they are tried."""
    return toml.read_own_table(_FILE, _ProviderTable, schema=None).provider


def find_provider(symbol: str) -> SymbolOrigin:
    """Return the provider of ``symbol``; :data:`UNKNOWN` when no pattern matches it."""
    return next((provider for provider in load_providers() if provider.pattern.fullmatch(symbol)), UNKNOWN)


def find_origin(name: str) -> str:
    """Return where the symbols of the provider ``name`` come from, in words."""
    return next((provider.origin for provider in load_providers() if provider.name == name), UNKNOWN.origin)


def compare_symbols(kernels: Sequence[DynamicSymbols], core: Sequence[DynamicSymbols]) -> SymbolReport:
    """Compare what ``kernels`` need with what ``core`` defines.

    With no core, needed symbols are counted and none is missing. A need with a version names its library; where that is
    none of the core's (libc, CUDA's) it counts in ``versions``.
    """
    own_symbols = {name for library in kernels for name in library.defined}
    offered = {name: version for library in core for name, version in library.defined.items()}
    names = {library.name for library in core}
    asked: dict[str, int] = {}
    missing: list[MissingSymbol] = []
    counted: set[str] = set()
    versions: dict[str, str] = {}
    for library in kernels:
        for need in sorted(library.needs, key=lambda need: (need.name, need.version or "")):
            if need.library and need.library not in names:
                versions[need.library] = _choose_later(versions.get(need.library), need.version or "")
                continue
            if need.name in own_symbols or need.name in counted:
                continue
            counted.add(need.name)
            provider = find_provider(need.name)
            if provider.elsewhere:
                continue
            asked[provider.name] = asked.get(provider.name, 0) + 1
            wrong_version = need.version is not None and offered.get(need.name) != need.version
            if core and (need.name not in offered or wrong_version):
                text = f"{need.name}@{need.version}" if need.version else need.name
                missing.append(MissingSymbol(text, library.name, provider.name))
    return SymbolReport(
        tuple(library.name for library in kernels),
        _determine_abi(kernels),
        _determine_abi(core),
        asked,
        tuple(missing),
        versions,
        tuple(library.name for library in core),
    )


def refuse_mismatch(report: SymbolReport, kernels: str) -> None:
    """Raise DecoupleError when the kernels would not load on the core of the report.

    ``kernels`` names them in the error, which is one line.
    """
    if report.other_abi:
        raise DecoupleError(
            f"{kernels}: its kernels are of the {report.kernels_abi} ABI, the core is of the {report.core_abi} ABI",
            next_step="take kernels and core of one ABI, or compile the kernels: --kernels compiled",
        )
    if report.lacking:
        first = report.lacking[0]
        more = f" and {len(report.lacking) - 1} more symbols" if len(report.lacking) > 1 else ""
        problem = f"{first.library} needs {first.symbol}{more}, which the core has not"
        raise DecoupleError(
            f"{kernels}: {problem}; from {find_origin(first.provider)}",
            next_step="decouple stages symbols RELEASE --all --core DIR lists them all",
        )


def _determine_abi(libraries: Sequence[DynamicSymbols]) -> str:
    abis = {library.cxx11 for library in libraries} - {None}
    return ABI[abis.pop()] if len(abis) == 1 else "mixed" if abis else ABI[None]


def _choose_later(known: str | None, other: str) -> str:
    """Return the higher of two versions with the same word before the number.

    Names without a number (private ones) count as the lowest.
    """

    def parse_number(text: str) -> Version:
        try:
            return Version(re.sub(r"^\D*", "", text))
        except InvalidVersion:
            return Version("0")

    return other if known is None or parse_number(other) > parse_number(known) else known
