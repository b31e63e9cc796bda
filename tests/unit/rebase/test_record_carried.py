"""What a series is worth on a release that has none of its own is recorded by the tool, and nothing else is claimed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.rebase.verdicts import Verdict
from decouple.release import carried, status
from tests.unit.rebase.releases import numbered
from tests.unit.rebase.test_session import Project, conflict_in_b
from tests.unit.rebase.test_session import project as two_releases

__all__ = ["two_releases"]


@pytest.fixture
def project(two_releases: Project) -> Project:
    """Trees of 1.0 and of a later 1.1."""
    for release, folder in two_releases.sources.items():
        folder.mkdir(exist_ok=True)
        (folder / "version.txt").write_text(f"{release}.0\n")
    two_releases.upstream("1.1", {name: "new\n" + numbered(1, 60) for name in "abc"})
    return two_releases


def record(project: Project) -> int:
    tree, source = project.sources["1.1"], project.sources["1.0"]
    return main(["record", "1.1", "--trial", f"scripted={tree}", "--from-source", f"local:{source}"])


def trial(project: Project) -> status.CarriedTrialSection:
    return status.read_status(status.locate_status(project.root, "1.1")).trials["scripted"]


def test_a_trial_keeps_stops_verdict_and_tree(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path for path in project.root.rglob("*") if "build" not in path.parts)
    assert record(project) == 0
    found = trial(project)
    assert found.patches == {"offset": 3}
    assert found.stops == ()
    assert found.faults == {"lint": 0, "couplings": 0} and set(found.vendors) == {"cuda", "rocm"}
    assert [entry.partition(": ")[0] for entry in found.unasked] == ["stage2-sources"], "a checkout without its lists"
    assert found.tree
    assert "scripted: 3 patches, 0 stops" in capsys.readouterr().out
    left = {path for path in project.root.rglob("*") if "build" not in path.parts} - set(before)
    assert {path.name for path in left if path.is_file()} <= {"1.1.json", ".1.1.json.lock"}, "no series was written"


def test_a_trial_that_stops_names_the_patch_and_judges_nothing(project: Project) -> None:
    conflict_in_b(project)
    assert record(project) == 1
    found = trial(project)
    assert found.stops == ("1.0/0002-second.patch",)
    assert not found.faults
    assert found.patches["conflict"] == 1


def test_a_later_trial_is_not_judged_by_an_earlier_one(project: Project, tmp_path: Path) -> None:
    conflict_in_b(project)
    assert record(project) == 1
    clean = shutil.copytree(project.sources["1.0"], tmp_path / "clean")
    source = f"local:{project.sources['1.0']}"
    assert main(["record", "1.1", "--trial", f"as-before={clean}", "--from-source", source]) == 0


def test_the_table_counts_as_stops_what_a_rebase_stops_at() -> None:
    words = {verdict.value for verdict in Verdict if verdict.is_stop}
    assert set(carried._STOPS) == words
    assert {carried._REGENERATED, carried._NOT_SEEN} == {Verdict.REGENERATED.value, Verdict.NOT_SEEN.value}


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--trial", "scripted"], "NAME=FOLDER"), (["--trial", "scripted=/none"], "no folder"), ([], "no official wheel")],
)
def test_what_cannot_be_recorded_is_refused(
    project: Project, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", "1.1", *words]) == 2
    assert said in capsys.readouterr().err
    assert not status.locate_status(project.root, "1.1").exists()
