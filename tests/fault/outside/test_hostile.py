"""A slice of ``scripts/bench/hostile.py``: generated inputs to every reader of what comes from outside."""

from __future__ import annotations

import pytest

from tests.support import hostile

INPUTS = 60


@pytest.mark.parametrize("reader", hostile.ATTACKS)
def test_no_input_does_what_none_may(reader: str) -> None:
    tally = hostile.run(reader, INPUTS)
    assert tally.inputs >= INPUTS // 2


def test_the_watch_sees_what_is_written_elsewhere(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "inside").mkdir()
    with hostile._watched(folder / "inside") as outside:
        (folder / "inside/a").write_text("fine")
        assert outside == []
        (folder / "b").write_text("not fine")
        (folder / "b").rename(folder / "c")
        (folder / "c").unlink()
    assert len(outside) >= 3
