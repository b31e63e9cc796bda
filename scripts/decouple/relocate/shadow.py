"""The include names that a move breaks, and the links that mend them without changing a line.

Stage 2 puts one folder of links in front of its include path: ``ATen/cuda -> csrc/aten/cuda`` and so on, so that
``#include <ATen/cuda/CUDAContext.h>`` opens the moved file. A directory is linked as a whole where everything in it
moved to one place and nothing stays; else its files are linked one by one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from decouple.relocate.plan import HEADER_SUFFIXES, Plan, include_names


@dataclass(frozen=True)
class Link:
    """``name`` below the shadow folder points to ``target`` (relative to the tree)."""

    name: str
    target: str
    directory: bool


def links(plan: Plan, staying: frozenset[str], include_folders: Sequence[str]) -> list[Link]:
    """The links for all moved headers, sorted by name.

    ``staying`` are the tree's files that do not move; ``include_folders`` the ``-I`` folders of upstream's build
    relative to the tree ("." for the tree itself).
    """
    kept_folders = {folder for path in staying for folder in _parents(path)}
    out: dict[str, Link] = {}
    for move in plan.moves:
        if not move.source.endswith((*HEADER_SUFFIXES, ".h.in")):
            continue
        for name in include_names(move.source, include_folders):
            link = _widest(move.source, move.target, name, kept_folders)
            if not any(other in out for other in _parents(link.name)):
                out[link.name] = link
    return sorted(out.values(), key=lambda link: link.name)


def _widest(source: str, target: str, name: str, kept_folders: set[str]) -> Link:
    """The outermost directory of ``name`` that moved as a whole, keeping its inner layout; else the file itself."""
    best = Link(name, target, directory=False)
    while "/" in name:
        source, target, name = posixpath.dirname(source), posixpath.dirname(target), posixpath.dirname(name)
        if source in kept_folders or not name:
            break
        best = Link(name, target, directory=True)
        if posixpath.basename(source) != posixpath.basename(target):
            break
    return best


def _parents(path: str) -> list[str]:
    out = []
    while "/" in path:
        path = posixpath.dirname(path)
        out.append(path)
    return out
