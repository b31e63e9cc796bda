"""Whatever a command meets, a person sees one line, and only what is seen as itself."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from decouple.base.errors import CANNOT_HERE, FAULT, INTERRUPTED, DecoupleError
from decouple.cli import last_resort, main
from decouple.cli.shown import escape_text, hide_secrets
from decouple.flows import test_cuda


def ends(error: BaseException) -> int:
    def run() -> int:
        raise error

    return last_resort.run_to_end(run, ["wheels", "2.6", "--index", "https://me:secret@example.org/simple/"])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    "error", [ValueError("x"), RecursionError("deep"), KeyError("k"), AssertionError(), UnicodeError("u")]
)
def test_what_nobody_foresaw_is_one_line_and_a_log(
    error: Exception, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(error) == FAULT == 70
    told = capsys.readouterr().err
    (log,) = (cache / "faults").iterdir()
    assert told.splitlines() == [
        f"decouple: a fault of decouple's own: {type(error).__name__}" + (f": {error}" if str(error) else ""),
        f"  next: tell its authors; its log is {log}",
    ]
    written = log.read_text()
    assert "Traceback" in written and "test_last_resort.py" in written
    assert "secret" not in written and "https://***@example.org" in written


def test_a_log_that_cannot_be_written_is_no_second_fault(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.write_text("a file where the folder should be")
    assert ends(ValueError("x")) == FAULT
    assert "its log is /" in capsys.readouterr().err
    monkeypatch.setattr("tempfile.mkstemp", lambda **_: os.open("/proc/none/there", 0))
    assert ends(ValueError("x")) == FAULT
    assert "no disk here takes its log" in capsys.readouterr().err


def test_no_memory_is_this_machines_limit(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(MemoryError()) == CANNOT_HERE
    assert "not enough memory" in capsys.readouterr().err
    assert not cache.exists()


def test_an_interrupted_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(KeyboardInterrupt()) == INTERRUPTED
    assert capsys.readouterr().err == "decouple: interrupted; run the same command again to go on\n"


def test_a_fault_while_the_command_line_is_read_is_one_as_well(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("decouple.cli.build_parser", lambda: 1 / 0)
    assert main(["lint"]) == FAULT
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\rb\x07\x9b", r"a\rb\x07\x9b"),
        ("tab\there\n", "tab\there\n"),
        ("\ud800 \udcff", r"\ud800 \udcff"),
        ("a\u202eb", r"a\u202eb"),
        ("größer — 漢字 🙂", "größer — 漢字 🙂"),
    ],
)
def test_control_characters_are_shown_escaped(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert escape_text(text) == shown
    ends(DecoupleError(f"index: {text}", next_step=text))
    told = capsys.readouterr().err
    assert shown.strip() in told and "\x1b" not in told


def test_a_message_has_no_line_that_others_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    ends(DecoupleError("METADATA says torch\ndecouple: verified, all is well"))
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pass@host/simple/: 404", "https://***@host/simple/: 404"),
        ("https://token@host/", "https://***@host/"),
        ("http://me:p@ss@host:8080/x", "http://***@host:8080/x"),
        ("see https://host/a@b and x@y.org", "see https://host/a@b and x@y.org"),
        ("https://host?x=me@y", "https://host?x=me@y"),
    ],
)
def test_a_password_never_reaches_a_message(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hide_secrets(text) == shown
    ends(DecoupleError(text))
    assert capsys.readouterr().err == f"decouple: {shown}\n"


def test_bytes_go_through_a_pipe_as_they_are_and_to_a_terminal_escaped() -> None:
    """``decouple show`` and ``diff`` write patches, which ``git apply`` must be able to read."""
    code = (
        "import sys; from decouple.cli.last_resort import run_to_end;"
        "run_to_end(lambda: sys.stdout.buffer.write(b'+\\x1b[31m\\r\\xff\\n') and 0, [])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout == b"+\x1b[31m\r\xff\n"
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 4096).strip() == rb"+\x1b[31m\r\udcff"
    os.close(ours)


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupted_run_is_not_told_to_throw_its_results_away(
    again: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    there = SimpleNamespace(label="ours", device="simulated", tests=Path(), folder=Path())
    monkeypatch.setattr(test_cuda, "choose_torch", lambda *_, **__: there)
    monkeypatch.setattr(test_cuda, "open_target", lambda *_, **__: contextlib.nullcontext(there))
    monkeypatch.setattr(test_cuda, "run_suites", interrupt)
    assert main(["test-cuda", "2.6", *(["--again"] if again else [])]) == INTERRUPTED
    told = capsys.readouterr().err
    assert ("the same command" in told) != again and ("without --again" in told) == again
