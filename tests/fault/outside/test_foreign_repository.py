"""Somebody else's git repository names programs to run, whoever reads it: none of them runs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.git import try_git
from decouple.build import inputs
from decouple.census.scan import list_tree_files
from decouple.cli import main
from decouple.device.size import measure_files
from decouple.flows.provenance import compute_overlay_digest
from decouple.patch.apply import Source
from decouple.rebase.history import explain_stops
from decouple.rebase.verdicts import CarryResult, Note, Verdict
from decouple.rebase.workspace import open_workspace
from decouple.stack import branch, edits
from decouple.stack.engine import Stack
from decouple.upstream import pristine, readers, source_specifier, unpublished_manifest
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.fetch import fetch_source
from tests.support.planted import REMOTES, Planted, without_object
from tests.support.releases import git_repository, manifest, sample_tree
from tests.support.series import World, git, usual_world


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of somebody's, with a submodule, an edited and an unknown file and one that is newer than the index."""
    (tmp_path / "sub-tree").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub-tree/lib.c").write_text("int lib;\n")
    git_repository(tmp_path / "sub-tree", tmp_path / "sub")
    (tmp_path / "clone").mkdir()
    git_repository(sample_tree(tmp_path / "source"), tmp_path / "clone", submodule=tmp_path / "sub")
    clone = tmp_path / "clone"
    (clone / "torch/__init__.py").write_text("line 1: edited\n")
    (clone / "unknown.py").write_text("x = 1\n")
    os.utime(clone / "CMakeLists.txt", ns=(1, 1))
    os.utime(clone / "third_party/sub/lib.c", ns=(1, 1))
    return clone


def planted(clone: Path, tmp_path: Path, remote: str = "") -> list[Planted]:
    """The clone and its submodule with programs in their configuration."""
    found = [Planted(clone / ".git", tmp_path / "planted", remote)]
    module = clone / ".git/modules/third_party/sub"
    if module.is_dir():
        found.append(Planted(module, tmp_path / "planted-sub", remote))
    return found


def ran(found: list[Planted]) -> list[str]:
    return [name for one in found for name in one.ran]


def read_all(source: Source) -> None:
    for path in readers.list_paths(source):
        with contextlib.suppress(DecoupleError):  # a submodule
            source.read(path)


def history(clone: Path) -> object:
    note = Note("torch/__init__.py", 1, "does not apply", found=("line 1",), upstream=(" line 1",))
    git(clone, "commit", "-qam", "more")
    return lambda: explain_stops([CarryResult(None, Verdict.CONFLICT, (note,))], clone, "v2.6.0", "HEAD", {})  # type: ignore[arg-type]


READING: dict[str, Callable[[Path, Path], object]] = {
    "check, a commit": lambda clone, _: read_all(readers.open_path(clone, "v2.6.0", (), None).source),
    "check, a bare repository": lambda clone, _: read_all(readers.open_path(clone / ".git", None, (), None).source),
    "check, the files": lambda clone, _: read_all(readers.open_path(clone, None, (), None).source),
    "the word of a commit": lambda clone, _: source_specifier.split_revision(Path(f"{clone}@v2.6.0")),
    "apply, the files": lambda clone, folder: ensure_baseline(
        folder / "cache", manifest(), fetch_source(manifest(), f"local:{clone}", cache=folder / "cache")
    ),
    "apply, a commit": lambda clone, folder: fetch_source(manifest(), f"local:{clone}@v2.6.0", cache=folder / "cache"),
    "list the files": lambda clone, _: pristine.list_entries(clone),
    "census": lambda clone, _: list_tree_files(clone),
    "reuse": lambda clone, _: measure_files(clone),
    "manifest of a tree": lambda clone, _: unpublished_manifest.describe_tree("mine", clone),
    "manifest of a repository": lambda clone, _: unpublished_manifest.describe_repository(
        "mine", clone.as_uri(), "v2.6.0"
    ),
    "a wheel's overlay": lambda clone, _: compute_overlay_digest(clone, clone),
}


@pytest.mark.parametrize("how", READING)
def test_nothing_that_a_repository_names_runs_when_it_is_read(clone: Path, tmp_path: Path, how: str) -> None:
    found = planted(clone, tmp_path)
    with contextlib.suppress(DecoupleError):
        READING[how](clone, tmp_path)
    assert ran(found) == []


@pytest.mark.parametrize("remote", REMOTES)
@pytest.mark.parametrize("gone", ["HEAD^{tree}", "HEAD:torch", "HEAD:torch/__init__.py", "HEAD:version.txt"])
def test_what_a_partial_clone_lacks_is_fetched_by_nobody(clone: Path, tmp_path: Path, gone: str, remote: str) -> None:
    found = planted(clone, tmp_path, remote)
    without_object(clone / ".git", git(clone, "rev-parse", gone))
    for how in READING:
        if how != "manifest of a repository":  # git serves it as its own owner, and may fetch what it lacks
            with contextlib.suppress(DecoupleError):
                READING[how](clone, tmp_path)
            assert ran(found) == [], how


def test_the_history_of_a_clone_runs_nothing(clone: Path, tmp_path: Path) -> None:
    ask = history(clone)
    found = planted(clone, tmp_path)
    assert callable(ask) and ask()
    assert ran(found) == []


def test_a_series_becomes_a_branch_of_a_clone_and_comes_back_and_nothing_runs(tmp_path: Path) -> None:
    world = usual_world(tmp_path / "world")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(world.upstream), str(clone))
    found = Planted(clone / ".git", tmp_path / "planted")
    repository = branch.open_repository(clone)
    made = branch.make_branch(world.places, repository, "mine", "HEAD")
    with Stack.open(world.places) as stack:
        branch.import_branch(stack, repository, made.name, made.base)
    assert found.ran == []


def test_the_objects_of_a_clone_are_borrowed_and_nothing_runs(clone: Path, tmp_path: Path) -> None:
    found = Planted(clone / ".git", tmp_path / "planted")
    workspace = open_workspace(tmp_path / "workspace", [clone / ".git"])
    assert workspace.resolve_commit(git(clone, "rev-parse", "v2.6.0"))
    assert found.ran == []


def test_verbs_in_a_tree_whose_configuration_was_changed_run_nothing(tmp_path: Path) -> None:
    world = usual_world(tmp_path / "world")
    (world.source / "torch/core.py").write_text("edited\n")
    found = Planted(world.source / ".git", tmp_path / "planted")
    (world.source / ".git/info/attributes").write_text("* -filter diff=evil merge=evil\n")
    with Stack.open(world.places) as stack:
        with contextlib.suppress(DecoupleError):
            stack.push(None)
        git_clean(world)
        stack.push(None)
        with (world.source / "torch/registry.py").open("a") as file:
            file.write("more = {}\n")
        edits.refresh_patches(stack)
        stack.pop(None)
    with (world.source / "setup.py").open("a") as file:
        file.write("edited\n")
    inputs.hash_tree_content(world.source, ())
    inputs.read_tree_state(world.source)
    inputs.list_tracked_files(world.source)
    inputs.read_upstream_file(world.source, "setup.py")
    inputs.read_epoch(world.source)
    assert found.ran == []


def git_clean(world: World) -> None:
    """Take the edit back without git, which would run what was planted."""
    shutil.copy(world.upstream.parent / "maker/torch/core.py", world.source / "torch/core.py")
    text = (world.source / "torch/core.py").read_text().replace("line 7: ask the hook", "line 7")
    (world.source / "torch/core.py").write_text(text)


def test_check_of_a_commit_says_in_one_line_that_an_object_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = usual_world(tmp_path / "world")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--no-hardlinks", str(world.source), str(clone))
    for pack in (clone / ".git/objects/pack").glob("*.pack"):
        (tmp_path / pack.name).write_bytes(pack.read_bytes())
        pack.unlink()
        git(clone, "unpack-objects", "-q", stdin=(tmp_path / pack.name).read_bytes())
    without_object(clone / ".git", git(clone, "rev-parse", "HEAD:torch/core.py"))
    found = Planted(clone / ".git", tmp_path / "planted", "ext")
    assert main(["check", "2.6", "--source", f"{clone}@HEAD"]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) <= 2 and said[0].startswith("decouple: "), said
    assert found.ran == []


CHANGES: dict[str, Callable[[Path], object]] = {
    "an edited file": lambda clone: (clone / "version.txt").write_text("2.7.0a0\n"),
    "an unknown file": lambda clone: (clone / "unknown.py").write_text("x = 1\n"),
    "a deleted file": lambda clone: (clone / "CMakeLists.txt").unlink(),
    "an edited file of a submodule": lambda clone: (clone / "third_party/sub/lib.c").write_text("int x;\n"),
    "an unknown file in a submodule": lambda clone: (clone / "third_party/sub/new.c").write_text("int x;\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_manifest_of_a_clone_has_its_commit_until_something_is_edited(
    clone: Path, tmp_path: Path, change: str
) -> None:
    git(clone, "checkout", "-q", "--", ".")
    (clone / "unknown.py").unlink()
    os.utime(clone / "third_party/sub/lib.c", ns=(1, 1))
    found = planted(clone, tmp_path)
    assert unpublished_manifest.describe_tree("mine", clone).commit == git(
        tmp_path, f"--git-dir={clone}/.git", "rev-parse", "v2.6.0"
    )
    CHANGES[change](clone)
    assert unpublished_manifest.describe_tree("mine", clone).commit is None
    assert ran(found) == []


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files to another user takes root")


def given_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)


WITHOUT_GIT = ("check, the files", "the word of a commit")


@as_root
@pytest.mark.parametrize("how", [how for how in READING if how not in (*WITHOUT_GIT, "manifest of a repository")])
def test_a_repository_of_another_owner_is_read_when_the_person_says_so(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    found = planted(clone, tmp_path)
    given_away(clone)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    with pytest.raises(DecoupleError, match="belongs to another user") as raised:
        READING[how](clone, tmp_path)
    assert str(raised.value.next_step).startswith("git config --global --add safe.directory ")
    (tmp_path / "gitconfig").write_text(f"[safe]\n directory = {clone}\n directory = {clone}/.git\n")
    READING[how](clone, tmp_path)
    assert ran(found) == []


@as_root
def test_a_branch_goes_into_no_repository_of_another_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = usual_world(tmp_path / "world")
    given_away(world.upstream)
    monkeypatch.delenv("SUDO_UID", raising=False)
    with pytest.raises(DecoupleError, match="belongs to another user"):
        branch.make_branch(world.places, branch.open_repository(world.upstream), "mine", "HEAD")
    monkeypatch.setenv("SUDO_UID", "12345")  # who used sudo, as git has it
    assert branch.make_branch(world.places, branch.open_repository(world.upstream), "mine", "HEAD").commit


@as_root
def test_work_below_a_folder_that_another_user_made_a_repository_goes_on(clone: Path, tmp_path: Path) -> None:
    """`/tmp/.git`, say: what asks for no repository is not kept from its work."""
    above = tmp_path / "above"
    (above / "work").mkdir(parents=True)
    git(above, "init", "-q")
    found = Planted(above / ".git", tmp_path / "planted-above")
    given_away(above)
    assert try_git("version", cwd=above / "work").status == 0
    assert unpublished_manifest.describe_repository("mine", clone.as_uri(), "v2.6.0").commit
    for name in "abc":
        (above / "work" / name).write_text("x\n")
    assert try_git("merge-file", "-p", "a", "b", "c", cwd=above / "work").status == 0
    assert found.ran == []


def test_what_replaces_objects_is_not_asked(clone: Path) -> None:
    """refs/replace/ gives other bytes under the same id, so a tree's id would say nothing of its files."""
    evil = git(clone, "hash-object", "-w", "--stdin", stdin=b"evil\n")
    git(clone, "replace", git(clone, "rev-parse", "HEAD:version.txt"), evil)
    assert readers.open_path(clone, "HEAD", (), None).source.read("version.txt") == b"2.6.0a0\n"


def test_a_persons_own_word_on_transports_is_kept(monkeypatch: pytest.MonkeyPatch, clone: Path) -> None:
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "https:ssh")
    with pytest.raises(DecoupleError, match="not allowed"):
        unpublished_manifest.describe_repository("mine", clone.as_uri(), "v2.6.0")
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "https:file")
    assert unpublished_manifest.describe_repository("mine", clone.as_uri(), "v2.6.0").commit
