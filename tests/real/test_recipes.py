"""Every recipe on the real 2.6.0: it makes what the patch of the series says, to the byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.patch import apply, parse, series_file
from decouple.recipes.make import is_done_upstream, make_texts
from decouple.recipes.model import Recipe, load_recipes
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

pytestmark = pytest.mark.real

Pair = tuple[Mapping[str, str | None], Mapping[str, str | None]]


class Folder:
    """The unpacked source, for what no patch has touched yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def mode(self, path: str) -> int | None:
        """See ``decouple.patch.apply.Source``."""
        return parse.REGULAR if (self.root / path).is_file() else None

    def read(self, path: str) -> bytes:
        """See ``decouple.patch.apply.Source``."""
        return (self.root / path).read_bytes()


@pytest.fixture(scope="module")
def recipes() -> dict[str, Recipe]:
    return load_recipes(find_project())


@pytest.fixture(scope="module")
def stages(recipes: dict[str, Recipe]) -> dict[str, Pair]:
    """By Decouple-Id: the texts that the recipe reads and the patch changes, before the patch and after it."""
    project = find_project()
    tree = apply.Tree(Folder(fetch_source(load_release(project, "2.6"), "debian").path))
    found: dict[str, Pair] = {}
    for entry in series_file.read_series(project / "series" / "2.6").entries:
        patch = parse.parse_patch((project / "patches" / entry.name).read_bytes())
        recipe = recipes.get(patch.header.decouple_id or "")
        names = sorted({*patch.touched_paths, *(recipe.files if recipe else ()), *_signs(recipe)})
        before = {name: _text(tree, name) for name in names} if recipe else {}
        result = apply.apply_patch(patch, tree)
        assert result.applies, entry.name
        tree.update(result.changes)
        if recipe:
            found[recipe.id] = before, {name: _text(tree, name) for name in names}
    return found


def _signs(recipe: Recipe | None) -> list[str]:
    return [sign.file for sign in recipe.upstream] if recipe else []


def _text(tree: apply.Tree, name: str) -> str | None:
    file = tree.get(name)
    return None if file is None else file.data.decode()


def test_each_recipe_that_makes_a_patch_makes_this_one(recipes: dict[str, Recipe], stages: dict[str, Pair]) -> None:
    assert stages.keys() == recipes.keys(), "each recipe belongs to a patch of the series"
    for name, recipe in recipes.items():
        if recipe.has_edits:
            before, after = stages[name]
            assert before | make_texts(recipe, before.get) == after, name


def test_nothing_is_done_upstream_where_a_patch_is_in_the_series(
    recipes: dict[str, Recipe], stages: dict[str, Pair]
) -> None:
    assert [name for name, recipe in recipes.items() if is_done_upstream(recipe, stages[name][0].get)] == []
