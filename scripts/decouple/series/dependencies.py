"""Find which patches need which by leaving one out and applying the others."""

from __future__ import annotations

from collections.abc import Sequence

from decouple.base.errors import DecoupleError
from decouple.patch.apply import Source, Tree, apply_patch
from decouple.patch.parse import Patch


def find_dependencies(
    series: Sequence[Patch], source: Source, *, command: str = "decouple check"
) -> dict[str, tuple[str, ...]]:
    """Map each patch's name to the earlier patches that it cannot do without.

    These are the direct ones, in series order.

    A patch needs an earlier one when, with that one (and what itself needs it) left out, it no longer applies with
    every hunk's context. Only patches that share a file are tried. Raises DecoupleError when the series does not apply;
    ``command`` says why.
    """
    needs: dict[str, tuple[str, ...]] = {}
    for at, patch in enumerate(series):
        touched = set(patch.touched_paths)
        suspects = [n for n in range(at) if touched & set(series[n].touched_paths)]
        needed = []
        for suspect in reversed(suspects):
            left_out = {series[suspect].name} | {p.name for p in series[:at] if series[suspect].name in needs[p.name]}
            if not _can_apply(series, at, source, left_out):
                needed.append(series[suspect].name)
        if not _can_apply(series, at, source, set()):
            raise DecoupleError(f"{patch.name} does not apply in its own place", next_step=f"`{command}` says why")
        needs[patch.name] = tuple(reversed(_select_direct(needed, needs)))
    return needs


def _select_direct(found: list[str], needs: dict[str, tuple[str, ...]]) -> list[str]:
    """Leave out those that another one of them needs already."""
    return [name for name in found if not any(name in needs[other] for other in found if other != name)]


def _can_apply(series: Sequence[Patch], at: int, source: Source, left_out: set[str]) -> bool:
    """Say whether patch ``at`` applies after those before it that share files with it.

    The patches ``left_out`` are not applied.
    """
    tree = Tree(source)
    relevant = set(series[at].touched_paths)
    chain = []
    for patch in reversed(series[:at]):
        if relevant & set(patch.touched_paths):
            chain.append(patch)
            relevant |= set(patch.touched_paths)
    for patch in reversed(chain):
        if patch.name not in left_out:
            tree.update(apply_patch(patch, tree).changes)
    return apply_patch(series[at], tree).applies
