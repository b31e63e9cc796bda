"""Prove of each patch, unbuilt, where it applied, and that its Python compiles."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from decouple.base.python_text import compile_python
from decouple.patch.apply import File, Source, Tree, apply_patch
from decouple.patch.parse import Patch
from decouple.series import check

_PYTHON = (".py", ".pyi")


class Level(enum.Enum):
    """A level of proof, best first.

    The value is what ``ci/status`` and the status table say.
    """

    BUILT = "built"
    """Both stages were built from exactly this series."""
    CONFIGURED = "configured"
    """CMake took the whole patched tree."""
    FULL = "applied to the full tree"
    TOUCHED = "applied to the touched files"
    """The source shows every file of the patch, but not the rest of the release."""
    PYTHON = "Python only"
    """As before, and all of them are Python: no compiler has to look at it."""
    NOTHING = "not proven"


def prove_levels(series: Sequence[Patch], source: Source, *, partial: bool) -> dict[str, tuple[Level, str]]:
    """Map each patch's name to what is proven on ``source``.

    Where nothing is, it says why not more.

    A patch that applies and leaves a Python file that does not compile is not proven.
    """
    levels: dict[str, tuple[Level, str]] = {}
    tree = Tree(source)
    for verdict in check.check_series(series, source, partial=partial):
        patch = verdict.patch
        if verdict.status not in (check.Fit.CLEAN, check.Fit.OFFSET) or verdict.unseen:
            hidden = f"; {len(verdict.unseen)} of {len(patch.files)} files not seen" if verdict.unseen else ""
            levels[patch.name] = Level.NOTHING, f"{verdict.status.value}{hidden}"
            continue
        changes = apply_patch(patch, tree).changes
        tree.update(changes)
        broken = _find_broken_python(changes)
        python = all(path.endswith(_PYTHON) for path in changes)
        level = Level.NOTHING if broken else Level.FULL if not partial else Level.PYTHON if python else Level.TOUCHED
        levels[patch.name] = level, broken
    return levels


def _find_broken_python(changes: Mapping[str, File | None]) -> str:
    """Return the first changed Python file that does not compile, with the reason.

    Returns "" when all do.
    """
    for path, file in changes.items():
        if file is not None and path.endswith(".py"):
            try:
                compile_python(file.data, path)
            except SyntaxError as error:
                return f"{path} does not compile: {error}"
    return ""
