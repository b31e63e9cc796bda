"""Count what CUDA sources ask of a vendor whose device takes the CUDA key.

Names are counted by family, files by what they need. The families are data (``reuse.toml``). A vendor's names come from
a TOML file of its own::

    missing = ["cusparseSpSM_solve"]          # this platform has nothing for it
    [prefix]                                  # the longest prefix that fits; upper case for constants
    cuda = "acme"
    CUDNN_ = "ACDNN_"
    [name]                                    # one by one, before any prefix
    cudaDeviceProp = "acmeProperties"

What no table names is open. Patterns cannot tell a library's names from PyTorch's own look-alikes; with the headers of
the toolkit at hand (``declared``) only names that they hold count as the library's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.syntax.preprocessor import split_strings

_FILE = Path(__file__).with_name("reuse.toml")
Kind = Literal["framework", "library", "device", "hand"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""From what is least work to most; a file is as hard as its hardest name."""
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"][^\n]*", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")


class Family(Struct, frozen=True):
    """Names that come from one place."""

    name: str
    kind: Kind
    library: str
    pattern: re.Pattern[str]


class SoughtText(Struct, frozen=True):
    """What is looked for in strings."""

    name: str
    pattern: re.Pattern[str]


class Families(Struct, frozen=True, rename={"families": "family", "texts": "text"}):
    """All of ``reuse.toml``."""

    suffixes: tuple[str, ...]
    headers: re.Pattern[str]
    families: tuple[Family, ...]
    texts: tuple[SoughtText, ...] = ()


class VendorNames(Struct, frozen=True, rename={"names": "name", "prefixes": "prefix"}):
    """A vendor's names for those of the original libraries, as its own file has them."""

    names: Mapping[str, str] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()

    def find_name(self, name: str) -> str | None:
        """Return the vendor's name, or None where it has or names none."""
        if name in self.missing:
            return None
        if name in self.names:
            return self.names[name]
        fitting = max((prefix for prefix in self.prefixes if name.startswith(prefix)), key=len, default=None)
        return None if fitting is None else self.prefixes[fitting] + name.removeprefix(fitting)


class ReuseReport(Struct):
    """What was counted.

    ``uses`` is family -> name -> how often; ``holders`` family -> files that use it.
    """

    families: Families
    uses: dict[str, Counter[str]]
    holders: dict[str, set[str]]
    files: dict[str, tuple[str, int]]
    """File -> (the hardest kind of name in it, its lines of code); kind "" for a file that names nothing."""
    headers: Counter[str]
    """Toolkit header -> files that include it."""
    texts: dict[str, set[str]]

    def count_library_names(self) -> Counter[str]:
        """Return every name of a library with its uses: what a mapping must cover."""
        total: Counter[str] = Counter()
        for family in self.families.families:
            if family.kind == "library":
                total.update(self.uses[family.name])
        return total

    def count_by_kind(self) -> dict[str, tuple[int, int]]:
        """Hardest kind -> (files, lines of code)."""
        made = dict.fromkeys(("", *KINDS), (0, 0))
        for kind, lines in self.files.values():
            made[kind] = (made[kind][0] + 1, made[kind][1] + lines)
        return made

    def list_open_names(self, names: VendorNames) -> list[tuple[str, int]]:
        """Names of libraries that the vendor's tables give no name for, most used first."""
        unnamed = [(name, uses) for name, uses in self.count_library_names().items() if names.find_name(name) is None]
        return sorted(unnamed, key=lambda item: (-item[1], item[0]))


#: What may stand before a name of each kind. A library's may be written from the global namespace, too, and an
#: enumerator behind its type; the name of a namespace before it makes it somebody else's.
_BEFORE = dict.fromkeys(KINDS, r"(?<![\w:])") | {"library": r"(?:(?<![\w:])|(?<=[^\w:>]::))"}


def load_families() -> Families:
    """Read ``reuse.toml``; patterns match whole words.

    Raises DecoupleError naming the key that is wrong, OSError.
    """
    file = toml.read_own_table(_FILE, Families, schema=None)
    words = (re.compile(rf"{_BEFORE[family.kind]}(?:{family.pattern.pattern})\b") for family in file.families)
    families = (replace(family, pattern=word) for family, word in zip(file.families, words, strict=True))
    return replace(file, families=tuple(families))


def load_names(path: Path) -> VendorNames:
    """Read a vendor's names. Raises OSError, DecoupleError for a wrong key or type."""
    return toml.read_toml(path, VendorNames, mend="`decouple stages reuse --help` shows such a file", schema=None)


def read_declared_words(folders: Iterable[Path], headers: re.Pattern[str]) -> frozenset[str]:
    """Return every identifier in the toolkit headers below ``folders``.

    The headers are those of ``headers``. Raises DecoupleError if there is none, OSError.
    """
    words: set[str] = set()
    for folder in folders:
        for path in folder.rglob("*.h*"):
            if path.is_file() and headers.fullmatch(path.relative_to(folder).as_posix()):
                words.update(_WORD.findall(path.read_text(encoding="utf-8", errors="replace")))
    if not words:
        raise DecoupleError(
            f"no toolkit header below {', '.join(map(str, folders))}", next_step="give the folder of cuda_runtime.h"
        )
    return frozenset(words)


def count_names(
    tree: Path,
    paths: Iterable[str],
    families: Families,
    *,
    declared: frozenset[str] | None = None,
    on_file: Callable[[], None] = lambda: None,
) -> ReuseReport:
    """Count the names in ``paths`` of ``tree``, those that are no C++ left out.

    ``declared`` are the words of the toolkit's headers; a library's name outside them is PyTorch's own then.

    Raises OSError.
    """
    made = ReuseReport(
        families,
        {family.name: Counter() for family in families.families},
        {family.name: set() for family in families.families},
        {},
        Counter(),
        {text.name: set() for text in families.texts},
    )
    for path in sorted(paths):
        if path.endswith(families.suffixes):
            _count_file(path, (tree / path).read_text(encoding="utf-8", errors="replace"), declared, made)
        on_file()
    return made


def _count_file(path: str, text: str, declared: frozenset[str] | None, into: ReuseReport) -> None:
    code, strings = split_strings(text)
    for name in set(_INCLUDE.findall(text)):
        if into.families.headers.fullmatch(name):
            into.headers[name] += 1
    for sought in into.families.texts:
        if any(sought.pattern.search(string) for _, string in strings):
            into.texts[sought.name].add(path)
    lines = sum(1 for line in code.splitlines() if line.strip())
    code = _INCLUDE.sub("", code)
    hardest = -1
    for family in into.families.families:
        taken: list[str] = []

        def take_word(match: re.Match[str], family: Family = family, taken: list[str] = taken) -> str:
            word = match.group()
            if family.kind == "library" and declared is not None and not set(word.split("::")) & declared:
                return word
            taken.append(word)
            return " " * len(word)

        before = None
        while code != before:  # what stands behind a type of the same library is seen once that is blank
            before, code = code, family.pattern.sub(take_word, code)
        if taken:
            into.uses[family.name].update(taken)
            into.holders[family.name].add(path)
            hardest = max(hardest, KINDS.index(family.kind))
    into.files[path] = ("" if hardest < 0 else KINDS[hardest], lines)


def format_header(report: ReuseReport, names: VendorNames, source: str) -> str:
    """Format a C header that gives a library's used names the vendor's names.

    It has those that ``names`` knows. To be included before any source (``-include``) where the vendor's headers take
    the place of the toolkit's.
    """
    lines = [f"// The names that {source} uses, for this platform. Written by `decouple stages reuse`.", "#pragma once"]
    for name in sorted(report.count_library_names()):
        theirs = names.find_name(name)
        if theirs is None:
            lines.append(f"// open: {name}")
        elif theirs != name and "::" not in name:
            lines.append(f"#define {name} {theirs}")
    return "\n".join(lines) + "\n"
