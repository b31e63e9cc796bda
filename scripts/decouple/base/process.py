"""Run long commands: output in a log, interrupts passed on, last words as error."""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.base.files import has_no_room, is_disk_full_message, open_for_append
from decouple.base.program_output import make_english_variables

_TELLING = re.compile(r"^E: |\bCMake Error|\berror:|: fatal error|Error:|^wrapped_cmake: |^ERROR", re.MULTILINE)

_BESIDE: set[subprocess.Popen[str]] = set()
"""What other threads than the main one run: an interrupt, or an error, reaches the main one alone."""


class CommandPlace(Protocol):
    """A place where commands run: the host, or a root."""

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        """Return the command line that runs ``command`` in this place.

        It has exactly ``variables`` and a PATH, and begins in the folder ``start``.
        """


def run_logged(
    argv: Sequence[str],
    *,
    log: Path,
    what: str,
    on_line: Callable[[str], None] = lambda _: None,
    held: Sequence[int] = (),
    cwd: Path | None = None,
) -> None:
    """Run ``argv`` in the folder ``cwd`` and append its output to ``log``.

    Each line is also given to ``on_line``.

    ``held`` are open files that the child inherits: a lock that it holds as well, so that nobody works under its hands
    when this process is killed.

    The child gets a process group of its own: an interrupt or termination of this process is passed on, waited for,
    and then raised as KeyboardInterrupt. One that another thread started ends with this process. Raises DecoupleError
    with the first telling line when it fails.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    recent: collections.deque[str] = collections.deque(maxlen=400)
    with open_for_append(log) as out:
        out.write(f"== {what}\n")
        out.flush()
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
                pass_fds=held,
                cwd=cwd,
                env=make_english_variables(),
            )
        except OSError as error:
            name = error.filename or argv[0]  # the folder where that is gone
            lacking = isinstance(error, FileNotFoundError) and name == argv[0]
            step = f"install {name}" if lacking else None
            raise DecoupleError(f"{what}: {name}: {error.strerror}", next_step=step) from error
        with _forward_signals(process):
            assert process.stdout is not None
            for line in process.stdout:
                out.write(line)
                out.flush()
                recent.append(line.rstrip("\n"))
                on_line(line.rstrip("\n"))
            code = process.wait()
    if code:
        full = has_no_room(log.parent, Path(tempfile.gettempdir()))
        raise DecoupleError(f"{what}: {_describe_failure(list(recent), code, full)}", next_step=f"read {log}")


def show_commands(say: Callable[[str], None]) -> None:
    """Give ``say`` every command that this process starts from now on.

    A command is a line that a shell takes.

    With the folder, and those of git's variables that say which repository and index are meant. What settings we give
    git on every call is left out: they make its answer independent of a person's configuration.
    """
    shown_variables = "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"

    def hear_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "subprocess.Popen":
            return
        _, words, folder, environment = arguments
        words = [os.fsdecode(word) for word in ([words] if isinstance(words, str | bytes) else words)]
        if words[0] == "git":
            while words[1:2] == ["-c"]:
                del words[1:3]
        settings = [
            f"{name}={shlex.quote(environment[name])}"
            for name in shown_variables
            if environment and name in environment
        ]
        where = f"cd {shlex.quote(os.fsdecode(folder))} && " if folder else ""
        say(f"+ {where}{' '.join((*settings, shlex.join(words)))}")

    sys.addaudithook(hear_event)


@contextlib.contextmanager
def limit_time(minutes: float, what: str, next_step: str) -> Iterator[None]:
    """Interrupt what runs inside after ``minutes`` of wall time.

    The processes of `run_logged` are ended first.

    For the main thread. Raises DecoupleError, naming ``what`` and ``next_step``, when the time is over.
    """
    over = False

    def raise_interrupt(number: int, _frame: FrameType | None) -> None:
        nonlocal over
        over = True
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, raise_interrupt)
    signal.setitimer(signal.ITIMER_REAL, minutes * 60)
    try:
        yield
    except KeyboardInterrupt:
        if over:
            raise DecoupleError(
                f"{what}: not done in {minutes:g} minutes", next_step=next_step, code=CANNOT_HERE
            ) from None
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _describe_failure(lines: list[str], code: int, full: bool) -> str:
    spoken = [line for line in lines if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    full_lines = [line for line in lines if is_disk_full_message(line)] or (telling or spoken[-1:] if full else [])
    if full_lines or full:
        return ": ".join(["the disk is full", *(line.strip() for line in full_lines[:1])])
    if telling:
        return telling[0].strip()
    how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
    return f"{how}: {spoken[-1].strip()}" if spoken else how


@contextlib.contextmanager
def _forward_signals(process: subprocess.Popen[str]) -> Iterator[None]:
    def raise_interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    old = signal.signal(signal.SIGTERM, raise_interrupt) if main else None
    if not main:
        _BESIDE.add(process)
    try:
        yield
    except BaseException:
        for number, patience in ((signal.SIGTERM, 40), (signal.SIGKILL, 10)):  # a shell's background jobs ignore SIGINT
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=patience)
                break
        raise
    finally:
        _BESIDE.discard(process)
        if main:
            signal.signal(signal.SIGTERM, old)


def _end_processes_beside() -> None:
    for process in tuple(_BESIDE):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


atexit.register(_end_processes_beside)
