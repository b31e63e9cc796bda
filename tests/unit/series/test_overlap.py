"""The law behind lint's ``overlap``: a later patch applies without an earlier one if, and only if, they do not overlap.

In files without repeated lines there is nothing to find by chance, so the applier is the judge.
"""

from __future__ import annotations

import difflib
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from decouple.patch import parse as patch
from decouple.patch.apply import Tree, apply_patch
from decouple.series.overlap import find_overlaps
from tests.support.reader import Reader


def edited(lines: list[str], rng: random.Random, mark: str) -> list[str]:
    """``lines`` after one to three edits; every new line is unlike any other."""
    out = list(lines)
    for number in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        remove = rng.randint(0, min(3, len(out) - at))
        add = [f"{mark} {number} {extra}\n" for extra in range(rng.randint(0 if remove else 1, 3))]
        out[at : at + remove] = add
    return out


def diff(name: str, before: list[str], after: list[str]) -> patch.Patch | None:
    text = "".join(difflib.unified_diff(before, after, "a/f", "b/f"))
    return patch.parse_patch(text.encode(), name=name) if text else None


@settings(max_examples=400, deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=1, max_value=40))
def test_patches_that_do_not_overlap_apply_alone_and_others_do_not(seed: int, length: int) -> None:
    rng = random.Random(seed)
    base = [f"line {number}\n" for number in range(length)]
    middle = edited(base, rng, "first")
    last = edited(middle, rng, "second")
    first, second = diff("first", base, middle), diff("second", middle, last)
    if not first or not second or not middle or not last:
        return
    alone = apply_patch(second, Tree(Reader({"f": "".join(base).encode()}.get))).applies
    assert alone == (not list(find_overlaps([first, second]))), (base, middle, last)


@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=8, max_value=60))
def test_ranges_are_carried_through_the_patches_between(seed: int, length: int) -> None:
    """With a third patch between that overlaps neither, the answer for the outer two is the same as without it."""
    rng = random.Random(seed)
    base = [f"line {number}\n" for number in range(length)]
    states = [base]
    for mark in ("first", "second", "third"):
        states.append(edited(states[-1], rng, mark))
    series = [diff(mark, states[at], states[at + 1]) for at, mark in enumerate(("first", "second", "third"))]
    if not all(series) or not all(states):
        return
    first, second, third = (one for one in series if one)
    found = list(find_overlaps([first, second, third]))
    if any("second" in (one.earlier.name, one.later.name) for one in found):
        return
    only_second = apply_patch(second, Tree(Reader({"f": "".join(base).encode()}.get)))
    assert only_second.applies
    without_first = only_second.changes["f"]
    assert without_first
    alone = apply_patch(third, Tree(Reader({"f": without_first.data}.get))).applies
    assert alone == (not found)


def test_lines_cut_off_at_either_end_of_a_file_hold_what_is_next_to_them() -> None:
    """A hunk at line 1 stays at the start, one without tail at the end: with the cut lines back, neither applies."""
    base = [f"line {number}\n" for number in range(30)]
    for first_change, second_change in (
        (base[1:], ["new\n", *base[2:]]),
        (base[:-1], [*base[:-2], "new\n"]),
    ):
        first, second = diff("first", base, first_change), diff("second", first_change, second_change)
        assert first and second
        assert not apply_patch(second, Tree(Reader({"f": "".join(base).encode()}.get))).applies
        assert [one.earlier.name for one in find_overlaps([first, second])] == ["first"]
