"""A build compiles what lies in the checkout: what changed there since the tree was made is laid again."""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import hold_lock
from decouple.build import inputs, toolkits
from decouple.flows import build_environment
from decouple.flows.build_request import BuildRequest
from decouple.flows.listener import Listener
from decouple.flows.provenance import find_series_tree, list_built_patches
from decouple.flows.tree_overlay import lay_overlay_again, warn_of_older_wheels
from decouple.flows.work_environment import WorkRequest
from decouple.series.digest import compute_patch_digests
from decouple.stack.engine import Stack
from decouple.stack.journal import Transaction
from tests.support.series import LINES, World, git, snapshot, usual_world

SETUP = "third_device/torch_cuda/setup.py"


class Told:
    """What a listener was told."""

    def __init__(self) -> None:
        self.said, self.warned = list[str](), list[str]()
        self.listener = Listener(self.said.append, warn=self.warned.append)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A checkout under git, and its tree with the series and the overlay."""
    made = usual_world(tmp_path / "my world")
    with Stack.open(made.places) as stack:
        stack.push(None)
    git(made.project, "init", "-q", "--template=")
    (made.project / ".gitignore").write_text("/build/\n")
    git(made.project, "add", "-A")
    return made


def lay(world: World, told: Told | None = None, tree: Path | None = None) -> int:
    work = WorkRequest(world.project, "2.6", tree=tree)
    return lay_overlay_again(work, work.places, (told or Told()).listener)


def test_only_what_changed_in_the_checkout_is_written(world: World) -> None:
    told = Told()
    (world.project / SETUP).write_text("# a newer backend\n")
    (world.project / "third_device/new.cpp").write_text("int more;\n")
    before = snapshot(world.source)
    assert lay(world, told) == 2 and told.said == ["overlay: 2 files laid again"]
    after = snapshot(world.source)
    assert after[SETUP][0] == b"# a newer backend\n"
    assert {name for name in after if after[name] != before.get(name)} == {SETUP, "third_device/new.cpp"}
    assert lay(world, told) == 0 and len(told.said) == 1, "a second build finds nothing to do"
    (world.project / "third_device/new.cpp").unlink()
    assert lay(world) == 1 and not (world.source / "third_device/new.cpp").exists()


def test_a_build_lays_it_before_it_makes_a_root(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.project / SETUP).write_text("# a newer backend\n")
    seen = list[str]()

    def make_root(*_: object) -> None:
        seen.append((world.source / SETUP).read_text())
        raise DecoupleError("no root", next_step="none is needed here")

    monkeypatch.setattr(build_environment, "prepare_tree_and_root", make_root)
    with pytest.raises(DecoupleError, match="no root"):
        build_environment.open_build(BuildRequest(world.project, "2.6", stage=1))
    assert seen == ["# a newer backend\n"]


def test_a_patch_that_changed_is_applied_anew(world: World) -> None:
    patch = world.project / "patches/2.6/0003-split.patch"
    patch.write_text(patch.read_text().replace("line 20: a stream", "line 20: another"))
    told = Told()
    lay(world, told)
    assert "line 20: another" in (world.source / "third_device/torch_cuda/core/streams.py").read_text()
    assert told.said == ["patches: 1 applied anew, as they changed", "overlay: 1 files laid again"]


def test_an_edit_by_hand_is_not_lost(world: World) -> None:
    (world.source / SETUP).write_text("# tried in the tree\n")
    told = Told()
    assert lay(world, told) == 0 and SETUP in told.warned[0]
    (world.project / "third_device/new.cpp").write_text("int more;\n")
    with pytest.raises(DecoupleError, match=rf"{SETUP}: edited in the tree.*take the edit over") as refused:
        lay(world)
    assert (world.source / SETUP).read_text() == "# tried in the tree\n"
    typed = re.search("`git -C (.*)`", refused.value.next_step or "")
    assert typed is not None
    folder, *words = shlex.split(typed[1])
    git(Path(folder), *words)
    assert lay(world) == 1


def test_an_edit_that_was_committed_by_hand_is_not_lost(world: World) -> None:
    (world.source / SETUP).write_text("# tried in the tree\n")
    git(world.source, "commit", "-qam", "try")
    told = Told()
    assert lay(world, told) == 0 and SETUP in told.warned[0]
    (world.project / "third_device/new.cpp").write_text("int more;\n")
    with pytest.raises(DecoupleError, match=rf"{SETUP}: edited in the tree"):
        lay(world)


def test_a_patch_under_work_stays_while_nothing_is_to_be_laid(world: World) -> None:
    (world.source / "torch/core.py").write_text(LINES + "# in work\n")
    assert lay(world) == 0
    git(world.source, "commit", "-qam", "in work")
    told = Told()
    assert lay(world, told) == 0 and not told.warned
    (world.project / SETUP).write_text("# a newer backend\n")
    with pytest.raises(DecoupleError, match=r"'in work'.*not in patches/ yet.*decouple refresh"):
        lay(world)


def test_a_commit_by_hand_is_none_of_the_tree_that_the_series_made(world: World, tmp_path: Path) -> None:
    made = inputs.read_head_tree(world.source)
    assert find_series_tree(world.source) == made
    (world.source / "torch/core.py").write_text(LINES + "# in no patch\n")
    git(world.source, "commit", "-qam", "in no patch")
    assert find_series_tree(world.source) == made != inputs.read_head_tree(world.source)
    assert find_series_tree(tmp_path) == ""


def test_a_popped_patch_is_not_said_to_be_built(world: World, tmp_path: Path) -> None:
    work = WorkRequest(world.project, "2.6")
    whole = compute_patch_digests(world.project, "2.6")
    assert list_built_patches(work.places) == whole and len(whole) > 1
    with Stack.open(world.places) as stack:
        stack.pop(1)
    assert list_built_patches(work.places) == whole[:-1]
    own = WorkRequest(world.project, "2.6", tree=tmp_path)
    assert list_built_patches(own.places) == whole, "nothing says which patches a tree of the user's own has"


def test_a_tree_that_is_not_whole_is_left_so(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.pop(1)
    (world.project / SETUP).write_text("# a newer backend\n")
    told = Told()
    assert lay(world, told) == 0 and "2 of 3 patches and no overlay" in told.warned[0]


def test_a_tree_of_another_checkout_is_neither_overwritten_nor_compiled_as_ours(world: World, tmp_path: Path) -> None:
    other = world.copy_to(tmp_path / "other")
    assert lay(world, tree=other.source) == 0, "the same files"
    (world.project / SETUP).write_text("# a newer backend\n")
    before = snapshot(other.source)
    with pytest.raises(UsageError, match=rf"{other.source}/{SETUP}: not as in this checkout.*leave --tree out"):
        lay(world, tree=other.source)
    assert snapshot(other.source) == before
    assert lay(world, tree=world.source) == 1, "--tree may name the checkout's own tree"
    patch = world.project / "patches/2.6/0002-hooks.patch"
    (world.project / SETUP).write_bytes((other.project / SETUP).read_bytes())
    patch.write_text(patch.read_text().replace("ask the hook", "ask it"))
    with pytest.raises(UsageError, match=r"0002-hooks\.patch: not as in this checkout"):
        lay(world, tree=other.source)


def test_a_tree_of_another_checkout_has_no_file_more(world: World, tmp_path: Path) -> None:
    other = world.copy_to(tmp_path / "other")
    (world.project / SETUP).unlink()
    with pytest.raises(UsageError, match=rf"{other.source}/{SETUP}: not as in this checkout"):
        lay(world, tree=other.source)
    (world.project / SETUP).write_bytes((other.project / SETUP).read_bytes())
    assert lay(world, tree=other.source) == 0, "files that a patch moved there are none of the overlay"
    whole = world.series.read_bytes()
    world.series.write_text("".join(whole.decode().splitlines(keepends=True)[:-1]))
    with pytest.raises(UsageError, match=rf"{other.source}/.*/0003-split\.patch: not as in this checkout"):
        lay(world, tree=other.source)
    world.series.write_bytes(whole)
    (other.project / "third_device/new.cpp").write_text("int more;\n")
    git(other.project, "init", "-q", "--template=")
    assert lay(other) == 1
    with pytest.raises(UsageError, match=rf"{other.source}/third_device/new\.cpp: not as in this checkout"):
        lay(world, tree=other.source)


def test_a_check_says_which_wheel_is_older_than_the_checkout(world: World) -> None:
    work, told = WorkRequest(world.project, "2.6"), Told()
    places = work.places
    wheels = [places.dist / f"{name}.whl" for name in ("torch", "torch_cuda")]
    for stage, wheel in enumerate(wheels, 1):
        wheel.parent.mkdir(parents=True, exist_ok=True)
        wheel.write_bytes(b"")
        content = inputs.hash_tree_content(places.tree, toolkits.list_unread_paths(stage, ""))
        stamp = inputs.Stamp("0" * 64, wheel.name, "0" * 64, 1.0, 1, content)
        inputs.write_stamp(places.state / f"stage{stage}.json", stamp)

    def warn(wheels: list[Path]) -> list[str]:
        told.warned.clear()
        warn_of_older_wheels(work, places, wheels, "decouple build 2.6", told.listener)
        return [line.partition(":")[0] for line in told.warned]

    assert warn(wheels) == []
    patch = world.project / "patches/2.6/0002-hooks.patch"  # of torch/core.py, which stage 1 reads
    patch.write_text(patch.read_text().replace("ask the hook", "ask it"))
    assert warn(wheels) == ["torch.whl", "torch_cuda.whl"], "both stages compile what the patches left"
    assert all(f"{patch} changed" in line for line in told.warned)
    patch.write_text(patch.read_text().replace("ask it", "ask the hook"))
    setup = (world.project / SETUP).read_bytes()
    (world.project / SETUP).unlink()
    assert warn(wheels) == ["torch.whl", "torch_cuda.whl"], "deleted in the checkout"
    (world.project / SETUP).write_bytes(setup)
    assert warn(wheels) == []
    (world.project / "third_device/README.md").write_text("docs\n")
    assert warn(wheels) == [], "no stage reads it"
    kernel = world.project / "third_device/torch_cuda/torch_cuda/csrc/new.cu"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("int more;\n")
    assert warn(wheels) == ["torch_cuda.whl"] and f"{kernel} changed" in told.warned[0]
    assert warn(wheels[:1]) == [], "the other one is not used"
    assert lay(world) == 2 and warn(wheels) == ["torch_cuda.whl"], "laid, and not yet compiled"
    (world.source / "torch/core.py").write_text("edited\n")
    assert warn(wheels) == ["torch.whl", "torch_cuda.whl"]


def test_files_do_not_change_under_a_build_that_is_under_way(world: World) -> None:
    (world.project / SETUP).write_text("# a newer backend\n")
    told, waits = Told(), threading.Event()

    def say(line: str) -> None:
        told.said.append(line)
        waits.set()

    work = WorkRequest(world.project, "2.6")
    laid = threading.Thread(target=lambda: lay_overlay_again(work, work.places, Listener(say)))
    with hold_lock(work.places.locks / "stage2.lock"):
        laid.start()
        assert waits.wait(20)
        time.sleep(0.1)
        with Stack.open(world.places) as stack:  # who only looks at the tree does not wait
            assert stack.state.overlay
        assert (world.source / SETUP).read_text() == "# the backend\n"
    laid.join(20)
    assert told.said == ["waits: another run compiles this tree", "overlay: 1 files laid again"]
    assert (world.source / SETUP).read_text() == "# a newer backend\n"


def test_a_first_build_does_not_begin_stage_2_while_files_change(world: World) -> None:
    work = WorkRequest(world.project, "2.6")
    first, second = (work.places.locks / f"stage{stage}.lock" for stage in (1, 2))
    (world.project / SETUP).write_text("# a newer backend\n")
    waits, held = threading.Event(), list[bool]()

    def refuse() -> None:
        raise BlockingIOError

    def look(line: str) -> None:
        if line.startswith("waits"):
            waits.set()
            return
        with contextlib.suppress(BlockingIOError), hold_lock(second, refuse):
            held.append(False)
            return
        held.append(True)

    laid = threading.Thread(target=lambda: lay_overlay_again(work, work.places, Listener(look)))
    with hold_lock(first):
        laid.start()
        assert waits.wait(20)
    laid.join(20)
    assert held == [True]


def test_what_was_done_about_a_command_that_was_cut_off_is_told(world: World) -> None:
    told = list[str]()

    def cut_off() -> None:
        with Stack.open(world.places) as stack:
            stack.journal._stage_files(Transaction("pop", replace(stack.state, overlay=None)), stack.state.head)

    def say(line: str) -> None:
        told.append(line.partition(":")[0])
        if line.startswith("waits"):
            cut_off()
            waits.set()

    work, waits = WorkRequest(world.project, "2.6"), threading.Event()
    (world.project / SETUP).write_text("# a newer backend\n")
    cut_off()
    laid = threading.Thread(target=lambda: lay_overlay_again(work, work.places, Listener(say)))
    with hold_lock(work.places.locks / "stage1.lock"):
        laid.start()
        assert waits.wait(20)
    laid.join(20)
    dropped = "an earlier `pop` was cut off before it changed anything"
    assert told == [dropped, "waits", dropped, "overlay"], "another command may be cut off while this one waits"


def test_a_file_that_was_tried_in_the_tree_may_be_taken_over(world: World) -> None:
    tried, taken = (folder / "third_device/new.cpp" for folder in (world.source, world.project))
    tried.write_text("int more;\n")
    taken.write_text("int other;\n")
    with pytest.raises(DecoupleError, match=rf"new\.cpp is not under version control.*move {tried} away"):
        lay(world)
    assert tried.read_text() == "int more;\n"
    for folder, text in ((world.source, "mine\n"), (world.project, "theirs\n")):
        (folder / "third_device/more.cpp").write_text(text)
    both = rf"and 1 more are not under version control.*move away in {tried.parent}: more\.cpp, new\.cpp"
    with pytest.raises(DecoupleError, match=both):
        lay(world)
    for folder in (world.source, world.project):
        (folder / "third_device/more.cpp").unlink()
    taken.write_text("int more;\n")
    assert lay(world) == 1 and git(world.source, "status", "--porcelain") == ""
    taken.unlink()
    assert lay(world) == 1 and not tried.exists()
