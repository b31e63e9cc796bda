"""Series files: quilt's syntax, nothing lost, changes that keep the comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.patch import series_file

TEXT = """\
# our series

2.6/0001-move.patch
2.6/0002-fix.patch -p0   # old style
# a group
2.6/0003-add.patch
"""


def test_a_series_is_its_patches_in_order() -> None:
    series = series_file.parse_series(TEXT)
    assert series.names == ("2.6/0001-move.patch", "2.6/0002-fix.patch", "2.6/0003-add.patch")
    assert [entry.strip for entry in series.entries] == [1, 0, 1]
    assert [entry.line for entry in series.entries] == [3, 4, 6]
    assert series.to_text() == TEXT


def test_changes_keep_every_other_line() -> None:
    series = series_file.parse_series(TEXT)
    longer = series.insert("2.6/0004-new.patch", after="2.6/0001-move.patch")
    assert longer.names[1] == "2.6/0004-new.patch"
    assert longer.remove("2.6/0004-new.patch").to_text() == TEXT
    assert "2.6/0009-fix.patch -p0   # old style" in series.rename("2.6/0002-fix.patch", "2.6/0009-fix.patch").to_text()
    assert series.append("2.6/0005-last.patch").to_text() == TEXT + "2.6/0005-last.patch\n"
    turned = series.reorder(["2.6/0003-add.patch", "2.6/0002-fix.patch", "2.6/0001-move.patch"])
    assert turned.to_text().splitlines()[4] == "# a group"
    assert turned.names[0] == "2.6/0003-add.patch"
    assert [entry.line for entry in turned.entries] == [3, 4, 6]


def test_appending_to_a_series_that_has_only_comments_or_no_last_newline() -> None:
    assert (
        series_file.parse_series("# none yet\n").append("2.6/0001-a.patch").to_text()
        == "# none yet\n2.6/0001-a.patch\n"
    )
    assert series_file.parse_series("2.6/0001-a.patch").append("2.6/0002-b.patch").to_text() == (
        "2.6/0001-a.patch\n2.6/0002-b.patch\n"
    )
    assert series_file.parse_series("").append("2.6/0001-a.patch").to_text() == "2.6/0001-a.patch\n"


def test_reordering_a_series_that_has_no_last_newline() -> None:
    series = series_file.parse_series("2.6/0001-a.patch\n2.6/0002-b.patch")
    turned = series.reorder(["2.6/0002-b.patch", "2.6/0001-a.patch"])
    assert turned.to_text() == "2.6/0002-b.patch\n2.6/0001-a.patch\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a.patch -R\n", "series-syntax"),
        ("a.patch -pab\n", "series-syntax"),
        ("../a.patch\n", "series-path"),
        ("/etc/passwd\n", "series-path"),
        ("a//b.patch\n", "series-path"),
        ("a\\b.patch\n", "series-path"),
        ("-p1\n", "series-path"),
        ("a.patch\nb.patch\na.patch -p0\n", "listed-twice"),
        ("a.patch\r\n", "crlf"),
    ],
)
def test_faults_name_the_line(text: str, code: str) -> None:
    series, problems = series_file.scan_series(text)
    assert [problem.code for problem in problems] == [code]
    assert problems[0].line == text.count("\n")
    assert series.to_text() == text, "a fault loses no text either"
    with pytest.raises(DecoupleError, match=rf"^series:{text.count(chr(10))}: "):
        series_file.parse_series(text)


def test_what_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match=r"no series file .*9\.9"):
        series_file.read_series(tmp_path / "9.9")
    with pytest.raises(DecoupleError, match=r"b\.patch is not"):
        series_file.parse_series("a.patch\n").remove("b.patch")
    with pytest.raises(DecoupleError, match="in the series already"):
        series_file.parse_series("a.patch\n").insert("a.patch")
    (tmp_path / "2.6").write_bytes(b"a.patch\n\xff\n")
    with pytest.raises(DecoupleError, match="not UTF-8 at byte 8"):
        series_file.read_series(tmp_path / "2.6")


def test_writing_is_reading_backwards(tmp_path: Path) -> None:
    series_file.parse_series(TEXT).write(tmp_path / "2.6")
    assert series_file.read_series(tmp_path / "2.6").to_text() == TEXT
