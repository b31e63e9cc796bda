"""Make a patch anew by its recipe, and compare it with merging its old text."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from decouple.base.git import REGULAR, Repository
from decouple.rebase import upstreamed_hunks
from decouple.rebase.carry import Step, write_tree_after
from decouple.rebase.tree_source import TreeSource
from decouple.rebase.verdicts import CarryResult, Note, Verdict
from decouple.recipes.file_text import decode_text, encode_text
from decouple.recipes.make import is_done_upstream, list_rule_releases, make_texts
from decouple.recipes.model import LostTextError, Recipe, RecipeError
from decouple.stack.export import make_diff
from decouple.stack.trees import TreeEntry, hash_blob, read_entries, write_blob

MISSED = "its recipe: "
"""How a note begins that says what a recipe misses in the tree."""


def carry_by_recipe(
    repository: Repository, recipe: Recipe, tip: str, merged: CarryResult, step: Step | None = None
) -> CarryResult:
    """Judge the patch that ``recipe`` makes on ``tip``.

    The result is ``merged`` where that is the same. Where the recipe does not find its places, ``merged`` stands, with
    a note for each place that it missed. Where upstream's text would go and come nowhere, the patch stops, whatever
    merging its old text gives. With ``step``, the patch in its old series, what of it upstream has already is told; and
    where the recipe would read what it read there, nothing is made: that is the patch
    (tests/real/test_recipes.py).
    """
    if step and merged.verdict is Verdict.UNMODIFIED and reads_the_same(repository, recipe, step.before, tip):
        return merged
    source = TreeSource(repository, tip)

    def read(path: str) -> str | None:
        return None if source.mode(path) is None else decode_text(source.read(path))

    if is_done_upstream(recipe, read):
        signs = tuple(Note(sign.file, 0, f"since {sign.since}") for sign in recipe.upstream)
        return CarryResult(merged.name, Verdict.ALREADY_UPSTREAM, {}, signs)
    if not recipe.has_edits:
        return merged
    try:
        texts = make_texts(recipe, read)
    except RecipeError as error:
        missed = tuple(Note(part.path, 0, f"{MISSED}{part.what}") for part in error.parts)
        if any(isinstance(part, LostTextError) for part in error.parts) and not merged.verdict.is_stop:
            return CarryResult(merged.name, Verdict.CONFLICT, notes=(*merged.notes, *missed))
        if merged.verdict is Verdict.ALREADY_UPSTREAM:
            return merged
        return structs.replace(merged, notes=(*merged.notes, *missed))
    changes = _write_entries(repository, tip, texts, merged.changes or {})
    if merged.changes == changes:
        return merged
    tree = write_tree_after(repository, tip, changes)
    if merged.changes is not None and tree == write_tree_after(repository, tip, merged.changes):
        return merged
    notes: tuple[Note, ...] = ()
    if not merged.verdict.is_stop:
        notes = (Note("", 0, f"merging its old text gives something else: {merged.verdict.value}"),)
    if later := list_rule_releases(recipe, read):
        notes += (Note("", 0, f"with rules that hold from {', '.join(later)} on"),)
    made = CarryResult(merged.name, Verdict.MADE, changes, notes, make_diff(repository, tip, tree))
    return upstreamed_hunks.examine_patch(repository, step.patch, step.before, tip, made) if step else made


def reads_the_same(repository: Repository, recipe: Recipe, before: str, tip: str) -> bool:
    """Return whether ``recipe`` reads in ``tip`` what it reads in ``before``."""
    return read_entries(repository, before, recipe.read_paths) == read_entries(repository, tip, recipe.read_paths)


def _write_entries(
    repository: Repository, tip: str, texts: Mapping[str, str], there: Mapping[str, TreeEntry | None]
) -> dict[str, TreeEntry | None]:
    """Write the blobs of ``texts``; returns their entries.

    Those that are ``there`` by merging are in the repository already.
    """
    present = read_entries(repository, tip, list(texts))
    known = {entry.id for entry in there.values() if entry}
    changes: dict[str, TreeEntry | None] = {}
    for path, text in texts.items():
        data = encode_text(text)
        blob = hash_blob(data)
        if blob not in known:
            write_blob(repository, data)
        changes[path] = TreeEntry(present[path].mode if path in present else REGULAR, blob)
    return changes
