"""A slice of ``tests/long/hostile.py``: generated inputs to every reader of what comes from outside."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.support import hostile, hostile_files

INPUTS = 60


@pytest.mark.parametrize("reader", hostile_files.ATTACKS)
def test_no_input_does_what_none_may(reader: str) -> None:
    tally = hostile.run(hostile_files.ATTACKS[reader], INPUTS)
    assert tally.inputs >= INPUTS // 2


@pytest.mark.parametrize(
    ("work", "said"),
    [(lambda: time.sleep(0.1), ""), (lambda: sum(range(10**7)), "computed"), (lambda: time.sleep(0.7), "waited")],
    ids=["a busy machine", "an input that costs too much", "an answer that does not come"],
)
def test_what_counts_is_what_a_reader_computes(
    work: Callable[[], object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile, "PATIENCE", 10)
    attack = hostile.Attack(st.none(), lambda value, folder: work(), neighbours=False, seconds=0.05)
    with pytest.raises(AssertionError, match=said) if said else contextlib.nullcontext():
        hostile.run(attack, 1)


def test_the_watch_sees_who_asks_the_network(tmp_path: Path) -> None:
    """A reader that asks a server for what it was to be given reads no hostile input, and waits for the server."""
    with hostile._watched(tmp_path) as outside, socket.socket() as asking:
        with contextlib.suppress(OSError):
            asking.connect(("127.0.0.1", 9))
    assert any("socket.connect" in one for one in outside)


def test_the_watch_sees_what_is_written_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "inside").mkdir()
    with hostile._watched(folder / "inside") as outside:
        (folder / "inside/a").write_text("fine")
        assert outside == []
        (folder / "b").write_text("not fine")
        (folder / "b").rename(folder / "c")
        (folder / "c").unlink()
    assert len(outside) >= 3


def test_memory_counts_what_the_reader_takes_and_not_its_input() -> None:
    def read_hungrily(value: str, folder: Path) -> None:
        bytearray(600 << 20)

    inputs = st.just("x" * (30 << 20))
    hungry = hostile.run(hostile.Attack(inputs, read_hungrily, neighbours=False), 1)
    modest = hostile.run(hostile.Attack(inputs, lambda value, folder: None, neighbours=False), 1)
    assert hungry.memory == pytest.approx(600, abs=20)
    assert modest.memory < 5
