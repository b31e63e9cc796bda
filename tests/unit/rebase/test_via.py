"""A far jump, step by step over the releases between."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decouple.cli import main
from decouple.patch import series_file
from decouple.rebase import resolutions
from decouple.rebase.series_carry import RebaseOutcome, RebaseWork
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.unit.rebase.releases import numbered
from tests.unit.rebase.test_session import Killed, Project, kill_behind_series
from tests.unit.rebase.test_session import project as two_releases

__all__ = ["two_releases"]


@pytest.fixture
def project(two_releases: Project, tmp_path: Path) -> Project:
    """1.1 moves a file to another folder, 1.2 rewrites most of it: from 1.0 nobody sees that it is the same one."""
    made = two_releases
    made.sources["1.2"] = tmp_path / "source-1.2"
    made.lay_overlay()
    text = (made.root / "series/1.1.toml").read_text()
    made.write("series/1.2.toml", text.replace('"1.1"', '"1.2"').replace("1.1.0", "1.2.0"))
    kept = {name: numbered(1, 60) for name in "ac"}
    made.upstream("1.1", {**kept, "d/b": numbered(1, 60)})
    made.upstream("1.2", {**kept, "d/b": numbered(1, 29) + "".join(f"rewritten {n}\n" for n in range(90))})
    return made


def carry(project: Project, *more: str) -> int:
    sources = [f"--from-source=local:{project.sources['1.0']}", f"--source=local:{project.sources['1.2']}"]
    return project.decouple("1.0", "1.2", *sources, *more)


def via(project: Project) -> str:
    return f"--via=1.1=local:{project.sources['1.1']}"


def keep_in_cache(project: Project, release: str) -> None:
    """The whole source of ``release`` is at hand, as after an ``apply`` or a ``fetch`` of it."""
    (project.sources[release] / "version.txt").write_text(f"{release}.0\n")
    project.give_from_source(release)
    fetch_source(load_release(project.root, release))


def names(project: Project, release: str) -> tuple[str, ...]:
    return series_file.read_series(project.root / "series" / release).names


def test_a_far_jump_stops_where_the_way_through_what_lies_between_does_not(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carry(project) == 1
    assert "target gone" in capsys.readouterr().out
    assert project.again("--abort") == 0
    assert carry(project, via(project)) == 0
    assert "1.1/0002-second.patch" in names(project, "1.1")
    assert names(project, "1.2") == ("1.0/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch")
    assert "carried from 1.1" in (project.root / "series/1.2").read_text()


def test_a_stop_between_is_settled_and_the_way_goes_on(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.upstream("1.1", {"a": numbered(1, 60, {10: "upstream\n"})})
    project.upstream("1.2", {"a": numbered(1, 60, {10: "upstream\n"})})
    assert carry(project, via(project)) == 1
    assert not (project.root / "series/1.1").exists(), "it is whole, or it is not there"
    (project.root / "build/rebase/src/a").write_text(numbered(1, 60, {10: "both\n"}))
    subprocess.run(["git", "add", "a"], cwd=project.root / "build/rebase/src", check=True)
    assert project.decouple("--continue") == 0
    assert names(project, "1.2") == ("1.1/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch")
    (kept,) = resolutions.load_all_resolutions(project.root)
    assert kept.since == "1.1"
    for release in ("1.1", "1.2"):
        (project.root / "series" / release).unlink()
    capsys.readouterr()
    assert carry(project, via(project)) == 0
    assert "settled on 1.1" in capsys.readouterr().out


@contextlib.contextmanager
def cut_behind_the_first_series(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End each command as Ctrl-C does once the series between is written."""
    run = RebaseWork.run

    def cut(work: RebaseWork, **how: Any) -> RebaseOutcome:
        if (project.root / "series/1.1").exists():
            raise KeyboardInterrupt
        return run(work, **how)

    with monkeypatch.context() as at_work:
        at_work.setattr(RebaseWork, "run", cut)
        yield


def test_a_kill_behind_a_series_between_loses_nothing_of_the_way(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with cut_behind_the_first_series(project, monkeypatch):
        carry(project, via(project))
    assert carry(project, via(project)) == 2
    assert "a rebase from 1.1 to 1.2 is under way" in capsys.readouterr().err
    assert project.decouple("--continue") == 0
    assert names(project, "1.2") == ("1.0/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch")
    assert not (project.root / "build/rebase/state.json").exists()


def test_a_kill_between_a_series_and_the_state_of_its_way_loses_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.upstream("1.1", {"a": numbered(1, 60, {10: "upstream\n"})})
    project.upstream("1.2", {"a": numbered(1, 60, {10: "upstream\n"})})
    assert carry(project, via(project)) == 1
    (project.root / "build/rebase/src/a").write_text(numbered(1, 60, {10: "both\n"}))
    project.git("add", "a")
    with monkeypatch.context() as at_work, pytest.raises(Killed):
        kill_behind_series(at_work)
        project.decouple("--continue")
    assert names(project, "1.1")
    assert project.decouple("--continue") == 0
    assert names(project, "1.2") == ("1.1/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch")


def test_a_relative_way_is_gone_on_with_from_the_folder_of_the_conflict(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.upstream("1.1", {"a": numbered(1, 60, {10: "upstream\n"})})
    monkeypatch.chdir(project.root.parent)
    assert carry(project, "--via=1.1=./source-1.1") == 1
    monkeypatch.chdir(project.root / "build/rebase/src")
    assert project.decouple("--skip") == 0
    assert names(project, "1.2") == ("1.1/0002-second.patch", "1.0/0003-third.patch")


def test_debians_patches_are_wanted_behind_a_stop_between_too(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.upstream("1.1", {"a": numbered(1, 60, {10: "upstream\n"})})
    assert carry(project, via(project), "--debian-patches") == 1
    assert project.decouple("--skip") == 1
    assert names(project, "1.1"), "there is nothing of Debian's between"
    assert "source local brings no patches of Debian's" in capsys.readouterr().err
    assert project.decouple("--abort") == 0
    assert "no series was written" not in capsys.readouterr().out, "the one between is there"
    assert not (project.root / "series/1.2").exists()


def test_what_an_earlier_run_came_to_is_not_carried_anew(project: Project) -> None:
    assert carry(project, via(project)) == 0
    (project.root / "series/1.2").unlink()
    before = (project.root / "series/1.1").stat().st_mtime_ns
    assert carry(project, via(project)) == 0
    assert (project.root / "series/1.1").stat().st_mtime_ns == before


def test_a_far_jump_takes_the_way_that_stops_less_by_itself(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_in_cache(project, "1.1")
    assert carry(project, "--report") == 1
    said = capsys.readouterr()
    assert "stops at 1.0/0002-second.patch" in said.out
    assert "--via 1.1" in said.out
    assert "target gone" in said.out, "the report is of the jump"
    assert not (project.root / "series/1.1").exists(), "a report writes nothing"
    assert carry(project) == 0
    assert names(project, "1.2") == ("1.0/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch")
    assert names(project, "1.1"), "each on the way has a series of its own"


def test_apply_takes_that_way_too(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    keep_in_cache(project, "1.1")
    keep_in_cache(project, "1.0")
    (project.sources["1.2"] / "version.txt").write_text("1.2.0\n")
    main(["apply", "1.2", "--source", f"local:{project.sources['1.2']}"])
    assert "way: over 1.1, each of which gets a series" in capsys.readouterr().out
    assert names(project, "1.2")[1] == "1.1/0002-second.patch"


def test_apply_goes_on_with_its_way_behind_a_kill(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that a rebase is under way, which who types `apply` never asked for; so did it with the source gone."""
    source = project.sources["1.2"]
    keep_in_cache(project, "1.1")
    keep_in_cache(project, "1.0")
    (source / "version.txt").write_text("1.2.0\n")
    command = ["apply", "1.2", "--source", f"local:{source}"]

    with cut_behind_the_first_series(project, monkeypatch):
        main(command)
    assert names(project, "1.1") and not (project.root / "series/1.2").exists()
    away = source.rename(source.with_name("away"))
    assert main(command) != 0
    assert "`decouple rebase --continue` once it can be had" in capsys.readouterr().err
    away.rename(source)
    assert main([*command, "--debian-patches"]) == 2, "another end than that of the way"
    refused = capsys.readouterr().err
    assert "a rebase from 1.1 to 1.2 is under way" in refused and "`decouple rebase --abort` gives it up" in refused
    assert main(command) == 0
    assert "1.2 has no whole series; carried from 1.1" in capsys.readouterr().out
    assert names(project, "1.2")[1] == "1.1/0002-second.patch"
    assert not (project.root / "build/rebase/state.json").exists()


def test_a_way_that_stops_as_often_is_not_taken(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.upstream("1.1", {"c": numbered(1, 60, {30: "upstream\n"})})
    keep_in_cache(project, "1.1")
    assert carry(project) == 1
    assert "over 1.1: stops before its end" in capsys.readouterr().out
    assert not (project.root / "series/1.1").exists()
    assert "1.1" not in (project.root / "build/rebase/state.json").read_text()


def test_a_jump_without_a_stop_looks_for_no_way(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    keep_in_cache(project, "1.1")
    project.upstream("1.2", {"b": numbered(1, 60), "d/b": "another\n"})
    assert carry(project) == 0
    assert "way:" not in capsys.readouterr().out
    assert not (project.root / "series/1.1").exists()


def test_a_release_onto_itself_needs_no_way(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    here = f"local:{project.sources['1.0']}"
    assert project.decouple("1.0", "1.0", f"--source={here}", f"--from-source={here}", "--report") == 0
    assert "3 unmodified" in capsys.readouterr().out


def test_a_way_has_one_report(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project.upstream("1.2", {"c": numbered(1, 60, {30: "upstream\n"})})
    assert carry(project, via(project), "--format=json") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["from"], document["to"]) == ("1.0.0", "1.2.0")
    assert [(row["from"], row["to"], row["verdict"]) for row in document["patches"]] == [
        ("1.0.0", "1.1.0", "unmodified"),
        ("1.0.0", "1.1.0", "merged"),
        ("1.0.0", "1.1.0", "unmodified"),
        ("1.1.0", "1.2.0", "unmodified"),
        ("1.1.0", "1.2.0", "unmodified"),
        ("1.1.0", "1.2.0", "conflict"),
    ]
    for kind in ("markdown", "text"):
        assert project.decouple("--abort") == 0
        (project.root / "series/1.1").unlink()
        file = tmp_path / kind
        assert carry(project, via(project), f"--format={kind}", f"--output={file}") == 1
        assert [line for line in file.read_text().splitlines() if re.fullmatch(r"(# )?1\.\d\.0 to .*", line)] == [
            "# 1.0.0 to 1.1.0" if kind == "markdown" else "1.0.0 to 1.1.0",
            "# 1.1.0 to 1.2.0" if kind == "markdown" else "1.1.0 to 1.2.0",
        ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--via=1.0"], "not newer"),
        (["--via=1.1,1.1"], "not newer"),
        (["--via=1.1", "--via=1.1"], "not newer"),
        (["--via=1.1", "--report"], "writes none"),
    ],
)
def test_what_is_no_way_is_refused(
    project: Project, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carry(project, *more) == 2
    assert said in capsys.readouterr().err
    assert not (project.root / "build/rebase/state.json").exists()
