"""Find what stage 1 (``USE_CUDA=0``) compiles and includes.

It is told from the build files and the include lines of one tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.inventory.rules import RuleFile
from decouple.inventory.tree import BuildLists
from decouple.syntax.conditions import Macros
from decouple.syntax.globs import find_match
from decouple.syntax.include_graph import Edge, IncludeGraph
from decouple.syntax.preprocessor import blank_comments, find_branches, is_live, parse_directives

_CODE = re.compile(r"\s*[^#\s]")
"""A line that is neither blank nor a directive."""


def list_stage1_units(files: Iterable[str], lists: BuildLists, rules: RuleFile) -> frozenset[str]:
    """List what stage 1 may compile with the series, as the build files say.

    It is a superset of any one configuration.
    """
    known = rules.stage1
    out = {path for path in files if find_match(path, known.globs)}
    out.update(path for path in lists.list_members((*known.bzl_lists, *known.cmake_lists)))
    return frozenset(out.difference(known.taken_out))


def is_hollow(text: str, rules: RuleFile) -> bool:
    """Say whether stage 1 compiles no code of a translation unit.

    Then all of it stands in branches that stage 1 leaves out.
    """
    macros = Macros(undefined=rules.stage1.undefined)
    lines = blank_comments(text).split("\n")
    code = {number for number, line in enumerate(lines, start=1) if _CODE.match(line)}
    dead: set[int] = set()
    for branch in find_branches(list(parse_directives(text)), len(lines)):
        if is_live(branch, macros) is False:
            dead.update(range(branch.line, branch.end))
    return bool(code) and code <= dead


def compute_stage1_closure(
    tree: Path, files: Iterable[str], units: Iterable[str], rules: RuleFile
) -> Mapping[str, Edge | None]:
    """Map each file that stage 1 compiles or includes to the include that reached it.

    ``units`` are what it compiles; only ``files`` count, and the include is the first that reached one.

    Raises DecoupleError when a [[cut]] of the rules no longer stands in a tree that still has its header.
    """
    files = tuple(files)
    macros = Macros(undefined=rules.stage1.undefined)
    present = frozenset(files)
    cut: set[tuple[str, str]] = set()
    graph = IncludeGraph(tree, files, rules.stage1.include_folders, macros)
    for entry in rules.cuts:
        if entry.header not in present:
            continue  # another release, or a tree that is relocated already
        for source in entry.included_by:
            if source not in present or not any(edge.target == entry.header for edge in graph.read_edges(source)):
                if entry.later:
                    continue
                raise DecoupleError(
                    f"{source} does not include {entry.header}: the [[cut]] in inventory/rules.toml is out of date",
                    next_step="remove that entry",
                )
            cut.add((source, entry.header))
    return graph.compute_closure(units, without=cut)
