"""The other verbs: new, fold, rename, delete, import, header, export, branches; and what the command line says."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.cli import main
from decouple.stack import branch, edits
from decouple.stack.commits import CommitText, format_header, format_mail_date, parse_commit_text
from decouple.stack.engine import Stack
from decouple.stack.status import read_status
from tests.support.series import LINES, World, contents, git, header, tree_of


@pytest.fixture(autouse=True)
def project(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))


def test_new_edit_refresh_is_how_a_patch_is_written(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        name = edits.create_patch(stack, "Ask the hook", title="core: ask the hook for the device", now=1_700_000_000)
        assert name == "2.6/0004-ask-the-hook.patch" == stack.top
        assert stack.state.overlay
        (world.source / "torch/core.py").write_text("hook()\n")
        edits.refresh_patches(stack)
        assert edits.refresh_patches(stack).written.files == {}
    text = (world.project / "patches/2.6/0004-ask-the-hook.patch").read_text()
    assert text.startswith("From: ")
    assert "Date: Tue, 14 Nov 2023 22:13:20 +0000\nSubject: core: ask the hook for the device\n" in text
    assert "\nDecouple-Id: ask-the-hook\n---\ndiff --git a/torch/core.py b/torch/core.py\n" in text


def test_new_in_the_middle_goes_behind_the_top_patch(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(1)
        edits.create_patch(stack, "2.6/0001a-between.patch")
        names = stack.series.names
        assert names[:3] == ("2.6/0001-relocate.patch", "2.6/0001a-between.patch", "2.6/0002-hooks.patch")
        stack.push(None)
        assert stack.applied == names


def test_a_checkout_is_named_by_any_path(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every verb that writes a patch called its own journal damaged, and left it in the way of the next."""
    monkeypatch.chdir(world.project / "series")
    monkeypatch.setenv("DECOUPLE_PROJECT", "../../project")
    assert main(["new", "2.6", "by-the-command"]) == 0
    with Stack.open(Checkout(Path("..")).find_series("2.6")) as stack:
        edits.create_patch(stack, "by-a-script")
        assert stack.series.names[:2] == ("2.6/0004-by-the-command.patch", "2.6/0005-by-a-script.patch")


def test_a_patch_goes_behind_none_that_the_series_lost(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """`import` advised another name with -P, which changes nothing."""
    assert main(["push", "2.6", "-a"]) == 0
    world.series.write_text(world.series.read_text().replace("2.6/0003-split.patch\n", ""))
    for verb in (["new", "2.6", "more"], ["import", "2.6", str(world.project / "patches/2.6/0003-split.patch")]):
        capsys.readouterr()
        assert main(verb) == 1
        said = capsys.readouterr().err
        assert "0003-split.patch is applied, but no longer in" in said and "`decouple apply 2.6` brings" in said


def test_fold_merges_a_diff_into_the_top_patch(world: World) -> None:
    diff = b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-A framework.\n+A decoupled framework.\n"
    with Stack.open(world.places) as stack:
        stack.push(2)
        edits.fold_diff(stack, diff)
        assert (world.source / "README.md").read_text() == "A decoupled framework.\n"
        assert git(world.source, "status", "--porcelain") == ""
        with pytest.raises(DecoupleError, match=r"README.md: hunk 1"):
            edits.fold_diff(stack, diff)
    text = (world.project / "patches/2.6/0002-hooks.patch").read_text()
    assert "+A decoupled framework.\n" in text and "+line 7: ask the hook\n" in text


def test_rename_moves_the_file_of_a_patch_and_keeps_the_tree(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        tree = git(world.source, "rev-parse", f"{stack.state.tip}^{{tree}}")
        edits.rename_patch(stack, "2.6/0002-hooks.patch", "0002-device-hooks")
        assert stack.applied[1] == "2.6/0002-device-hooks.patch" == stack.series.names[1]
        assert git(world.source, "rev-parse", f"{stack.state.tip}^{{tree}}") == tree
        assert edits.refresh_patches(stack).written.files == {}
    assert not (world.project / "patches/2.6/0002-hooks.patch").exists()
    assert (world.project / "patches/2.6/0002-device-hooks.patch").exists()


def test_delete_takes_a_patch_out_and_its_file_only_where_that_is_asked(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        with pytest.raises(UsageError, match="has patches on top of it"):
            edits.delete_patch(stack, "2.6/0002-hooks.patch")
        edits.delete_patch(stack, "2.6/0003-split.patch")
        assert stack.applied == ("2.6/0001-relocate.patch", "2.6/0002-hooks.patch") == stack.series.names
        stack.pop(1)
        edits.delete_patch(stack, "2.6/0002-hooks.patch", remove_file=True)
    assert (world.project / "patches/2.6/0003-split.patch").exists()
    assert not (world.project / "patches/2.6/0002-hooks.patch").exists()


def test_a_patch_file_that_another_release_lists_stays(world: World) -> None:
    for name in ("0002-hooks", "0003-split"):
        with (world.project / "series/2.7").open("a") as listed:
            listed.write(f"2.6/{name}.patch\n")
    before = contents(world.project / "patches")
    with Stack.open(world.places) as stack:
        stack.push(None)
        edits.rename_patch(stack, "2.6/0002-hooks.patch", "0002-device-hooks")
        with pytest.raises(UsageError, match=r"also in series 2\.7"):
            edits.delete_patch(stack, "2.6/0003-split.patch", remove_file=True)
        assert stack.applied[1:] == ("2.6/0002-device-hooks.patch", "2.6/0003-split.patch")
    assert before.items() <= contents(world.project / "patches").items()


def test_no_verb_writes_over_a_patch_file_that_the_series_does_not_list(world: World, tmp_path: Path) -> None:
    mine = world.project / "patches/2.6/0004-mine.patch"
    mine.write_text("a person's\n")
    diff = tmp_path / "other.patch"
    diff.write_bytes((world.project / "patches/2.6/0002-hooks.patch").read_bytes())
    with Stack.open(world.places) as stack:
        stack.push(None)
        for verb in (
            lambda: edits.create_patch(stack, "mine"),
            lambda: edits.rename_patch(stack, "2.6/0003-split.patch", "0004-mine"),
            lambda: edits.import_files(stack, [diff], name="0004-mine"),
        ):
            with pytest.raises(UsageError, match="exists already"):
                verb()
        assert stack.applied == stack.series.names and len(stack.applied) == 3
    assert mine.read_text() == "a person's\n"


def test_an_imported_diff_goes_behind_the_top_patch_with_its_strip_level(world: World, tmp_path: Path) -> None:
    diff = "--- README.md\n+++ README.md\n@@ -1 +1 @@\n-A framework.\n+Imported.\n"
    path = tmp_path / "from-a-mail.diff"
    path.write_text(diff)
    with Stack.open(world.places) as stack:
        stack.push(2)
        assert edits.import_files(stack, [path], strip=0) == ["2.6/from-a-mail.diff"]
        assert stack.unapplied == ("2.6/from-a-mail.diff", "2.6/0003-split.patch")
        stack.push(1)
        assert (world.source / "README.md").read_text() == "Imported.\n"
        path.write_text("no diff\n")
        with pytest.raises(DecoupleError, match="holds no diff"):
            edits.import_files(stack, [path], name="other")
    assert "2.6/from-a-mail.diff -p0\n" in world.series.read_text()


def test_a_saved_mail_gives_a_patch_its_name_without_the_mails_suffix(world: World, tmp_path: Path) -> None:
    mail = tmp_path / "0004-fix.eml"
    mail.write_bytes((world.project / "patches/2.6/0003-split.patch").read_bytes())
    with Stack.open(world.places) as stack:
        assert edits.import_files(stack, [mail]) == ["2.6/0004-fix.patch"]


def test_export_of_no_patch_at_all_makes_an_empty_series(world: World, tmp_path: Path) -> None:
    with Stack.open(world.places) as stack:
        edits.export_patches(stack, tmp_path / "out/here")
    assert (tmp_path / "out/here/series").read_text() == ""


def test_header_is_replaced_for_applied_and_unapplied_patches(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(2)
        for name in ("2.6/0002-hooks.patch", "2.6/0003-split.patch"):
            body = stack.read_patch(name).body
            edits.set_header(stack, name, header("A better title", "hooks", "And why."))
            assert stack.read_patch(name).body == body
            assert stack.read_patch(name).header_text == header("A better title", "hooks", "And why.")
        assert git(world.source, "log", "-1", "--format=%s") == "A better title"
        with pytest.raises(DecoupleError, match="holds lines of a diff"):
            edits.set_header(stack, "2.6/0002-hooks.patch", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")


@pytest.fixture
def clone(world: World, tmp_path: Path) -> Path:
    """A clone of upstream's repository."""
    git(tmp_path, "clone", "-q", str(world.upstream), str(tmp_path / "clone"))
    return tmp_path / "clone"


def test_a_series_becomes_a_branch_of_any_clone_and_comes_back(world: World, clone: Path) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        made = branch.make_branch(world.places, branch.open_repository(clone), "cuda-out", world.base)
        assert made.commit == stack.state.tip  # the very commits of the applied tree
    assert git(clone, "rev-parse", "cuda-out^{tree}") == world.final_tree
    assert git(clone, "status", "--porcelain") == ""
    before = {path: path.read_bytes() for path in (world.project / "patches").rglob("*.patch")}
    series = world.series.read_bytes()

    # back without a change: nothing is written
    with Stack.open(world.places) as stack:
        assert branch.import_branch(stack, branch.open_repository(clone), "cuda-out", world.base).files == {}

    # back into a project that has lost every patch: the same files again
    for path in before:
        path.unlink()
    world.series.write_text("# the order matters\n")
    with Stack.open(world.places) as stack:
        stack.move_to([], verb="apply", overlay=False)
        written = branch.import_branch(stack, branch.open_repository(clone), "cuda-out", world.base)
        assert len(written.added) == 3
        stack.push(None, overlay=False)
    assert tree_of(world.source) == world.final_tree
    for path, data in before.items():
        assert path.read_bytes() == data, path.name
    assert world.series.read_bytes() == series


@pytest.mark.parametrize("made_in", ["clone", "linked"])
@pytest.mark.parametrize("held_by", ["clone", "linked"])
def test_a_branch_that_a_work_tree_has_checked_out_is_not_moved(
    world: World, clone: Path, tmp_path: Path, made_in: str, held_by: str
) -> None:
    """Its files and index would stay behind: the next `git commit -a` there undoes the series."""
    git(clone, "checkout", "-q", "--detach")
    git(clone, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    git(tmp_path / held_by, "checkout", "-q", "-b", "work")
    with pytest.raises(UsageError, match=f"work is checked out in {tmp_path / held_by}"):
        branch.make_branch(world.places, branch.open_repository(tmp_path / made_in), "work", world.base, force=True)
    assert git(clone, "rev-parse", "work") == world.base


def test_the_branch_of_a_repository_without_a_work_tree_may_be_replaced(world: World) -> None:
    name = git(world.upstream, "symbolic-ref", "--short", "HEAD")
    made = branch.make_branch(world.places, branch.open_repository(world.upstream), name, world.base, force=True)
    assert git(world.upstream, "rev-parse", "HEAD") == made.commit


@pytest.mark.parametrize("name", ["bad name", "-f", "@{-1}", "a..b", "work/more"])
def test_a_branch_that_git_cannot_make_leaves_nothing_behind(world: World, clone: Path, name: str) -> None:
    git(clone, "checkout", "-q", "-b", "work")
    refs = git(clone, "for-each-ref")
    with pytest.raises(DecoupleError, match=re.escape(name)) as error:
        branch.make_branch(world.places, branch.open_repository(clone), name, world.base)
    assert "--name" in str(error.value.next_step)
    assert git(clone, "for-each-ref") == refs


def test_a_branch_that_cannot_come_back_leaves_nothing_behind(world: World, clone: Path) -> None:
    branch.make_branch(world.places, branch.open_repository(clone), "work", world.base)
    git(clone, "checkout", "-q", "work")
    (clone / "logo.png").write_bytes(b"\0")
    git(clone, "add", "logo.png")
    git(clone, "commit", "-qm", "A logo\n\nDecouple-Id: logo")
    refs = git(clone, "for-each-ref")
    with Stack.open(world.places) as stack, pytest.raises(DecoupleError, match=r"logo"):
        branch.import_branch(stack, branch.open_repository(clone), "work", world.base)
    assert git(clone, "for-each-ref") == refs


@pytest.mark.parametrize("kind", ["clone", "linked work tree"])
def test_a_branch_that_was_worked_on_comes_back_with_the_work(
    world: World, clone: Path, tmp_path: Path, kind: str
) -> None:
    if kind != "clone":
        git(clone, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
        clone = tmp_path / "linked"
    branch.make_branch(world.places, branch.open_repository(clone), "work", world.base)
    git(clone, "checkout", "-q", "work")
    (clone / "README.md").write_text("from the branch\n")
    git(clone, "commit", "-qam", "Another step\n\nDecouple-Id: another-step")
    untouched = (world.project / "patches/2.6/0001-relocate.patch").read_bytes()
    with Stack.open(world.places) as stack:
        written = branch.import_branch(stack, branch.open_repository(clone), "work", world.base)
        assert written.added == ("2.6/0004-another-step.patch",) and written.changed == ()
        stack.push(None, overlay=False)
    assert tree_of(world.source) == git(clone, "rev-parse", "HEAD^{tree}")
    assert (world.project / "patches/2.6/0001-relocate.patch").read_bytes() == untouched
    git(clone, "reset", "-q", "--hard", "HEAD~2")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"0003-split.*1 more"):
            branch.import_branch(stack, branch.open_repository(clone), "work", world.base)


def test_a_commit_that_was_split_on_a_branch_comes_back_as_two_patches(world: World, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(world.upstream), str(clone))
    branch.make_branch(world.places, branch.open_repository(clone), "work", world.base)
    git(clone, "checkout", "-q", "work")
    (clone / "README.md").write_text("the second half\n")
    git(clone, "commit", "-qa", "-C", "HEAD")  # its name in the message, too
    with Stack.open(world.places) as stack:
        written = branch.import_branch(stack, branch.open_repository(clone), "work", world.base)
        assert len(written.added) == 1 and len(stack.series.names) == 4
        stack.push(None, overlay=False)
    assert tree_of(world.source) == git(clone, "rev-parse", "HEAD^{tree}")


def test_status_tells_what_disagrees(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    found = read_status(world.project, "2.6")
    assert found.is_clean
    split = found.patches[2].size
    assert (split.added, split.removed, split.files, split.in_file) == (2, 1, 3, True)
    assert found.patches[0].size.renames == 3 and not found.patches[0].size.in_file
    (world.source / "README.md").write_text("edited\n")
    with (world.project / "patches/2.6/0003-split.patch").open("a") as out:
        out.write("-- \n2.39\n")
    (world.project / "third_device/torch_cuda/more.py").write_text("")
    found = read_status(world.project, "2.6")
    assert not found.is_clean
    assert found.edited == ("README.md",)
    assert [patch.state for patch in found.patches] == ["applied", "applied", "changed on disk"]
    assert found.overlay == "out of date"
    assert found.next_step == "decouple refresh 2.6", "it takes the edit"


def test_status_names_the_command_that_mends_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "2.6"]) == 1
    assert "next: decouple apply 2.6\n" in capsys.readouterr().out
    assert main(["push", "2.6", "-a"]) == main(["status", "2.6"]) == 0
    assert "next:" not in capsys.readouterr().out
    (world.project / "third_device/torch_cuda/more.py").write_text("")
    state = world.source / ".git/decouple/state.json"
    state.write_text(state.read_text().replace('"source": {}', '"source": {"source": "local:/my tree"}'))
    assert main(["status", "2.6"]) == 1
    assert "overlay out of date\n  next: decouple apply 2.6 --source 'local:/my tree'\n" in capsys.readouterr().out


def edit_by(world: World, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Make the command of a shell the editor; ``$1`` is the file."""
    editor = world.project / "editor.sh"
    editor.write_text(f"#!/bin/sh\n{command}\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)


def test_each_verb_of_the_stack_prints_what_it_did(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        assert main(arguments) == code
        return capsys.readouterr().out

    assert said("push", "2.6").startswith("applied 2.6/0001-relocate.patch\nnow at 2.6/0001-relocate.patch (")
    assert said("push", "-a").endswith(" files touched)\n")
    assert said("push", code=1) == "everything is applied\n"
    assert said("series", "-v").splitlines()[-1] == "= 2.6/0003-split.patch"
    assert said("series", "--top") == "2.6/0003-split.patch\n"
    assert said("pop", "0002").startswith("overlay taken off\nremoved 2.6/0003-split.patch\n")
    assert said("series", "2.6", "--unapplied") == "2.6/0003-split.patch\n"
    assert said("show", "0002").encode() == (world.project / "patches/2.6/0002-hooks.patch").read_bytes()
    assert said("header", "2.6", "0002") == header("hooks", "hooks")
    (world.source / "README.md").write_text("edited\n")
    assert "+edited\n" in said("diff") and "+line 7: ask the hook\n" in said("diff")
    (world.source / "torch/fresh.py").write_text("fresh\n")
    monkeypatch.chdir(world.source / "torch")
    assert said("add", "fresh.py").startswith("torch/fresh.py goes into 2.6/0002-hooks.patch")
    assert said("refresh", "2.6") == (
        "README.md: edits go into 2.6/0002-hooks.patch\ntorch/fresh.py: edits go into 2.6/0002-hooks.patch\n"
        "rewritten 2.6/0002-hooks.patch\n"
    )
    assert "\n2 in-file patches: 8 changed lines (+5 -3)" in said("status", code=1)
    assert main(["push", "2.6", "nonsense"]) == 2
    assert "no patch 'nonsense' in series 2.6" in capsys.readouterr().err
    assert main(["status", "9.9"]) == 2
    assert said("pop", "-a", "2.6")
    assert said("pop", code=1) == "nothing is applied\n"
    edit_by(world, monkeypatch, "sed -i 's/^Subject: .*/Subject: edited by hand/' \"$@\"")
    assert said("header", "-e", "0003") == ""
    assert "Subject: edited by hand\n" in (world.project / "patches/2.6/0003-split.patch").read_text()


def test_a_link_is_added_as_it_is(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that it leads to was, of which there was nothing to write."""
    assert main(["push", "2.6", "-a"]) == 0
    (world.source / "torch/alias.py").symlink_to("core.py")
    (world.source / "torch/later.py").symlink_to("made-by-the-build.py")
    assert main(["add", "2.6", "torch/alias.py", "torch/later.py"]) == 0
    assert "torch/alias.py goes into" in capsys.readouterr().out
    assert main(["refresh", "2.6"]) == 0
    listed = git(world.source, "ls-files", "-s", "torch/alias.py", "torch/later.py")
    assert [line.split()[0] for line in listed.splitlines()] == ["120000", "120000"]
    assert "new file mode 120000" in (world.project / "patches/2.6/0003-split.patch").read_text()
    assert main(["diff", "2.6", "torch/alias.py"]) == 0
    assert "+core.py" in capsys.readouterr().out


def test_a_header_that_is_refused_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who quotes a diff, to show what fails without the patch, had nothing left to indent."""
    edit_by(world, monkeypatch, "printf 'What fails:\\n--- a/x\\n+++ b/x\\n@@ -1 +1 @@\\n-a\\n+b\\n' >> \"$1\"")
    before = header("split", "split")
    assert main(["header", "2.6", "-e", "0003"]) == 1
    said, kept = capsys.readouterr().err, world.project / "build/2.6/0003-split.header"
    assert f"decouple header 2.6 2.6/0003-split.patch -r < {kept}" in said and "indent them" in said
    assert "\n@@ -1 +1 @@\n" in kept.read_text()
    assert main(["header", "2.6", "0003"]) == 0 and capsys.readouterr().out == before
    first = kept.read_text()
    edit_by(world, monkeypatch, "printf 'Another text.\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n' >> \"$1\"")
    assert main(["header", "2.6", "-e", "0003"]) == 1
    assert f" -r < {kept}.1` takes it" in capsys.readouterr().err
    edit_by(world, monkeypatch, "echo 'It goes in.' >> \"$1\"")
    assert main(["header", "2.6", "-e", "0003"]) == 0
    assert kept.read_text() == first, "a text that is promised to be kept"
    assert sorted(kept.parent.glob("*.header*")) == [kept, kept.with_name(f"{kept.name}.1")]


def test_a_header_that_changed_while_the_editor_was_open_is_not_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stack is not locked then: `git pull`, `refresh` and another `header` may write the patch."""
    path = world.project / "patches/2.6/0003-split.patch"
    edit_by(world, monkeypatch, f"sed -i 's/^Subject: .*/Subject: theirs/' '{path}'; echo 'Ours.' >> \"$1\"")
    assert main(["header", "2.6", "-e", "0003"]) == 1
    said, kept = capsys.readouterr().err, world.project / "build/2.6/0003-split.header"
    assert "changed while the editor was open" in said and f"-r < {kept}" in said
    assert "Subject: theirs\n" in path.read_text() and "Ours." in kept.read_text()


def test_a_file_whose_name_is_none_for_a_patch_is_imported_under_another(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "Fix #1.patch"
    path.write_bytes((world.project / "patches/2.6/0002-hooks.patch").read_bytes())
    assert main(["import", "2.6", str(path)]) == 2
    assert "next: choose another name with -P\n" in capsys.readouterr().err
    assert main(["import", "2.6", str(path), "-P", "0004-fix"]) == 0


def test_an_emptied_header_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As git gives a commit up. The patch lost its author and its id, with exit code 0."""
    edit_by(world, monkeypatch, ': > "$1"')
    before = (world.project / "patches/2.6/0003-split.patch").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    for how in ("-e", "-r"):
        assert main(["header", "2.6", how, "0003"]) == 2
        assert "no text for the header of 2.6/0003-split.patch" in capsys.readouterr().err
    assert (world.project / "patches/2.6/0003-split.patch").read_bytes() == before
    assert list((world.project / "build/2.6").glob("*.header")) == []


def test_a_header_of_another_systems_editor_has_lf(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lint` refuses CR LF there, which `-r` took over as it was."""
    before = (world.project / "patches/2.6/0003-split.patch").read_bytes()
    crlf = header("divide", "split").replace("\n", "\r\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(crlf.encode())))
    edit_by(world, monkeypatch, "sed -i 's/: divide$/: split/; s/$/\\r/' \"$1\"")
    for how, wanted in (("-r", before.replace(b": split\n", b": divide\n", 1)), ("-e", before)):
        assert main(["header", "2.6", how, "0003"]) == 0
        assert (world.project / "patches/2.6/0003-split.patch").read_bytes() == wanted


@pytest.mark.parametrize(
    ("editor", "code", "told"),
    [
        ('vi "x', 2, 'EDITOR is vi "x: No closing quotation\n  next: set EDITOR to the command of an editor'),
        (
            "no-such-editor",
            1,
            "the editor no-such-editor cannot be started: No such file or directory\n  next: set EDITOR",
        ),
        (" ", 0, ""),
    ],
)
def test_an_editor_that_cannot_be_started_is_no_fault_of_ours(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], editor: str, code: int, told: str
) -> None:
    """Blank is not set: the draft itself was started as a program."""
    usual = world.project / "programs/vi"
    usual.parent.mkdir()
    usual.write_text("#!/bin/sh\nexit 0\n")
    usual.chmod(0o755)
    monkeypatch.setenv("PATH", f"{usual.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("EDITOR", editor)
    monkeypatch.delenv("VISUAL", raising=False)
    assert main(["push", "2.6"]) == 0
    assert main(["header", "-e"]) == code
    assert told in capsys.readouterr().err


def test_apply_of_an_unknown_release_names_the_command_that_makes_its_manifest(world: World) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "decouple", "apply", "1.0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "decouple: no manifest " in done.stderr, "an apply carries the nearest series, but to what?"
    assert "decouple manifest fill 1.0 --write" in done.stderr.splitlines()[1]


@pytest.mark.parametrize(
    "text",
    [
        header("title", "an-id"),
        header("title", "an-id", "A body.\n\nOf two paragraphs: with a colon."),
        "Description: a title\n and more\n .\n after a gap\nAuthor: S <s@example.org>\nLast-Update: 2024-02-29\n\n",
        "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n" + header("x", "y"),
        "no header at all\n",
        "",
    ],
)
def test_a_header_survives_the_way_through_a_commit(text: str) -> None:
    commit = parse_commit_text(text, "2.6/0001-x.patch")
    assert commit.find_trailer("Decouple-Patch") == "2.6/0001-x.patch"
    again = format_header(commit, text)
    assert again.removesuffix("---\n") == text.removesuffix("---\n")
    assert parse_commit_text(again, "2.6/0001-x.patch") == commit
    fresh = format_header(commit)
    assert parse_commit_text(fresh, "2.6/0001-x.patch").has_same_text(commit) or "Author" in text or not text


def test_the_date_of_a_mail_survives_the_way_through_a_commit() -> None:
    def raw(field: str) -> str:
        return parse_commit_text(f"Subject: x\nFrom: A <a@example.org>\n{field}\n\n", "x").date

    assert raw("Date: Mon, 3 Feb 2025 10:00:00 +0100") == "1738573200 +0100"
    assert format_mail_date("1738573200 +0100") == "Mon, 3 Feb 2025 10:00:00 +0100"
    assert parse_commit_text("Description: x\nLast-Update: 2024-02-29\n", "x").date == "1709164800 +0000"
    assert format_mail_date(raw("Date: Sat, 1 Mar 2025 00:30:00 -0530")) == "Sat, 1 Mar 2025 00:30:00 -0530"
    for beyond in ("99999999999 +0000", "253402300800 -1200", "4102444800 +0000"):
        assert format_mail_date(beyond) == f"@{beyond}", "a year that no mail has"
    assert raw(f"Date: {format_mail_date('99999999999 +0000')}") == "99999999999 +0000"
    assert format_mail_date("123456789 +9999") == "@123456789 +9999", "a zone that a clock does not have"


def test_a_message_that_would_hide_the_diff_is_refused() -> None:
    with pytest.raises(DecoupleError, match="patch begin"):
        format_header(CommitText("A <a@b>", "0 +0000", "title\n\ndiff --git a/x b/x\n"))


def test_a_tree_that_is_not_ours_is_left_alone(world: World) -> None:
    shutil.rmtree(world.source / ".git/decouple")
    before = contents(world.source)
    with pytest.raises(DecoupleError, match="no applied tree"):
        world.create()
    assert contents(world.source) == before
    assert LINES
