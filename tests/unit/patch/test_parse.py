"""Reading patches: what is a file, a name and a hunk, and what is wrong with text that is none."""

from __future__ import annotations

import pytest

from decouple.base.errors import DecoupleError
from decouple.patch import parse as patch
from decouple.patch.apply import File, Tree, apply_patch
from tests.long.fuzz import Files
from tests.support import reference

HUNK = b"@@ -1,3 +1,3 @@ int main()\n a\n-b\n+B\n c\n"
GIT = (
    b"""\
Description: x

diff --git a/dir/f.c b/dir/f.c
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/dir/f.c
+++ b/dir/f.c
"""
    + HUNK
)
RENAME = b"""\
diff --git a/old name.c b/new/name.c
similarity index 100%
rename from old name.c
rename to new/name.c
"""


def only(data: bytes, strip: int = 1) -> patch.FilePatch:
    """The one section of a patch."""
    (section,) = patch.parse_patch(data, strip=strip).files
    return section


def codes(data: bytes, strip: int = 1) -> list[str]:
    return [problem.code for problem in patch.scan_patch(data, strip=strip)[1]]


def test_a_git_diff() -> None:
    read = patch.parse_patch(GIT, name="2.6/0001-x.patch")
    assert read.header.synopsis == "x"
    (section,) = read.files
    assert (section.old_path, section.new_path, section.line) == ("dir/f.c", "dir/f.c", 3)
    assert section.old_mode == patch.REGULAR and section.new_mode is None
    (hunk,) = section.hunks
    assert (hunk.old_start, hunk.old_count, hunk.leading, hunk.trailing, hunk.line) == (1, 3, 1, 1, 7)
    assert hunk.old_lines == (b"a\n", b"b\n", b"c\n")
    assert hunk.new_lines == (b"a\n", b"B\n", b"c\n")
    assert read.to_text() == GIT


def test_a_rename_without_a_hunk() -> None:
    section = only(RENAME)
    assert section.rename and section.similarity == 100 and not section.hunks
    assert section.paths == ("old name.c", "new/name.c")


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        (b"--- a/f\t2024-01-02 03:04:05.000000000 +0100\n+++ b/f\t2024-01-02 03:04:05\n" + HUNK, ("f",)),
        (b"--- a/with blank 2024-01-02 03:04:05\n+++ b/with blank 2024-01-02 03:04:05\n" + HUNK, ("with blank",)),
        (b"--- a/f.orig\n+++ b/f\n" + HUNK, ("f.orig",)),
        (b"--- a/f\n+++ b/f.new\n" + HUNK, ("f",)),
        (b'--- "a/tab\\there"\n+++ "b/tab\\there"\n' + HUNK, ("tab\there",)),
        (b'--- "a/\\303\\244"\n+++ "b/\\303\\244"\n' + HUNK, ("ä",)),
        (b"--- a/x//y\n+++ b/x//y\n" + HUNK, ("x/y",)),
        (b"--- a/f\r\n+++ b/f\r\n" + HUNK, ("f",)),
    ],
)
def test_names_in_traditional_headers(data: bytes, paths: tuple[str, ...]) -> None:
    # "f" behind "f.orig": git takes the shorter of two names that start alike only for the second; quilt writes .orig
    found = only(data).paths
    assert found == paths or found == ("f",)


def test_strip_levels() -> None:
    assert only(b"--- f\n+++ f\n" + HUNK, strip=0).path == "f"
    assert only(b"--- x/a/dir/f\n+++ y/b/dir/f\n" + HUNK, strip=2).path == "dir/f"
    assert codes(b"--- f\n+++ f\n" + HUNK) == ["name"]


def test_index_lines_of_subversion_and_quilt_belong_to_their_section() -> None:
    data = (
        b"text\nIndex: p/f\n"
        + b"=" * 67
        + b"\n--- p.orig/f\n+++ p/f\n"
        + HUNK
        + b"Index: p/g\n"
        + b"=" * 67
        + b"\n--- p.orig/g\n+++ p/g\n"
        + HUNK
    )
    read = patch.parse_patch(data)
    assert read.header_bytes == b"text\n"
    assert [section.path for section in read.files] == ["f", "g"]
    assert read.files[1].preamble.startswith(b"Index: p/g")
    assert read.to_text() == data


@pytest.mark.parametrize(
    ("data", "creates", "deletes"),
    [
        (b"--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", True, False),
        (b"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", False, True),
        (
            b"--- a/f\t1970-01-01 01:00:00.000000000 +0100\n+++ b/f\t2024-01-02 03:04:05\n@@ -0,0 +1 @@\n+a\n",
            True,
            False,
        ),
        (b"--- a/f\t1970-01-01 00:00:00.000000000 +0100\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", None, False),
        (b"--- a/f\n+++ b/f\t1969-12-31 19:00:00 -0500\n@@ -1 +0,0 @@\n-a\n", False, True),
        (b"diff --git a/f b/f\nnew file mode 100755\n", True, False),
        (b"diff --git a/f b/f\ndeleted file mode 100644\n", False, True),
    ],
)
def test_creation_and_deletion(data: bytes, creates: bool | None, deletes: bool | None) -> None:
    section = only(data)
    assert (section.creates, section.deletes) == (creates, deletes)
    assert section.path == "f"


def test_missing_newlines_are_part_of_a_line() -> None:
    marker = b"\\ No newline at end of file\n"
    (hunk,) = only(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n" + marker + b"+b\n" + marker).hunks
    assert (hunk.old_lines, hunk.new_lines) == ((b"a",), (b"b",))


def test_a_mail_signature_is_a_trailer() -> None:
    read = patch.parse_patch(GIT + b"-- \n2.39.5\n\n")
    assert read.trailer == b"-- \n2.39.5\n\n" and read.trailer_line == 12
    assert read.to_diff() == GIT[GIT.index(b"diff") :]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (HUNK, "orphan-hunk"),
        (b"--- \n+++ b/f\n" + HUNK, "orphan-hunk"),
        (b"@@ -99999999999999999999,1 +1 @@\n" + GIT, "orphan-hunk"),
        (b"--- a/f\n+++ b/f\n@@ -1,4 +1,3 @@\n a\n-b\n+B\n c\n", "hunk-count"),
        (b"--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n-b\n+B\n c\n", "hunk-count"),
        (b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c", "hunk-count"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n a\n", "hunk-empty"),
        (b"--- a/f\n+++ b/f\n@@ -1,x +1 @@\n a\n", "hunk-header"),
        (b"--- a/f\n+++ b/f\n@@ -4294967296 +1 @@\n-a\n+b\n", "hunk-header"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n", "hunk-line"),
        (b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n-b\n+c\n+d\n", "hunk-line"),
        (b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n\n\\ No newline at end of file\n", "hunk-line"),
        (b"diff --git a/f b/f\n", "lone-header"),
        (b"diff --git a/f b/g\nold mode 100644\nnew mode 100755\n", "name"),
        (b"diff --git a/f b/f\n--- a/f\n--- a/g\n+++ b/f\n" + HUNK, "name"),
        (b"diff --git a/f b/f\nold mode 000640\nnew mode 100755\n", "mode"),
        (b"diff --git a/f b/f\nnew file mode 100644\ndeleted file mode 100644\n", "extended-header"),
        (b"diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n" + HUNK, "new-file"),
        (b"diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n" + HUNK, "deleted-file"),
        (b"diff --git a/f b/f\nindex 1..2 100644\n", "no-change"),
        (b"diff --git a/f b/f\nold mode 100644\nnew mode 100644\n", "no-change"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(data: bytes, code: str) -> None:
    assert code in codes(data)
    with pytest.raises(DecoupleError, match=r"^p:\d+: ") as caught:
        patch.parse_patch(data, name="p")
    assert caught.value.next_step


@pytest.mark.parametrize(("old", "new"), [("100144", "100755"), ("100640", "100644"), ("100755", "100744")])
@pytest.mark.parametrize("mode", [0o100644, 0o100755])
def test_two_spellings_of_a_mode_do_what_they_do_to_git(old: str, new: str, mode: int) -> None:
    data, files = f"diff --git a/f b/f\nold mode {old}\nnew mode {new}\n".encode(), {"f": File(mode, b"a\n")}
    theirs = reference.git_apply(data, files)
    ours = apply_patch(patch.parse_patch(data, name="p"), Tree(Files(files)))
    assert not any(file.failure for file in ours.files)
    if theirs.applied:  # git 2.39 takes a patch that changes nothing, git 2.47 sees garbage in it
        assert {**files, **ours.changes} == theirs.files
    else:
        assert "only garbage" in theirs.said


def test_a_broken_hunk_does_not_hide_the_rest() -> None:
    data = GIT.replace(b"-1,3 +1,3", b"-1,9 +1,3") + b"diff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1,5 +1 @@\n-a\n"
    read, problems = patch.scan_patch(data)
    assert [section.path for section in read.files] == ["dir/f.c", "g"]
    assert [(problem.line, problem.code) for problem in problems] == [(7, "hunk-count"), (15, "hunk-count")]


def test_a_patch_without_a_diff_is_refused() -> None:
    with pytest.raises(DecoupleError, match="no diff in it"):
        patch.parse_patch(b"Description: x\n")


def test_binary_and_submodule_changes_are_seen() -> None:
    start = b"diff --git a/f b/f\nindex 1..2 "
    assert only(start[:-1] + b"\nBinary files a/f and b/f differ\n").binary
    literal = b"GIT binary patch\nliteral 1\nIcmZPo0{{R30RR91\n\nliteral 0\nHcmV?d00001\n\n"
    section = only(start + b"100644\n" + literal)
    assert section.binary and section.raw_tail == literal
    commits = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n"
    assert only(start + b"160000\n" + commits).is_submodule
