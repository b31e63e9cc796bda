"""Nothing that reads the cache writes to it: the sources there are everybody's, and each is checked file by file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.paths import find_cache


def names_below(folder: Path) -> set[str]:
    """Every path below ``folder`` but the seals of its users (``content.USER``); empty where it is not there."""
    return {
        f"{parent}/{name}"
        for parent, folders, files in os.walk(folder)
        for name in (*folders, *files)
        if not (parent == str(folder) and name.startswith("content."))
    }


@pytest.fixture(scope="package", autouse=True)
def cached_trees_stay() -> Iterator[None]:
    """Fail what ran before when a source tree in the user's cache has other files than at the beginning.

    A tree that came or went in between is none of its business.
    """
    trees = find_cache() / "trees"
    before = {tree: names_below(tree) for tree in trees.glob("*/*")}
    yield
    written = [path for tree, names in before.items() if tree.is_dir() for path in names_below(tree) ^ names]
    assert not written, f"tests wrote into the cache: {sorted(written)[:5]}"
