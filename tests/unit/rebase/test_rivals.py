"""Planted evolutions judged by us, by ``git am -3`` and by ``quilt push`` with its fuzz, against what is right.

Never worse: where one of them is right, so are we; and where one of them changes the wrong place, we stop.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from decouple.rebase import carry as merging
from decouple.rebase.carry import carry_patch
from tests.support import rivals
from tests.unit.rebase.releases import Files, Upstream, numbered

OLD = numbered(1, 120)
CUT = numbered(1, 120, {60: "cut here\n"})
BLOCK = "".join(f"common {number}\n" for number in range(9))
BLOCK_CUT = BLOCK.replace("common 4\n", "cut here\n")
BRANCH = "case {0}:\n    first({0})\n    check()\n    work()\n    after()\n    last({0})\n    stop({0})\n"
A, B = BRANCH.format("a"), BRANCH.format("b")
BETWEEN = numbered(1, 40)


@dataclass(frozen=True)
class Case:
    """One evolution. ``right``: the tree that a careful person makes of it; None: that person has to decide."""

    name: str
    old: Files
    patched: Files
    new: Files
    right: Files | None


EVOLUTIONS = (
    Case("nothing near it changed", {"a": OLD}, {"a": CUT}, {"a": OLD + "more\n"}, {"a": CUT + "more\n"}),
    Case("moved by 300 lines", {"a": OLD}, {"a": CUT}, {"a": "new\n" * 300 + OLD}, {"a": "new\n" * 300 + CUT}),
    Case(
        "another context, far",
        {"a": OLD},
        {"a": CUT},
        {"a": numbered(1, 120, {57: "other\n"})},
        {"a": numbered(1, 120, {57: "other\n", 60: "cut here\n"})},
    ),
    Case(
        "another context, near",
        {"a": OLD},
        {"a": CUT},
        {"a": numbered(1, 120, {58: "other\n", 63: "other too\n"})},
        {"a": numbered(1, 120, {58: "other\n", 60: "cut here\n", 63: "other too\n"})},
    ),
    Case("a renamed file", {"d/a": OLD}, {"d/a": CUT}, {"e/b": OLD}, {"e/b": CUT}),
    Case("merged upstream", {"a": OLD}, {"a": CUT}, {"a": CUT}, {"a": CUT}),
    Case(
        "merged upstream in another context",
        {"a": OLD},
        {"a": CUT},
        {"a": numbered(1, 120, {58: "other\n", 60: "cut here\n"})},
        {"a": numbered(1, 120, {58: "other\n", 60: "cut here\n"})},
    ),
    Case("merged and reverted", {"a": OLD}, {"a": CUT}, {"a": OLD + "later\n"}, {"a": CUT + "later\n"}),
    Case(
        # a merge calls two changes that touch a conflict; the lines that go are the same ones, there is but one of them
        "lines added right before what goes",
        {"a": OLD},
        {"a": numbered(1, 120, {60: ""})},
        {"a": numbered(1, 120, {59: "line 59\nnew one\nnew two\n"})},
        {"a": numbered(1, 120, {59: "line 59\nnew one\nnew two\n", 60: ""})},
    ),
    Case(
        "lines added right behind what is replaced",
        {"a": OLD},
        {"a": CUT},
        {"a": numbered(1, 120, {60: "line 60\nnew one\n", 90: "line 90\nfar\n"})},
        {"a": numbered(1, 120, {60: "cut here\nnew one\n", 90: "line 90\nfar\n"})},
    ),
    Case(
        # the same, but the lines stand twice: which of the two was added to, nobody can tell from the text
        "lines added before what goes, which stands twice",
        {"a": BLOCK + BETWEEN + BLOCK},
        {"a": BLOCK_CUT + BETWEEN + BLOCK},
        {
            "a": BLOCK.replace("common 4\n", "new\ncommon 4\n")
            + BETWEEN
            + BLOCK.replace("common 4\n", "new\ncommon 4\n")
        },
        None,
    ),
    Case(
        # what follows it stands below other lines now, which are not new: somebody moved it
        "what goes was moved below other lines",
        {"a": OLD},
        {"a": numbered(1, 120, {60: ""})},
        {"a": numbered(1, 59) + numbered(80, 100) + numbered(60, 79) + numbered(101, 120)},
        None,
    ),
    Case(
        # two additions at one place have no order that the text could prove
        "lines added where it adds",
        {"a": OLD},
        {"a": numbered(1, 120, {60: "line 60\nours\n"})},
        {"a": numbered(1, 120, {60: "line 60\ntheirs\n"})},
        None,
    ),
    Case("upstream rewrote the line", {"a": OLD}, {"a": CUT}, {"a": numbered(1, 120, {60: "upstream\n"})}, None),
    Case("a deleted target", {"a": OLD, "b": "b\n"}, {"a": CUT, "b": "b\n"}, {"b": "b\n"}, None),
    Case("line ends flipped", {"a": OLD}, {"a": CUT}, {"a": OLD.replace("\n", "\r\n")}, None),
    Case(
        # the exact context stands a second time, in a function that the patch has nothing to do with
        "a repeated block, the first one rewritten",
        {"a": BLOCK + BETWEEN + BLOCK},
        {"a": BLOCK_CUT + BETWEEN + BLOCK},
        {"a": BLOCK.replace("common 4\n", "theirs\n").replace("common 3\n", "theirs too\n") + BETWEEN + BLOCK},
        None,
    ),
    Case(
        # both fit, each in the place of the other
        "two branches with one body change places",
        {"a": A + BETWEEN + A.replace("case a", "case b")},
        {"a": A.replace("work()\n", "work()\n    ours()\n") + BETWEEN + A.replace("case a", "case b")},
        {"a": A.replace("case a", "case b") + BETWEEN + A},
        {"a": A.replace("case a", "case b") + BETWEEN + A.replace("work()\n", "work()\n    ours()\n")},
    ),
    Case(
        # nowhere the exact context; without its outermost lines it fits the wrong block
        "fuzz finds another block",
        {"a": BLOCK + BETWEEN + BLOCK.replace("common 1\n", "second 1\n").replace("common 7\n", "second 7\n")},
        {"a": BLOCK_CUT + BETWEEN + BLOCK.replace("common 1\n", "second 1\n").replace("common 7\n", "second 7\n")},
        {"a": "gone\n" + BETWEEN + BLOCK.replace("common 1\n", "second 1\n").replace("common 7\n", "second 7\n")},
        None,
    ),
    Case(
        # the branch that it adds to was deleted; fuzz adds to the one that is left
        "fuzz adds to another branch",
        {"a": A + BETWEEN + B},
        {"a": A.replace("work()\n", "work()\n    ours()\n") + BETWEEN + B},
        {"a": BETWEEN + B},
        None,
    ),
)


def judged(effect: rivals.Effect | None, case: Case) -> str:
    if effect is None:
        return "stops"
    tree = {name: text.encode() for name, text in case.new.items()} | dict(effect)
    after = {name: data for name, data in tree.items() if data is not None}
    right = case.right and {name: text.encode() for name, text in case.right.items()}
    return "right" if after == right else "WRONG PLACE"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    """One repository for the releases of all cases."""
    return Upstream(tmp_path_factory.mktemp("upstream"))


@pytest.fixture(scope="module")
def table(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str, str]]:
    """Name of the case -> what we, git am -3 and quilt make of it; printed, too (pytest -s)."""
    rows = {}
    folder = tmp_path_factory.mktemp("rivals")
    am = rivals.GitAm(upstream.repository, folder / "git")
    for case in EVOLUTIONS:
        step = upstream.patch(upstream.release(case.old), case.patched)
        tip = upstream.release(case.new)
        mine = rivals.ours(upstream.repository, carry_patch(upstream.repository, step, tip, upstream.repository.root))
        git = am(tip, step.patch)
        quilt = rivals.quilt_push(upstream.repository, tip, step.patch, folder / "quilt")
        rows[case.name] = (judged(mine, case), judged(git, case), judged(quilt, case))
        print(f"| {case.name} | {' | '.join(rows[case.name])} |")
    return rows


def test_we_never_change_the_wrong_place(table: dict[str, tuple[str, str, str]]) -> None:
    assert [name for name, (mine, _, _) in table.items() if mine == "WRONG PLACE"] == []


def test_we_are_right_wherever_one_of_them_is(table: dict[str, tuple[str, str, str]]) -> None:
    worse = [name for name, (mine, *others) in table.items() if "right" in others and mine != "right"]
    assert worse == []


def test_they_do_change_the_wrong_place(table: dict[str, tuple[str, str, str]]) -> None:
    # The comparison would prove nothing if none of the planted cases fooled them.
    fooled = {name: row for name, row in table.items() if "WRONG PLACE" in row}
    assert {mine for mine, _, _ in fooled.values()} == {"stops"}
    assert fooled["a repeated block, the first one rewritten"][1:] == ("WRONG PLACE", "WRONG PLACE")
    assert fooled["two branches with one body change places"][1:] == ("WRONG PLACE", "WRONG PLACE")
    assert fooled["fuzz finds another block"] == ("stops", "stops", "WRONG PLACE")
    assert fooled["fuzz adds to another branch"][2] == "WRONG PLACE"


@pytest.mark.parametrize("case", EVOLUTIONS, ids=lambda case: case.name)
def test_a_merge_of_the_patchs_files_is_the_merge_of_whole_trees(
    case: Case, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"other/a": BLOCK, "other/b": BETWEEN}
    step = upstream.patch(upstream.release(case.old | other), case.patched | other)
    tip = upstream.release(case.new | {"other/c": BLOCK + "renamed and changed\n", "other/b": ""})
    quick = merging.merge_patch(upstream.repository, step, tip)
    monkeypatch.setattr(merging, "_make_reduced_commits", lambda *_: None)
    whole = merging.merge_patch(upstream.repository, step, tip)
    assert quick.conflicts == whole.conflicts
    assert quick.conflicts or quick.tree == whole.tree, (
        "the markers of a conflict name commits, so only clean trees compare"
    )
