"""The rule file, ``rules.toml``: what is looked at, what moves where, what stays and why. Types here."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from decouple.base.errors import UsageError

DEFAULT = Path(__file__).with_name("rules.toml")
"""Relocation's data, which each generated patch names there; the types are here because the census reads it, too."""
KINDS = ("directory", "file-name", "suffix", "build-list")


@dataclass(frozen=True)
class Rule:
    """One way to recognise a file and the place it goes to."""

    name: str
    kind: str
    match: tuple[str, ...]
    """Globs on the path; empty for a rule that goes by build lists."""
    lists: tuple[str, ...]
    """Globs on the names of build lists."""
    headers: bool
    """Whether the header of the same name beside a listed source belongs to it."""
    excluded: tuple[str, ...]
    source: str
    target: str
    reason: str

    def place(self, path: str) -> str | None:
        """Where ``path`` goes, relative to the root of the moved files; None if it is not below ``from``."""
        try:
            rest = PurePosixPath(path).relative_to(self.source)
        except ValueError:
            return None
        return str(PurePosixPath(self.target) / rest)


@dataclass(frozen=True)
class Keep:
    """Files that stay although they look like CUDA's."""

    name: str
    match: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Cut:
    """Includes of ``header`` in core files that a later patch of the series takes out."""

    header: str
    included_by: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Scope:
    """What counts as CUDA-looking, and where to look."""

    folders: tuple[str, ...]
    words: tuple[str, ...]
    suffixes: tuple[str, ...]
    bzl: str
    bzl_lists: tuple[str, ...]
    cmake_files: tuple[str, ...]
    cmake_lists: tuple[str, ...]


@dataclass(frozen=True)
class Stage1:
    """What is known of the stage-1 build (``USE_CUDA=0``) without running it."""

    undefined: frozenset[str]
    include_folders: tuple[str, ...]
    bzl_lists: tuple[str, ...]
    cmake_lists: tuple[str, ...]
    globs: tuple[str, ...]


@dataclass(frozen=True)
class PatchHeader:
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


@dataclass(frozen=True)
class RuleFile:
    """All of ``rules.toml``."""

    root: str
    header_folders: tuple[str, ...]
    patch: PatchHeader
    scope: Scope
    stage1: Stage1
    rules: tuple[Rule, ...]
    keeps: tuple[Keep, ...]
    cuts: tuple[Cut, ...]


def load(path: Path = DEFAULT) -> RuleFile:
    """Read a rule file. Raises UsageError naming the key that is missing, unknown or of the wrong type; OSError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", next_step="fix the TOML syntax") from error
    top = _Table(data, str(path))
    if top.integer("schema") != 1:
        raise UsageError(f"{path}: schema is not 1", next_step="use the decouple version that wrote it")
    patch, scope, stage1 = top.table("patch"), top.table("scope"), top.table("stage1")
    out = RuleFile(
        root=top.text("root"),
        header_folders=top.texts("header_folders"),
        patch=PatchHeader(**{name: patch.text(name).strip("\n") for name in PatchHeader.__dataclass_fields__}),
        scope=Scope(
            folders=scope.texts("folders"),
            words=tuple(word.lower() for word in scope.texts("words")),
            suffixes=scope.texts("suffixes"),
            bzl=scope.text("bzl"),
            bzl_lists=scope.texts("bzl_lists"),
            cmake_files=scope.texts("cmake_files"),
            cmake_lists=scope.texts("cmake_lists"),
        ),
        stage1=Stage1(
            undefined=frozenset(stage1.texts("undefined")),
            include_folders=stage1.texts("include_folders"),
            bzl_lists=stage1.texts("bzl_lists"),
            cmake_lists=stage1.texts("cmake_lists"),
            globs=stage1.texts("globs"),
        ),
        rules=tuple(_rule(table) for table in top.tables("rule")),
        keeps=tuple(Keep(t.text("name"), t.texts("match"), t.text("reason")) for t in top.tables("keep")),
        cuts=tuple(Cut(t.text("header"), t.texts("included_by"), t.text("reason")) for t in top.tables("cut")),
    )
    names = [rule.name for rule in out.rules] + [keep.name for keep in out.keeps]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"{path}: {sorted(twice)[0]!r} names two rules", next_step="give each rule its own name")
    return out


def _rule(table: _Table) -> Rule:
    rule = Rule(
        name=table.text("name"),
        kind=table.text("kind"),
        match=table.texts("match", optional=True),
        lists=table.texts("lists", optional=True),
        headers=bool(table.data.get("headers", False)),
        excluded=table.texts("except", optional=True),
        source=table.text("from"),
        target=table.text("to"),
        reason=table.text("reason"),
    )
    if rule.kind not in KINDS:
        raise UsageError(
            f"{table.where}: kind {rule.kind!r} is none of {', '.join(KINDS)}", next_step="name one of these"
        )
    if bool(rule.lists) != (rule.kind == "build-list") or bool(rule.match) == bool(rule.lists):
        raise UsageError(
            f"{table.where}: rule {rule.name!r} needs `lists` if its kind is build-list, else `match`",
            next_step="give it the one, and not the other",
        )
    return rule


@dataclass(frozen=True)
class _Table:
    """A TOML table that knows where it stands, so that an error can name the key."""

    data: Mapping[str, Any]
    where: str

    def _get(self, key: str, kind: type, what: str) -> Any:
        value = self.data.get(key)
        if not isinstance(value, kind):
            raise UsageError(f"{self.where}: {key} must be {what}", next_step="see the comments in rules.toml")
        return value

    def text(self, key: str) -> str:
        return str(self._get(key, str, "a string"))

    def integer(self, key: str) -> int:
        return int(self._get(key, int, "a whole number"))

    def texts(self, key: str, *, optional: bool = False) -> tuple[str, ...]:
        if optional and key not in self.data:
            return ()
        value = self._get(key, list, "a list of strings")
        if not all(isinstance(item, str) for item in value):
            raise UsageError(f"{self.where}: {key} must be a list of strings", next_step="see rules.toml")
        return tuple(value)

    def table(self, key: str) -> _Table:
        return _Table(self._get(key, dict, "a table"), f"{self.where} [{key}]")

    def tables(self, key: str) -> list[_Table]:
        items = self.data.get(key, [])
        return [_Table(item, f"{self.where} [[{key}]] {item.get('name', number)}") for number, item in enumerate(items)]
