"""Planted evolutions of upstream, and what a patch cut for the release before becomes on each."""

from __future__ import annotations

import pytest

from decouple.patch.parse import Patch
from decouple.rebase.carry import Step, carry_patch
from decouple.rebase.verdicts import CarryResult, Verdict
from decouple.stack.export import make_diff
from tests.unit.rebase.releases import HEADER, Files, Upstream, numbered

OLD = numbered(1, 400)
PATCHED = numbered(1, 400, {200: "cut here\n"})


def carried(upstream: Upstream, old: Files, patched: Files, new: Files) -> CarryResult:
    before = upstream.release(old)
    step = upstream.patch(before, patched)
    tip = upstream.release(new)
    result = carry_patch(upstream.repository, step, tip, upstream.repository.root)
    assert (result.changes is None) == result.verdict.is_stop
    return result


def text(upstream: Upstream, result: CarryResult, path: str) -> str:
    assert result.changes is not None
    entry = result.changes[path]
    assert entry is not None
    return upstream.repository.run("cat-file", "blob", entry.id).decode()


def test_nothing_near_it_changed(upstream: Upstream) -> None:
    new = numbered(1, 400, {20: "upstream\n"})
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": new, "b": "new file\n"})
    assert result.verdict is Verdict.UNMODIFIED
    assert result.body is None, "the old file serves"


def test_a_hunk_moved_by_300_lines(upstream: Upstream) -> None:
    new = "".join(f"new {number}\n" for number in range(300)) + OLD
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": new})
    assert result.verdict is Verdict.OFFSET
    assert "+300 lines" in result.notes[0].text
    assert result.body is not None
    assert b"@@ -497,7 +497,7 @@" in result.body


def test_context_changed(upstream: Upstream) -> None:
    new = numbered(1, 400, {197: "other context\n"})
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": new})
    assert result.verdict is Verdict.MERGED
    assert "cut here\n" in text(upstream, result, "a")
    assert result.notes[0].found, "the report shows what stands there instead"


def test_a_renamed_file(upstream: Upstream) -> None:
    result = carried(upstream, {"old/a.cpp": OLD}, {"old/a.cpp": PATCHED}, {"new/b.cpp": OLD})
    assert result.verdict is Verdict.MERGED
    assert text(upstream, result, "new/b.cpp") == PATCHED
    assert [note.path for note in result.notes] == ["old/a.cpp", "new/b.cpp"], "where it is not, and where it is"


def test_a_split_file(upstream: Upstream) -> None:
    # The half with the patched line went to a new file; neither half may be patched by guesswork.
    first, second = numbered(1, 150), numbered(151, 400, {200: "rewritten\n"})
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": first, "a_more": second})
    assert result.verdict is Verdict.CONFLICT


def test_merged_upstream_verbatim(upstream: Upstream) -> None:
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": PATCHED})
    assert result.verdict is Verdict.ALREADY_UPSTREAM
    assert "its reverse applies" in result.notes[0].text


def test_merged_upstream_with_another_context(upstream: Upstream) -> None:
    new = numbered(1, 400, {197: "other context\n", 200: "cut here\n"})
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": new})
    assert result.verdict is Verdict.ALREADY_UPSTREAM
    assert "another context" in result.notes[0].text


def test_merged_upstream_and_then_reverted(upstream: Upstream) -> None:
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": OLD + "later work\n"})
    assert result.verdict is Verdict.UNMODIFIED


def test_upstream_removed_the_place_and_the_reverse_is_fooled(upstream: Upstream) -> None:
    # The patch adds a line between two that stand twice; upstream removed the first place and wrote the line at the
    # second one. The reverse applies there, yet the place the patch was cut for is gone.
    block = "alpha\nbeta\ngamma\ndelta\nepsilon\nzeta\n"
    with_line = block.replace("gamma\n", "gamma\nadded\n")
    middle = numbered(1, 60)
    result = carried(
        upstream,
        {"a": block + middle + block},
        {"a": with_line + middle + block},
        {"a": middle + with_line},
    )
    assert result.verdict in (Verdict.CONFLICT, Verdict.AMBIGUOUS)


def test_the_context_stands_twice_and_the_first_place_was_rewritten(upstream: Upstream) -> None:
    # git apply finds the second copy and would change the wrong function without a word.
    block = "".join(f"common {number}\n" for number in range(8))
    changed = block.replace("common 4\n", "cut here\n")
    middle = numbered(1, 30)
    rewritten = block.replace("common 4\n", "upstream's own\n").replace("common 3\n", "upstream's too\n")
    result = carried(
        upstream,
        {"a": block + middle + block},
        {"a": changed + middle + block},
        {"a": rewritten + middle + block},
    )
    assert result.verdict is Verdict.CONFLICT
    assert "the place it was cut for" in result.notes[0].text


def function(name: str, *more: str) -> str:
    body = ("  lazy_init();", "  auto guard = device_guard(x);", "  if (flag) {", "    work(x);", "  }", "  sync(x);")
    return "".join(f"{line}\n" for line in (f"int {name} {{", *body, *more, "  return x;", "}", ""))


F, G, H = function("f(int x)"), function("g(int x)"), function("h(int x)", "  last(x);")


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(G + H + F, id="the two change places"),
        pytest.param(G + H, id="deleted"),
        pytest.param(function("k(int x)") + G + H, id="deleted, and another came"),
        pytest.param(H + function("f(int x)", "  more(x);") + G, id="behind another, and changed"),
    ],
)
def test_the_same_lines_of_another_function_are_not_taken_for_those_that_are_meant(
    upstream: Upstream, new: str
) -> None:
    patched = F.replace("work(x)", "ours(x)")
    result = carried(upstream, {"a.cpp": F + G + H}, {"a.cpp": patched + G + H}, {"a.cpp": new})
    assert result.verdict is Verdict.CONFLICT


def test_lines_that_stand_once_may_be_in_a_function_with_another_name(upstream: Upstream) -> None:
    old, new = F + function("h(int x)", "  last(x);"), F + function("k(int x, int y)", "  last(x);")
    result = carried(upstream, {"a.cpp": old}, {"a.cpp": old.replace("last", "ours")}, {"a.cpp": new})
    assert result.verdict is Verdict.UNMODIFIED
    context = new.replace("  sync(x);\n  last", "  theirs(x);\n  sync(x);\n  last")
    result = carried(upstream, {"a.cpp": old}, {"a.cpp": old.replace("last", "ours")}, {"a.cpp": context})
    assert result.verdict is Verdict.MERGED
    longer = F.replace("f(int x)", "f(int x, int y)") + G
    result = carried(upstream, {"a.cpp": F + G}, {"a.cpp": F.replace("work", "ours") + G}, {"a.cpp": longer})
    assert result.verdict is Verdict.UNMODIFIED


def test_applies_forwards_and_backwards(upstream: Upstream) -> None:
    # Upstream has the change in one copy of a repeated block and not in the other.
    block = "".join(f"common {number}\n" for number in range(8))
    changed = block.replace("common 4\n", "cut here\n")
    middle = numbered(1, 30)
    result = carried(upstream, {"a": block + middle}, {"a": changed + middle}, {"a": block + middle + changed})
    assert result.verdict is Verdict.AMBIGUOUS


def test_a_patch_with_two_parts_for_one_file(upstream: Upstream) -> None:
    """As tools that join patches make it; the second part's lines are those that the first one leaves."""
    old, between, after = (
        upstream.release({"a": text}) for text in (numbered(1, 20), OLD, numbered(1, 20, {9: "x\n"}))
    )
    body = make_diff(upstream.repository, old, between) + make_diff(upstream.repository, between, after)
    step = Step(Patch("1.0/0001-a.patch", HEADER + body), old, after)
    tip = upstream.release({"a": "top\n" + numbered(1, 20)})
    assert carry_patch(upstream.repository, step, tip, upstream.repository.root).verdict is Verdict.OFFSET


@pytest.mark.parametrize(
    ("new", "executable", "verdict"),
    [
        pytest.param(OLD, [], Verdict.UNMODIFIED, id="as it was"),
        pytest.param(OLD + "more\n", [], Verdict.UNMODIFIED, id="changed"),
        pytest.param(OLD + "more\n", ["a"], Verdict.ALREADY_UPSTREAM, id="taken"),
    ],
)
def test_a_patch_of_a_mode_alone(upstream: Upstream, new: str, executable: list[str], verdict: Verdict) -> None:
    """It applies both ways wherever its file is."""
    step = upstream.patch(upstream.release({"a": OLD}), {"a": OLD}, executable=["a"])
    tip = upstream.release({"a": new}, executable)
    assert carry_patch(upstream.repository, step, tip, upstream.repository.root).verdict is verdict


def test_a_deleted_target(upstream: Upstream) -> None:
    result = carried(upstream, {"a": OLD, "b": "b\n"}, {"a": PATCHED, "b": "b\n"}, {"b": "b\n"})
    assert result.verdict is Verdict.TARGET_GONE
    assert any("rename search" in note.text for note in result.notes)


@pytest.mark.parametrize("new", [{"a": OLD + "more\n"}, {"e": OLD}], ids=["changed", "renamed"])
def test_a_file_that_the_patch_deletes_is_not_gone_where_upstream_changed_it(upstream: Upstream, new: Files) -> None:
    result = carried(upstream, {"a": OLD, "b": "b\n"}, {"b": "b\n"}, {**new, "b": "b\n"})
    assert result.verdict is Verdict.CONFLICT
    assert not any("not in this release" in note.text for note in result.notes)


def test_upstream_rewrote_the_line(upstream: Upstream) -> None:
    new = numbered(1, 400, {200: "upstream's own\n"})
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": new})
    assert result.verdict is Verdict.CONFLICT
    (note,) = [note for note in result.notes if note.upstream]
    assert (note.path, note.line) == ("a", 197)
    assert "-line 200" in note.upstream
    assert "+upstream's own" in note.upstream


def test_line_ends_flipped(upstream: Upstream) -> None:
    result = carried(upstream, {"a": OLD}, {"a": PATCHED}, {"a": OLD.replace("\n", "\r\n")})
    assert result.verdict is Verdict.CONFLICT
    assert any("end in CRLF here" in note.text for note in result.notes)


def test_a_new_file_that_upstream_has_too(upstream: Upstream) -> None:
    result = carried(upstream, {"a": OLD}, {"a": OLD, "c": "ours\n"}, {"a": OLD, "c": "theirs\n"})
    assert result.verdict is Verdict.CONFLICT


MORE = {"folder/b": OLD + "more\n", "folder/c": "c\n" * 9}
RENAMED = {name.replace("folder", "elsewhere"): body for name, body in MORE.items()}
AS_IT_WAS = {
    "changed": ({"a": PATCHED}, {"a": OLD, "new": "x\n"}),
    "added beside it": ({"folder/d": "d\n"}, {"a": "another\n", **MORE}),
    "added to a folder that upstream renamed": ({"folder/d": "d\n"}, RENAMED),
    "added where upstream has a file": ({"folder/d": "d\n"}, {"folder/d": "upstream's\n", **MORE}),
    "deleted": ({"a": ""}, {"a": OLD, "new": "x\n"}),
    "changed where another file changed": ({"a": PATCHED, "folder/b": "b\n"}, {"a": OLD, "folder/b": OLD}),
}


@pytest.mark.parametrize(("does", "new"), AS_IT_WAS.values(), ids=AS_IT_WAS)
def test_what_is_as_it_was_is_told_without_a_merge_as_with_one(
    upstream: Upstream, does: Files, new: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"a": OLD, **MORE}
    patched = {name: body for name, body in {**old, **does}.items() if body}
    short = carried(upstream, old, patched, new)
    monkeypatch.setattr("decouple.rebase.carry._find_unmerged_changes", lambda repository, step, tip: None)
    whole = carried(upstream, old, patched, new)
    assert (short.verdict, short.changes, short.notes) == (whole.verdict, whole.changes, whole.notes)


def test_what_is_as_it_was_needs_no_merge(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decouple.rebase.carry.merge_patch", None)
    monkeypatch.setattr("decouple.rebase.carry.applier", None)
    result = carried(upstream, {"a": OLD}, {"a": PATCHED, "d/new": "x\n"}, {"a": OLD, "b": "new file\n"})
    assert result.verdict is Verdict.UNMODIFIED
    assert text(upstream, result, "d/new") == "x\n"
