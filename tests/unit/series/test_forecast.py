"""The matrix of patches and releases, from sources that show all of a release or a part of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.patch import parse as patches
from decouple.patch.parse import Patch
from decouple.series import check, forecast
from decouple.series.check import Fit
from tests.support.reader import Reader
from tests.support.series import git, usual_world

PYTHON = b"""Decouple-Id: python
---
--- a/torch/x.py
+++ b/torch/x.py
@@ -3,7 +3,7 @@
 b
 c
 d
-two
+TWO
 e
 f
 g
"""
CPP = PYTHON.replace(b"x.py", b"x.cpp").replace(b": python", b": cpp")
BOTH = PYTHON.replace(b": python", b": both") + CPP.split(b"---\n", 1)[1]
TEXT = b"0\na\nb\nc\nd\ntwo\ne\nf\ng\nh\n"


def column(release: str, files: dict[str, bytes], series: list[Patch], *, partial: bool) -> forecast.Column:
    verdicts = check.check_series(series, Reader(files.get), partial=partial)
    return forecast.Column(release, "a test", tuple(verdicts))


def matrix(*texts: bytes) -> forecast.Forecast:
    series = [patches.parse_patch(text, name=f"1.0/000{number}.patch") for number, text in enumerate(texts, start=1)]
    columns = (
        column("1.0", {"torch/x.py": TEXT, "torch/x.cpp": TEXT}, series, partial=False),
        column("1.1", {"torch/x.py": b"new\n" * 9 + TEXT}, series, partial=True),
        column("1.2", {"torch/x.py": TEXT.replace(b"two", b"other")}, series, partial=True),
        forecast.Column("1.3", "", missing="no source: nothing can be reached"),
    )
    return forecast.Forecast("1.0", tuple(series), columns)


def test_what_a_source_does_not_show_is_not_clean() -> None:
    made = matrix(CPP)
    assert [forecast.describe_verdict(column.verdicts[0]) for column in made.columns[:3]] == [
        "clean",
        "not seen",
        "not seen",
    ]
    assert forecast.describe_column(made.columns[1]) == "1 not seen"


def test_a_patch_that_is_seen_in_part_says_so() -> None:
    made = matrix(BOTH)
    assert forecast.describe_verdict(made.columns[1].verdicts[0]) == "offset (1 of 2 files)"


def test_where_a_patch_would_stop_a_way_between_is_named() -> None:
    assert forecast.name_other_way(matrix(PYTHON)).startswith(
        "1.2: `decouple rebase 1.0 RELEASE --report` looks for a way"
    )
    assert forecast.name_other_way(matrix(CPP)) == ""


def test_the_worst_of_all_decides() -> None:
    assert matrix(PYTHON).worst is Fit.CONFLICT
    assert matrix(CPP).worst is Fit.CLEAN


def test_a_column_in_which_nothing_is_seen_is_not_judged() -> None:
    assert [column.is_judged for column in matrix(CPP).columns] == [True, False, False, False]
    assert [column.is_judged for column in matrix(BOTH).columns] == [True, True, True, False]


def test_strict_does_not_pass_what_could_not_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typo, or an empty cache: there is no conflict where nobody looked."""
    world = usual_world(tmp_path / "world")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    here, words = f"here={world.upstream}@HEAD", ["forecast", "2.6", "--offline"]
    assert main([*words, "--on", here, "--strict"]) == 0
    assert main([*words, "--on", here, "--on", "9.9", "--strict"]) == 1
    assert "9.9: no source" in capsys.readouterr().out
    assert main([*words, "--on", here, "--on", "9.9"]) == 0
    assert main([*words, "--strict"]) == 1, "no release has a source in an empty cache"
    assert main(words) == 0


def test_a_branch_with_a_slash_in_a_clone_of_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/rebase.md has it; upstream's own are called release/2.7. "There is no …@release/2.7" was the answer."""
    world = usual_world(tmp_path / "world")
    git(world.upstream, "branch", "release/2.7")
    monkeypatch.setenv("HOME", str(tmp_path / "world"))
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    assert main(["forecast", "2.6", "--on", "main=~/upstream.git@release/2.7", "--strict"]) == 0
    assert main(["check", "2.6", "--source", f"{world.upstream}@HEAD@{{0}}"]) == 0


def test_a_clone_in_this_folder_needs_no_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a folder needs none; `mine@v2.7` was "no file or folder", with the advice to name REPOSITORY@REVISION."""
    world = usual_world(tmp_path / "world")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    monkeypatch.chdir(world.upstream.parent)
    assert main(["check", "2.6", "--source", "upstream.git@HEAD"]) == 0


def test_plain_text_one_letter_a_cell() -> None:
    head, row = forecast.render_text(matrix(PYTHON))
    assert head.split() == ["1.0", "1.1", "1.2", "1.3"]
    assert row.split() == ["1.0/0001.patch", ".", "~", "X", "-"]


def test_plain_text_shows_what_was_judged_in_part() -> None:
    # "." in lower case is "." again: a patch of which 187 of 785 files were seen looked clean.
    _, row = forecast.render_text(matrix(BOTH))
    assert row.split() == ["1.0/0001.patch", ".", "(~)", "(X)", "-"]


def test_json_and_html_say_why() -> None:
    made = matrix(PYTHON)
    releases = {row["release"]: row for row in json.loads(forecast.render_json(made))["releases"]}
    assert releases["1.1"]["patches"][0]["why"] == ["torch/x.py: hunk 1 offset +9"]
    assert releases["1.3"]["missing"].startswith("no source")
    page = forecast.render_html(made)
    assert 'class="conflict"' in page
    assert "offset +9" in page


def test_the_legend_names_every_verdict() -> None:
    """A patch made anew was in the matrix, and not in the words below it."""
    legend = forecast.render_legend()
    assert [status for status in Fit if status is not Fit.UNSEEN and status.value not in legend] == []
    assert forecast.NOT_SEEN in legend
