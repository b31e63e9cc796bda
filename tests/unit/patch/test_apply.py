"""Applying in memory: where hunks go, what sections see of each other, what is refused."""

from __future__ import annotations

import pytest

from decouple.patch import parse as patch
from decouple.patch.apply import File, PatchResult, Tree, apply_patch
from decouple.patch.lines import split_lines
from decouple.patch.parse import EXECUTABLE, REGULAR, SYMLINK
from tests.long.fuzz import Files
from tests.support import reference
from tests.support.reader import Reader

NUMBERS = b"".join(b"%d\n" % number for number in range(1, 31))
GONE = b"".join(b"-%d\n" % number for number in range(1, 31))


def run(data: bytes, files: dict[str, File], reverse: bool = False) -> PatchResult:
    """Apply, and make sure that git apply does the same."""
    result = apply_patch(patch.parse_patch(data), Tree(Files(files)), reverse=reverse)
    theirs = reference.git_apply(data, files, reverse=reverse)
    assert theirs.applied == result.applies, theirs.said
    if result.applies:
        after = {path: file for path, file in {**files, **result.changes}.items() if file is not None}
        assert after == theirs.files
    return result


def text(data: bytes, mode: int = REGULAR) -> dict[str, File]:
    return {"f": File(mode, data)}


def edit(line: int, new: bytes, start: int | None = None) -> bytes:
    """A patch that replaces one line of NUMBERS; ``start``: where its hunk claims to begin."""
    begin = line - 3 if start is None else start
    before = b"".join(b" %d\n" % number for number in range(line - 3, line))
    behind = b"".join(b" %d\n" % number for number in range(line + 1, line + 4))
    return b"--- a/f\n+++ b/f\n@@ -%d,7 +%d,7 @@\n%s-%d\n+%s\n%s" % (begin, begin, before, line, new, behind)


def test_a_hunk_in_its_place() -> None:
    result = run(edit(10, b"ten"), text(NUMBERS))
    assert result.applies and not result.offsets
    assert result.changes["f"] == File(REGULAR, NUMBERS.replace(b"10\n", b"ten\n"))


@pytest.mark.parametrize(("start", "offset"), [(20, -13), (2, 5), (7, 0)])
def test_an_offset_is_told(start: int, offset: int) -> None:
    result = run(edit(10, b"ten", start), text(NUMBERS))
    assert [placed.offset for _, placed in result.offsets] == ([offset] if offset else [])


def test_of_two_equally_near_places_the_later_wins_as_in_git() -> None:
    block = b"x\ny\nz\nold\nz\ny\nx\n"
    filler = b"-\n" * 5
    files = text(filler + block + filler * 3 + block + filler)
    middle = 5 + (7 + 15) // 2 + 1
    hunk = b"@@ -%d,7 +%d,7 @@\n x\n y\n z\n-old\n+new\n z\n y\n x\n" % (middle, middle)
    result = run(b"--- a/f\n+++ b/f\n" + hunk, files)
    ((_, placed),) = result.offsets
    assert placed.line == 5 + 7 + 15 + 1 and placed.offset == 11 and placed.choices == 2


def test_a_hunk_at_line_one_stays_at_the_start_and_one_without_tail_at_the_end() -> None:
    first = b"--- a/f\n+++ b/f\n@@ -1,4 +1,5 @@\n+0\n 1\n 2\n 3\n 4\n"
    last = b"--- a/f\n+++ b/f\n@@ -28,3 +28,4 @@\n 28\n 29\n 30\n+31\n"
    assert run(first, text(NUMBERS)).applies and run(last, text(NUMBERS)).applies
    moved = run(first, text(b"new\n" + NUMBERS))
    assert not moved.applies
    (failed,) = moved.files
    assert failed.failure and failed.failure.near == 2 and "start of the file" in failed.failure.message
    assert not run(last, text(NUMBERS + b"new\n")).applies
    assert run(last, text(b"new\n" + NUMBERS)).offsets


def test_lines_of_an_earlier_hunk_are_never_matched_again() -> None:
    again = b"@@ -4,7 +4,7 @@\n 4\n 5\n 6\n-7\n+seven\n 8\n 9\n 10\n"
    assert not run(b"--- a/f\n+++ b/f\n" + again + again, text(NUMBERS + NUMBERS[:0])).applies


def test_a_conflict_shows_what_is_there() -> None:
    result = run(edit(10, b"ten"), text(NUMBERS.replace(b"11\n", b"eleven\n")))
    (only,) = result.files
    assert only.failure and only.failure.kind == "hunk" and only.failure.near == 7
    assert only.failure.found[4] == b"eleven\n" and only.failure.hunk
    assert only.failure.hunk.old_lines[4] == b"11\n"


def test_reverse() -> None:
    done = text(NUMBERS.replace(b"10\n", b"ten\n"))
    assert run(edit(10, b"ten"), done, reverse=True).changes["f"] == File(REGULAR, NUMBERS)
    assert not run(edit(10, b"ten"), text(NUMBERS), reverse=True).applies
    other_mode = b"diff --git a/f b/f\nindex 1..2 100644\n" + edit(10, b"ten")
    executable = text(NUMBERS.replace(b"10\n", b"ten\n"), EXECUTABLE)
    undone = apply_patch(patch.parse_patch(other_mode), Tree(Files(executable)), reverse=True)
    assert undone.changes["f"] == File(EXECUTABLE, NUMBERS), "git up to 2.39 takes the mode of the index line"


def test_modes_renames_copies_and_links() -> None:
    rename = (
        b"diff --git a/f b/d/g\nold mode 100644\nnew mode 100755\nsimilarity index 90%\nrename from f\nrename to d/g\n"
    )
    result = run(rename, text(NUMBERS))
    assert result.changes == {"f": None, "d/g": File(EXECUTABLE, NUMBERS)}
    copy = b"diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n"
    assert run(copy, text(NUMBERS)).changes == {"g": File(REGULAR, NUMBERS)}
    link = b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+f\n"
    link += b"\\ No newline at end of file\n"
    assert run(link, text(b"")).changes == {"l": File(SYMLINK, b"f")}


def test_two_files_change_places() -> None:
    swap = b"".join(
        b"diff --git a/%s b/%s\nsimilarity index 100%%\nrename from %s\nrename to %s\n" % (x, y, x, y)
        for x, y in ((b"f", b"g"), (b"g", b"f"))
    )
    files = {"f": File(REGULAR, b"1\n"), "g": File(EXECUTABLE, b"2\n")}
    assert run(swap, files).changes == {"g": files["f"], "f": files["g"]}


def test_a_later_section_sees_what_an_earlier_one_made() -> None:
    twice = edit(10, b"ten") + edit(20, b"twenty")
    assert run(twice, text(NUMBERS)).changes["f"] == File(
        REGULAR, NUMBERS.replace(b"10\n", b"ten\n").replace(b"20\n", b"twenty\n")
    )


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (edit(10, b"ten").replace(b"a/f", b"a/nope").replace(b"b/f", b"b/nope"), "gone"),
        (b"--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", "exists"),
        (b"diff --git a/f b/link/x\nsimilarity index 100%\nrename from f\nrename to link/x\n", "path"),
        (b"--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+a\n", "path"),
        (b"--- /dev/null\n+++ b//x\n@@ -0,0 +1 @@\n+a\n", "path"),
        (b"--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+a\n", "path"),
        (b"--- /dev/null\n+++ b/d/.GIT/config\n@@ -0,0 +1 @@\n+a\n", "path"),
        (b"--- /dev/null\n+++ b/GIT~1/config\n@@ -0,0 +1 @@\n+a\n", "path"),
        (b"diff --git a/f b/f\ndeleted file mode 120000\n--- a/f\n+++ /dev/null\n@@ -1,30 +0,0 @@\n" + GONE, "type"),
        (b"".join(b"diff --git a/%s b/%s\nnew file mode 100644\n" % (p, p) for p in (b"d/x", b"d")), "exists"),
        (b"".join(b"diff --git a/%s b/%s\nnew file mode 100644\n" % (p, p) for p in (b"d", b"d/x")), "path"),
        (b"diff --git a/f b/f\ndeleted file mode 100644\n", "content"),
        (b"diff --git a/f b/f\nold mode 100644\nnew mode 120000\n", "type"),
    ],
)
def test_what_is_refused_and_why(data: bytes, kind: str) -> None:
    files = {"f": File(REGULAR, NUMBERS), "link": File(SYMLINK, b"/etc")}
    result = run(data, files)
    assert [found.failure.kind for found in result.files if found.failure] == [kind]
    assert not result.changes


def test_a_file_behind_a_link_is_not_in_the_tree() -> None:
    """A folder on the disk shows it, and git does not take it."""
    tree = Tree(Files({"link": File(SYMLINK, b"d"), "link/f": File(REGULAR, NUMBERS)}))
    (found,) = apply_patch(patch.parse_patch(edit(10, b"ten").replace(b"/f\n", b"/link/f\n")), tree).files
    assert found.failure and found.failure.kind == "gone"


def test_nothing_of_a_patch_is_taken_unless_all_of_it_applies() -> None:
    both = edit(10, b"ten") + b"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n"
    result = run(both, text(NUMBERS))
    assert [found.failure is None for found in result.files] == [True, False]
    assert not result.changes


def test_a_tree_keeps_what_patches_did_and_leaves_its_source_alone() -> None:
    files = text(NUMBERS)
    tree = Tree(Files(files))
    tree.update(apply_patch(patch.parse_patch(edit(10, b"ten")), tree).changes)
    assert apply_patch(patch.parse_patch(edit(20, b"twenty")), tree).applies
    assert files["f"].data == NUMBERS
    found = tree.get("f")
    assert found and b"ten\n" in found.data


def test_a_tree_asks_its_source_for_a_file_once() -> None:
    """A forecast asks for the same files patch after patch, in ten trees."""
    asked: list[str] = []

    def read(path: str) -> bytes | None:
        asked.append(path)
        return NUMBERS if path == "f" else None

    tree = Tree(Reader(read))
    for _ in range(2):
        found = tree.get("f")
        assert found and found.data == NUMBERS
        assert tree.get("g") is None
    assert asked == ["f", "f", "g"], "for its mode, for its bytes, for what is not there"


def test_a_line_ends_at_a_line_feed_and_nowhere_else() -> None:
    for data in (b"a\x0bb\x0cc\x1cd\x85e\n\xe2\x80\xa8f", b"a\rb\r\nc\n", b"\n\n", b"a", b""):
        lines = split_lines(data)
        assert b"".join(lines) == data
        assert [line.rstrip(b"\n") for line in lines] == data.removesuffix(b"\n").split(b"\n")[: len(lines)]
        assert len(lines) == data.count(b"\n") + bool(data and not data.endswith(b"\n"))
