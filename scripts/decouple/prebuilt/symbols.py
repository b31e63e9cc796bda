"""Whether a core has what libraries with kernels need, before anything is built or fetched whole."""

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
from decouple.prebuilt.dynamic import Face

_FILE = Path(__file__).with_name("providers.toml")
ABI = {True: "C++11", False: "pre-C++11", None: "any"}


class Lack(Struct, frozen=True):
    """One symbol that nobody has: ``library`` needs it, ``provider`` (a name in providers.toml) would have it."""

    symbol: str
    library: str
    provider: str


class SymbolReport(Struct, frozen=True):
    """What kernels ask of a core. ``asked`` counts names per provider, ``versions`` says which version of which other
    library is the least that will do (``{"libc.so.6": "GLIBC_2.17"}``); ABIs are those of :data:`ABI`.
    """

    libraries: tuple[str, ...]
    kernels_abi: str
    core_abi: str
    asked: Mapping[str, int]
    lacking: tuple[Lack, ...]
    versions: Mapping[str, str]
    core: tuple[str, ...] = field(default=())

    @property
    def other_abi(self) -> bool:
        """Whether the two are of different C++ ABIs, so that no count of names means anything."""
        return "any" not in (self.kernels_abi, self.core_abi) and self.kernels_abi != self.core_abi

    def to_dict(self) -> dict[str, Any]:
        """As JSON; lacking symbols by provider, sorted."""
        lacking: dict[str, list[str]] = {}
        for lack in self.lacking:
            lacking.setdefault(lack.provider, []).append(lack.symbol)
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
    """One table of providers.toml. ``elsewhere``: no core is expected to have these symbols."""

    name: str
    pattern: re.Pattern[str]
    origin: str
    elsewhere: bool = False


class _File(Struct, frozen=True):
    provider: tuple[SymbolOrigin, ...]


UNKNOWN = SymbolOrigin("not known", re.compile(""), "no library that this program knows")


@functools.cache
def providers() -> tuple[SymbolOrigin, ...]:
    """In the order in which they are tried."""
    return toml.read(_FILE, _File, mend=f"git checkout {_FILE}", schema=None).provider


def provider_of(symbol: str) -> SymbolOrigin:
    """Whoever provides ``symbol``; :data:`UNKNOWN` when no pattern matches it."""
    return next((provider for provider in providers() if provider.pattern.fullmatch(symbol)), UNKNOWN)


def origin_of(name: str) -> str:
    """Where the symbols of the provider ``name`` come from, in words."""
    return next((provider.origin for provider in providers() if provider.name == name), UNKNOWN.origin)


def compare(kernels: Sequence[Face], core: Sequence[Face]) -> SymbolReport:
    """What ``kernels`` need of ``core``. With no core, what they ask is counted and nothing is lacking.

    A need with a version names its library; where that is none of the core's (libc, CUDA's) it counts in ``versions``.
    """
    own = {name for face in kernels for name in face.defined}
    offered = {name: version for face in core for name, version in face.defined.items()}
    names = {face.name for face in core}
    asked: dict[str, int] = {}
    lacking: list[Lack] = []
    seen: set[str] = set()
    versions: dict[str, str] = {}
    for face in kernels:
        for need in sorted(face.needs, key=lambda need: (need.name, need.version or "")):
            if need.library and need.library not in names:
                versions[need.library] = _later(versions.get(need.library), need.version or "")
                continue
            if need.name in own or need.name in seen:
                continue
            seen.add(need.name)
            provider = provider_of(need.name)
            if provider.elsewhere:
                continue
            asked[provider.name] = asked.get(provider.name, 0) + 1
            wrong_version = need.version is not None and offered.get(need.name) != need.version
            if core and (need.name not in offered or wrong_version):
                shown = f"{need.name}@{need.version}" if need.version else need.name
                lacking.append(Lack(shown, face.name, provider.name))
    return SymbolReport(
        tuple(face.name for face in kernels),
        _abi(kernels),
        _abi(core),
        asked,
        tuple(lacking),
        versions,
        tuple(face.name for face in core),
    )


def refuse(report: SymbolReport, kernels: str) -> None:
    """Raise DecoupleError, one line, when the kernels of a name would not load on the core of the report."""
    if report.other_abi:
        raise DecoupleError(
            f"{kernels}: its kernels are of the {report.kernels_abi} ABI, the core is of the {report.core_abi} ABI",
            next_step="take kernels and core of one ABI, or compile the kernels: --kernels compiled",
        )
    if report.lacking:
        first = report.lacking[0]
        more = f" and {len(report.lacking) - 1} more symbols" if len(report.lacking) > 1 else ""
        what = f"{first.library} needs {first.symbol}{more}, which the core has not"
        raise DecoupleError(
            f"{kernels}: {what}; from {origin_of(first.provider)}",
            next_step="decouple stage2-symbols RELEASE --all --core DIR lists them all",
        )


def _abi(faces: Sequence[Face]) -> str:
    told = {face.cxx11 for face in faces} - {None}
    return ABI[told.pop()] if len(told) == 1 else "mixed" if told else ABI[None]


def _later(one: str | None, other: str) -> str:
    """The higher of two versions with the same word before the number; names without a number (private ones) lose."""

    def key(text: str) -> Version:
        try:
            return Version(re.sub(r"^\D*", "", text))
        except InvalidVersion:
            return Version("0")

    return other if one is None or key(other) > key(one) else one
