"""What a killed run left beside its place goes with the next one, and nothing else does."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from decouple.base.files import hold_lock, make_scratch_folder, make_work_folder
from tests.support import kills


def test_what_a_killed_run_left_is_deleted_by_the_next(tmp_path: Path) -> None:
    place = tmp_path / "place"

    def killed() -> int:
        with make_work_folder(place, "split") as work:
            (work / "half").write_bytes(b"x")
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert kills.start(killed, tmp_path / "said").wait() == -signal.SIGKILL
    assert len(list(place.iterdir())) == 1
    persons = [".split", ".split-backup", ".split.mine.part", ".split.other.name.part", ".splitter.abcdefgh.part"]
    for name in persons:
        (place / name).mkdir()
    with make_work_folder(place, "split") as work:
        assert work.parent == place and not list(work.iterdir())
        assert sorted(path.name for path in place.iterdir()) == sorted([*persons, work.name])
    assert sorted(path.name for path in place.iterdir()) == sorted(persons)


def test_runs_beside_one_another_have_a_folder_each_and_delete_those_of_killed_ones(tmp_path: Path) -> None:
    """A rebase that was killed while it tried ways left a copy of the checkout for each, for ever."""

    def killed() -> int:
        with make_scratch_folder(tmp_path / "work", "way") as folder:
            (folder / "series").mkdir()
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert kills.start(killed, tmp_path / "said").wait() == -signal.SIGKILL
    assert len(list((tmp_path / "work").iterdir())) == 1
    (tmp_path / "work/way-of-mine").mkdir()
    with make_scratch_folder(tmp_path / "work", "way") as one, make_scratch_folder(tmp_path / "work", "way") as other:
        assert {path.name for path in (tmp_path / "work").iterdir()} == {one.name, other.name, "way-of-mine"}
    with pytest.raises(FileNotFoundError), make_scratch_folder(tmp_path / "work", "way") as one:
        (one / "none").read_bytes()
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["way-of-mine"]


def test_a_folder_with_a_relative_name_is_named_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with make_work_folder(Path("place"), "split") as work:
        assert work.parent == tmp_path / "place"


def test_a_lock_that_was_deleted_under_a_waiting_run_is_not_the_one_it_holds(tmp_path: Path) -> None:
    """`decouple clean` deletes the locks, too: a build that waited then held one that the next does not see."""
    lock, waits, done = tmp_path / "state" / "stage1.lock", threading.Event(), threading.Event()

    def wait_and_hold() -> None:
        with hold_lock(lock, waits.set):
            waits.clear()
            done.wait(60)

    def refuse() -> None:
        raise BlockingIOError

    with ThreadPoolExecutor(1) as pool:
        with hold_lock(lock):
            held = pool.submit(wait_and_hold)
            assert waits.wait(60)
            lock.unlink()
            lock.parent.rmdir()
        while waits.is_set():
            assert not held.done()
        with pytest.raises(BlockingIOError), hold_lock(lock, refuse):
            pass
        done.set()
        held.result(60)
