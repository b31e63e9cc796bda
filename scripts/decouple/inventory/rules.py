"""``rules.toml`` as types: what is read, what moves where, what stays and why."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Literal

from msgspec import Struct

from decouple.base import toml

DEFAULT = Path(__file__).with_name("rules.toml")
"""Relocation's data, which each generated patch names there; the types are here because the census reads it, too."""


class Rule(Struct, frozen=True, rename={"origin": "from", "target": "to", "excluded": "except"}):
    """A way to recognise a file, and the place it goes to."""

    name: str
    kind: Literal["directory", "file-name", "suffix", "build-list"]
    origin: str
    target: str
    reason: str
    match: tuple[str, ...] = ()
    """Globs on the path; empty for a rule that goes by build lists."""
    lists: tuple[str, ...] = ()
    """Globs on the names of build lists."""
    headers: bool = False
    """Whether the header of the same name beside a listed source belongs to it."""
    excluded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.lists) != (self.kind == "build-list") or bool(self.match) == bool(self.lists):
            raise ValueError(f"rule {self.name!r} needs `lists` if its kind is build-list, else `match`")

    def find_target(self, path: str) -> str | None:
        """Return where ``path`` goes, relative to the root of the moved files.

        Returns None if it is not below ``from``.
        """
        try:
            rest = PurePosixPath(path).relative_to(self.origin)
        except ValueError:
            return None
        return str(PurePosixPath(self.target) / rest)


class Keep(Struct, frozen=True):
    """Files that stay although they look like CUDA's."""

    name: str
    match: tuple[str, ...]
    reason: str


class Cut(Struct, frozen=True):
    """Includes of ``header`` in core files that a later patch of the series takes out."""

    header: str
    included_by: tuple[str, ...]
    reason: str
    later: bool = False
    """Only a later release has these includes; another is none the worse."""


class Scope(Struct, frozen=True):
    """The files that look like CUDA's, and where to look."""

    folders: tuple[str, ...]
    words: tuple[str, ...]
    suffixes: tuple[str, ...]
    bzl: str
    bzl_lists: tuple[str, ...]
    cmake_files: tuple[str, ...]
    cmake_lists: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.words != tuple(word.lower() for word in self.words):
            raise ValueError("words are written in lower case")


class Stage1Sources(Struct, frozen=True):
    """The stage-1 build (``USE_CUDA=0``) as far as it is known without running it."""

    undefined: frozenset[str]
    include_folders: tuple[str, ...]
    bzl_lists: tuple[str, ...]
    cmake_lists: tuple[str, ...]
    globs: tuple[str, ...]
    taken_out: tuple[str, ...] = ()
    """Units that a patch of the series takes out of these lists."""


class PatchHeader(Struct, frozen=True):
    """The fixed values of the generated patch's header."""

    decouple_id: str
    subject: str
    author: str
    date: str
    forwarded: str
    verify: str
    drop_when: str
    description: str
    python_subject: str
    python_description: str
    """With ``{wheel}``; this and the next for a patch that is known for the Python files of a wheel only."""
    python_verify: str


class RuleFile(Struct, frozen=True, rename={"rules": "rule", "keeps": "keep", "cuts": "cut"}):
    """The whole of ``rules.toml``."""

    root: str
    header_folders: tuple[str, ...]
    patch: PatchHeader
    scope: Scope
    stage1: Stage1Sources
    rules: tuple[Rule, ...] = ()
    keeps: tuple[Keep, ...] = ()
    cuts: tuple[Cut, ...] = ()

    def __post_init__(self) -> None:
        names = [*(rule.name for rule in self.rules), *(keep.name for keep in self.keeps)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{twice[0]!r} names two rules")


def load_rules(path: Path = DEFAULT) -> RuleFile:
    """Load a rule file.

    Raises DecoupleError naming the key that is missing, unknown or of the wrong type; OSError.
    """
    return toml.read_toml(path, RuleFile, mend="see the comments in rules.toml")
