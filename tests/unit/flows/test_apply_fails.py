"""``decouple apply`` that fails leaves the checkout as it was, and what it advises can be typed."""

from __future__ import annotations

import re
import shutil
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from decouple.base import files
from decouple.base.errors import DecoupleError
from decouple.cli import build_parser, main
from decouple.cli.menu import VERBS
from decouple.flows import apply as flow
from decouple.flows import verdict
from decouple.flows.listener import Listener
from tests.support.series import git
from tests.unit.rebase.releases import numbered
from tests.unit.rebase.test_session import Killed, Project, conflict_in_b, killed, project

__all__ = ["project"]


@pytest.fixture
def carried(project: Project) -> Project:
    """A checkout under version control whose series fits the source of 1.1, too."""
    project.lay_overlay()
    project.upstream("1.1", {**{name: "new\n" + numbered(1, 60) for name in "abc"}, "version.txt": "1.1.0a0\n"})
    project.give_from_source()
    project.write(".gitignore", "/build/\n/cut/\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "checkout"]):
        git(project.root, *words)
    return project


def repository(tree: Path) -> Path:
    """The tree as a repository with one commit."""
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "vendor's"]):
        git(tree, *words)
    return tree


def unknown_options(said: str, verb: str) -> list[str]:
    """The options that a message names and the command before them does not have."""
    wrong, known = [], {name: build_parser([name, "--help"]) for name in VERBS}
    for part in re.split(r"(?=decouple [a-z])", said):
        named = re.match(r"decouple ([a-z-]+)", part)
        of = named[1] if named and named[1] in VERBS else verb
        subparsers = known[of]._subparsers
        assert subparsers
        text = subparsers._group_actions[0].choices[of].format_help()  # type: ignore[index,call-overload]
        wrong += [f"{of} {option}" for option in re.findall(r"--[a-z][a-z-]*", part) if option not in text]
    return wrong


@pytest.mark.parametrize(
    "words",
    [
        ("acme",),
        ("acme", "--source", "{tmp}/nowhere"),
        ("acme", "--source", "nowhere"),
        ("acme", "--source", "{tmp}/nowhere@v1"),
        ("acme", "--source", "{vendor}@no-such-branch"),
        ("acme", "--source", "{tmp}"),
        ("acme", "--source", "{tmp}/file"),
        ("1.1", "--source", "{tmp}/nowhere"),
        ("1.1", "--source", "wheel"),
        ("1.1.0", "--source", "wheel"),
        ("1.0", "--source", "wheel"),
        ("1.1", "--debian-patches", "--source", "{vendor}"),
        ("acme", "--debian-patches", "--source", "{vendor}"),
    ],
)
def test_a_failed_run_leaves_the_checkout_as_it_was(
    carried: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    vendor = repository(shutil.copytree(carried.sources["1.1"], tmp_path / "vendor"))
    (tmp_path / "file").write_text("no archive\n")
    before = git(carried.root, "status", "--porcelain", "--ignored=no")
    assert main(["apply", *(word.format(tmp=tmp_path, vendor=vendor) for word in words)]) in (1, 2)
    assert git(carried.root, "status", "--porcelain", "--ignored=no") == before
    said = capsys.readouterr().err
    assert "next: " in said
    assert not unknown_options(said, "apply")


def test_a_path_that_is_not_there_is_told_as_that(
    carried: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", "acme", "--source", f"{tmp_path}/nowhere"]) == 2
    assert f"{tmp_path}/nowhere" in capsys.readouterr().err


def test_what_fails_behind_the_carrying_takes_the_new_series_back(
    carried: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise DecoupleError("the disk is full")

    monkeypatch.setattr(flow, "create_tree", full)
    vendor = f"--source={carried.sources['1.1']}"
    before = git(carried.root, "status", "--porcelain")
    assert main(["apply", "acme", vendor]) == 1
    assert git(carried.root, "status", "--porcelain") == before
    monkeypatch.undo()
    monkeypatch.setenv("DECOUPLE_PROJECT", str(carried.root))
    monkeypatch.setenv("DECOUPLE_CACHE", str(carried.root.parent / "cache"))
    assert main(["apply", "acme", vendor]) == 0


def test_a_run_that_is_ended_while_it_judges_leaves_the_verdict_to_the_next(
    carried: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tree was whole by then: the next run found nothing to move, judged nothing and ended with 0."""
    vendor = f"--source={carried.sources['1.1']}"
    with monkeypatch.context() as at_work:
        at_work.setattr(verdict, "judge_series", killed)
        with pytest.raises(Killed):
            main(["apply", "acme", vendor])
    capsys.readouterr()
    assert main(["apply", "acme", vendor]) == 0
    assert "verdict: lint clean" in capsys.readouterr().out


def test_a_verdict_that_is_not_clean_is_repeated_until_something_changes(
    carried: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second `apply` moved nothing, said nothing and ended with 0."""
    command = ["apply", "acme", f"--source={carried.sources['1.1']}"]
    assert main(command) == 0
    body = carried.root / "patches/acme/0002-second.patch"
    whole = body.read_text()
    body.write_text(whole.replace("Decouple-Id: second\n", ""))
    assert main(command) == 1
    with monkeypatch.context() as again:
        again.setattr(verdict, "judge_series", killed)  # which costs a minute on PyTorch
        capsys.readouterr()
        assert main(command) == 1
        assert "missing-field" in capsys.readouterr().out
        (carried.root / "series/recipes").mkdir()
        (carried.root / "series/recipes/second.toml").touch()
        with pytest.raises(Killed):
            main(command)
    body.write_text(whole)
    (carried.root / "series/recipes/second.toml").unlink()
    assert main(command) == 0
    (carried.root / "build/acme/src/new.cpp").write_text("// an edit that is in no commit is counted, too\n")
    with monkeypatch.context() as again, pytest.raises(Killed):
        again.setattr(verdict, "judge_series", killed)
        main(command)


def test_a_failed_run_takes_no_file_of_another_back(carried: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, older = carried.root / "patches/acme/notes", carried.root / "patches/acme/0001-first.patch"
    carried.write("patches/acme/0001-first.patch", "an older one\n")

    def write_and_fail(*_: object, **__: object) -> None:
        assert older.read_text() != "an older one\n", "it has been carried"
        notes.write_text("a person's\n")
        raise DecoupleError("the disk is full")

    monkeypatch.setattr(flow, "create_tree", write_and_fail)
    assert main(["apply", "acme", f"--source={carried.sources['1.1']}"]) == 1
    assert sorted(notes.parent.iterdir()) == [older, notes]
    assert older.read_text() == "an older one\n"
    assert not (carried.root / "series/acme").exists()
    assert not (carried.root / "series/acme.toml").exists()


def test_a_series_that_another_run_writes_meanwhile_is_applied(carried: Project) -> None:
    """It waits for the other run, and has nothing to carry then."""
    waits = threading.Event()

    def say(line: str) -> None:
        if line.startswith("waits"):
            waits.set()

    request = flow.ApplyRequest(carried.root, "1.1", source=f"local:{carried.sources['1.1']}")
    (carried.root / "build/rebase").mkdir(parents=True)
    with ThreadPoolExecutor(1) as pool:
        with files.hold_lock(carried.root / "build/rebase"):
            applied = pool.submit(flow.apply_series, request, Listener(say))
            assert waits.wait(60)
            carried.write("series/1.1", "1.0/0001-first.patch\n")
        assert applied.result(60).pushed == ("1.0/0001-first.patch",)
    assert (carried.root / "series/1.1").read_text() == "1.0/0001-first.patch\n"


def test_a_stop_writes_nothing_before_it_was_settled(carried: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A rebase that waits for a person has what it needs in ``build``."""
    conflict_in_b(carried)
    before = git(carried.root, "status", "--porcelain")
    source = f"--source={carried.sources['1.1']}"
    assert main(["apply", "acme", source]) == 1
    assert git(carried.root, "status", "--porcelain") == before
    capsys.readouterr()
    assert main(["apply", "acme"]) == 2, "it is not known yet, and must be told where the tree is"
    assert "--source PATH" in capsys.readouterr().err
    (carried.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both\n"}))
    carried.git("add", "b")
    assert main(["rebase", "--continue"]) == 0
    assert (carried.root / "series/acme.toml").is_file()
    assert main(["apply", "acme", source]) == 0


@pytest.mark.parametrize("settle", ["--abort", "again"])
def test_a_stop_that_is_given_up_leaves_nothing(carried: Project, settle: str) -> None:
    conflict_in_b(carried)
    before = git(carried.root, "status", "--porcelain")
    source = f"--source={carried.sources['1.1']}"
    assert main(["apply", "acme", source]) == 1
    assert main(["rebase", "--abort"] if settle == "--abort" else ["apply", "acme", source]) in (0, 2)
    assert git(carried.root, "status", "--porcelain") == before


@pytest.mark.parametrize("kind", ["folder", "archive", "revision", "bare", "bare and revision"])
def test_a_name_without_a_manifest_gets_one_read_off_the_source(carried: Project, tmp_path: Path, kind: str) -> None:
    vendor = carried.sources["1.1"]
    if kind == "archive":
        with tarfile.open(tmp_path / "vendor-1.1.tar.gz", "w:gz") as archive:
            archive.add(vendor, "vendor-1.1")
        word = str(tmp_path / "vendor-1.1.tar.gz")
    elif kind == "folder":
        word = str(vendor)
    else:
        repository(vendor)
        git(vendor, "branch", "vendors-own")
        git(tmp_path, "clone", "-q", "--bare", str(vendor), "bare.git")
        word = {"revision": f"{vendor}@vendors-own", "bare": f"{tmp_path}/bare.git"}.get(
            kind, f"{tmp_path}/bare.git@vendors-own"
        )
    assert main(["apply", "acme", "--source", word]) == 0
    text = (carried.root / "series/acme.toml").read_text()
    assert 'version = "1.1.0a0"' in text
    if kind not in ("archive", "folder"):
        assert git(vendor, "rev-parse", "HEAD") in text
    assert "second" in (carried.root / "build/acme/src/b").read_text()
