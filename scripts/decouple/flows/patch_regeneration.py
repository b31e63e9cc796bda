"""Remake patches whose text does not fit a tree: the relocation, and recipes.

>>> from decouple.flows.patch_regeneration import PatchRemaker
>>> sorted(PatchRemaker.of_project(project).recipes)
[]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field, structs

from decouple.base.errors import DecoupleError
from decouple.base.git import REGULAR, Repository
from decouple.patch.apply import Failure, File, Source, Tree, apply_patch
from decouple.patch.parse import FilePatch, Patch, parse_patch
from decouple.recipes.file_text import decode_text, encode_text
from decouple.recipes.model import LostTextError, Recipe, RecipeError, find_placeholders, load_recipes
from decouple.series.check import Conflict, Fit, Remade, RuleDifferences, list_wanted_paths
from decouple.stack.trees import hash_blob
from decouple.upstream.named_sources import open_named_source
from decouple.upstream.readers import FolderSource, OpenedSource, list_paths

RELOCATION = "relocate-cuda-sources"
"""The Decouple-Id of the patch that `decouple relocate` generates."""


class PatchRemaker(Struct, frozen=True):
    """What can be made anew of a checkout's patches."""

    recipes: Mapping[str, Recipe]
    merging: SeriesMerge | None = None
    """Of a series whose own source is in the cache: its patches merge where their text does not fit."""
    kept: dict[tuple[bytes | str | None, ...], Mapping[str, str] | RecipeError] = field(default_factory=dict)
    """By recipe and the files that it reads: what it made of them. Releases have many files in common."""

    @classmethod
    def of_project(cls, project: Path) -> PatchRemaker:
        """Make one with all recipes of the checkout.

        Raises DecoupleError for one that cannot be read.
        """
        return cls(load_recipes(project))

    def with_merging(self, project: Path, release: str, series: Sequence[Patch]) -> PatchRemaker:
        """Return the same, with the source that ``series`` was cut on if it is cached."""
        try:
            own, _ = open_named_source(project, release, "auto", list_wanted_paths(series), offline=True)
        except DecoupleError:
            return self
        return self if own.partial else PatchRemaker(self.recipes, SeriesMerge(series, own.source))

    def bind_rules(self, opened: OpenedSource) -> Callable[[Patch], RuleDifferences | None]:
        """Return what compares the relocation with its rules, for ``check_series``.

        On a whole tree on disk that is all that they say; of any other source only Python files, which names tell.
        """
        return lambda patch: _compare_relocation(patch, opened)

    @property
    def recipe_paths(self) -> set[str]:
        """Return files that a source must have for recipes; patches need not name them."""
        return {path for recipe in self.recipes.values() for path in recipe.read_paths}

    def bind_source(self, opened: OpenedSource) -> Remade:
        """Return how to make a patch anew on this source, for ``check_series``."""

        def remake_patch(patch: Patch, tree: Tree) -> tuple[Fit, Mapping[str, File | None]] | None:
            if patch.header.decouple_id == RELOCATION:
                return _relocate_patch(patch, tree, opened)
            recipe = self.recipes.get(patch.header.decouple_id or "")
            made = _apply_recipe(recipe, tree, self._make_texts) if recipe else None
            if made is None and self.merging and (changes := self.merging.merge_patch(patch, tree)):
                return Fit.MADE, changes
            return made

        return remake_patch

    def remake_file(self, patch: Patch, path: str, tree: Tree) -> File | None:
        """Return what ``patch``, which changes this file alone, makes of it.

        That is by the patch as it is, by its recipe's edits, or merged; None where none of them fits. The recipe's text
        that moves to other files is not made.
        """
        result = apply_patch(patch, tree)
        if result.applies:
            return result.changes[path]
        recipe = self.recipes.get(patch.header.decouple_id or "")
        made = _apply_recipe(_select_file(recipe, path), tree, _try_recipe) if recipe else None
        if made and path in made[1]:
            return made[1][path]
        merged = self.merging.merge_patch(patch, tree) if self.merging else None
        return merged[path] if merged else None

    def find_hidden_files(self, patch: Patch, tree: Tree) -> tuple[str, ...]:
        """Return the files that the recipe of ``patch`` reads and that are not there."""
        recipe = self.recipes.get(patch.header.decouple_id or "")
        if recipe is None:
            return ()
        names = [*sorted(recipe.needed), *(sign.file for sign in recipe.upstream)]
        return tuple(name for name in dict.fromkeys(names) if tree.get(name) is None)

    def find_lost_changes(self, patch: Patch, tree: Tree) -> tuple[str, ...]:
        """Return what the recipe of ``patch`` would take out and put nowhere.

        Only what upstream has in files of ``patch``. See `decouple.series.check`.
        """
        recipe = self.recipes.get(patch.header.decouple_id or "")
        if recipe is None or not recipe.has_edits or _is_as_cut(patch, tree):
            return ()
        made = self._make_texts(recipe, tree)
        parts = made.parts if isinstance(made, RecipeError) else ()
        return tuple(part.what for part in parts if isinstance(part, LostTextError))

    def _make_texts(self, recipe: Recipe, tree: Tree) -> Mapping[str, str] | RecipeError:
        """Return what a whole recipe makes of ``tree``, or what it misses there."""
        files = [tree.get(path) for path in recipe.files]
        key = (recipe.id, *(file.data if file else None for file in files))
        if key not in self.kept:
            self.kept[key] = _try_recipe(recipe, tree)
        return self.kept[key]


class SeriesMerge:
    """Merge a series' patches 3-way, file by file, where a rebase renames nothing."""

    def __init__(self, series: Sequence[Patch], source: Source) -> None:
        self._old, self._left = Tree(source), list(series)
        """Where the series was cut, as far as it was applied there; the patches that are left."""
        self._states: dict[str, tuple[Mapping[str, File | None], Mapping[str, File | None]]] = {}
        """By the name of a patch: its files before it and after it, where it was cut."""
        self._merges: dict[tuple[str, bytes], bytes | None] = {}
        """By patch, file and the release's text: what the merge made of it. Releases have many files in common."""
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def _compute_states(self, patch: Patch) -> tuple[Mapping[str, File | None], Mapping[str, File | None]]:
        while patch.name not in self._states:
            applied = self._left.pop(0)
            before = {path: self._old.get(path) for path in applied.touched_paths}
            self._states[applied.name] = before, apply_patch(applied, self._old).changes
            self._old.update(self._states[applied.name][1])
        return self._states[patch.name]

    def merge_patch(self, patch: Patch, tree: Tree) -> Mapping[str, File | None] | None:
        """Return what ``patch`` changes on ``tree``.

        None where it creates, deletes or renames, or where lines conflict.
        """
        if any(file.old_path is None or file.old_path != file.new_path for file in patch.files):
            return None
        old, patched = self._compute_states(patch)
        changes: dict[str, File | None] = {}
        for section in patch.files:
            path = section.old_path or ""
            before, after, here = old.get(path), patched.get(path), tree.get(path)
            if before is None or after is None or here is None:
                return None
            key = (f"{patch.name} {path}", here.data)
            if key not in self._merges:
                self._merges[key] = self._merge_file(section, before.data, after.data, here.data)
            data = self._merges[key]
            if data is None:
                return None
            changes[path] = File(here.mode, data)
        return changes

    def _merge_file(self, section: FilePatch, before: bytes, after: bytes, here: bytes) -> bytes | None:
        from decouple.rebase.adjacent_additions import merge_file, settle_file  # here: most patches fit as they are
        from decouple.rebase.workspace import open_workspace

        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="decouple-merge-")
            open_workspace(Path(self._folder.name), [])
        repository = Repository(Path(self._folder.name))
        lines = merge_file(repository, before, after, here)
        if lines is not None:
            return b"".join(lines)
        found = settle_file(repository, section, before, after, here)
        return found.data if found else None


def make_reader(tree: Tree) -> Callable[[str], str | None]:
    """Make a reader of the files of ``tree`` as text, as a recipe reads them."""

    def read_file(path: str) -> str | None:
        file = tree.get(path)
        return None if file is None else decode_text(file.data)

    return read_file


def _select_file(recipe: Recipe, path: str) -> Recipe:
    """Return the part of ``recipe`` that reads and edits this file alone."""
    taken = [take for take in recipe.take if take.file == path and not take.where_file]
    names = {take.name for take in taken}
    edits = [
        edit
        for edit in recipe.edit
        if edit.file == path and not edit.where_file
        if names.issuperset(find_placeholders(edit.put or edit.before or edit.after or ""))
    ]
    return structs.replace(recipe, take=taken, new=[], upstream=[], edit=edits)


def _is_as_cut(patch: Patch, tree: Tree) -> bool:
    """Return whether every file is the one that the patch was cut on, by its blob id.

    Then there is nothing new in it.
    """
    for section in patch.files:
        file = tree.get(section.old_path) if section.old_path else None
        if section.old_path and (file is None or section.index is None or hash_blob(file.data) != section.index[0]):
            return False
    return True


def _relocate_patch(patch: Patch, tree: Tree, opened: OpenedSource) -> tuple[Fit, Mapping[str, File | None]] | None:
    """Relocate by the rules, where a whole tree lies on disk.

    None elsewhere, or where no rule places a file.
    """
    if not isinstance(opened.source, FolderSource) or opened.partial:
        return None
    from decouple.inventory import rules as rule_files  # here: most series fit as they are
    from decouple.relocate.plan import make_plan
    from decouple.relocate.relocation_patch import render_patch

    rules = rule_files.load_rules()
    try:
        plan = make_plan(opened.source.root, rules)
        text = render_patch(plan.moves, rules, patch.name.partition("/")[0])
    except DecoupleError:
        return None
    if plan.hollow:
        return None
    result = apply_patch(parse_patch(text.encode(), name=patch.name), tree)
    return (Fit.MADE, result.changes) if result.applies else None


def _compare_relocation(patch: Patch, opened: OpenedSource) -> RuleDifferences | None:
    if patch.header.decouple_id != RELOCATION:
        return None
    from decouple.inventory import rules as rule_files
    from decouple.relocate.plan import HOLLOW, UNPLACED_REASON, make_plan, plan_python_moves

    rules, source = rule_files.load_rules(), opened.source
    root = source.root if isinstance(source, FolderSource) and not opened.partial else None
    stops: dict[str, str] = {}
    try:
        if root:
            plan = make_plan(root, rules, strict=False)
            moves = plan.moves
            stops = dict.fromkeys(plan.unplaced, UNPLACED_REASON) | dict.fromkeys(plan.hollow, HOLLOW)
        else:
            moves = tuple(plan_python_moves(list_paths(source), rules)[0])
    except DecoupleError as error:
        return RuleDifferences(stops=(Conflict("", Failure("rules", error.what)),))
    ruled = {move.origin: move.target for move in moves}
    patched = {file.old_path: file.new_path for file in patch.files if file.rename and file.old_path}
    if root is None:
        patched = {path: target for path, target in patched.items() if path.endswith((".py", ".pyi"))}
    said = [
        *(f"{path}: new in this source, moves to {ruled[path]}" for path in ruled.keys() - patched.keys()),
        *(
            f"{path}: moves to {target} by the rules now"
            for path, target in ruled.items()
            if path in patched and patched[path] != target
        ),
        *(
            f"{path}: moved before, stays in this source"
            for path in patched.keys() - ruled.keys()
            if source.mode(path) is not None
        ),
    ]
    conflicts = tuple(Conflict(path, Failure("rules", f"{path}: {why}")) for path, why in stops.items())
    return RuleDifferences(tuple(sorted(said)), conflicts) if said or conflicts else None


def _apply_recipe(
    recipe: Recipe, tree: Tree, make: Callable[[Recipe, Tree], Mapping[str, str] | RecipeError]
) -> tuple[Fit, Mapping[str, File | None]] | None:
    from decouple.recipes.make import is_done_upstream

    if is_done_upstream(recipe, make_reader(tree)):
        return Fit.UPSTREAM, {}
    if not recipe.has_edits:
        return None
    texts = make(recipe, tree)
    if isinstance(texts, RecipeError):
        return None
    return Fit.MADE, {path: File(_read_mode(tree, path), encode_text(text)) for path, text in texts.items()}


def _try_recipe(recipe: Recipe, tree: Tree) -> Mapping[str, str] | RecipeError:
    from decouple.recipes.make import make_texts

    try:
        return make_texts(recipe, make_reader(tree))
    except RecipeError as error:
        return error


def _read_mode(tree: Tree, path: str) -> int:
    file = tree.get(path)
    return REGULAR if file is None else file.mode
