"""Prove of each patch, unbuilt, where it applied, and that its Python compiles."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from decouple.base.python_text import compile_python
from decouple.patch.apply import File
from decouple.series.check import Fit, PatchFit

_PYTHON = (".py", ".pyi")
_APPLIES = (Fit.CLEAN, Fit.OFFSET)


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


def prove_levels(verdicts: Iterable[PatchFit], *, partial: bool) -> dict[str, tuple[Level, str]]:
    """Map each patch's name to what its verdict proves.

    Where nothing is, it says why not more.

    ``partial``: the verdicts are of a source that lacks files of the real tree. A patch that applies and leaves a
    Python file that does not compile is not proven.
    """
    levels: dict[str, tuple[Level, str]] = {}
    for verdict in verdicts:
        patch = verdict.patch
        broken = _find_broken_python(verdict.changes) if verdict.status in _APPLIES else ""
        if not broken and (verdict.status not in _APPLIES or verdict.unseen):
            hidden = f"; {len(verdict.unseen)} of {len(patch.files)} files not seen" if verdict.unseen else ""
            levels[patch.name] = Level.NOTHING, f"{verdict.status.value}{hidden}"
            continue
        python = all(path.endswith(_PYTHON) for path in patch.touched_paths)
        level = Level.NOTHING if broken else Level.FULL if not partial else Level.PYTHON if python else Level.TOUCHED
        levels[patch.name] = level, broken
    return levels


def is_refuted(verdict: PatchFit) -> bool:
    """Say whether a verdict disproves what was proven of its patch before.

    The patch does not apply as it is, or leaves a Python file that does not compile. A source that does not show all
    of its files says nothing against it.
    """
    return verdict.status not in (*_APPLIES, Fit.UNSEEN) or bool(_find_broken_python(verdict.changes))


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
