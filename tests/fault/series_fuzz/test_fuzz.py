"""Hostile patches, a bounded slice; ``tests/long/fuzz.py`` runs them by the ten thousand.

Nothing a patch file says may crash the reader or the applier, write outside the tree, or keep them busy for long; and
what applies here, ``git apply`` takes with the same result.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from decouple.base.errors import DecoupleError
from decouple.patch import header, series_file
from decouple.patch import lint as lint_patch
from decouple.patch import parse as patch
from decouple.patch.apply import File, Tree, apply_patch, find_path_fault
from tests.long import fuzz
from tests.support.reader import Reader

SLICE = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
#: text that means something to a reader of patches, so that generated text gets past its first line
LINES = st.sampled_from(
    [
        b"diff --git a/f b/f\n",
        b"--- a/f\n",
        b"+++ b/f\n",
        b"--- /dev/null\n",
        b"+++ /dev/null\n",
        b"@@ -1,2 +1,2 @@\n",
        b"@@ -0,0 +1 @@\n",
        b"@@ -1 +0,0 @@\n",
        b" a\n",
        b"-b\n",
        b"+c\n",
        b"\n",
        b"\\ No newline at end of file\n",
        b"new file mode 100644\n",
        b"deleted file mode 100644\n",
        b"rename from f\n",
        b"rename to g\n",
        b"old mode 100644\n",
        b"new mode 100755\n",
        b"index 1..2 100644\n",
        b"Index: f\n",
        b"GIT binary patch\n",
        b"literal 3\n",
        b"-- \n",
        b"Description: x\r\n",
    ]
)
PATCHES = st.lists(st.one_of(LINES, st.binary(max_size=12)), max_size=30).map(b"".join)
TREE = {"f": b"a\nb\n", "dir/f": b"a\n"}


@SLICE
@given(PATCHES)
@example(b"--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n")
@example(b"diff --git a/f b/f\nrename from f\nrename to ../g\n")
@example(b"A:")
@example(b"rename from f\n")
@example(b'diff --git "a/\\056\\056/f" "b/\\056\\056/f"\nnew file mode 100644\n')
@example(b"diff --git a/.git/hooks/x b/.git/hooks/x\nnew file mode 100755\n--- /dev/null\n+++ b/.git/hooks/x\n")
def test_nothing_gets_past_reader_and_applier(data: bytes) -> None:
    read, problems = patch.scan_patch(data)
    if not problems:
        assert read.to_text() == data
    for reverse in (False, True):
        result = apply_patch(read, Tree(Reader(TREE.get)), reverse=reverse)
        assert all(not find_path_fault(path) for path in result.changes)
    lint_patch.lint_patch(data, "patches/x.patch")


@SLICE
@given(st.text(alphabet=st.sampled_from("abF: .\n\t#-\r"), max_size=200))
def test_headers_and_series_files_lose_nothing(text: str) -> None:
    assert header.parse_header(text).to_text() == text
    series, _ = series_file.scan_series(text)
    assert series.to_text() == text
    try:
        series_file.parse_series(text)
    except DecoupleError as error:
        assert error.next_step


def test_a_slice_of_the_mutations_agrees_with_git_apply() -> None:
    tally = fuzz.run(count=400, seed=7)
    assert not tally.faults
    assert tally.readable > 150 and tally.applied > 50, "mutations that break everything prove nothing"


def test_a_search_for_an_offset_is_linear() -> None:
    """A file of one line repeated and a hunk of that line: git's search compares every line at every place."""
    size = 20_000
    context = b" a\n" * (size // 4)
    lines = size // 4
    hostile = b"--- a/f\n+++ b/f\n@@ -9,%d +9,%d @@\n%s-b\n%s" % (2 * lines + 1, 2 * lines, context, context)
    tree = Tree(Reader({"f": b"a\n" * size}.get))
    began = time.process_time()
    assert not apply_patch(patch.parse_patch(hostile), tree).applies
    alternating = Tree(Reader({"f": b"a\n" * (size // 2) + b"b\n" + b"a\n" * (size // 2)}.get))
    assert apply_patch(patch.parse_patch(hostile), alternating).offsets
    assert time.process_time() - began < 2, "seconds for what takes milliseconds"


@pytest.mark.parametrize(
    "data",
    [
        b"diff --git " + b"a/ " * 5000 + b"\nnew file mode 100644\n",
        b"diff --git " + b'"' * 16000 + b"\n",
        b"--- a/f" + b" " * 200_000 + b"x\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        b"@@ -" + b"9" * 100_000 + b" +1 @@\n",
        b"--- a/f\n+++ b/f\n" + b"@@ -1 +1 @@\n-a\n+b\n" * 3000,
        b"Description: x\n" + b" \n" * 100_000,
        b"\n" * 200_000,
    ],
    ids=["blanks", "quotes", "spaces", "digits", "hunks", "folds", "newlines"],
)
def test_no_text_takes_long(data: bytes) -> None:
    began = time.process_time()
    read, _ = patch.scan_patch(data)
    apply_patch(read, Tree(Reader(TREE.get)))
    assert time.process_time() - began < 2


def test_a_hunk_that_would_glue_two_lines_is_refused_here_and_taken_by_git() -> None:
    """Found by comparing: git compares only the bytes the patch has, and drops the newline in mid-file."""
    case = fuzz.Case(
        b"--- a/f\n+++ b/f\n@@ -2,4 +2,4 @@\n b\n-c\n+C\n d\n foo\n\\ No newline at end of file\n",
        {"f": File(0o100644, b"a\nb\nc\nd\nfoo\nbar\n")},
    )
    assert not apply_patch(patch.parse_patch(case.text), Tree(fuzz.Files(case.files))).applies
    theirs = fuzz.reference.git_apply(case.text, case.files)
    assert not theirs.applied or theirs.files["f"].data == b"a\nb\nC\nd\nfoobar\n", "git has mended it: allow it here"
