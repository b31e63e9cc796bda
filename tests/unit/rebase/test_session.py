"""A rebase as a maintainer does it: conflicts settled in plain git, remembered, interrupted, given up."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.git import Repository
from decouple.cli import main
from decouple.rebase import new_series, rebase_state
from decouple.rebase.carry import Step
from decouple.rebase.series_carry import RebaseWork
from decouple.relocate.plan import Move, Plan
from decouple.relocate.stage2 import load_sources
from tests.support.files import write_files
from tests.unit.rebase.releases import numbered

ROOT = Path(__file__).parents[3]
HEADER = """From: A Maintainer <a@example.org>
Date: Mon, 1 Jan 2024 00:00:00 +0000
Subject: {subject}

Why it is there.

Decouple-Id: {id}
---
"""


class Project:
    """A checkout with one series for release 1.0 and the sources of 1.0 and 1.1 in folders."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.sources = {release: folder / f"source-{release}" for release in ("1.0", "1.1")}
        for release in self.sources:
            text = (ROOT / "series/2.6.toml").read_text()
            text = re.sub(r'\[\[source\]\]\nprovider = "wheel".*?(?=\[toolchain\])', "", text, flags=re.S)
            text = re.sub(r"^release = .*$", f'release = "{release}"', text, flags=re.M)
            text = re.sub(r'^version = "2.6.0"$', f'version = "{release}.0"', text, flags=re.M)
            text = re.sub(r"^tag = .*$", f'tag = "v{release}.0"', text, flags=re.M)
            self.write(f"series/{release}.toml", text)
        (self.root / "patches").mkdir()

    def write(self, name: str, text: str) -> None:
        write_files(self.root, {name: text})

    def upstream(self, release: str, files: dict[str, str]) -> None:
        for name, text in {"build_variables.bzl": "", "torch/__init__.py": "", **files}.items():
            path = self.sources[release] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name in files or not path.exists():
                path.write_text(text)

    def lay_overlay(self) -> None:
        """Write what `apply` lays over a tree, with stage 2's lists, which a verdict reads."""
        names = ("third_device/README", *load_sources().sources)
        write_files(self.root, dict.fromkeys(names, "# laid over the tree\n"))

    def patch(self, name: str, path: str, before: str, after: str) -> None:
        """Add a patch that turns ``path`` from ``before`` to ``after`` to the series of 1.0."""
        folder = self.root / "cut"
        write_files(folder, {f"a/{path}": before, f"b/{path}": after})
        command = ["git", "diff", "--no-index", "--no-prefix", "--full-index", f"a/{path}", f"b/{path}"]
        diff = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
        identity = name.split("-", 1)[1]
        self.write(f"patches/1.0/{name}.patch", HEADER.format(subject=identity, id=identity) + diff)
        series = self.root / "series/1.0"
        series.write_text((series.read_text() if series.exists() else "") + f"1.0/{name}.patch\n")

    def decouple(self, *arguments: str) -> int:
        return main(["rebase", *arguments])

    def begin(self, *more: str) -> int:
        sources = [f"--from-source=local:{self.sources['1.0']}", f"--source=local:{self.sources['1.1']}"]
        return self.decouple("1.0", "1.1", *sources, *more)

    def again(self, step: str) -> int:
        return self.decouple(step)

    def give_from_source(self, release: str = "1.0") -> None:
        """Let the manifest of ``release`` name a source that needs no network: a repository with its tag."""
        tree = self.sources[release]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", release], ["tag", f"v{release}.0"]):
            command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
            subprocess.run(command, cwd=tree, check=True)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, check=True)
        path = self.root / f"series/{release}.toml"
        text = re.sub(r"\[\[source\]\].*?(?=\[toolchain\])", "", path.read_text(), flags=re.S)
        text = re.sub(r"^commit = .*$", f'commit = "{commit.stdout.strip()}"', text, flags=re.M)
        source = f'[[source]]\nprovider = "git"\nurl = "{tree.as_uri()}"\n\n[toolchain]'
        path.write_text(text.replace("[toolchain]", source))

    def git(self, *arguments: str) -> str:
        tree = self.root / "build/rebase/src"
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tree, capture_output=True, text=True, check=True)
        return done.stdout

    @property
    def series(self) -> list[str]:
        path = self.root / "series/1.1"
        return [line for line in path.read_text().splitlines() if not line.startswith("#")] if path.exists() else []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(made.root))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    text = numbered(1, 60)
    made.upstream("1.0", {"a": text, "b": text, "c": text})
    made.patch("0001-first", "a", text, numbered(1, 60, {10: "first\n"}))
    made.patch("0002-second", "b", text, numbered(1, 60, {20: "second\n"}))
    made.patch("0003-third", "c", text, numbered(1, 60, {30: "third\n"}))
    return made


def conflict_in_b(project: Project) -> None:
    project.upstream("1.1", {"a": numbered(1, 60), "b": numbered(1, 60, {20: "upstream\n"}), "c": numbered(1, 60)})


def test_what_fits_is_listed_from_its_old_home(project: Project) -> None:
    project.upstream(
        "1.1", {"a": numbered(1, 60), "b": "new\n" * 5 + numbered(1, 60), "c": numbered(1, 60, {30: "third\n"})}
    )
    assert project.begin() == 0
    assert project.series == ["1.0/0001-first.patch", "1.1/0002-second.patch"]
    body = (project.root / "patches/1.1/0002-second.patch").read_text()
    assert body.startswith(HEADER.format(subject="second", id="second"))
    assert "@@ -22,7 +22,7 @@" in body
    assert not (project.root / "build/rebase/state.json").exists()


class Killed(BaseException):
    """What nothing in the code under test catches."""


def killed(*_: object, **__: object) -> None:
    raise Killed


def kill_behind_series(at_work: pytest.MonkeyPatch) -> None:
    """Kill the run as soon as the series file is written: nothing behind it is done, nothing is tidied up."""

    def write(path: Path, data: bytes) -> None:
        write_atomically(path, data)
        if path.parent.name == "series" and not path.name.endswith(".toml"):
            raise Killed

    at_work.setattr(new_series, "write_atomically", write)
    at_work.setattr(new_series, "restore_files", lambda *_: None)


def test_what_was_settled_outlives_a_kill_of_the_run_that_goes_on(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conflict is taken out of the work tree before the patches behind it are carried, which takes a while."""
    conflict_in_b(project)
    assert project.begin() == 1
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "upstream, and second\n"}))
    project.git("add", "b")
    with monkeypatch.context() as at_work, pytest.raises(Killed):
        at_work.setattr(RebaseWork, "run", killed)
        project.again("--continue")
    assert project.again("--continue") == 0
    assert project.series == ["1.0/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch"]
    assert "+upstream, and second" in (project.root / "patches/1.1/0002-second.patch").read_text()


@pytest.mark.parametrize("step", ["--continue", "--restart", "--abort"])
@pytest.mark.parametrize("lock", ["", "index.lock", "HEAD.lock"])
def test_a_conflict_that_a_killed_run_was_putting_there_is_nobodys_edit(
    project: Project, monkeypatch: pytest.MonkeyPatch, step: str, lock: str
) -> None:
    show, tree = rebase_state.show_conflict, project.root / "build/rebase/src"

    def cut(repository: Repository, tip: str, patch: Step) -> None:
        show(repository, tip, patch)
        if lock:
            (tree / ".git" / lock).touch()
        raise Killed

    conflict_in_b(project)
    with monkeypatch.context() as at_work, pytest.raises(Killed):
        at_work.setattr(rebase_state, "show_conflict", cut)
        project.begin()
    if step == "--abort":
        assert project.again(step) == 0
        assert project.begin() == 1
    else:
        assert project.again(step) == 1
    assert "<<<<<<<" in (tree / "b").read_text()
    assert json.loads((project.root / "build/rebase/state.json").read_text())["stopped_at"] == "1.0/0002-second.patch"


def add_file(name: str) -> str:
    """The part of a patch that adds a file with the line "ours"."""
    return f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+ours\n"


@pytest.fixture(params=["new.cpp", "fresh/new.cpp"])
def new_file(project: Project, request: pytest.FixtureRequest) -> Path:
    """Let the second patch stop, which adds a file besides; return where that file is in the work tree.

    It is in a folder that upstream renamed, or in none.
    """
    conflict_in_b(project)
    project.upstream("1.0", {"old/x": numbered(1, 60)})
    project.upstream("1.1", {"fresh/x": numbered(1, 60)})
    path = project.root / "patches/1.0/0002-second.patch"
    path.write_text(path.read_text() + add_file(request.param.replace("fresh", "old")))
    return project.root / "build/rebase/src" / request.param


def test_a_new_file_that_git_was_killed_at_is_in_nobodys_way(
    project: Project, new_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git writes its files first and its index behind them."""

    def cut(repository: Repository, tip: str, patch: Step) -> None:
        repository.run("checkout", "-q", "--detach", tip)
        new_file.write_text("ours\n")
        raise Killed

    with monkeypatch.context() as at_work, pytest.raises(Killed):
        at_work.setattr(rebase_state, "show_conflict", cut)
        project.begin()
    assert project.again("--continue") == 1
    assert str(new_file.relative_to(project.root / "build/rebase/src")) in project.git("ls-files").splitlines()


def test_a_new_file_that_is_not_staged_is_not_dropped_without_a_word(
    project: Project, new_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.begin() == 1
    project.git("reset", "-q")
    (project.root / "build/rebase/src/b").write_text("both\n")
    project.git("add", "b")
    capsys.readouterr()
    assert project.again("--continue") == 2
    assert "new.cpp is untracked, and 1.0/0002-second.patch changes it" in capsys.readouterr().err
    project.git("add", str(new_file))
    assert project.again("--continue") == 0
    assert "+ours\n" in (project.root / "patches/1.1/0002-second.patch").read_text()


def test_a_file_in_the_way_of_a_conflict_is_named(
    project: Project, new_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Git shows no conflict then, which was taken for one that was settled with nothing left of the patch."""
    assert project.begin() == 1
    project.git("reset", "-q")
    project.git("checkout", "-f", "b")
    for step in ("--restart", "--continue"):
        assert project.again(step) == 1
        said = capsys.readouterr().err
        assert "new.cpp is untracked, and 1.0/0002-second.patch changes it" in said
        assert f"move {new_file} away, then `decouple rebase --continue`" in said
    new_file.unlink()
    assert project.again("--continue") == 1
    assert "UU b\n" in project.git("status", "--porcelain")


def test_edits_in_the_way_of_a_conflict_are_dropped_by_the_git_that_is_named(
    project: Project, new_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`git checkout -f` alone, typed in the checkout, would throw away what is edited there."""
    assert project.begin() == 1
    project.git("reset", "-q")
    project.git("checkout", "-f", "b")
    assert project.again("--restart") == 1, "the new file is in the way"
    (project.root / "build/rebase/src/b").write_text("mine\n")
    capsys.readouterr()
    assert project.again("--continue") == 1
    drop = f"git -C {project.root / 'build/rebase/src'} checkout -f"
    assert f"or drop them with `{drop}`" in capsys.readouterr().err
    subprocess.run(drop.split(), check=True, cwd=project.root, capture_output=True)
    new_file.unlink()
    assert project.again("--continue") == 1
    assert "UU b\n" in project.git("status", "--porcelain")


def test_a_cherry_pick_that_git_refuses_is_no_conflict(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    show = rebase_state.show_conflict

    def refuse(repository: Repository, tip: str, step: Step) -> None:
        show(repository, tip, structs.replace(step, after="0" * 40))

    with monkeypatch.context() as at_work:
        at_work.setattr(rebase_state, "show_conflict", refuse)
        assert project.begin() == 1
    assert "git cherry-pick in" in capsys.readouterr().err
    assert project.again("--continue") == 1
    assert "<<<<<<<" in (project.root / "build/rebase/src/b").read_text()


def test_a_conflict_in_which_git_leaves_nothing_unmerged_is_settled_like_others(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Upstream renamed a folder, and a file of the patch is in the way of another that would go along."""
    text = numbered(1, 60)
    project.upstream("1.0", {"old/x": text})
    project.upstream("1.1", {**dict.fromkeys("abc", text), "fresh/x": text})
    header = HEADER.format(subject="fourth", id="fourth")
    project.write("patches/1.0/0004-fourth.patch", header + add_file("fresh/new") + add_file("old/new"))
    project.write("series/1.0", (project.root / "series/1.0").read_text() + "1.0/0004-fourth.patch\n")
    assert project.begin() == 1
    assert "stopped at 1.0/0004-fourth.patch" in capsys.readouterr().out
    (project.root / "build/rebase/src/fresh/new").write_text("ours, settled\n")
    project.git("add", "fresh/new")
    project.git("rm", "-qf", "old/new")
    assert project.again("--continue") == 0
    body = (project.root / "patches/1.1/0004-fourth.patch").read_text()
    assert "+ours, settled\n" in body
    assert "old/new" not in body


def test_a_restart_that_is_killed_settles_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    with monkeypatch.context() as at_work, pytest.raises(Killed):
        at_work.setattr(RebaseWork, "run", killed)
        project.again("--restart")
    assert project.again("--continue") == 1, "nobody skipped it"
    assert "<<<<<<<" in (project.root / "build/rebase/src/b").read_text()


def test_the_lock_of_a_git_that_was_killed_in_the_workspace_is_not_in_the_way(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    (project.root / "build/rebase/objects/.git/refs/decouple/next.lock").touch()
    assert project.again("--restart") == 1
    assert "decouple:" not in capsys.readouterr().err, "it stops at the conflict again"


@pytest.fixture
def relocation(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A series that begins with a relocation of a known plan; which trees were compared with their unpacking."""
    move = "diff --git a/d b/moved/d\nsimilarity index 100%\nrename from d\nrename to moved/d\n"
    project.upstream("1.0", {"d": "d\n"})
    project.upstream("1.1", {**dict.fromkeys("abc", numbered(1, 60)), "d": "d\n"})
    header = HEADER.format(subject="relocate", id="relocate-cuda-sources")
    project.write("patches/1.0/0000-relocate.patch", header + move)
    project.write("series/1.0", "1.0/0000-relocate.patch\n" + (project.root / "series/1.0").read_text())
    compared: list[Path] = []
    plan = Plan((Move("d", "moved/d", ()),), (), (), frozenset(), {})
    monkeypatch.setattr("decouple.flows.rebase.tree_record.check_tree", compared.append)
    monkeypatch.setattr("decouple.flows.rebase.make_plan", lambda tree, rules: plan)
    return compared


def test_only_the_tree_that_relocation_reads_is_compared_with_what_was_unpacked(
    project: Project, relocation: list[Path]
) -> None:
    """The patches are carried between two baselines; reading every file of both releases again costs seconds."""
    assert project.begin("--report") == 0
    assert relocation == [project.sources["1.1"]]
    assert project.begin() == 0
    assert len(relocation) == 1, "what moves in this tree is known by now"
    assert "rename to moved/d" in (project.root / "patches/1.1/0000-relocate.patch").read_text()


def test_a_tree_that_is_not_as_it_was_unpacked_is_no_conflict_of_a_patch(
    project: Project, relocation: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(tree: Path) -> None:
        raise DecoupleError(f"{tree}/d: not as it was unpacked")

    monkeypatch.setattr("decouple.flows.rebase.tree_record.check_tree", refuse)
    assert project.begin("--report") == 1
    assert "not as it was unpacked" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["--continue", "--skip"])
def test_no_hand_settles_the_relocation(
    project: Project,
    relocation: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
) -> None:
    """It is made anew by the rules of now, whatever a person decided: the same stop came again, for ever."""

    def refuse(tree: Path, rules: object) -> Plan:
        raise DecoupleError("new.cu: unclassified CUDA file")

    with monkeypatch.context() as before:
        before.setattr("decouple.flows.rebase.make_plan", refuse)
        before.setattr("decouple.flows.rebase.list_unclassified", lambda tree, rules: ["new.cu"])
        assert project.begin() == 1
        assert "`decouple rebase --restart` (or --abort)" in capsys.readouterr().out
        assert project.again(step) == 2
    said = capsys.readouterr().err
    assert f"{step}: 1.0/0000-relocate.patch is made by rules and not settled by hand" in said
    assert "`decouple rebase --restart`, or --abort" in said
    assert not (project.root / "series/resolutions").exists()
    assert project.again("--restart") == 0, "the rules were mended"
    assert project.series[0] == "1.1/0000-relocate.patch"


def test_a_conflict_is_settled_in_plain_git(project: Project) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    assert project.series == [], "no series before it is whole"
    tree = project.root / "build/rebase/src"
    assert "<<<<<<<" in (tree / "b").read_text()
    assert "first" in (tree / "a").read_text(), "it stands on what was carried before it"
    assert project.again("--continue") == 2, "not settled yet"
    (tree / "b").write_text(numbered(1, 60, {20: "upstream, and second\n"}))
    project.git("add", "b")
    assert project.again("--continue") == 0
    assert project.series == ["1.0/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch"]
    assert "+upstream, and second" in (project.root / "patches/1.1/0002-second.patch").read_text()


def test_the_git_that_is_advised_is_given_the_work_tree(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Typed where people are, `git checkout` would throw away what they edited in the checkout."""
    conflict_in_b(project)
    assert project.begin() == 1
    tree = project.root / "build/rebase/src"
    add = f"`git -C {tree} add -- b`"
    assert project.again("--continue") == 2
    assert f"next: edit it, {add}, then" in capsys.readouterr().err
    project.git("add", "b")
    (tree / "b").write_text("both\n")
    assert project.again("--continue") == 2
    assert f"next: {add} or `git -C {tree} checkout -- b`, then" in capsys.readouterr().err


def test_a_stop_says_what_the_patch_is_for_and_what_stands_on_it(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    project.patch("0004-more", "b", numbered(1, 60, {20: "second\n"}), numbered(1, 60, {20: "second\n", 40: "more\n"}))
    for name, field in (
        ("0002-second", "Drop-When: upstream does so\nVerify: a test"),
        ("0003-third", "Depends: second"),
    ):
        path = project.root / f"patches/1.0/{name}.patch"
        path.write_text(path.read_text().replace("\n---\n", f"\n{field}\n---\n", 1))
    assert project.begin() == 1
    said = capsys.readouterr().out
    assert "b:17: hunk 1 of 1" in said
    assert "        +upstream\n" in said
    for line in ("Drop-When: upstream does so", "Verify: a test", "needed by: 1.0/0003-third.patch"):
        assert f"    {line}\n" in said
    assert "these change too: 1.0/0004-more.patch" in said
    assert "decouple rebase --continue" in said


def test_a_conflict_of_which_nothing_is_left_is_not_taken_for_settled(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """`git reset --hard`, to begin with the conflict anew, left the patch out of this release and of later ones."""
    conflict_in_b(project)
    project.begin()
    project.git("reset", "-q", "--hard")
    assert project.again("--continue") == 2
    said = capsys.readouterr().err
    assert "nothing of 1.0/0002-second.patch is left" in said and "decouple rebase --skip" in said
    assert project.again("--restart") == 1
    assert "<<<<<<<" in (project.root / "build/rebase/src/b").read_text()


def test_a_conflict_may_be_committed_instead_of_staged(project: Project) -> None:
    conflict_in_b(project)
    project.begin()
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both\n"}))
    project.git("commit", "-qam", "settled")
    assert project.again("--continue") == 0
    assert "+both" in (project.root / "patches/1.1/0002-second.patch").read_text()


def test_a_stop_that_git_merges_cleanly_is_settled_in_plain_git_too(project: Project) -> None:
    """What the patch adds stands in the new release already, elsewhere: only a person knows which one goes."""
    block = "".join(f"common {number}\n" for number in range(8))
    changed, ours = block.replace("common 4\n", "cut here\n"), block.replace("common 4\n", "settled\n")
    project.upstream("1.0", {"d": block + numbered(1, 30)})
    project.upstream("1.1", {**dict.fromkeys("abc", numbered(1, 60)), "d": block + numbered(1, 30) + changed})
    project.patch("0004-fourth", "d", block + numbered(1, 30), changed + numbered(1, 30))
    assert project.begin() == 1
    file = project.root / "build/rebase/src/d"
    assert file.read_text() == changed + numbered(1, 30) + changed
    assert project.git("diff", "--cached", "--name-only") == "d\n", "it is staged, not committed"
    file.write_text(ours + numbered(1, 30) + changed)
    project.git("add", "d")
    assert project.again("--continue") == 0
    text = (project.root / "patches/1.1/0004-fourth.patch").read_text()
    assert "+settled\n" in text
    assert "+cut here\n" not in text


def test_what_is_staged_behind_a_commit_belongs_to_the_settlement(project: Project) -> None:
    conflict_in_b(project)
    project.begin()
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both\n"}))
    project.git("commit", "-qam", "settled")
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both, mended\n"}))
    project.git("add", "b")
    assert project.again("--continue") == 0
    assert "+both, mended" in (project.root / "patches/1.1/0002-second.patch").read_text()


def test_line_ends_stay_as_they_are_whatever_a_person_has_configured(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else their git writes other bytes than ours compares, and what they staged looks edited."""
    (tmp_path / "gitconfig").write_text("[core]\n autocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    conflict_in_b(project)
    assert project.begin() == 1
    file = project.root / "build/rebase/src/b"
    project.git("checkout", "--theirs", "b")
    project.git("add", "b")
    assert file.read_bytes() == numbered(1, 60, {20: "second\n"}).encode()
    file.touch()
    assert project.again("--continue") == 0
    assert "+second" in (project.root / "patches/1.1/0002-second.patch").read_text()


def test_the_settlement_is_remembered_and_shown_for_review(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    project.begin()
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both\n"}))
    project.git("add", "b")
    project.again("--continue")
    (project.root / "series/1.1").unlink()
    capsys.readouterr()
    assert project.begin() == 0
    assert "replayed" in capsys.readouterr().out
    # one more changed line in the file, and it is not used
    (project.root / "series/1.1").unlink()
    project.upstream("1.1", {"b": numbered(1, 60, {20: "upstream\n", 21: "more\n"})})
    assert project.begin() == 1


@pytest.mark.parametrize("accident", ["reset", "folder", "index"])
def test_a_tree_that_lost_what_was_carried_settles_nothing(
    project: Project, capsys: pytest.CaptureFixture[str], accident: str
) -> None:
    """All that was not there was taken out by the patch: what an earlier one did, or the whole release."""
    conflict_in_b(project)
    assert project.begin() == 1
    tree = project.root / "build/rebase/src"
    if accident == "reset":
        project.git("reset", "-q", "--hard", "HEAD~1")
    elif accident == "folder":
        shutil.rmtree(tree)
    else:
        (tree / ".git/index").unlink()
        (tree / "b").write_text(numbered(1, 60, {20: "both\n"}))
    capsys.readouterr()
    assert project.again("--continue") == 2
    said = capsys.readouterr().err
    assert not (project.root / "series/resolutions").exists()
    if accident == "index":
        subprocess.run(said.split("`")[1], shell=True, check=True)
        project.git("add", "b")
        assert project.again("--continue") == 0
        return
    assert "--restart" in said
    assert project.again("--restart") == 1
    assert "<<<<<<<" in (tree / "b").read_text()


@pytest.mark.parametrize("words", [["commit", "-q", "--amend", "--no-edit"], ["reset", "-q", "--soft", "HEAD~1"]])
def test_the_commit_below_a_settlement_may_be_amended_or_taken_off(project: Project, words: list[str]) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both\n"}))
    project.git("add", "b")
    project.git(*words)
    assert project.again("--continue") == 0
    assert "a/a" not in (project.root / "patches/1.1/0002-second.patch").read_text()


def test_what_was_settled_holds_where_a_patch_before_it_was_edited_meanwhile(project: Project) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both\n"}))
    project.git("add", "b")
    earlier = project.root / "patches/1.0/0001-first.patch"
    earlier.write_text(earlier.read_text().replace("+first", "+first, and more"))
    assert project.again("--continue") == 0
    assert "+both" in (project.root / "patches/1.1/0002-second.patch").read_text()


@pytest.mark.parametrize("kind", ["binary file", "submodule"])
def test_what_no_patch_holds_is_refused_while_it_can_be_taken_out(
    project: Project, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """It was kept as the resolution, and each later rebase ended at it."""
    conflict_in_b(project)
    assert project.begin() == 1
    tree = project.root / "build/rebase/src"
    (tree / "b").write_text(numbered(1, 60, {20: "both\n"}))
    if kind == "submodule":
        (tree / "x.o").mkdir()
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
            project.git("-C", "x.o", *words)
    else:
        (tree / "x.o").write_bytes(b"\0object")
    project.git("add", "-A")
    capsys.readouterr()
    assert project.again("--continue") == 2
    said = capsys.readouterr().err
    assert f"x.o is a {kind}" in said
    subprocess.run(said.split("`")[1], shell=True, check=True)
    assert project.again("--continue") == 0
    assert (tree / "x.o").exists(), "it is theirs"
    assert "x.o" not in (project.root / "patches/1.1/0002-second.patch").read_text()


def test_a_file_that_upstream_deleted_and_a_person_keeps_is_kept_again(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the patch has it: nothing in it is otherwise than git left it."""
    project.upstream("1.1", {"a": numbered(1, 60), "c": numbered(1, 60)})
    assert project.begin() == 1
    project.git("add", "b")
    assert project.again("--continue") == 0
    made = (project.root / "patches/1.1/0002-second.patch").read_bytes()
    (project.root / "series/1.1").unlink()
    capsys.readouterr()
    assert project.begin() == 0
    assert "replayed" in capsys.readouterr().out
    assert (project.root / "patches/1.1/0002-second.patch").read_bytes() == made


@pytest.mark.parametrize("in_its_place", ["folder", "link"])
def test_a_file_whose_name_upstream_gave_to_something_else(
    project: Project, capsys: pytest.CaptureFixture[str], in_its_place: str
) -> None:
    """git puts it under a name of its own, which is no file of the series."""
    project.upstream("1.1", {"a": numbered(1, 60), "c": numbered(1, 60), "d/x": "upstream\n"})
    if in_its_place == "folder":
        (project.sources["1.1"] / "d").rename(project.sources["1.1"] / "b")
    else:
        (project.sources["1.1"] / "b").symlink_to("d/x")
    assert project.begin() == 1
    assert "~" not in capsys.readouterr().out
    (project.root / "build/rebase/src/c").write_text(numbered(1, 60, {20: "second\n"}))
    project.git("add", "-A")
    assert project.again("--continue") == 2
    (other,) = (name for name in project.git("ls-files", "-z").split("\0") if "~" in name)
    assert f"rm -f -- '{other}'`" in capsys.readouterr().err
    project.git("rm", "-qf", "--", other)
    assert project.again("--continue") == 0
    made = (project.root / "patches/1.1/0002-second.patch").read_bytes()
    (project.root / "series/1.1").unlink()
    capsys.readouterr()
    assert project.begin() == 0, "it is known again"
    assert "replayed" in capsys.readouterr().out
    assert (project.root / "patches/1.1/0002-second.patch").read_bytes() == made


@pytest.mark.parametrize("taken", [["add", "b"], ["commit", "-qam", "settled"]])
def test_markers_left_in_a_file_are_refused(project: Project, taken: list[str]) -> None:
    conflict_in_b(project)
    project.begin()
    project.git(*taken)
    assert project.again("--continue") == 2


@pytest.mark.parametrize("left", [("|||||||", "======="), ("|||||||",)])
def test_markers_between_the_texts_are_refused_too(
    project: Project, capsys: pytest.CaptureFixture[str], left: tuple[str, ...]
) -> None:
    """A person deletes the first and the last line of a conflict, and forgets those in its middle."""
    conflict_in_b(project)
    project.begin()
    file = project.root / "build/rebase/src/b"
    markers = tuple({"<<<<<<<", "|||||||", "=======", ">>>>>>>"} - {*left})
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith(markers)))
    project.git("add", "b")
    assert project.again("--continue") == 2
    assert "b:21: a conflict marker is left" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["f.cpp", "f.inl", "cmake/CMakeLists.txt", "f.py"])
def test_a_line_of_equals_signs_in_code_is_a_marker(project: Project, name: str) -> None:
    text, upstream = numbered(1, 60), numbered(1, 60, {20: "upstream\n"})
    project.upstream("1.0", {name: text})
    project.upstream("1.1", {**dict.fromkeys("abc", text), name: upstream})
    project.patch("0004-fourth", name, text, numbered(1, 60, {20: "fourth\n"}))
    assert project.begin() == 1
    (project.root / "build/rebase/src" / name).write_text(numbered(1, 60, {20: "upstream\n=======\nfourth\n"}))
    project.git("add", name)
    assert project.again("--continue") == 2


@pytest.mark.parametrize("name", ["README.md", "f.py"])
def test_an_underlined_title_is_no_marker(project: Project, name: str) -> None:
    text, upstream = ('"""\n' + numbered(1, 60, lines) + '"""\n' for lines in ({}, {20: "upstream\n"}))
    project.upstream("1.0", {name: text})
    project.upstream("1.1", {**dict.fromkeys("abc", numbered(1, 60)), name: upstream})
    project.patch("0004-fourth", name, text, text.replace("line 20\n", "ours\n"))
    project.begin()
    (project.root / "build/rebase/src" / name).write_text(text.replace("line 20\n", "Backend\n=======\n"))
    project.git("add", name)
    assert project.again("--continue") == 0
    assert "+=======\n" in (project.root / "patches/1.1/0004-fourth.patch").read_text()


def test_skip_leaves_the_patch_out(project: Project) -> None:
    conflict_in_b(project)
    project.begin()
    assert project.again("--skip") == 0
    assert project.series == ["1.0/0001-first.patch", "1.0/0003-third.patch"]


def test_abort_and_restart(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflict_in_b(project)
    project.begin()
    assert project.begin() == 2, "one at a time"
    capsys.readouterr()
    assert project.again("--restart") == 1
    assert "stopped at 1.0/0002-second.patch" in capsys.readouterr().out
    assert project.again("--abort") == 0
    assert project.git("status", "--porcelain") == ""
    assert project.again("--continue") == 2
    assert project.series == []


def test_a_rebase_whose_cache_is_gone_can_be_given_up(project: Project, tmp_path: Path) -> None:
    """The conflict's tree has its objects from there: git could not reset it, and no other step gives up."""
    conflict_in_b(project)
    assert project.begin() == 1
    shutil.rmtree(tmp_path / "cache")
    assert project.again("--abort") == 0
    assert project.begin() == 1
    assert "<<<<<<<" in (project.root / "build/rebase/src/b").read_text()


def test_a_call_without_a_step_settles_and_forgets_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "both\n"}))
    project.git("add", "b")
    assert project.decouple() == 2
    assert "`decouple rebase --continue` goes on with it" in capsys.readouterr().err
    assert project.again("--continue") == 0
    assert "+both" in (project.root / "patches/1.1/0002-second.patch").read_text()


@pytest.mark.parametrize("step", ["--continue", "--skip"])
def test_a_patch_that_the_series_no_longer_lists_is_not_settled(
    project: Project, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    project.write("series/1.0", "1.0/0001-first.patch\n1.0/0003-third.patch\n")
    assert project.again(step) == 2
    said = capsys.readouterr().err
    assert "the series of 1.0 no longer lists 1.0/0002-second.patch" in said
    assert "next: decouple rebase --restart" in said
    assert project.again("--restart") == 0
    assert project.series == ["1.0/0001-first.patch", "1.0/0003-third.patch"]


@pytest.mark.parametrize("text", ['{"version": 2}', '{"version": 1}', "{"])
def test_a_rebase_whose_state_cannot_be_read_is_given_up(
    project: Project, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    conflict_in_b(project)
    project.begin()
    (project.root / "build/rebase/state.json").write_text(text)
    assert project.again("--continue") == 1
    assert "decouple rebase --abort" in capsys.readouterr().err
    assert project.again("--abort") == 0
    assert project.git("status", "--porcelain") == ""
    assert project.begin() == 1
    assert "<<<<<<<" in (project.root / "build/rebase/src/b").read_text()


def settle_second_of_three(project: Project) -> None:
    """Begin a rebase that stops at two patches, and settle the first of them."""
    there = {"a": numbered(1, 60), "b": numbered(1, 60, {20: "upstream\n"}), "c": numbered(1, 60, {30: "upstream\n"})}
    project.upstream("1.1", there)
    assert project.begin() == 1
    (project.root / "build/rebase/src/b").write_text(numbered(1, 60, {20: "upstream, and second\n"}))
    project.git("add", "b")
    assert project.again("--continue") == 1


def test_what_was_typed_need_not_be_utf8(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The next step called the state damaged, and only --abort was left."""
    conflict_in_b(project)
    project.sources["1.1"] = project.sources["1.1"].rename(project.root.parent / "caf\udce9")
    assert project.begin("--format=json") == 1
    assert project.decouple("--skip", "--reason=caf\udce9") == 0
    assert project.series == ["1.0/0001-first.patch", "1.0/0003-third.patch"]


def test_a_restart_replays_what_was_settled(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    settle_second_of_three(project)
    capsys.readouterr()
    assert project.again("--restart") == 1
    out = capsys.readouterr().out
    assert "0002-second.patch  replayed" in out
    assert "stopped at 1.0/0003-third.patch" in out
    (project.root / "series/resolutions/1.0-1.1.toml").unlink()
    assert project.again("--restart") == 1
    assert "stopped at 1.0/0002-second.patch" in capsys.readouterr().out


def test_a_source_that_moved_meanwhile_is_named_anew_by_starting_anew(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    settle_second_of_three(project)
    project.sources["1.1"] = project.sources["1.1"].rename(project.root / "moved")
    capsys.readouterr()
    assert project.again("--skip") == 2
    said = capsys.readouterr().err
    assert "source-1.1: no such file or folder" in said
    assert "`decouple rebase --abort` and start anew" in said
    assert project.again("--abort") == 0
    assert project.begin() == 1
    assert "0002-second.patch  replayed" in capsys.readouterr().out


def test_advice_that_names_no_source_stays_while_a_rebase_is_under_way(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was replaced by "start anew", which meets the same error."""
    conflict_in_b(project)
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "sources-of-mine"))
    project.sources["1.1"] = Path(shutil.make_archive(str(tmp_path / "1.1"), "gztar", tmp_path, "source-1.1"))
    assert project.begin() == 1
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("DECOUPLE_CACHE", "~/cache")
        assert project.again("--continue") == 2
    assert "next: set DECOUPLE_CACHE to an absolute path\n" in capsys.readouterr().err
    manifest = project.root / "series/1.1.toml"
    manifest.rename(tmp_path / "1.1.toml")
    assert project.again("--continue") == 2
    assert "next: make it with: decouple manifest fill 1.1 --write\n" in capsys.readouterr().err
    (tmp_path / "1.1.toml").rename(manifest)
    (unpacked,) = tmp_path.glob("sources-of-mine/**/tree/b")
    unpacked.write_text("edited\n")
    shutil.rmtree(tmp_path / "sources-of-mine/baselines")
    assert project.again("--continue") == 1
    said = capsys.readouterr().err
    assert "tree/b: not as it was unpacked" in said
    assert f"next: rm -r {unpacked.parents[1]} and run again" in said


def test_a_setting_at_fault_is_named_while_a_rebase_is_under_way(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    state = project.root / "build/rebase/state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "source": "github"}))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    assert project.again("--continue") == 1
    said = capsys.readouterr().err
    assert "next: set REQUESTS_CA_BUNDLE" in said
    assert ", or `decouple rebase --abort` and start anew" in said
    assert "--source" not in said


def test_a_series_is_not_carried_to_its_own_release(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """To delete the series, and then rebase from it, was the advice."""
    assert project.decouple("1.0", "1.0") == 2
    said = capsys.readouterr().err
    assert "delete" not in said and "decouple apply NAME --source PATH" in said


def test_a_report_stops_nowhere_and_writes_nothing(project: Project, tmp_path: Path) -> None:
    conflict_in_b(project)
    report = tmp_path / "report.json"
    assert project.begin("--report", "--format=json", f"--output={report}") == 1
    verdicts = {row["patch"]: row["verdict"] for row in json.loads(report.read_text())["patches"]}
    assert verdicts == {
        "1.0/0001-first.patch": "unmodified",
        "1.0/0002-second.patch": "conflict",
        "1.0/0003-third.patch": "unmodified",
    }
    assert project.series == []


def test_a_report_that_cannot_be_written_ends_the_call_before_a_series_is(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command with a good name said that the series exists."""
    conflict_in_b(project)
    folder, report = f"--output={tmp_path}", f"--output={tmp_path / 'report.md'}"
    assert project.begin("--format=markdown", folder) == 2
    said = capsys.readouterr()
    assert f"{tmp_path}: Is a directory" in said.err
    assert f"{tmp_path}:" not in said.out, "no summary of a report that is not there"
    assert project.begin("--format=markdown", report) == 1
    assert "stopped at 1.0/0002-second.patch" in capsys.readouterr().out
    project.git("checkout", "--theirs", "b")
    project.git("add", "b")
    assert project.decouple("--continue", folder) == 2
    assert project.series == []
    assert project.decouple("--continue", report) == 0, "what was settled is kept"
    assert project.series == ["1.0/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch"]


def test_a_stop_is_told_also_where_its_report_comes_nowhere(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device or a pipe gets it once, at the end."""
    conflict_in_b(project)
    assert project.begin("--output=/dev/full") == 1
    said = capsys.readouterr()
    assert "stopped at 1.0/0002-second.patch" in said.out
    assert "No space left on device" in said.err


def test_ci_hosts_get_annotations(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflict_in_b(project)
    project.begin("--report", "--format=github")
    assert "::error file=patches/1.0/0002-second.patch,title=conflict::b:" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["text", "github", "markdown", "json"])
def test_the_commits_behind_a_conflict_are_in_every_report(
    project: Project, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    project.give_from_source("1.0")
    clone = project.sources["1.0"].rename(tmp_path / "clone")
    (clone / "b").write_text(numbered(1, 60, {20: "upstream\n"}))
    for words in (["commit", "-qam", "Rewrite line 20"], ["tag", "v1.1.0"], ["checkout", "-q", "v1.0.0"]):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
        subprocess.run(command, cwd=clone, check=True)
    project.sources["1.0"] = clone
    assert project.begin("--report", f"--history={clone}", f"--format={kind}") == 1
    said = capsys.readouterr().out
    assert "Rewrite line 20" in said
    if kind == "github":
        assert re.search(r"::b:\d+: hunk 1 of 1.*%0Aupstream: [0-9a-f]+ Rewrite line 20\n", said)


def test_with_debians_patches_the_source_is_debians(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """As ``apply`` has it: the first source of the manifest brings none."""
    conflict_in_b(project)
    project.give_from_source("1.0")
    project.give_from_source("1.1")
    for verb, *releases in (["rebase", "1.0", "1.1"], ["fetch", "1.1"], ["apply", "1.1"], ["check", "1.0"]):
        assert main([verb, *releases, "--debian-patches"]) == 2
        said = capsys.readouterr().err
        assert f"release {releases[-1]} has no source 'debian'" in said
        assert "next: leave --debian-patches out\n" in said


def test_one_local_source_after_another(project: Project) -> None:
    """The work tree stands on a commit of the first source when the second one's conflict is to be shown."""
    conflict_in_b(project)
    assert project.begin() == 1
    assert project.again("--abort") == 0
    project.upstream("1.1", {"new": "file\n", "b": numbered(1, 60, {20: "upstream again\n"})})
    assert project.begin() == 1
    assert "upstream again" in (project.root / "build/rebase/src/b").read_text()
    assert project.again("--restart") == 1, "the rebase is under way"
