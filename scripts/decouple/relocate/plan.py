"""The relocation plan of one tree: each file that moves with the rules that say so, each suspect that stays and why."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.relocate.rules import Rule, RuleFile
from decouple.source.build_lists import CMakeLists, read_bzl
from decouple.source.conditions import Macros
from decouple.source.globs import matches
from decouple.source.include_graph import Edge, IncludeGraph, chain

SOURCE_SUFFIXES = (".c", ".cc", ".cpp", ".cu", ".hip", ".mm", ".m")
HEADER_SUFFIXES = (".h", ".hpp", ".cuh")


@dataclass(frozen=True)
class Move:
    """``source`` becomes ``target`` (both relative to the tree); ``rules`` agreed on it."""

    source: str
    target: str
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Stay:
    """A suspect that stays: by which entry, why, and the include chain if stage 1 needs it."""

    path: str
    by: str
    reason: str
    chain: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What `decouple relocate` prints; everything sorted by path."""

    moves: tuple[Move, ...]
    stays: tuple[Stay, ...]
    idle: tuple[str, ...]
    """Rules and keeps that placed nothing in this tree: harmless, but a hint when a new release moved things."""
    units: frozenset[str]
    """The translation units of stage 1."""
    stage1: Mapping[str, Edge | None]
    """Every file that stage 1 compiles or includes, with the include that first reached it."""

    @property
    def mapping(self) -> dict[str, str]:
        """Old path to new path."""
        return {move.source: move.target for move in self.moves}


def list_files(tree: Path, folders: Iterable[str]) -> list[str]:
    """The files below ``folders`` of ``tree`` as sorted POSIX paths. Byte-compiled Python and ``.git`` are no sources.

    Raises DecoupleError when none of the folders is there (not a PyTorch tree).
    """
    out: list[str] = []
    for folder in folders:
        for here, names, files in os.walk(tree / folder):
            names[:] = [name for name in names if name not in (".git", "__pycache__")]
            relative = Path(here).relative_to(tree).as_posix()
            out.extend(f"{relative}/{name}" for name in files)
    if not out:
        raise DecoupleError(f"{tree}: holds none of {', '.join(folders)}", next_step="give the root of a PyTorch tree")
    return sorted(out)


class BuildLists:
    """The source lists of one tree, by name, from ``build_variables.bzl`` and the CMake files the rules name."""

    def __init__(self, tree: Path, files: Iterable[str], rules: RuleFile) -> None:
        present = frozenset(files)
        bzl_path = tree / rules.scope.bzl
        self._bzl = read_bzl(bzl_path) if bzl_path.exists() else {}
        cmake_files = [name for name in rules.scope.cmake_files if (tree / name).exists()]
        self._cmake = CMakeLists(tree, cmake_files, present, self._bzl)
        self._present = present

    def members(self, names: Iterable[str]) -> frozenset[str]:
        """The files of the tree that any list with a name like ``names`` holds."""
        patterns = tuple(names)
        out: set[str] = set()
        for name, paths in self._bzl.items():
            if matches(name, patterns):
                out.update(path for path in paths if path in self._present)
        for name in self._cmake.variables():
            if matches(name, patterns):
                out.update(self._cmake.get(name))
        return frozenset(out)


def make_plan(tree: Path, rules: RuleFile) -> Plan:
    """Decide for every file of ``tree``.

    Raises DecoupleError naming the file when two rules disagree, when a suspect is placed by none, when two files
    would get one name, or when a [[cut]] no longer stands in the tree.
    """
    files = list_files(tree, rules.scope.folders)
    lists = BuildLists(tree, files, rules)
    placed = _place_all(files, lists, rules)
    units = stage1_units(files, lists, rules)
    reached = _closure(tree, files, units, rules)
    listed = lists.members((*rules.scope.bzl_lists, *rules.scope.cmake_lists))

    moves: list[Move] = []
    stays: list[Stay] = []
    unplaced: list[str] = []
    used: set[str] = set()
    for path in files:
        hits = placed.get(path, ())
        suspect = path in listed or is_suspect(path, rules)
        if not hits and not suspect:
            continue
        keep = next((keep for keep in rules.keeps if matches(path, keep.match)), None)
        if path in reached:
            edges = tuple(chain(reached, path))
            reason = "stage 1 compiles it" if len(edges) == 1 else f"stage 1 includes it through {edges[-2]}"
            used.update([keep.name] if keep else [])
            stays.append(Stay(path, keep.name if keep else "stage-1", keep.reason if keep else reason, edges))
        elif keep:
            used.add(keep.name)
            stays.append(Stay(path, keep.name, keep.reason))
        elif hits:
            moves.append(_agreed(path, hits, rules))
            used.update(rule.name for rule in hits)
        else:
            unplaced.append(path)
    if unplaced:
        more = f" and {len(unplaced) - 1} more" if len(unplaced) > 1 else ""
        raise DecoupleError(
            f"{unplaced[0]}{more}: unclassified CUDA file, no rule of relocate/rules.toml places or keeps it",
            next_step="add a [[rule]] or a [[keep]] with its reason; `decouple relocate --unclassified` lists all",
        )
    _no_collision(moves, files)
    idle = [rule.name for rule in rules.rules if rule.name not in used]
    idle += [keep.name for keep in rules.keeps if keep.name not in used]
    return Plan(tuple(moves), tuple(stays), tuple(idle), units, reached)


def unclassified(tree: Path, rules: RuleFile) -> list[str]:
    """The suspects of ``tree`` that no rule places, no keep covers and stage 1 does not need."""
    files = list_files(tree, rules.scope.folders)
    lists = BuildLists(tree, files, rules)
    placed = _place_all(files, lists, rules)
    listed = lists.members((*rules.scope.bzl_lists, *rules.scope.cmake_lists))
    reached = stage1_closure(tree, files, lists, rules)
    return [
        path
        for path in files
        if (path in listed or is_suspect(path, rules))
        and path not in placed
        and path not in reached
        and not any(matches(path, keep.match) for keep in rules.keeps)
    ]


def python_moves(names: Iterable[str], rules: RuleFile) -> tuple[list[Move], list[str]]:
    """The moves of the Python files among ``names``, and the CUDA-looking ones that no rule places or keeps.

    That much can be told from names alone, as an official wheel has them: no build list names a Python file, and no
    translation unit includes one. Raises DecoupleError when two rules disagree.
    """
    moves, unplaced = [], []
    for path in sorted(name for name in names if name.endswith((".py", ".pyi"))):
        if not path.startswith(tuple(f"{folder}/" for folder in rules.scope.folders)):
            continue
        hits = [
            rule
            for rule in rules.rules
            if matches(path, rule.match) is not None
            and rule.place(path) is not None
            and not matches(path, rule.excluded)
        ]
        if any(matches(path, keep.match) for keep in rules.keeps):
            continue
        if hits:
            moves.append(_agreed(path, hits, rules))
        elif is_suspect(path, rules):
            unplaced.append(path)
    return moves, unplaced


def is_suspect(path: str, rules: RuleFile) -> bool:
    """Whether the path alone looks like CUDA's."""
    lowered = f"/{path.lower()}"
    return any(word in lowered for word in rules.scope.words) or path.endswith(rules.scope.suffixes)


def stage1_units(files: Iterable[str], lists: BuildLists, rules: RuleFile) -> frozenset[str]:
    """What stage 1 may compile, as the build files say (a superset of any one configuration)."""
    known = rules.stage1
    out = {path for path in files if matches(path, known.globs)}
    out.update(path for path in lists.members((*known.bzl_lists, *known.cmake_lists)))
    return frozenset(out)


def _place_all(files: Iterable[str], lists: BuildLists, rules: RuleFile) -> dict[str, list[Rule]]:
    members = {rule.name: lists.members(rule.lists) for rule in rules.rules if rule.lists}
    out: dict[str, list[Rule]] = {}
    present = frozenset(files)
    for rule in rules.rules:
        if rule.headers:
            members[rule.name] |= _headers_beside(members[rule.name], present)
    for path in files:
        for rule in rules.rules:
            if not path.startswith(rule.source):
                continue  # by far the most common, and far cheaper than a glob
            hit = path in members[rule.name] if rule.lists else matches(path, rule.match) is not None
            if hit and rule.place(path) is not None and not matches(path, rule.excluded):
                out.setdefault(path, []).append(rule)
    return out


def _headers_beside(sources: Iterable[str], present: frozenset[str]) -> frozenset[str]:
    stems = {posixpath.splitext(path)[0] for path in sources}
    return frozenset(stem + suffix for stem in stems for suffix in HEADER_SUFFIXES if stem + suffix in present)


def include_names(path: str, folders: Iterable[str]) -> list[str]:
    """The names by which ``#include`` reaches ``path`` through the ``-I`` folders ("." is the tree itself)."""
    names = (path if folder == "." else posixpath.relpath(path, folder) for folder in folders)
    return [name for name in names if not name.startswith("../")]


def stage1_closure(tree: Path, files: Iterable[str], lists: BuildLists, rules: RuleFile) -> Mapping[str, Edge | None]:
    """Every file that stage 1 compiles or includes in ``tree``, with the include that first reached it.

    Raises DecoupleError when a [[cut]] of the rules no longer stands in a tree that still has its header.
    """
    files = list(files)
    return _closure(tree, files, stage1_units(files, lists, rules), rules)


def _closure(tree: Path, files: list[str], units: frozenset[str], rules: RuleFile) -> Mapping[str, Edge | None]:
    macros = Macros(undefined=rules.stage1.undefined)
    present = frozenset(files)
    cut: set[tuple[str, str]] = set()
    graph = IncludeGraph(tree, files, rules.stage1.include_folders, macros)
    for entry in rules.cuts:
        if entry.header not in present:
            continue  # another release, or a tree that is relocated already
        for source in entry.included_by:
            if source not in present or not any(edge.target == entry.header for edge in graph.edges(source)):
                raise DecoupleError(
                    f"{source} does not include {entry.header}: the [[cut]] in relocate/rules.toml is out of date",
                    next_step="remove that entry",
                )
            cut.add((source, entry.header))
    return graph.closure(units, without=cut)


def _agreed(path: str, hits: list[Rule], rules: RuleFile) -> Move:
    targets = {rule.place(path): rule.name for rule in hits}
    if len(targets) > 1:
        told = ", ".join(f"{name} says {target}" for target, name in sorted(targets.items(), key=str))
        raise DecoupleError(
            f"{path}: rules disagree where it goes ({told})",
            next_step="narrow one of them in relocate/rules.toml with `except`",
        )
    (target,) = targets
    return Move(path, f"{rules.root}/{target}", tuple(rule.name for rule in hits))


def _no_collision(moves: list[Move], files: list[str]) -> None:
    taken: dict[str, str] = {path: path for path in files}
    for move in moves:
        other = taken.get(move.target)
        if other is not None:
            raise DecoupleError(
                f"{move.source} and {other} would both become {move.target}",
                next_step="give one of their rules another `to` in relocate/rules.toml",
            )
        taken[move.target] = move.source
