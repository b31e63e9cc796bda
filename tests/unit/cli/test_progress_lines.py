"""How far long work is, as a log has it."""

from __future__ import annotations

import re
import time

import pytest

from decouple.cli.output import _Lines


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> _Lines:
    monkeypatch.setattr(_Lines, "EVERY", 0.0)
    return _Lines()


def test_objects_count_by_what_they_take(lines: _Lines, capsys: pytest.CaptureFixture[str]) -> None:
    lines.start("stage 1", 2, "objects", effort=100.0)
    time.sleep(0.1)
    lines.advance(1, effort=99.0)  # the large one
    assert re.search(r"stage 1: 1 objects of 2 objects \(50%\), ETA 0s", capsys.readouterr().err)


def test_a_run_that_links_alone_has_a_sensible_eta(lines: _Lines, capsys: pytest.CaptureFixture[str]) -> None:
    # "534 objects of 534 objects (100%), ETA 6959350481h41m": what was left was divided by what no object had taken
    lines.start("stage 1", 4, "objects", effort=2000.0)
    time.sleep(0.1)
    lines.advance(4)
    assert "4 objects of 4 objects (100%), ETA 0s" in capsys.readouterr().err
