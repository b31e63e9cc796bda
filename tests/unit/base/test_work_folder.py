"""What a killed run left beside its place goes with the next one, and nothing else does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from decouple.base.files import make_work_folder
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
