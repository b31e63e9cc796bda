"""The census's data file: what to look for, how to judge it, why it stays. Data in ``taxonomy.toml``, types here."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from decouple.base.errors import UsageError
from decouple.census.finding import CATEGORIES, Raw
from decouple.syntax.conditions import Macros
from decouple.syntax.globs import matches

DEFAULT = Path(__file__).with_name("taxonomy.toml")
JUDGEMENTS = {"dispatch": "dispatch", "coupling": "name", "mention": "mention"}


@dataclass(frozen=True)
class NameRule:
    """How a CUDA-named piece of code is judged."""

    category: str
    pattern: re.Pattern[str]
    reason: str


@dataclass(frozen=True)
class StayRule:
    """Why a finding that relocation does not move stays."""

    name: str
    categories: tuple[str, ...]
    symbols: tuple[str, ...]
    paths: tuple[str, ...]
    details: tuple[str, ...]
    reason: str

    def covers(self, raw: Raw, origin: str) -> bool:
        """Whether each condition that the rule has holds. ``symbols`` must match every macro of a conditional."""
        return (
            (not self.categories or raw.category in self.categories)
            and (not self.symbols or all(matches(symbol, self.symbols) for symbol in raw.symbol.split("+")))
            and (not self.paths or matches(origin, self.paths) is not None)
            and (not self.details or any(detail in raw.detail for detail in self.details))
        )


@dataclass(frozen=True)
class Taxonomy:
    """All of ``taxonomy.toml``, patterns compiled."""

    prefilter: tuple[bytes, ...]
    modules: tuple[tuple[str, str], ...]
    macros: tuple[tuple[str, tuple[str, ...]], ...]
    external_headers: tuple[str, ...]
    words: re.Pattern[str]
    """Finds every candidate in code: the words of names, and what the watched macros have in common."""
    macro_words: re.Pattern[str]
    """Of these, the ones that a macro can have: macros are written in capitals."""
    name_words: re.Pattern[str]
    names: tuple[NameRule, ...]
    string_pattern: re.Pattern[str]
    bindings: re.Pattern[str]
    in_cpu_build: tuple[str, ...]
    build_variables: re.Pattern[str]
    stays: tuple[StayRule, ...]
    undefined: frozenset[str]
    """Macros that stage 1 never defines (of the relocation rules)."""

    @cached_property
    def at_stage1(self) -> Macros:
        """What is known of macros at stage 1."""
        return Macros(undefined=self.undefined)

    @cached_property
    def without_nvcc(self) -> Macros:
        """Only what every compiler but nvcc has: of ``undefined``, the macros that a compiler sets by itself."""
        return Macros(undefined=frozenset(name for name in self.undefined if name.startswith("__")))

    @cached_property
    def _families(self) -> dict[str, str | None]:
        return {}

    def macro_family(self, name: str) -> str | None:
        """build, compiler, export or version; None for a macro that is not watched."""
        known = self._families
        if name not in known:
            known[name] = next((family for family, names in self.macros if matches(name, names)), None)
        return known[name]

    @cached_property
    def _headers(self) -> dict[str, bool]:
        return {}

    def is_external_header(self, name: str) -> bool:
        """Whether ``#include name`` is of CUDA's own toolkit or libraries."""
        known = self._headers
        if name not in known:
            known[name] = matches(name, self.external_headers) is not None
        return known[name]

    @cached_property
    def _bindings(self) -> dict[bytes, bool]:
        return {}

    def is_binding(self, name: bytes) -> bool:
        """Whether ``name`` is one that only a CUDA build puts into torch._C."""
        known = self._bindings
        if name not in known:
            known[name] = self.bindings.match(name.decode("utf-8", "replace")) is not None
        return known[name]

    @cached_property
    def _judgements(self) -> dict[str, tuple[str, str]]:
        return {}

    def judge(self, name: str) -> tuple[str, str]:
        """The category of a CUDA-named piece of code and the reason."""
        known = self._judgements
        if name not in known:
            rule = next((rule for rule in self.names if rule.pattern.fullmatch(name)), None)
            known[name] = (rule.category, rule.reason) if rule else ("mention", "a name of the core's own")
        return known[name]

    def module(self, origin: str) -> str:
        """The module of the design's table."""
        return next(module for prefix, module in self.modules if origin.startswith(prefix))

    def interesting(self, data: bytes) -> bool:
        """Whether a file can hold any finding at all; cheap."""
        lowered = data.lower()
        return any(word in lowered for word in self.prefilter)


def load(path: Path = DEFAULT, *, undefined: frozenset[str] = frozenset()) -> Taxonomy:
    """Read the data file. Raises UsageError naming what is missing or malformed; OSError."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        names = tuple(NameRule(JUDGEMENTS[e["judged"]], re.compile(e["pattern"]), e["reason"]) for e in data["name"])
        stays = tuple(_stay(entry) for entry in data["stays"])
        candidates = {*data["names"]["words"], *data["names"]["macro_words"]}
        return Taxonomy(
            prefilter=tuple(word.lower().encode() for word in data["prefilter"]),
            modules=tuple(sorted(data["modules"].items(), key=lambda item: -len(item[0]))),
            macros=tuple((entry["family"], tuple(entry["names"])) for entry in data["macro"]),
            external_headers=tuple(data["includes"]["external"]),
            words=_any_of(candidates),
            macro_words=_any_of({word for word in candidates if word == word.upper()}),
            name_words=re.compile("|".join(data["names"]["words"])),
            names=names,
            string_pattern=re.compile(data["strings"]["dispatch"]),
            bindings=re.compile(data["python"]["bindings"]),
            in_cpu_build=tuple(data["python"]["in_cpu_build"]),
            build_variables=re.compile(data["build"]["variables"]),
            stays=stays,
            undefined=undefined,
        )
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", next_step="fix the TOML syntax") from error
    except KeyError as error:
        raise UsageError(f"{path}: key {error} is missing or wrong", next_step="see its comments") from error
    except re.error as error:
        raise UsageError(f"{path}: pattern {error.pattern!r}: {error}", next_step="fix the pattern") from error


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Any of ``words``; those with one first letter stand together, so that a letter is compared once."""
    groups: dict[str, list[str]] = {}
    for word in sorted(words):
        groups.setdefault(word[0], []).append(re.escape(word[1:]))
    return re.compile("|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items()))


def _stay(entry: dict[str, Any]) -> StayRule:
    categories = tuple(entry.get("category", ()))
    wrong = [name for name in categories if name not in CATEGORIES]
    if wrong:
        raise UsageError(f"stays {entry.get('name')!r}: no category {wrong[0]!r}", next_step=f"one of {CATEGORIES}")
    return StayRule(
        name=entry["name"],
        categories=categories,
        symbols=tuple(entry.get("symbol", ())),
        paths=tuple(entry.get("path", ())),
        details=tuple(entry.get("detail", ())),
        reason=entry["reason"],
    )
