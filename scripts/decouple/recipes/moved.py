"""What a recipe changes in the text that it moves: lines that may be missing from the copy, because it says so."""

from __future__ import annotations

import re
from collections.abc import Mapping

from decouple.recipes.model import Recipe


def is_explained(recipes: Mapping[str, Recipe], identity: str, line: str) -> bool:
    """Return whether a recipe drops or rewrites such a line.

    ``identity`` is the Decouple-Id of the recipe's patch, ``line`` the text.
    """
    recipe = recipes.get(identity)
    if recipe is None:
        return False
    patterns = [
        pattern for take in recipe.take for pattern in [*take.drop, *take.gone, *(old for old, _ in take.replace)]
    ]
    patterns += [pattern for edit in recipe.edit for pattern in edit.gone]
    return any(re.search(pattern, line, re.MULTILINE) for pattern in patterns)
