"""Writing the tree back to patches/: nothing that did not change changes; what did is written in one form."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.cli import main
from decouple.flows.apply import ApplyRequest
from decouple.stack import edits
from decouple.stack.engine import Stack, create_tree
from tests.support.series import World, contents, git, header, tree_of


def project_files(world: World) -> dict[str, bytes]:
    return {
        str(path.relative_to(world.project)): path.read_bytes()
        for folder in ("series", "patches")
        for path in (world.project / folder).rglob("*")
        if path.is_file()
    }


def test_an_untouched_tree_changes_no_byte(world: World) -> None:
    odd = (
        "Description: a patch of other habits\n  with two blanks in front\nAuthor: Somebody\n\n"
        "Index: torch/core.py\n==========\n--- a/torch/core.py\t2001-01-01\n+++ b/torch/core.py\t2001-01-01\n"
        "@@ -1,2 +1,3 @@ some function\n line 1\n+line 1.5\n line 2\n-- \n2.30.1\n\n"
    )
    world.patch_text("2.6/0004-odd.patch", odd)
    before = project_files(world)
    with Stack.open(world.places) as stack:
        stack.push(None)
        head = stack.state.head
        done = edits.refresh_patches(stack)
        assert done.written.files == {}
        assert stack.state.head == head
    assert project_files(world) == before


@pytest.mark.parametrize(
    "amend", [["--amend", "--no-edit"], ["--amend", "-m", "hooks\n\nDecouple-Id: hooks\nForwarded: no"]]
)
def test_a_commit_amended_without_change_changes_no_byte(world: World, amend: list[str]) -> None:
    before = project_files(world)
    with Stack.open(world.places) as stack:
        stack.push(2)
        head = stack.state.head
    git(world.source, "commit", "-q", *amend)
    assert git(world.source, "rev-parse", "HEAD") != head
    with Stack.open(world.places) as stack:
        edits.refresh_patches(stack)
        assert stack.state.head == head == git(world.source, "rev-parse", "HEAD")
    assert project_files(world) == before


def test_an_amended_commit_is_written_back(world: World) -> None:
    before = project_files(world)
    with Stack.open(world.places) as stack:
        stack.push(2)
    core = world.source / "torch/core.py"
    core.write_text(core.read_text().replace("line 30\n", "line 30: too\n"))
    git(world.source, "commit", "-q", "-a", "--amend", "--no-edit")
    with Stack.open(world.places) as stack:
        done = edits.refresh_patches(stack)
        assert done.written.changed == ("2.6/0002-hooks.patch",)
        stack.check_unedited()
        tree = git(world.source, "rev-parse", "HEAD^{tree}")
        stack.pop(None)
        stack.push(2)
        assert git(world.source, "rev-parse", "HEAD^{tree}") == tree
    after = project_files(world)
    assert {name for name in after if after[name] != before.get(name)} == {"patches/2.6/0002-hooks.patch"}
    text = after["patches/2.6/0002-hooks.patch"].decode()
    assert text.startswith(header("hooks", "hooks"))
    assert "+line 30: too\n" in text and "+line 7: ask the hook\n" in text


def test_a_message_amended_by_hand_is_written_back_and_the_diff_kept(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(2)
    path = world.project / "patches/2.6/0002-hooks.patch"
    body = path.read_bytes().partition(b"---\n")[2]
    git(
        world.source,
        "commit",
        "-q",
        "--amend",
        "-m",
        "hooks, better\n\nWhy: because.\nAnd more.\n\nDecouple-Id: hooks\nForwarded: yes",
    )
    with Stack.open(world.places) as stack:
        edits.refresh_patches(stack)
    text = path.read_text()
    assert "Subject: hooks, better\n" in text and "Forwarded: yes\n" in text and "And more.\n" in text
    assert "Forwarded: no" not in text
    assert path.read_bytes().partition(b"---\n")[2] == body
    with Stack.open(world.places) as stack:
        assert edits.refresh_patches(stack).written.files == {}


def test_edits_go_into_the_top_patch_below_the_overlay(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    (world.source / "README.md").write_text("A framework, decoupled.\n")
    (world.source / "torch/new.py").write_text("new = True\n")
    (world.source / "torch/untracked.py").write_text("a build product\n")
    git(world.source, "add", "-N", "torch/new.py")
    with Stack.open(world.places) as stack:
        done = edits.refresh_patches(stack)
        assert done.taken == ("README.md", "torch/new.py")
        assert done.into == "2.6/0003-split.patch"
        assert stack.list_edited_files() == ()
        laid = world.source / "third_device/torch_cuda/torch_patches/2.6/0003-split.patch"
        assert laid.read_bytes() == (world.project / "patches/2.6/0003-split.patch").read_bytes()
        everything = contents(world.source)
        (world.source / "torch/untracked.py").unlink()
        stack.pop(None)
        assert tree_of(world.source) == world.base_tree
        stack.push(None)
    del everything["torch/untracked.py"]
    assert contents(world.source) == everything


def test_edits_go_into_a_lower_patch_if_no_later_one_is_in_the_way(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    core = world.source / "torch/core.py"
    core.write_text(core.read_text().replace("line 1\n", "line one\n"))
    with Stack.open(world.places) as stack:
        done = edits.refresh_patches(stack, into="0002")
        assert done.into == "2.6/0002-hooks.patch" and done.written.changed == ("2.6/0002-hooks.patch",)
    streams = world.source / "third_device/torch_cuda/core/streams.py"
    streams.write_text(streams.read_text() + "more\n")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"streams.py.*0003-split"):
            edits.refresh_patches(stack, into="0001")


def test_a_new_commit_becomes_a_new_patch(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    (world.source / "README.md").write_text("by hand\n")
    git(world.source, "commit", "-qam", "Readme: say so\n\nIt was time.")
    with Stack.open(world.places) as stack:
        done = edits.refresh_patches(stack)
        assert done.written.added == ("2.6/0004-readme-say-so.patch",)
        assert stack.top == "2.6/0004-readme-say-so.patch"
        assert stack.state.overlay is not None
        assert edits.refresh_patches(stack).written.files == {}
    text = (world.project / "patches/2.6/0004-readme-say-so.patch").read_text()
    assert text.startswith("From: Ada <ada@example.org>\nDate: ")
    assert "Subject: Readme: say so\n\nIt was time.\n\nDecouple-Id: readme-say-so\n---\ndiff --git a/README.md" in text
    assert world.series.read_text().splitlines()[-1] == "2.6/0004-readme-say-so.patch"
    assert world.series.read_text().startswith("# the order matters\n")


def test_a_new_patch_writes_over_no_file_that_the_series_does_not_list(world: World) -> None:
    mine = world.project / "patches/2.6/0004-readme.patch"
    mine.write_text("a person's\n")
    with Stack.open(world.places) as stack:
        stack.push(None)
    (world.source / "README.md").write_text("by hand\n")
    git(world.source, "commit", "-qam", "Readme")
    with Stack.open(world.places) as stack:
        assert edits.refresh_patches(stack).written.added == ("2.6/0005-readme.patch",)
    assert mine.read_text() == "a person's\n"


def test_a_dropped_patch_that_another_release_lists_keeps_its_file(world: World) -> None:
    (world.project / "series/2.7").write_text("2.6/0003-split.patch\n")
    with Stack.open(world.places) as stack:
        stack.push(None)
        second = stack.state.applied[1].commit
    git(world.source, "reset", "-q", "--hard", second)
    with Stack.open(world.places) as stack:
        assert edits.refresh_patches(stack, drop=True).written.dropped == ("2.6/0003-split.patch",)
    assert (world.project / "patches/2.6/0003-split.patch").exists()


def test_a_commit_that_was_split_becomes_two_patches(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None, overlay=False)
    (world.source / "README.md").write_text("the second half\n")
    git(world.source, "commit", "-qa", "-C", "HEAD")  # its name in the message, too
    with Stack.open(world.places) as stack:
        assert len(edits.refresh_patches(stack).written.added) == 1
        assert stack.applied[:3] == ("2.6/0001-relocate.patch", "2.6/0002-hooks.patch", "2.6/0003-split.patch")
        assert stack.series.names == stack.applied and len(stack.applied) == 4


def test_rebase_i_reorders_and_drops(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        overlay = stack.state.overlay
        third, second = stack.state.applied[2].commit, stack.state.applied[1].commit
        base = stack.state.applied[0].commit
        first = stack.state.head
    assert overlay
    git(world.source, "reset", "-q", "--hard", base)
    git(world.source, "cherry-pick", third, second, overlay.commit)
    with Stack.open(world.places) as stack:
        done = edits.refresh_patches(stack)
        assert stack.applied == ("2.6/0001-relocate.patch", "2.6/0003-split.patch", "2.6/0002-hooks.patch")
        assert stack.series.names == stack.applied
        assert done.written.changed == ()  # the same changes in another order: the same bytes
    git(world.source, "reset", "-q", "--hard", base)
    git(world.source, "cherry-pick", third)
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"0002-hooks.patch is gone"):
            edits.refresh_patches(stack)
        assert (world.project / "patches/2.6/0002-hooks.patch").exists()
        done = edits.refresh_patches(stack, drop=True)
        assert done.written.dropped == ("2.6/0002-hooks.patch",)
        assert stack.series.names == ("2.6/0001-relocate.patch", "2.6/0003-split.patch")
    assert not (world.project / "patches/2.6/0002-hooks.patch").exists()
    assert first


def test_a_refresh_of_a_tree_reset_to_upstream_does_not_delete_the_series(world: World) -> None:
    """TheRock once lost all its base patches to a save that should have done nothing."""
    before = project_files(world)
    with Stack.open(world.places) as stack:
        stack.push(None)
    git(world.source, "reset", "-q", "--hard", world.base)
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"0001-relocate.*2 more"):
            edits.refresh_patches(stack)
    git(world.source, "checkout", "-q", "--orphan", "elsewhere")
    git(world.source, "commit", "-q", "-m", "unrelated")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"straight|descend"):
            edits.refresh_patches(stack)
    assert project_files(world) == before


@pytest.mark.parametrize("edited", [True, False])
def test_only_an_applied_patch_takes_edits_or_is_written_anew(world: World, edited: bool) -> None:
    with Stack.open(world.places) as stack:
        stack.push(2)
        if edited:
            (world.source / "README.md").write_text("edited\n")
        before = project_files(world)
        with pytest.raises(UsageError, match=r"0003-split\.patch is not applied.*decouple push 2\.6 2\.6/0003-split"):
            edits.refresh_patches(stack, into="0003")
        with pytest.raises(UsageError, match=r"0003-split\.patch is not applied"):
            edits.refresh_patches(stack, rewrite=["0003"])
        assert project_files(world) == before
        git(world.source, "reset", "-q", "--hard", "HEAD^")
        if edited:
            (world.source / "README.md").write_text("edited\n")
        with pytest.raises(UsageError, match=r"commit of 2\.6/0002-hooks\.patch is gone"):
            edits.refresh_patches(stack, into="0002", drop=True)


def test_renames_stay_renames(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(1)
        (world.source / "torch/empty.py").rename(world.source / "third_device/empty.py")
        git(world.source, "add", "-A", "torch", "third_device")
        edits.refresh_patches(stack)
    text = (world.project / "patches/2.6/0001-relocate.patch").read_text()
    assert "rename from torch/empty.py\nrename to third_device/empty.py\n" in text
    assert text.count("rename from") == 4 and "\n@@" not in text


def test_edits_of_overlay_files_are_refused_with_the_place_to_make_them(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    (world.source / "third_device/torch_cuda/setup.py").write_text("# edited in the wrong place\n")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"setup.py.*overlay"):
            edits.refresh_patches(stack)
    git(world.source, "commit", "-qam", "wrong place")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"setup.py.*overlay"):
            edits.refresh_patches(stack)
    git(world.source, "reset", "-q", "--hard", "HEAD^")
    (world.source / "third_device/torch_cuda/setup.py").write_text("# amended in the wrong place\n")
    git(world.source, "commit", "-qa", "--amend", "--no-edit")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match="overlay commit") as refused:
            edits.refresh_patches(stack)
    step = re.findall(r"`git ([^`]*)`", refused.value.next_step or "")[-1]
    git(world.source, *step.split())
    with Stack.open(world.places) as stack:
        assert edits.refresh_patches(stack).written.files == {}


def test_an_edit_amended_into_the_overlay_commit_gets_into_a_patch_as_it_is_told(world: World) -> None:
    """On a tree with the whole series, `git commit --amend` amends the overlay's commit: it is on top."""
    with Stack.open(world.places) as stack:
        stack.push(None)
        head = stack.state.head
    (world.source / "README.md").write_text("A framework, decoupled.\n")
    (world.source / "torch/new.py").write_text("new = True\n")
    git(world.source, "add", "README.md", "torch/new.py")
    git(world.source, "commit", "-q", "--amend", "--no-edit")
    amended = git(world.source, "rev-parse", "HEAD")
    with Stack.open(world.places) as stack, pytest.raises(DecoupleError, match=r"README\.md and 1 more") as refused:
        edits.refresh_patches(stack)
    steps = re.findall(r"`git ([^`]*)`", refused.value.next_step or "")
    assert [step.split()[2:4] for step in steps] == [["reset", "--soft"], ["reset", "--keep"]]
    git(world.project, *steps[0].split())
    with Stack.open(world.places) as stack:
        assert edits.refresh_patches(stack).taken == ("README.md", "torch/new.py")
        assert stack.list_edited_files() == ()
    assert "+A framework, decoupled." in (world.project / "patches/2.6/0003-split.patch").read_text()
    git(world.source, "reset", "-q", "--hard", amended)
    git(world.project, *steps[1].split())
    assert git(world.source, "rev-parse", "HEAD") == head
    assert git(world.source, "status", "--porcelain") == ""


def test_an_edit_of_the_overlay_commit_below_other_commits_names_the_way_back(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        head = stack.state.head
    (world.source / "README.md").write_text("A framework, decoupled.\n")
    git(world.source, "commit", "-qa", "--amend", "--no-edit")
    git(world.source, "commit", "-q", "--allow-empty", "-m", "another")
    with Stack.open(world.places) as stack, pytest.raises(DecoupleError, match=r"README\.md") as refused:
        edits.refresh_patches(stack)
    steps = re.findall(r"`git ([^`]*)`", refused.value.next_step or "")
    assert steps[-1] == f"-C {world.source} reset --keep {head[:12]}"
    assert not any("--soft" in step for step in steps), "it would take the other commit along"


def test_a_commit_is_dropped_as_it_is_told_and_an_edit_beside_it_stays(world: World) -> None:
    """`reset --hard` took along what nobody had committed."""
    with Stack.open(world.places) as stack:
        stack.push(2)
        head = stack.state.head
    (world.source / "README.md").write_text("committed\n")
    git(world.source, "commit", "-qam", "README: ours")
    (world.source / "setup.py").write_text("edited\n")
    with Stack.open(world.places) as stack, pytest.raises(DecoupleError, match="not in patches/ yet") as caught:
        stack.push(None)
    (drop,) = re.findall(r"`git ([^`]*)` drops", caught.value.next_step or "")
    git(world.source, *drop.split())
    assert git(world.source, "rev-parse", "HEAD") == head
    assert (world.source / "README.md").read_text() == "A framework.\n"
    assert (world.source / "setup.py").read_text() == "edited\n"


def test_binary_files_have_no_place_in_a_patch(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        (world.source / "logo.png").write_bytes(b"\x89PNG\0\0\1")
        git(world.source, "add", "logo.png")
        with pytest.raises(DecoupleError, match=r"binary.*logo.png"):
            edits.refresh_patches(stack)
        assert stack.list_edited_files() == ("logo.png",)


def test_a_patch_that_changed_on_disk_and_in_the_tree_is_not_overwritten(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    path = world.project / "patches/2.6/0003-split.patch"
    theirs = path.read_text().replace("a stream", "another stream")
    path.write_text(theirs)
    with Stack.open(world.places) as stack:
        assert edits.refresh_patches(stack).written.newer == ("2.6/0003-split.patch",)
    assert path.read_text() == theirs
    (world.source / "README.md").write_text("ours\n")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"0003-split.* on disk"):
            edits.refresh_patches(stack)
    assert path.read_text() == theirs
    assert (world.source / "README.md").read_text() == "ours\n"


def test_a_patch_that_changed_on_disk_and_in_the_tree_gets_both_as_it_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was to be restored: its edit was gone, or, where that is committed, nothing happened."""
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    with Stack.open(world.places) as stack:
        stack.push(None)
        made = ApplyRequest(world.project, "2.6").expected_state  # as `apply` makes a tree
        stack.journal.save_state(replace(stack.state, source=made))
    path = world.project / "patches/2.6/0003-split.patch"
    path.write_text(path.read_text().replace("a stream", "another stream"))
    (world.source / "README.md").write_text("ours\n")
    (world.source / "torch/new.py").write_text("new = True\n")
    assert main(["add", "2.6", "torch/new.py"]) == 0
    with Stack.open(world.places) as stack, pytest.raises(DecoupleError, match="on disk") as caught:
        edits.refresh_patches(stack)
    for step in re.findall(r"`([^`]*)`", caught.value.next_step or ""):
        tool, *words = shlex.split(step)
        if tool == "git":
            git(world.project, *words)
        else:
            assert main(words) == 0
    text = path.read_text()
    assert "+line 20: another stream" in text and "+ours" in text and "+new = True" in text


def test_a_patch_that_changed_on_disk_and_in_a_commit_loses_neither_as_it_is_told(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(2)
    path = world.project / "patches/2.6/0002-hooks.patch"
    git(world.project, "init", "-q", "--template=")
    git(world.project, "add", "patches", "series")
    git(world.project, "commit", "-qm", "before")
    theirs = path.read_text().replace("ask the hook", "ask another hook")
    path.write_text(theirs)
    git(world.project, "commit", "-qam", "pulled")
    (world.source / "README.md").write_text("ours\n")
    git(world.source, "commit", "-qa", "--amend", "--no-edit")
    with Stack.open(world.places) as stack, pytest.raises(DecoupleError, match="on disk") as caught:
        edits.refresh_patches(stack)
    (step, *_) = re.findall(r"`git ([^`]*)`", caught.value.next_step or "")
    _, applied = re.findall("^commit (.*)", git(world.source, *shlex.split(step)), re.M)
    git(path.parent, "checkout", applied, "--", path.name)
    with Stack.open(world.places) as stack:
        assert edits.refresh_patches(stack).written.changed == ("2.6/0002-hooks.patch",)
    assert "+ours" in path.read_text() and "+line 7: ask the hook" in path.read_text()


def test_a_patch_that_changes_in_another_series_too_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    (world.project / "series/2.7").write_text("2.6/0002-hooks.patch\n")
    assert main(["push", "2.6", "0002"]) == 0
    (world.source / "README.md").write_text("edited\n")
    for words in (["refresh", "2.6"], ["fold", "2.6", str(world.project / "more.diff")]):
        capsys.readouterr()
        (world.project / "more.diff").write_text("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-edited\n+more\n")
        assert main(words) == 0
        said = capsys.readouterr().out
        assert "2.6/0002-hooks.patch is in series 2.7, too: `decouple check 2.7`" in said


@contextlib.contextmanager
def push_in_2_7(world: World) -> Iterator[Stack]:
    """The series of 2.7 is pushed onto a tree of its own, and README.md is edited there."""
    places = Checkout(world.project).find_series("2.7")
    create_tree(places, world.upstream, world.base, world.base, {})
    with Stack.open(places) as stack:
        stack.push(None)
        (places.tree / "README.md").write_text("changed in 2.7\n")
        yield stack


def test_a_patch_that_another_release_lists_gets_a_body_of_its_own(world: World) -> None:
    (world.project / "series/2.7").write_text("2.6/0002-hooks.patch\n2.6/0003-split.patch\n")
    shared = (world.project / "patches/2.6/0003-split.patch").read_bytes()
    here = world.project / "series/2.7"
    with Stack.open(world.places) as stack:
        stack.push(None)
        # the release the patch was cut for owns the file and may change it
        (world.source / "README.md").write_text("changed in 2.6\n")
        edits.refresh_patches(stack)
    assert (world.project / "patches/2.6/0003-split.patch").read_bytes() != shared
    assert here.read_text() == "2.6/0002-hooks.patch\n2.6/0003-split.patch\n"
    # seen from 2.7, 2.6's file is not ours to change
    (world.project / "patches/2.6/0003-split.patch").write_bytes(shared)
    here.write_text("2.6/0002-hooks.patch\n")
    with push_in_2_7(world) as stack:
        done = edits.refresh_patches(stack)
        assert done.written.renamed == {"2.6/0002-hooks.patch": "2.7/0002-hooks.patch"}
        assert stack.applied == ("2.7/0002-hooks.patch",)
    assert here.read_text() == "2.7/0002-hooks.patch\n"
    assert "changed in 2.7" in (world.project / "patches/2.7/0002-hooks.patch").read_text()
    assert "changed in 2.7" not in (world.project / "patches/2.6/0002-hooks.patch").read_text()


def test_a_body_of_its_own_writes_over_no_file_that_the_series_does_not_list(world: World) -> None:
    (world.project / "series/2.7").write_text("2.6/0002-hooks.patch\n")
    mine = world.project / "patches/2.7/0002-hooks.patch"
    mine.parent.mkdir()
    mine.write_text("a person's\n")
    with push_in_2_7(world) as stack:
        done = edits.refresh_patches(stack)
        assert done.written.renamed == {"2.6/0002-hooks.patch": "2.7/0003-hooks.patch"}
    assert mine.read_text() == "a person's\n"


def test_a_refresh_in_the_middle_of_a_rebase_is_refused(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    (world.source / ".git/rebase-merge").mkdir()
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match="in the middle of a rebase"):
            edits.refresh_patches(stack)


def test_a_merge_cannot_become_a_patch(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None, overlay=False)
    git(world.source, "checkout", "-q", "-b", "side", "HEAD^")
    (world.source / "side.py").write_text("side\n")
    git(world.source, "add", "side.py")
    git(world.source, "commit", "-q", "-m", "side")
    git(world.source, "checkout", "-q", "decouple-2.6")
    git(world.source, "merge", "-q", "--no-ff", "side")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match="not a straight line"):
            edits.refresh_patches(stack)


def test_offsets_can_be_taken_out(world: World) -> None:
    hunk = "@@ -25,7 +25,7 @@\n line 27\n line 28\n line 29\n-line 30\n+line x\n line 31\n line 32\n line 33\n"
    path = world.patch_text(
        "2.6/0004-off.patch", header("off", "off") + f"--- a/torch/core.py\n+++ b/torch/core.py\n{hunk}"
    )
    with Stack.open(world.places) as stack:
        stack.push(None)
        assert edits.refresh_patches(stack).written.files == {}
        edits.refresh_patches(stack, rewrite=["2.6/0004-off.patch"])
        assert stack.state.applied[-1].offsets == ()
        stack.pop(1)
        assert not stack.push(1).offsets
    assert "@@ -27,7 +27,7 @@" in path.read_text()
