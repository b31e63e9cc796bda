"""A patch that a recipe makes anew on the new release, next to what merging its old text would give."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from decouple.base.git import REGULAR, Repository
from decouple.rebase import already
from decouple.rebase.carry import Step, TreeSource, tree_after
from decouple.rebase.verdicts import Carried, Note, Verdict
from decouple.recipes.make import done_upstream, holding_since, make
from decouple.recipes.model import LostTextError, Recipe, RecipeError
from decouple.stack.export import diff
from decouple.stack.trees import TreeEntry, blob_id, look_up, written

MISSED = "its recipe: "
"""How a note begins that says what a recipe misses in the tree."""


def by_recipe(repository: Repository, recipe: Recipe, tip: str, merged: Carried, step: Step | None = None) -> Carried:
    """What becomes of the patch on the commit ``tip``: made by ``recipe``, or ``merged`` where that is the same.

    Where the recipe does not find its places, ``merged`` stands, with a note for each place that it missed. Where
    upstream's text would go and come nowhere, the patch stops, whatever merging its old text gives. With ``step``, the
    patch in its old series, what of it upstream has already is told.
    """
    source = TreeSource(repository, tip)

    def read(path: str) -> str | None:
        return None if source.mode(path) is None else source.read(path).decode("utf-8")

    if done_upstream(recipe, read):
        signs = tuple(Note(sign.file, 0, f"since {sign.since}") for sign in recipe.upstream)
        return Carried(merged.name, Verdict.ALREADY_UPSTREAM, {}, signs)
    if not recipe.makes:
        return merged
    try:
        texts = make(recipe, read)
    except RecipeError as error:
        missed = tuple(Note(one.path, 0, f"{MISSED}{one.what}") for one in error.parts)
        if any(isinstance(one, LostTextError) for one in error.parts) and not merged.verdict.stops:
            return Carried(merged.name, Verdict.CONFLICT, notes=(*merged.notes, *missed))
        if merged.verdict is Verdict.ALREADY_UPSTREAM:
            return merged
        return structs.replace(merged, notes=(*merged.notes, *missed))
    changes = _written(repository, tip, texts, merged.changes or {})
    if merged.changes == changes:
        return merged
    tree = tree_after(repository, tip, changes)
    if merged.changes is not None and tree == tree_after(repository, tip, merged.changes):
        return merged
    notes: tuple[Note, ...] = ()
    if not merged.verdict.stops:
        notes = (Note("", 0, f"merging its old text gives something else: {merged.verdict.value}"),)
    if later := holding_since(recipe, read):
        notes += (Note("", 0, f"with rules that hold from {', '.join(later)} on"),)
    made = Carried(merged.name, Verdict.MADE, changes, notes, diff(repository, tip, tree))
    return already.examine(repository, step.patch, step.before, tip, made) if step else made


def _written(
    repository: Repository, tip: str, texts: Mapping[str, str], there: Mapping[str, TreeEntry | None]
) -> dict[str, TreeEntry | None]:
    """The entries for ``texts``. Those that are ``there`` by merging are in the repository already."""
    present = look_up(repository, tip, list(texts))
    known = {entry.id for entry in there.values() if entry}
    changes: dict[str, TreeEntry | None] = {}
    for path, text in texts.items():
        data = text.encode()
        blob = blob_id(data)
        if blob not in known:
            written(repository, data)
        changes[path] = TreeEntry(present[path].mode if path in present else REGULAR, blob)
    return changes
