"""Find which files of a tree a set of translation units includes.

They are included directly or not; the chain of each is known.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.syntax.conditions import Macros
from decouple.syntax.preprocessor import parse_includes


class Edge(Struct, frozen=True):
    """An include: ``includer`` includes ``target`` at ``line``."""

    includer: str
    target: str
    line: int


class IncludeGraph:
    """The include lines of a tree that can be compiled under ``macros``.

    They are resolved as a compiler would. ``folders`` are the ``-I`` folders relative to the tree, in order. A header
    that CMake configures from ``name.in`` counts as that template. Files are read once.
    """

    def __init__(self, tree: Path, files: Iterable[str], folders: Sequence[str], macros: Macros) -> None:
        self._tree = tree
        self._files = frozenset(files)
        self._prefixes = tuple("" if folder == "." else f"{folder}/" for folder in folders)
        self._found: dict[str, str | None] = {}
        self._macros = macros
        self._edges: dict[str, tuple[Edge, ...]] = {}

    def resolve(self, includer: str, name: str, quoted: bool) -> str | None:
        """Return the tree's file that ``#include name`` in ``includer`` opens, or None.

        None stands for a system or generated header.
        """
        if quoted and (beside := self._find_file(posixpath.join(posixpath.dirname(includer), name))) is not None:
            return beside
        if name not in self._found:
            places = (self._find_file(prefix + name) for prefix in self._prefixes)
            self._found[name] = next((path for path in places if path is not None), None)
        return self._found[name]

    def _find_file(self, path: str) -> str | None:
        """Return the tree's file at ``path``, or the template of it."""
        if "./" in path:
            path = posixpath.normpath(path)
        if path in self._files:
            return path
        return f"{path}.in" if f"{path}.in" in self._files else None

    def read_edges(self, includer: str) -> tuple[Edge, ...]:
        """Return what ``includer`` includes of the tree, dead branches left out.

        Raises OSError when it cannot be read.
        """
        if includer not in self._edges:
            text = (self._tree / includer).read_text(encoding="utf-8", errors="replace")
            out = []
            if "include" in text:
                for include in parse_includes(text, self._macros):
                    if include.live is False:
                        continue
                    target = self.resolve(includer, include.name, include.quoted)
                    if target is not None and target != includer:
                        out.append(Edge(includer, target, include.line))
            self._edges[includer] = tuple(out)
        return self._edges[includer]

    def compute_closure(
        self, units: Iterable[str], *, without: Collection[tuple[str, str]] = ()
    ) -> Mapping[str, Edge | None]:
        """Map each file reached from ``units`` to the edge that first reached it.

        It is None for a unit itself.

        ``without`` names (includer, target) edges not to follow. Breadth first over sorted units, so the chain is a
        shortest one and always the same one.
        """
        reached: dict[str, Edge | None] = dict.fromkeys(sorted(units))
        queue = deque(reached)
        while queue:
            for edge in self.read_edges(queue.popleft()):
                if edge.target not in reached and (edge.includer, edge.target) not in without:
                    reached[edge.target] = edge
                    queue.append(edge.target)
        return reached


def trace_chain(reached: Mapping[str, Edge | None], path: str) -> list[str]:
    """Return the path from a unit to ``path``, as ``compute_closure`` found it."""
    out = [path]
    while (edge := reached[out[-1]]) is not None:
        out.append(edge.includer)
    return out[::-1]
