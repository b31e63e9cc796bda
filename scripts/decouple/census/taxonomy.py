"""The data files of the census: what to find, how to judge it, why it stays.

There is one for each vendor. CUDA's is ``taxonomy.toml``; ``taxonomy-rocm.toml`` stands beside it, with the same keys.
The types are here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from decouple.base import toml
from decouple.census.finding import CATEGORIES, RawFinding
from decouple.syntax.conditions import Macros
from decouple.syntax.globs import find_fixed_text, find_match

DEFAULT = Path(__file__).with_name("taxonomy.toml")
DATA = {"cuda": DEFAULT, "rocm": Path(__file__).with_name("taxonomy-rocm.toml")}
"""The data file of each vendor. CUDA is first: it is what the series cuts."""
Word = Annotated[str, Meta(min_length=1)]
"""What is looked for in text; an empty one would be found everywhere."""
JUDGEMENTS = {"dispatch": "dispatch", "coupling": "name", "mention": "mention"}


class NameRule(Struct, frozen=True):
    """How a piece of code that is named for the vendor is judged."""

    judged: Literal["dispatch", "coupling", "mention"]
    pattern: re.Pattern[str]
    reason: str

    @property
    def category(self) -> str:
        """The category of a finding that this rule judges."""
        return JUDGEMENTS[self.judged]


class StayRule(Struct, frozen=True):
    """Why a finding that relocation does not move stays."""

    name: str
    reason: str
    category: tuple[str, ...] = ()
    symbol: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    detail: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if unknown := [name for name in self.category if name not in CATEGORIES]:
            raise ValueError(f"stays {self.name!r}: no category {unknown[0]!r}, one of {CATEGORIES}")

    def covers(self, raw: RawFinding, origin: str) -> bool:
        """Return whether each condition that the rule has holds.

        ``symbol`` must match every macro of a conditional.
        """
        return (
            (not self.category or raw.category in self.category)
            and (not self.symbol or all(find_match(symbol, self.symbol) for symbol in raw.symbol.split("+")))
            and (not self.path or find_match(origin, self.path) is not None)
            and (not self.detail or any(detail in raw.detail for detail in self.detail))
        )


class Taxonomy(Struct, frozen=True, dict=True):
    """All of one vendor's file, patterns compiled."""

    vendor: str
    """The word of the vendor, as ``decouple census --vendor`` takes it."""
    title: str
    compiler: str
    """The vendor's compiler of device code, which sets macros by itself."""
    files: tuple[str, ...]
    """Paths that are the vendor's as a whole; none for CUDA, whose files are those of the relocation rules."""
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
    def without_device_compiler(self) -> Macros:
        """The macros of a compiler that compiles no device code.

        Of ``undefined``, those that a compiler sets by itself.
        """
        return Macros(undefined=frozenset(name for name in self.undefined if name.startswith("__")))

    @cached_property
    def macro_family(self) -> Callable[[str], str | None]:
        """Of a macro: build, compiler, export or version; None when it is not watched."""
        return cache(lambda name: next((family for family, names in self.macros if find_match(name, names)), None))

    @cached_property
    def is_external_header(self) -> Callable[[str], bool]:
        """Whether ``#include name`` is of the vendor's own toolkit or libraries."""
        return cache(lambda name: find_match(name, self.external_headers) is not None)

    @cached_property
    def is_binding(self) -> Callable[[bytes], bool]:
        """Whether a name is one that only the vendor's build puts into torch._C."""
        return cache(lambda name: self.bindings.match(name.decode("utf-8", "replace")) is not None)

    @cached_property
    def judge(self) -> Callable[[str], tuple[str, str]]:
        """The category of a piece of code that is named for the vendor, and the reason."""
        return cache(self._judge_name)

    def _judge_name(self, name: str) -> tuple[str, str]:
        rules = (rule for rule in self.names if rule.pattern.fullmatch(name))
        return next(((rule.category, rule.reason) for rule in rules), ("mention", "a name of the core's own"))

    def find_module(self, origin: str) -> str:
        """Return the row of the tables that the file counts in."""
        return next(module for prefix, module in self.modules if origin.startswith(prefix))

    def may_hold_finding(self, data: bytes) -> bool:
        """Return whether a file can hold any finding at all; cheap."""
        lowered = data.lower()
        return any(word in lowered for word in self.prefilter)


class MacroFamily(Struct, frozen=True):
    """Macros that are judged alike."""

    family: Literal["build", "compiler", "export", "version"]
    names: tuple[Word, ...]


class _Includes(Struct, frozen=True):
    external: tuple[str, ...]


class _Names(Struct, frozen=True):
    words: Annotated[tuple[Word, ...], Meta(min_length=1)]
    macro_words: tuple[Word, ...] = ()
    pattern: re.Pattern[str] | None = None
    """What of the words' finds is the vendor's; None: all. "hip" also stands in "relationship"."""


class _Strings(Struct, frozen=True):
    dispatch: re.Pattern[str]


class _Python(Struct, frozen=True):
    bindings: re.Pattern[str]
    in_cpu_build: tuple[str, ...]


class _Build(Struct, frozen=True):
    variables: re.Pattern[str]


class _TaxonomyTable(Struct, frozen=True):
    """The keys of the file, which explains them."""

    vendor: str
    title: str
    compiler: str
    prefilter: tuple[Word, ...]
    macro: tuple[MacroFamily, ...]
    includes: _Includes
    names: _Names
    name: tuple[NameRule, ...]
    strings: _Strings
    python: _Python
    build: _Build
    stays: tuple[StayRule, ...]
    modules: Mapping[str, str] = {}
    """Rows of the tables; one vendor's stand for all."""
    files: tuple[str, ...] = ()


def load_taxonomy(path: Path = DEFAULT, *, undefined: frozenset[str] = frozenset()) -> Taxonomy:
    """Read the data file.

    Raises DecoupleError naming the key that is missing or malformed; OSError.
    """
    file = toml.read_toml(path, _TaxonomyTable, mend="see its comments")
    modules = file.modules or toml.read_toml(DEFAULT, _TaxonomyTable, mend="see its comments").modules
    candidates = {*file.names.words, *file.names.macro_words}
    macros = {find_fixed_text(name) for macro in file.macro for name in macro.names}
    return Taxonomy(
        vendor=file.vendor,
        title=file.title,
        compiler=file.compiler,
        files=file.files,
        prefilter=complete_prefilter(file.prefilter, {*candidates, *macros}),
        modules=tuple(sorted(modules.items(), key=lambda item: -len(item[0]))),
        macros=tuple((macro.family, macro.names) for macro in file.macro),
        external_headers=file.includes.external,
        words=join_words(candidates),
        macro_words=join_words({word for word in candidates if word == word.upper()}),
        name_words=file.names.pattern or join_words(file.names.words),
        names=file.name,
        string_pattern=file.strings.dispatch,
        bindings=file.python.bindings,
        in_cpu_build=file.python.in_cpu_build,
        build_variables=file.build.variables,
        stays=file.stays,
        undefined=undefined,
    )


def complete_prefilter(prefilter: Iterable[str], wanted: Iterable[str]) -> tuple[bytes, ...]:
    """Return the prefilter's words in lower case, with what ``wanted`` needs.

    Added are those of ``wanted`` in which none of the words stands. Else a file that only has such a word would not be
    read.
    """
    words = [word.lower() for word in prefilter]
    more = {text.lower() for text in wanted if text}
    words += sorted(text for text in more if not any(word in text for word in words))
    return tuple(word.encode() for word in words)


def join_words(words: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches any of ``words``.

    Those with one first letter stand together, so that a letter is compared once. Of no words, one that matches
    nothing.
    """
    groups: dict[str, list[str]] = {}
    for word in sorted(words):
        groups.setdefault(word[0], []).append(re.escape(word[1:]))
    if not groups:
        return re.compile("(?!)")  # matches nothing
    return re.compile("|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items()))
