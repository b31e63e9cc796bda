"""What may be said of a patch that was applied but not built: no more than the source showed."""

from __future__ import annotations

from decouple.patch import parse as patches
from decouple.series.check import check_series
from decouple.series.evidence import Level, is_refuted, prove_levels
from tests.support.reader import Reader

DIFF = "--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+{line}\n c = 3\n"
TEXT = b"a = 1\nb = 2\nc = 3\n"


def proven_series(files: dict[str, bytes], *texts: str, partial: bool = False) -> list[tuple[Level, str]]:
    series = [patches.parse_patch(text.encode(), name=f"1.0/{at}.patch") for at, text in enumerate(texts)]
    verdicts = check_series(series, Reader(files.get), partial=partial)
    return list(prove_levels(verdicts, partial=partial).values())


def proven(files: dict[str, bytes], *diffs: str, partial: bool) -> list[Level]:
    text = "Decouple-Id: one\n---\n" + "".join(diffs)
    return [level for level, _ in proven_series(files, text, partial=partial)]


def test_the_level_goes_by_what_the_source_shows() -> None:
    python, header = DIFF.format(path="torch/x.py", line="b = 3"), DIFF.format(path="c10/x.h", line="b = 3")
    files = {"torch/x.py": TEXT, "c10/x.h": TEXT}
    assert proven(files, python, header, partial=False) == [Level.FULL]
    assert proven(files, python, header, partial=True) == [Level.TOUCHED]
    assert proven(files, python, partial=True) == [Level.PYTHON]
    assert proven({"torch/x.py": TEXT}, python, header, partial=True) == [Level.NOTHING], "one of two files is not seen"
    assert proven({"torch/x.py": b"other\n"}, python, partial=False) == [Level.NOTHING]


def test_python_that_applies_and_does_not_compile_is_not_proven() -> None:
    broken = DIFF.format(path="torch/x.py", line="b =")
    assert proven({"torch/x.py": TEXT}, broken, partial=False) == [Level.NOTHING]


def test_python_that_does_not_compile_is_named_where_other_files_are_not_seen() -> None:
    broken, hidden = DIFF.format(path="torch/x.py", line="b ="), DIFF.format(path="c10/x.cpp", line="b = 3")
    ((level, why),) = proven_series({"torch/x.py": TEXT}, broken + hidden, partial=True)
    assert level is Level.NOTHING and why.startswith("torch/x.py does not compile")


def test_only_what_a_source_shows_refutes_a_proof() -> None:
    def refuted(files: dict[str, bytes], line: str) -> bool:
        patch = patches.parse_patch(DIFF.format(path="torch/x.py", line=line).encode())
        (verdict,) = check_series([patch], Reader(files.get), partial=True)
        return is_refuted(verdict)

    assert not refuted({"torch/x.py": TEXT}, "b = 3")
    assert not refuted({}, "b = 3"), "it does not show the file"
    assert refuted({"torch/x.py": b"other\n"}, "b = 3")
    assert refuted({"torch/x.py": TEXT}, "b ="), "it applies, and what it leaves does not compile"


def test_a_patch_behind_one_that_is_seen_in_part_is_judged_by_what_it_touches() -> None:
    """The level of a header's patch was "Python only": alone it changes a file that the source does not show."""
    names = {"a/x.h": "b/x.h", "a/hidden.cpp": "b/hidden.cpp"}
    move = "".join(
        f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
        for old, new in names.items()
    )
    edit = DIFF.format(path="b/x.h", line="b = 3")
    moved, edited = proven_series({"a/x.h": TEXT}, move, edit, partial=True)
    assert moved == (Level.NOTHING, "clean; 1 of 2 files not seen")
    assert edited == (Level.TOUCHED, "")


def test_python_behind_a_patch_that_may_be_there_already_is_compiled() -> None:
    block = "def f():\n    one = 1\n    two = 2\n    three = 3\n"
    files = {"torch/x.py": f"start = 1\n{block}{block.replace('two = 2', 'two = 0')}".encode()}
    head = "--- a/torch/x.py\n+++ b/torch/x.py\n"
    first = f"{head}@@ -2,4 +2,4 @@\n def f():\n     one = 1\n-    two = 2\n+    two = 0\n     three = 3\n"
    later = f"{head}@@ -1,5 +1,5 @@\n start = 1\n def f():\n     one = 1\n-    two = 0\n+    def (:\n     three = 3\n"
    perhaps, broken = proven_series(files, first, later)
    assert perhaps == (Level.NOTHING, "ambiguous")
    assert broken[0] is Level.NOTHING and "torch/x.py does not compile" in broken[1]
