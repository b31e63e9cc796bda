"""How far long work is, as a log has it."""

from __future__ import annotations

import concurrent.futures
import re
import time
from pathlib import Path

import pytest

from decouple.build import root_description, rootfs
from decouple.cli.eta import Eta
from decouple.cli.output import _LineProgress
from tests.support.waiting import hold_and_see


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> _LineProgress:
    monkeypatch.setattr(_LineProgress, "EVERY", 0.0)
    return _LineProgress()


def test_objects_count_by_what_they_take(lines: _LineProgress, capsys: pytest.CaptureFixture[str]) -> None:
    lines.start("stage 1", 2, "objects", effort=100.0)
    time.sleep(0.1)
    lines.advance(1, effort=99.0)  # the large one
    assert re.search(r"stage 1: 1 of 2 objects \(50%\), ETA 0s", capsys.readouterr().err)


def test_a_run_that_links_alone_has_a_sensible_eta(lines: _LineProgress, capsys: pytest.CaptureFixture[str]) -> None:
    # "534 objects of 534 objects (100%), ETA 6959350481h41m": what was left was divided by what no object had taken
    lines.start("stage 1", 4, "objects", effort=2000.0)
    time.sleep(0.1)
    lines.advance(4)
    assert "4 of 4 objects (100%), ETA 0s" in capsys.readouterr().err


def test_what_a_compiler_cache_gave_at_the_start_says_nothing_of_the_rest() -> None:
    # "327 objects of 507 objects (64%), ETA 16s", and an hour and a half of compiling lay ahead
    eta = Eta(0.0, 507, effort=507 * 60.0, seconds=507 * 60.0)
    for second in range(30):
        eta.advance(float(second), 10.9, 10.9 * 60.0)  # 327 objects
    for minute in range(1, 6):
        eta.advance(30.0 + 60.0 * minute, 1, 60.0)
    left = eta.estimate_left()
    assert left is not None and left == pytest.approx((507 - 332) * 60.0, rel=0.05)


def test_steps_that_take_long_still_tell_a_pace() -> None:
    eta = Eta(0.0, 20)
    assert eta.estimate_left() is None
    for step in range(1, 11):
        eta.advance(600.0 * step, 1)
    assert eta.estimate_left() == pytest.approx(6000.0)


def test_waiting_for_another_run_is_said_only_where_there_is_one(
    lines: _LineProgress, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "Debian root trixie-…: done in 56s" before the first package was there
    described = root_description.load_description()
    monkeypatch.setattr(rootfs, "_bootstrap_root", _stop)
    with pytest.raises(KeyboardInterrupt):
        rootfs.ensure_root(tmp_path, described, [], log=tmp_path / "log", progress=lines)
    assert capsys.readouterr().err == ""
    folder = rootfs.choose_folder(tmp_path, described)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        with hold_and_see(folder.with_suffix(".lock")) as awaited:
            other = pool.submit(rootfs.ensure_root, tmp_path, described, [], log=tmp_path / "log", progress=lines)
            assert awaited.wait(60)
        assert isinstance(other.exception(), KeyboardInterrupt)
    assert "waits for the run that makes" in capsys.readouterr().err


def _stop(*_: object) -> None:
    raise KeyboardInterrupt
