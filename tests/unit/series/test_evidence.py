"""What may be said of a patch that was applied but not built: no more than the source showed."""

from __future__ import annotations

from decouple.patch import parse as patches
from decouple.series.evidence import Level, prove_levels
from tests.support.reader import Reader

DIFF = "--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+{line}\n c = 3\n"
TEXT = b"a = 1\nb = 2\nc = 3\n"


def proven(files: dict[str, bytes], *diffs: str, partial: bool) -> list[Level]:
    text = "Decouple-Id: one\n---\n" + "".join(diffs)
    found = prove_levels([patches.parse_patch(text.encode(), name="1.0/1.patch")], Reader(files.get), partial=partial)
    return [level for level, _ in found.values()]


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
