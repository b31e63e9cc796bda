"""What the census needs of a tree besides its text.

That is: which files relocation moves and which stage 1 needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from decouple.inventory.rules import RuleFile
from decouple.inventory.stage1 import compute_stage1_closure, list_stage1_units
from decouple.inventory.tree import HEADER_SUFFIXES, BuildLists, is_suspect, list_files, list_include_names
from decouple.syntax.globs import find_match
from decouple.syntax.include_graph import Edge


class ScannedTree(Struct, frozen=True):
    """One tree, before or after relocation.

    ``origins`` maps a moved file's new path to its old one; it is empty for a tree that is not relocated, in which
    ``targets`` (old to new) says what will move. Nothing will of the applied tree.
    """

    tree: Path
    rules: RuleFile
    targets: Mapping[str, str]
    origins: Mapping[str, str]
    stage1: Mapping[str, Edge | None]
    moved_headers: frozenset[str]
    membership: Mapping[str, str] = {}
    """Suspects of this tree (old path) and what makes them one: directory, file-name, suffix or build-list."""
    left: frozenset[str] = frozenset()
    """Files of the applied tree that the rules move and that stand at their old place."""

    def find_origin(self, path: str) -> str:
        """Return the path before relocation."""
        return self.origins.get(path, path)

    def find_keep_reason(self, origin: str) -> str | None:
        """Return why a file that is CUDA's by name stays, None when it does not.

        The reason is the rule's, or that stage 1 needs the file.
        """
        for keep in self.rules.keeps:
            if find_match(origin, keep.match):
                return keep.reason
        return "stage 1 compiles or includes it" if origin in self.stage1 else None

    def is_moved(self, path: str) -> bool:
        """Return whether relocation moves the file, or has moved it."""
        return path in self.targets or path in self.origins or path.startswith(self.rules.root + "/")

    def is_whole(self, path: str) -> bool:
        """Return whether the file as a whole is one that the rules move.

        It has moved, or will, or should have.
        """
        return path in self.left or self.is_moved(path)


def make_context(
    tree: Path,
    rules: RuleFile,
    moves: Mapping[str, str],
    stage1: Mapping[str, Edge | None] | None = None,
    *,
    applied: bool = False,
) -> ScannedTree:
    """Read what is needed of ``tree``.

    ``moves`` is the plan of the pristine tree, old path to new path. ``stage1`` is the plan's include closure, if
    ``tree`` is the tree it was made for; else it is computed. ``applied``: the series is on the tree, so what stands
    at its old place was not moved. Raises DecoupleError as the include closure does, OSError.
    """
    files = list_files(tree, rules.scope.folders)
    present = frozenset(files)
    moved_here = {new: old for old, new in moves.items() if (tree / new).exists()}
    lists = BuildLists(tree, [*files, *moves], rules)
    listed = lists.list_members((*rules.scope.bzl_lists, *rules.scope.cmake_lists))
    membership = {}
    for path in sorted(present | {old for new, old in moved_here.items()}):
        if path in listed or is_suspect(path, rules) or path in moves:
            membership[path] = _classify_file(path, path in listed, rules)
    headers = {
        name for old in moves if old.endswith(HEADER_SUFFIXES) for name in list_include_names(old, rules.header_folders)
    }
    if stage1 is None:
        stage1 = compute_stage1_closure(
            tree, files, list_stage1_units(files, BuildLists(tree, files, rules), rules), rules
        )
    return ScannedTree(
        tree=tree,
        rules=rules,
        targets={} if applied else {old: new for old, new in moves.items() if old in present},
        origins=moved_here,
        stage1=stage1,
        moved_headers=frozenset(headers),
        membership=membership,
        left=present.intersection(moves) if applied else frozenset(),
    )


def _classify_file(path: str, listed: bool, rules: RuleFile) -> str:
    """Return the first of four ways to see that a file is CUDA's."""
    for kind in ("directory", "suffix", "file-name"):
        if any(rule.kind == kind and rule.find_target(path) and find_match(path, rule.match) for rule in rules.rules):
            return kind
    if path.endswith(rules.scope.suffixes):
        return "suffix"
    if listed:
        return "build-list"
    return "file-name" if is_suspect(path, rules) else "build-list"
