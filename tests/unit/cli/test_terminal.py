"""What a person sees of a command that ends early: at a terminal, behind a pipe, with a wrong number."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.cli import main, output

PROJECT = Path(__file__).parents[3]
HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"


def test_an_error_in_the_middle_of_a_bar_gives_the_cursor_back() -> None:
    code = "from decouple.cli import output; bar = output.make_progress(); bar.start('work', 10); bar.advance(3); 1 / 0"
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    said = b""
    try:
        while more := os.read(ours, 4096):
            said += more
    except OSError:  # Linux answers EIO when the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 1
    assert b"ZeroDivisionError" in said
    assert HIDDEN in said and said.rindex(SHOWN) > said.rindex(HIDDEN)


def test_what_is_left_is_told_by_the_effort_where_items_are_not_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 60.0])
    monkeypatch.setattr("decouple.cli.output.time.monotonic", lambda: next(clock, 0.0))
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    lines = output.make_progress()
    clock = iter([0.0, 60.0])
    lines.start("compile", 10, "objects", effort=100.0)
    lines.advance(5, 20.0)
    assert "5 of 10 objects (50%), ETA 4m00s" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "decouple", "lint", "--codes"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.parametrize("words", [["verify", "9.9"], ["stages", "units", "9.9", "--jobs", "0"]])
def test_a_wrong_call_makes_no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    for name in ("series", "patches"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    assert main(words) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["patches", "series"]
