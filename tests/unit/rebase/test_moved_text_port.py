"""Upstream changes text that a patch moves: its change goes where the text went, or a person sees it."""

from __future__ import annotations

import pytest

from decouple.patch.parse import Patch
from decouple.rebase.carry import Step, carry_patch
from decouple.rebase.verdicts import CarryResult, Verdict
from decouple.series.lint import find_moved_faults
from tests.unit.rebase.releases import Upstream, numbered

HEAD, TAIL = numbered(1, 40), numbered(41, 80)
BODY = "int share() {\n" + "".join(f"  step_number({number});\n" for number in range(1, 21)) + "}\n"
GUARDED = f"#ifdef USE_CUDA\n{BODY}#else\nint share() {{ return none; }}\n#endif\n"
OLD = {"core.cpp": HEAD + GUARDED + TAIL}
STUB = "int share() { return registered(); }\n"
OURS = "// ours\n\n"
NEW = {"core.cpp": HEAD + STUB + TAIL, "cuda.cpp": OURS + BODY}


def carried(upstream: Upstream, release: dict[str, str], new: dict[str, str] = NEW) -> CarryResult:
    step = upstream.patch(upstream.release(OLD), new)
    tip = upstream.release(release)
    return carry_patch(upstream.repository, step, tip, upstream.repository.root)


def text(upstream: Upstream, one: CarryResult, path: str) -> str:
    assert one.changes
    entry = one.changes[path]
    assert entry
    return upstream.repository.run("cat-file", "blob", entry.id).decode()


def mended(old: str, new: str) -> dict[str, str]:
    assert old in OLD["core.cpp"]
    return {"core.cpp": OLD["core.cpp"].replace(old, new)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  step_number(7);\n", "  CHECK(step_number(7));\n"),
        ("  step_number(12);\n", ""),
        ("  step_number(12);\n", "  step_number(12);\n  and_more();\n"),
    ],
)
def test_what_upstream_mends_in_a_moved_body_is_in_the_copy(upstream: Upstream, old: str, new: str) -> None:
    one = carried(upstream, mended(old, new))
    assert one.verdict is Verdict.MERGED
    assert text(upstream, one, "core.cpp") == NEW["core.cpp"]
    assert text(upstream, one, "cuda.cpp") == OURS + BODY.replace(old, new)
    (note,) = one.notes
    assert note.text == "upstream changed text that moves to cuda.cpp: brought there"
    assert any(line.startswith(("+", "-")) for line in note.upstream)


def test_text_that_comes_right_before_a_moved_body_stays(upstream: Upstream) -> None:
    release = {"core.cpp": HEAD + "int other();\n\n" + GUARDED.replace("(7)", "(70)") + TAIL}
    one = carried(upstream, release)
    assert one.verdict is Verdict.MERGED
    assert "int other();" in text(upstream, one, "core.cpp")
    assert "step_number(70)" in text(upstream, one, "cuda.cpp")


def test_what_cannot_be_brought_there_is_shown(upstream: Upstream) -> None:
    """The copy has a line of ours where upstream changed its own."""
    new = {**NEW, "cuda.cpp": OURS + BODY.replace("step_number(7)", "our_number(7)")}
    one = carried(upstream, mended("  step_number(7);\n", "  CHECK(step_number(7));\n"), new)
    assert one.verdict is Verdict.CONFLICT
    (note,) = [note for note in one.notes if "bring this there by hand" in note.text]
    assert "-  step_number(7);" in note.upstream
    assert "+  CHECK(step_number(7));" in note.upstream


def test_all_hunks_that_do_not_fit_are_shown_with_what_upstream_did(upstream: Upstream) -> None:
    step = upstream.patch(
        upstream.release({"a": numbered(1, 60)}), {"a": numbered(1, 60, {10: "ours\n", 50: "ours too\n"})}
    )
    tip = upstream.release({"a": numbered(1, 60, {10: "theirs\n", 50: "theirs too\n"})})
    one = carry_patch(upstream.repository, step, tip, upstream.repository.root)
    assert one.verdict is Verdict.CONFLICT
    shown = [note for note in one.notes if note.upstream]
    assert [note.line for note in shown] == [7, 47]
    assert "+theirs" in shown[0].upstream
    assert "+theirs too" in shown[1].upstream


def test_where_the_lines_of_a_split_file_went(upstream: Upstream) -> None:
    """No rename: each half is too small a part of the file for git to call it one."""
    words = {number: f"a rather telling line with number {number}\n" for number in range(1, 301)}
    old, new = numbered(1, 300, words), numbered(1, 300, words | {20: "ours\n"})
    step = upstream.patch(upstream.release({"a": old}), {"a": new})
    parts = {f"part{number}": numbered(60 * number + 1, 60 * number + 60, words) for number in range(5)}
    one = carry_patch(upstream.repository, step, upstream.release(parts), upstream.repository.root)
    assert one.verdict is Verdict.TARGET_GONE
    assert "part0" in [note.path for note in one.notes if "lines that it looks for in a" in note.text]


def faults(step: Step) -> list[str]:
    return [fault.message for fault in find_moved_faults(step.patch, lambda identity, line: False)]


def test_lint_sees_a_line_that_was_lost_on_the_way(upstream: Upstream) -> None:
    """Upstream's mend is in what goes, and the copy is the old one: what "ours" makes of a conflict."""
    release = upstream.release(mended("  step_number(7);\n", "  CHECK(step_number(7));\n"))
    (fault,) = faults(upstream.patch(release, NEW))
    assert "core.cpp:49 goes with text that moves to cuda.cpp:3 and is not there: 'CHECK(step_number(7));'" in fault


def test_lint_is_content_with_an_unchanged_move_and_a_settled_guard(upstream: Upstream) -> None:
    assert faults(upstream.patch(upstream.release(OLD), NEW)) == []


def test_what_changes_on_the_way_on_purpose_is_said(upstream: Upstream) -> None:
    step = upstream.patch(upstream.release(OLD), {**NEW, "cuda.cpp": BODY.replace("(7)", "(70)")})
    assert len(faults(step)) == 1
    assert find_moved_faults(step.patch, lambda identity, line: "step_number(7)" in line) == [], "its recipe says so"
    header = step.patch.header_bytes.replace(b"---\n", b"Moved-Differs: seventy, because of the other unit\n---\n")
    said = Patch(step.patch.name, header + step.patch.data[len(step.patch.header_bytes) :])
    assert find_moved_faults(said, lambda identity, line: False) == [], "its header says so"
