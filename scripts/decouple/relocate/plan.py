"""Plan the relocation of one tree.

Each file that moves has the rules that say so, each suspect that stays has why.
"""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.inventory.rules import Rule, RuleFile
from decouple.inventory.stage1 import compute_stage1_closure, is_hollow, list_stage1_units
from decouple.inventory.tree import HEADER_SUFFIXES, BuildLists, is_suspect, list_files
from decouple.syntax.globs import find_match
from decouple.syntax.include_graph import Edge, trace_chain

UNPLACED_REASON = "no rule places this CUDA file"
HOLLOW_REASON = "stage 1 compiles it, without CUDA nothing is in it, and its header moves: no library would have it"
HOLLOW_MEND = (
    "name it in taken_out of inventory/rules.toml, and let a recipe of series/recipes take it out of its source list"
)
HOLLOW = f"{HOLLOW_REASON}; {HOLLOW_MEND}"


class Move(Struct, frozen=True):
    """A move: ``origin`` becomes ``target``; ``rules`` agreed on it.

    Both paths are relative to the tree.
    """

    origin: str
    target: str
    rules: tuple[str, ...]


class Stay(Struct, frozen=True):
    """A suspect that stays: by which entry, and why.

    It has the include chain if stage 1 needs it.
    """

    path: str
    by: str
    reason: str
    chain: tuple[str, ...] = ()


class Plan(Struct, frozen=True):
    """The moves and stays of a tree; everything is sorted by path.

    `decouple relocate` prints it.
    """

    moves: tuple[Move, ...]
    stays: tuple[Stay, ...]
    idle: tuple[str, ...]
    """Rules and keeps that placed nothing in this tree: harmless, but a hint when a new release moved things."""
    units: frozenset[str]
    """The translation units of stage 1."""
    stage1: Mapping[str, Edge | None]
    """Every file that stage 1 compiles or includes, with the include that first reached it."""
    unplaced: tuple[str, ...] = ()
    """CUDA-looking files that no rule places or keeps; only where that was allowed."""
    hollow: tuple[str, ...] = ()
    """Units of stage 1 that a rule would move and in which nothing is left without CUDA: such a unit gives the core
    nothing, and no library has it unless it moves. ``taken_out`` of the rules says so."""

    @property
    def mapping(self) -> dict[str, str]:
        """Map each old path to the new one."""
        return {move.origin: move.target for move in self.moves}

    @property
    def open_questions(self) -> tuple[str, ...]:
        """Tell in a line of each file that the rules do not settle."""
        return (
            *(f"{path}: {UNPLACED_REASON}" for path in self.unplaced),
            *(f"{path}: {HOLLOW_REASON}" for path in self.hollow),
        )


def make_plan(tree: Path, rules: RuleFile, *, strict: bool = True) -> Plan:
    """Decide for every file of ``tree``.

    Unless ``strict``, a suspect that no rule places is listed, not an error.

    Raises DecoupleError naming the file when two rules disagree, when a suspect is placed by none, when two files
    would get one name, when one that moves would take the name of another (``strict``), or when a [[cut]] no longer
    stands in the tree.
    """
    files = list_files(tree, rules.scope.folders)
    lists = BuildLists(tree, files, rules)
    placed = _match_rules(files, lists, rules)
    units = list_stage1_units(files, lists, rules)
    reached = compute_stage1_closure(tree, files, units, rules)
    listed = lists.list_members((*rules.scope.bzl_lists, *rules.scope.cmake_lists))

    moves: list[Move] = []
    stays: list[Stay] = []
    unplaced: list[str] = []
    hollow: list[str] = []
    used: set[str] = set()
    for path in files:
        hits = placed.get(path, ())
        suspect = path in listed or is_suspect(path, rules)
        if not hits and not suspect:
            continue
        keep = next((keep for keep in rules.keeps if find_match(path, keep.match)), None)
        if path in reached:
            edges = tuple(trace_chain(reached, path))
            reason = "stage 1 compiles it" if len(edges) == 1 else f"stage 1 includes it through {edges[-2]}"
            used.update([keep.name] if keep else [])
            if len(edges) == 1 and hits and not keep and _is_hollow(tree, path, rules):
                hollow.append(path)
            stays.append(Stay(path, keep.name if keep else "stage-1", keep.reason if keep else reason, edges))
        elif keep:
            used.add(keep.name)
            stays.append(Stay(path, keep.name, keep.reason))
        elif hits:
            moves.append(_make_move(path, hits, rules))
            used.update(rule.name for rule in hits)
        else:
            unplaced.append(path)
    if unplaced and strict:
        more = f" and {len(unplaced) - 1} more" if len(unplaced) > 1 else ""
        raise DecoupleError(
            f"{unplaced[0]}{more}: unclassified CUDA file, no rule of inventory/rules.toml places or keeps it",
            next_step="add a [[rule]] or a [[keep]] with its reason; "
            f"`decouple relocate RELEASE --tree {shlex.quote(str(tree))} --unclassified` lists all",
        )
    _check_collisions(moves, files)
    if strict:
        _refuse_taken_names(tree, moves)
    idle = [rule.name for rule in rules.rules if rule.name not in used]
    idle += [keep.name for keep in rules.keeps if keep.name not in used]
    return Plan(tuple(moves), tuple(stays), tuple(idle), units, reached, tuple(unplaced), tuple(hollow))


def _is_hollow(tree: Path, path: str, rules: RuleFile) -> bool:
    return is_hollow((tree / path).read_text(encoding="utf-8", errors="replace"), rules)


def list_unclassified(tree: Path, rules: RuleFile) -> list[str]:
    """List the suspects of ``tree`` that nothing decides about.

    No rule places them, no keep covers them, and stage 1 does not need them.
    """
    files = list_files(tree, rules.scope.folders)
    lists = BuildLists(tree, files, rules)
    placed = _match_rules(files, lists, rules)
    listed = lists.list_members((*rules.scope.bzl_lists, *rules.scope.cmake_lists))
    reached = compute_stage1_closure(tree, files, list_stage1_units(files, lists, rules), rules)
    return [
        path
        for path in files
        if (path in listed or is_suspect(path, rules))
        and path not in placed
        and path not in reached
        and not any(find_match(path, keep.match) for keep in rules.keeps)
    ]


def plan_python_moves(names: Iterable[str], rules: RuleFile) -> tuple[list[Move], list[str]]:
    """Plan the moves of the Python files among ``names``.

    The second list has the CUDA-looking ones that no rule places or keeps.

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
            if path.startswith(rule.origin)
            and find_match(path, rule.match) is not None
            and rule.find_target(path) is not None
            and not find_match(path, rule.excluded)
        ]
        if any(find_match(path, keep.match) for keep in rules.keeps):
            continue
        if hits:
            moves.append(_make_move(path, hits, rules))
        elif is_suspect(path, rules):
            unplaced.append(path)
    return moves, unplaced


def _match_rules(files: Iterable[str], lists: BuildLists, rules: RuleFile) -> dict[str, list[Rule]]:
    members = {rule.name: lists.list_members(rule.lists) for rule in rules.rules if rule.lists}
    out: dict[str, list[Rule]] = {}
    present = frozenset(files)
    for rule in rules.rules:
        if rule.headers:
            members[rule.name] |= _find_headers(members[rule.name], present)
    for path in files:
        for rule in rules.rules:
            if not path.startswith(rule.origin):
                continue  # by far the most common, and far cheaper than a glob
            hit = path in members[rule.name] if rule.lists else find_match(path, rule.match) is not None
            if hit and rule.find_target(path) is not None and not find_match(path, rule.excluded):
                out.setdefault(path, []).append(rule)
    return out


def _find_headers(sources: Iterable[str], present: frozenset[str]) -> frozenset[str]:
    stems = {posixpath.splitext(path)[0] for path in sources}
    return frozenset(stem + suffix for stem in stems for suffix in HEADER_SUFFIXES if stem + suffix in present)


def _make_move(path: str, hits: list[Rule], rules: RuleFile) -> Move:
    targets = {rule.find_target(path): rule.name for rule in hits}
    if len(targets) > 1:
        choices = ", ".join(f"{name} says {target}" for target, name in sorted(targets.items(), key=str))
        raise DecoupleError(
            f"{path}: rules disagree where it goes ({choices})",
            next_step="narrow one of them in inventory/rules.toml with `except`",
        )
    (target,) = targets
    return Move(path, f"{rules.root}/{target}", tuple(rule.name for rule in hits))


def _check_collisions(moves: list[Move], files: list[str]) -> None:
    taken: dict[str, str] = {path: path for path in files}
    for move in moves:
        other = taken.get(move.target)
        if other is not None:
            raise DecoupleError(
                f"{move.origin} and {other} would both become {move.target}",
                next_step="give one of their rules another `to` in inventory/rules.toml",
            )
        taken[move.target] = move.origin


def _refuse_taken_names(tree: Path, moves: list[Move]) -> None:
    """Raise DecoupleError where upstream has a file that a move would make.

    Or one in the place of its folder.
    """
    for move in moves:
        folders = [str(folder) for folder in reversed(PurePosixPath(move.target).parents)]
        there = next((path for path in folders if (tree / path).is_file()), None)
        if there or os.path.lexists(tree / move.target):
            raise DecoupleError(
                f"{move.origin} would become {move.target}, and this release has {there or 'that'}",
                next_step="give its rule another `to` in inventory/rules.toml",
            )
