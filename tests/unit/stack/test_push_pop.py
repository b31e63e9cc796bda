"""Moving along a series: what is touched, what is refused, what is told."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.stack import worktree
from decouple.stack.engine import Stack
from decouple.stack.worktree import EditedError
from tests.support.series import LINES, World, contents, git, header, snapshot, tree_of


@pytest.fixture(autouse=True, params=[worktree.FEW, 0], ids=["one by one", "by read-tree"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few files are moved one by one, many by git: what holds must hold for both."""
    monkeypatch.setattr(worktree, "FEW", request.param)


@pytest.mark.parametrize("there", [True, False], ids=["empty", "dangling"])
def test_a_link_in_the_place_of_the_tree_is_told_before_the_tree_is_made(tmp_path: Path, there: bool) -> None:
    """Each run made the whole tree, and could not move it there: "Not a directory"."""
    world = World(tmp_path)
    world.source.parent.mkdir(parents=True)
    world.source.symlink_to(tmp_path / "larger")
    if there:
        (tmp_path / "larger").mkdir()
    with pytest.raises(DecoupleError, match="is a link") as caught:
        world.create()
    assert f"`rm {world.source}`" in str(caught.value.next_step)
    assert list(world.source.parent.iterdir()) == [world.source]
    world.source.unlink()
    world.create()


def test_push_all_gives_the_tree_that_plain_git_gives(world: World) -> None:
    with Stack.open(world.places) as stack:
        moved = stack.push(None, overlay=False)
    assert moved.pushed == ("2.6/0001-relocate.patch", "2.6/0002-hooks.patch", "2.6/0003-split.patch")
    assert git(world.source, "rev-parse", "HEAD^{tree}") == world.final_tree
    assert tree_of(world.source) == world.final_tree
    assert git(world.source, "status", "--porcelain") == ""


def test_pop_all_gives_the_pristine_tree(world: World) -> None:
    before = set(snapshot(world.source))
    with Stack.open(world.places) as stack:
        stack.push(None)
        assert stack.state.overlay
        moved = stack.pop(None)
    assert moved.popped == ("2.6/0003-split.patch", "2.6/0002-hooks.patch", "2.6/0001-relocate.patch")
    assert moved.overlay == "taken off"
    assert git(world.source, "rev-parse", "HEAD") == world.base
    assert tree_of(world.source) == world.base_tree
    assert set(snapshot(world.source)) == before
    assert not (world.source / "third_device").exists()


def test_a_lock_that_a_killed_run_left_on_its_index_stops_nobody(world: World) -> None:
    """As found on the real tree: git outlived the run that was killed, and held the lock of the index they shared."""
    with Stack.open(world.places) as stack:
        stack.journal.scratch.mkdir(parents=True, exist_ok=True)
        left = [
            stack.journal.scratch / f"{name}.index.lock" for name in ("apply", f"apply-{os.getpid()}", "apply-4194305")
        ]
        for lock in left:
            lock.touch()
        stack.push(None, overlay=False)
        assert not any(lock.exists() for lock in left)
    assert git(world.source, "rev-parse", "HEAD^{tree}") == world.final_tree


def test_one_by_one_by_number_and_by_name(world: World) -> None:
    with Stack.open(world.places) as stack:
        assert stack.top is None
        stack.push()
        assert stack.top == "2.6/0001-relocate.patch"
        stack.push(2)
        assert stack.unapplied == ()
        stack.pop("0001")
        assert stack.applied == ("2.6/0001-relocate.patch",)
        stack.push("0002-hooks")
        assert stack.top == "2.6/0002-hooks.patch"
        stack.push("split")
        assert stack.top == "2.6/0003-split.patch", "by its Decouple-Id"
        stack.pop(3)
        assert stack.applied == ()
        with pytest.raises(UsageError, match="no patch '0009'"):
            stack.push("0009")


def test_the_same_series_gives_the_same_commits_everywhere(tmp_path: Path) -> None:
    heads = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name).usual()
        with Stack.open(world.places) as stack:
            if name == "there":
                stack.push(1)
                stack.push(1)
                stack.pop(1)
            stack.push(None)
            heads.append(stack.state.head)
    assert heads[0] == heads[1]


def test_messages_are_the_headers(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(2)
    said = git(world.source, "log", "-1", "--format=%an <%ae>%n%ad%n%B", "--date=rfc2822")
    assert said.splitlines() == [
        "Ada Lovelace <ada@example.org>",
        "Mon, 3 Feb 2025 10:00:00 +0100",
        "hooks",
        "",
        "Decouple-Id: hooks",
        "Forwarded: no",
        "Decouple-Patch: 2.6/0002-hooks.patch",
    ]


def test_only_files_that_differ_are_touched(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        before = snapshot(world.source)
        # another series: the second patch goes, a new third one comes
        world.series.write_text("2.6/0001-relocate.patch\n2.6/0003-split.patch\n")
        time.sleep(0.01)
        stack.move_to([stack.read_patch(name) for name in stack.series.names], verb="apply", overlay=True)
    after = snapshot(world.source)
    touched = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert touched == {
        "torch/core.py",
        "third_device/torch_cuda/torch_patches/series",
        "third_device/torch_cuda/torch_patches/2.6/0002-hooks.patch",
    }


def test_an_offset_is_told(world: World) -> None:
    text = "".join(f"line {n}\n" for n in range(1, 41)).replace("line 30\n", "line 30: moved\n")
    before = "".join(f"line {n}\n" for n in range(1, 41))
    assert before != text
    hunk = "@@ -25,7 +25,7 @@\n line 27\n line 28\n line 29\n-line 30\n+line 30: moved\n line 31\n line 32\n line 33\n"
    world.patch_text(
        "2.6/0004-off.patch",
        header("off", "off")
        + f"diff --git a/torch/core.py b/torch/core.py\n--- a/torch/core.py\n+++ b/torch/core.py\n{hunk}",
    )
    with Stack.open(world.places) as stack:
        moved = stack.push(None)
        (offset,) = moved.offsets["2.6/0004-off.patch"]
        assert (offset.path, offset.hunk, offset.line, offset.lines) == ("torch/core.py", 1, 27, 2)
        assert str(offset) == "torch/core.py: hunk 1 at line 27 (offset +2)"


def test_no_fuzz(world: World) -> None:
    """GNU patch would take this hunk with fuzz 1: one context line is not what the file has."""
    hunk = "@@ -27,7 +27,7 @@\n line 27 (other)\n line 28\n line 29\n-line 30\n+x\n line 31\n line 32\n line 33\n"
    world.patch_text(
        "2.6/0004-fuzz.patch",
        header("fuzz", "fuzz")
        + f"diff --git a/torch/core.py b/torch/core.py\n--- a/torch/core.py\n+++ b/torch/core.py\n{hunk}",
    )
    with Stack.open(world.places) as stack:
        moved = stack.push(None)
        assert stack.top == "2.6/0003-split.patch"  # those before it are on, as quilt does
        assert moved.stopped is not None
        assert "2.6/0004-fuzz.patch: torch/core.py: hunk 1 does not apply" in moved.stopped.what
        with pytest.raises(DecoupleError, match=r"0004-fuzz.*core.py.*1"):
            stack.move_to([stack.read_patch(name) for name in stack.series.names], verb="apply", overlay=True)
        assert stack.top == "2.6/0003-split.patch"
    assert git(world.source, "status", "--porcelain") == ""


def created(path: str) -> str:
    """A diff that makes a file of one line."""
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


def test_a_copy_holds_what_the_patch_before_it_made_of_the_file(world: World) -> None:
    """In one input for `git apply`, a copy would be of the text before that input."""
    world.patch("0004-edit", {"README.md": "A framework, decoupled.\n"})
    copy = "diff --git a/README.md b/README.rst\nsimilarity index 100%\ncopy from README.md\ncopy to README.rst\n"
    world.patch_text("2.6/0005-copy.patch", header("copy", "copy") + copy)
    with Stack.open(world.places) as stack:
        stack.push(None)
        assert stack.top == "2.6/0005-copy.patch"
    assert (world.source / "README.rst").read_text() == "A framework, decoupled.\n"


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (created("new.py").replace("+++ b/new.py", "+++ b/other.py"), "line 11: another name than new.py"),
        (created("README.md/below"), "README.md is in the way"),
        (created("torch"), "torch is in the way"),
        (created("README.md"), "already exists"),
        ("--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", "gone.py: does not exist"),
        ("diff --git a/a b/b\nrename from README.md\nrename to README.md/x\n", "0004-bad"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(world: World, diff: str, why: str) -> None:
    world.patch_text("2.6/0004-bad.patch", header("bad", "bad") + diff)
    with Stack.open(world.places) as stack:
        moved = stack.push(None)
        assert moved.stopped and "0004-bad.patch" in str(moved.stopped) and why in str(moved.stopped)
    assert git(world.source, "status", "--porcelain") == ""
    assert tree_of(world.source) == world.final_tree


def test_a_tree_inside_another_repository_is_not_mistaken_for_it(world: World) -> None:
    """`git apply` in a folder of another repository skips every path and exits 0; our calls name the repository."""
    git(world.project, "init", "-q")
    with Stack.open(world.places) as stack:
        assert stack.push(None).files > 0
    assert git(world.source, "rev-parse", "HEAD^^{tree}") == world.final_tree


def test_the_environment_of_a_git_hook_does_not_lead_astray(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(world.upstream))
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent/index")
    monkeypatch.setenv("GIT_WORK_TREE", "/nonexistent")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", "/nonexistent/objects")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'apply.whitespace=fix'")
    before = dict(os.environ)
    with Stack.open(world.places) as stack:
        stack.push(None, overlay=False)
    assert dict(os.environ) == before, "what the process that uses us was given is still there for it"
    assert tree_of(world.source) == world.final_tree


def test_the_users_git_configuration_changes_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[apply]\n whitespace = fix\n[core]\n autocrlf = true\n[diff]\n noprefix = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    path = world.patch("0004-trailing", {"torch/registry.py": "registered = {}   \n"})
    assert b"{}   \n" in path.read_bytes()
    with Stack.open(world.places) as stack:
        stack.push(None, overlay=False)
    assert (world.source / "torch/registry.py").read_bytes() == b"registered = {}   \n"


def test_edits_are_never_lost(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(1)
        (world.source / "torch/core.py").write_text("mine\n")
        with pytest.raises(EditedError, match=r"core.py has edits") as caught:
            stack.push(1)
        assert stack.top == "2.6/0001-relocate.patch"
    # typed in the checkout, a git without -C would throw away what is edited there
    assert f"`git -C {world.source} checkout HEAD -- torch/core.py` drops them" in caught.value.next_step
    assert (world.source / "torch/core.py").read_text() == "mine\n"
    with Stack.open(world.places) as stack:
        assert stack.recovered == []
        (world.source / "README.md").write_text("mine too\n")  # a file that no patch touches does not stop anything
        stack.pop(1)
    assert (world.source / "README.md").read_text() == "mine too\n"
    assert (world.source / "torch/core.py").read_text() == "mine\n"


def test_an_edit_that_is_only_staged_is_not_lost(world: World) -> None:
    """The file itself is as it was, so a look at the disk alone tells nothing."""
    core = world.source / "torch/core.py"
    with Stack.open(world.places) as stack:
        stack.push(1)
        before = core.read_text()
        core.write_text("mine\n")
        git(world.source, "add", "torch/core.py")
        core.write_text(before)
        with pytest.raises(EditedError, match=r"core.py has edits"):
            stack.push(1)
    assert git(world.source, "show", ":torch/core.py") == "mine"


@pytest.mark.parametrize("verb", ["push", "pop"])
def test_what_a_person_put_elsewhere_behind_a_link_is_not_written(world: World, tmp_path: Path, verb: str) -> None:
    with Stack.open(world.places) as stack:
        stack.push(2)
    link, elsewhere = world.source / "torch", tmp_path / "a larger disk"
    link.rename(elsewhere)
    link.symlink_to(elsewhere)
    before = contents(elsewhere)
    with Stack.open(world.places) as stack, suppress(EditedError):
        getattr(stack, verb)(1)
    assert contents(elsewhere) == before
    with Stack.open(world.places) as stack:
        assert stack.recovered == []


def test_another_git_at_work_in_the_tree_is_not_disturbed(world: World) -> None:
    lock = world.source / ".git/index.lock"
    lock.touch()
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"index.lock"):
            stack.push(None)
        assert stack.applied == ()
    assert tree_of(world.source) == world.base_tree
    lock.unlink()
    with Stack.open(world.places) as stack:
        assert stack.recovered == []
        assert stack.push(None).stopped is None


def test_untracked_files_are_never_lost_even_if_gitignored(world: World) -> None:
    (world.source / ".gitignore").write_text("registry.py\n")
    (world.source / "torch/registry.py").write_text("mine\n")
    with Stack.open(world.places) as stack:
        with pytest.raises(EditedError, match=r"registry.py is not"):
            stack.push(None)
    assert (world.source / "torch/registry.py").read_text() == "mine\n"


def test_stale_times_are_not_edits(world: World) -> None:
    for path in world.source.rglob("*.py"):
        path.touch()
    with Stack.open(world.places) as stack:
        stack.push(None)
        stack.pop(None)
    assert tree_of(world.source) == world.base_tree


def test_a_commit_by_hand_stops_push_and_pop(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(2)
    (world.source / "README.md").write_text("by hand\n")
    git(world.source, "commit", "-qam", "by hand")
    with Stack.open(world.places) as stack:
        for move in (stack.push, stack.pop):
            with pytest.raises(DecoupleError, match="'by hand'"):
                move(1)


def test_mode_bits_and_links(world: World) -> None:
    link = (
        "diff --git a/tools b/tools\nnew file mode 120000\nindex 0000000..1111111\n--- /dev/null\n+++ b/tools\n"
        "@@ -0,0 +1 @@\n+third_device\n\\ No newline at end of file\n"
    )
    world.patch_text("2.6/0004-link.patch", header("link", "link") + link)
    mode = "diff --git a/setup.py b/setup.py\nold mode 100755\nnew mode 100644\n"
    world.patch_text("2.6/0005-mode.patch", header("mode", "mode") + mode)
    with Stack.open(world.places) as stack:
        stack.push(None)
        assert (world.source / "tools").readlink() == Path("third_device")
        assert not (world.source / "setup.py").stat().st_mode & 0o111
        stack.pop(None)
    assert not (world.source / "tools").is_symlink()
    assert (world.source / "setup.py").stat().st_mode & 0o111


def test_a_file_in_place_of_a_directory_that_the_series_emptied(world: World) -> None:
    world.patch("0004-flat", {"third_device/torch_cuda/csrc/Gemm.cu": None, "aten/cpu/Gemm.cpp": None})
    world.patch("0005-file", {"aten": "now a file\n"})
    with Stack.open(world.places) as stack:
        stack.push(None, overlay=False)
        assert tree_of(world.source) == world.final_tree
        stack.pop(None)
    assert tree_of(world.source) == world.base_tree


def test_a_file_does_not_replace_a_directory_that_the_series_made(world: World) -> None:
    """fast-import would put the file there and drop what is below without a word."""
    world.patch_text("2.6/0004-below.patch", header("below", "below") + created("fresh/below.py"))
    world.patch_text("2.6/0005-above.patch", header("above", "above") + created("fresh"))
    with Stack.open(world.places) as stack:
        moved = stack.push(None)
        assert stack.top == "2.6/0004-below.patch"
        assert moved.stopped and "fresh cannot be written: fresh is in the way" in moved.stopped.what
    assert (world.source / "fresh/below.py").read_text() == "x\n"


def test_patches_of_other_habits_apply(world: World) -> None:
    """-p0, Index: lines, time stamps, a traditional deletion, text around the diff."""
    hunk = "@@ -1,4 +1,4 @@\n-line 1\n+line one\n line 2\n line 3\n line 4\n"
    world.project.joinpath("patches/2.6/p0.patch").write_text(
        f"Some words.\n\nIndex: torch/core.py\n{'=' * 67}\n--- torch/core.py\t2020-01-01 10:00:00\n"
        f"+++ torch/core.py\t2020-01-01 10:00:01\n{hunk}"
    )
    world.project.joinpath("patches/2.6/gone.diff").write_text(
        "--- a/README.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-A framework.\n"
    )
    world.series.write_text("2.6/p0.patch -p0\n2.6/gone.diff # not needed\n")
    with Stack.open(world.places) as stack:
        stack.push(None)
    assert (world.source / "torch/core.py").read_text() == LINES.replace("line 1\n", "line one\n", 1)
    assert not (world.source / "README.md").exists()


def test_an_overlay_file_must_not_meet_a_patched_one(world: World) -> None:
    clash = world.project / "third_device/torch_cuda/core/streams.py"
    clash.parent.mkdir()
    clash.write_text("ours\n")
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match=r"streams.py.*overlay"):
            stack.push(None)
        assert stack.applied == ()


def test_the_overlay_holds_the_series_as_applied_and_changes_alone(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
        folder = world.source / "third_device/torch_cuda/torch_patches"
        assert (folder / "series").read_bytes() == world.series.read_bytes()
        patch = world.project / "patches/2.6/0002-hooks.patch"
        assert (folder / "2.6/0002-hooks.patch").read_bytes() == patch.read_bytes()
        before = snapshot(world.source)
        (world.project / "third_device/torch_cuda/new.cmake").write_text("# new\n")
        moved = stack.move_to([stack.read_patch(name) for name in stack.series.names], verb="apply", overlay=True)
        assert moved.files == 1 and moved.pushed == ()
        after = snapshot(world.source)
        del after["third_device/torch_cuda/new.cmake"]
        assert after == before


def test_ignored_files_of_the_project_are_not_laid(world: World) -> None:
    (world.project / ".gitignore").write_text("__pycache__/\n")
    cache = world.project / "third_device/torch_cuda/__pycache__/x.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"junk")
    with Stack.open(world.places) as stack:
        stack.push(None)
    assert not (world.source / "third_device/torch_cuda/__pycache__").exists()
