"""Patches that are made anew for the tree at hand, where their old text does not fit: the relocation, and recipes.

>>> from decouple.flows.remake import Workshop
>>> sorted(Workshop.of(project).recipes)
[]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import REGULAR
from decouple.patch.apply import File, Tree, apply
from decouple.patch.parse import Patch, parse
from decouple.recipes.model import Recipe, RecipeError, load_all
from decouple.series.check import Fit, Remade
from decouple.upstream.readers import Folder, OpenedSource

RELOCATION = "relocate-cuda-sources"
"""The Decouple-Id of the patch that `decouple relocate` generates."""


class Workshop(Struct, frozen=True):
    """What can be made anew of a checkout's patches."""

    recipes: Mapping[str, Recipe]

    @classmethod
    def of(cls, project: Path) -> Workshop:
        """With all recipes of the checkout. Raises DecoupleError for one that cannot be read."""
        return cls(load_all(project))

    @property
    def reads(self) -> set[str]:
        """Files that a patch's text need not name, and its recipe reads: a source has to have them at hand."""
        return {sign.file for recipe in self.recipes.values() for sign in recipe.upstream}

    def on(self, opened: OpenedSource) -> Remade:
        """How to make a patch anew on this source, for ``decouple.series.check.check``."""

        def remade(patch: Patch, tree: Tree) -> tuple[Fit, Mapping[str, File | None]] | None:
            if patch.header.decouple_id == RELOCATION:
                return _relocated(patch, tree, opened)
            recipe = self.recipes.get(patch.header.decouple_id or "")
            return _made(recipe, tree) if recipe else None

        return remade


def _relocated(patch: Patch, tree: Tree, opened: OpenedSource) -> tuple[Fit, Mapping[str, File | None]] | None:
    """The relocation by the rules, where a whole tree lies on disk; None elsewhere, or where no rule places a file."""
    if not isinstance(opened.source, Folder) or opened.partial:
        return None
    from decouple.inventory import rules as rule_files  # here: most series fit as they are
    from decouple.relocate.patch import render
    from decouple.relocate.plan import make_plan

    rules = rule_files.load()
    try:
        text = render(make_plan(opened.source.root, rules).moves, rules, patch.name.partition("/")[0])
    except DecoupleError:
        return None
    result = apply(parse(text.encode(), name=patch.name), tree)
    return (Fit.MADE, result.changes) if result.applies else None


def _made(recipe: Recipe, tree: Tree) -> tuple[Fit, Mapping[str, File | None]] | None:
    from decouple.recipes.make import done_upstream, make

    def read(path: str) -> str | None:
        file = tree.get(path)
        return None if file is None else file.data.decode("utf-8")

    if done_upstream(recipe, read):
        return Fit.UPSTREAM, {}
    if not recipe.makes:
        return None
    try:
        texts = make(recipe, read)
    except RecipeError:
        return None
    return Fit.MADE, {path: File(_mode(tree, path), text.encode()) for path, text in texts.items()}


def _mode(tree: Tree, path: str) -> int:
    file = tree.get(path)
    return REGULAR if file is None else file.mode
