"""Run ninja: progress, ETA, log; a second try alone for what ran out of memory."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from .errors import WrappedCMakeError
from .folder_lock import hold_folder

#: ninja's own status line, in a form that is easy to read back: finished, total, running, seconds.
STATUS_FORMAT = "[%f/%t %r %e] "
_STATUS = re.compile(r"^\[(\d+)/(\d+) (\d+) ([\d.]+)\] (.*)")
_FAILED = re.compile(r"^FAILED: (?:\[code=(\d+)\] )?(.+?)\s*$")
#: How compilers and shells say that something killed a process; 137 is 128 + SIGKILL.
_KILLED = re.compile(
    r"Killed signal terminated program|fatal error: Killed|died (?:due to|with) signal 9|\(?signal 9\)?\b.*kill"
    r"|^Killed$|signal: 9|virtual memory exhausted|out of memory allocating|Cannot allocate memory",
    re.IGNORECASE | re.MULTILINE,
)
_WINDOW = 200
LOG = ".ninja_log"
"""What ninja keeps in a build directory: the outputs, and what their commands took."""


@dataclasses.dataclass(frozen=True)
class Status:
    """One moment of a build; ``eta`` in seconds, None until there is enough to tell."""

    done: int
    total: int
    running: int
    seconds: float
    eta: float | None
    what: str


@dataclasses.dataclass(frozen=True)
class Result:
    """What a finished build did.

    ``edges`` commands run, ``retried`` objects built alone after a kill, wall seconds.
    """

    edges: int
    retried: tuple[str, ...]
    seconds: float


class Estimator:
    """The ETA from the last edges: a build's first objects say little of its last."""

    def __init__(self, window: int = _WINDOW) -> None:
        self._marks: collections.deque[tuple[int, float]] = collections.deque(maxlen=window)

    def eta(self, done: int, total: int, seconds: float) -> float | None:
        """Return the seconds left, after ``done`` of ``total`` edges in ``seconds``.

        None before there are two marks.
        """
        self._marks.append((done, seconds))
        first_done, first_seconds = self._marks[0]
        if done == first_done:
            return None
        return (seconds - first_seconds) / (done - first_done) * (total - done)


def run_ninja(
    build_dir: Path,
    targets: Sequence[str] = (),
    *,
    jobs: int,
    environ: Mapping[str, str],
    log: Path,
    on_status: Callable[[Status], None] = lambda _: None,
    ninja: str = "ninja",
    keep_going: int = 1,
    retries: int = 2,
) -> Result:
    """Build ``targets`` in ``build_dir`` and append all output to ``log``.

    ``targets`` is by default ninja's default target. An object whose compiler was killed (out of memory, mostly) is
    built again alone, at most ``retries`` times, then the rest goes on. Interrupting leaves a state from which the next
    run goes on: ninja gets the signal and removes what it had half written. Raises WrappedCMakeError naming the first
    failed output and the log.
    """
    began = time.monotonic()
    tried: dict[str, int] = {}
    retried: list[str] = []
    edges = 0
    pending: str | None = None
    while True:
        command = [ninja, "-C", str(build_dir), "-j1" if pending else f"-j{jobs}", f"-k{keep_going}"]
        command += [pending] if pending else list(targets)
        with hold_folder(build_dir):
            attempt = _run_attempt(command, environ, log, on_status)
        edges += attempt.finished
        if attempt.code == 0:
            if pending is None:
                return Result(edges, tuple(retried), time.monotonic() - began)
            pending = None
            continue
        if "interrupted by user" in attempt.tail:  # ninja itself got the signal
            raise KeyboardInterrupt
        killed = [failure.output for failure in attempt.failures if failure.killed]
        other = [failure for failure in attempt.failures if not failure.killed]
        if other or not killed:
            name = other[0].output if other else "/".join(targets) or "the default target"
            reason = other[0].reason if other else attempt.tail
            where = f"read {log}; " if log.is_file() else ""  # standard output needs no telling
            raise WrappedCMakeError(f"{name}: {reason}", f"{where}the same command goes on from there")
        pending = killed[0]
        tried[pending] = tried.get(pending, 0) + 1
        if tried[pending] > retries:
            raise WrappedCMakeError(
                f"{pending}: the compiler was killed {tried[pending]} times, the last time building it alone: "
                f"not enough memory",
                "free memory or add swap, then run the same command again",
            )
        retried.append(pending)
        note = f"{pending}: the compiler was killed (out of memory?); building it again alone"
        with open_log(log) as out:
            out.write(f"wrapped_cmake: {note}\n")
        on_status(Status(0, 1, 0, time.monotonic() - began, None, note))


def set_pools(build_dir: Path, pools: str) -> None:
    """Give the pools of a configured build other depths.

    ``pools`` is ``name=depth``, as in CMake's JOB_POOLS. The depths follow the memory, which is another at each build;
    CMake writes them into its rules, and no command with them.
    """
    rules, depths = build_dir / "CMakeFiles" / "rules.ninja", dict(re.findall(r"(\w+)=(\d+)", pools))
    if not rules.is_file():
        return
    text = rules.read_text(encoding="utf-8", errors="surrogateescape")
    made = re.sub(
        r"^(pool (\w+)\n  depth = )(\d+)$",
        lambda pool: f"{pool[1]}{depths.get(pool[2], pool[3])}",
        text,
        flags=re.MULTILINE,
    )
    if made != text:
        partial = rules.with_suffix(".partial")
        partial.unlink(missing_ok=True)  # not through a link in its place
        partial.write_text(made, encoding="utf-8", errors="surrogateescape")
        partial.replace(rules)


def open_log(log: Path) -> IO[str]:
    """Open ``log`` for more lines.

    It is a file of one name, no link or pipe that was planted there, or one of ``/dev``. Raises WrappedCMakeError for
    another.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    named = log.parent == Path("/dev")
    if log == Path("/dev/stdout"):  # a socket, as a service manager gives, cannot be opened by that name
        return os.fdopen(os.dup(1), "a", encoding="utf-8", errors="replace")
    refused = WrappedCMakeError(f"{log}: no file of its own, but a link or a pipe", f"rm {log} and run again")
    try:
        handle = os.open(log, flags if named else flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise (refused if error.errno in (errno.ELOOP, errno.ENXIO) else error) from None
    info = os.fstat(handle)
    if not named and (not stat.S_ISREG(info.st_mode) or info.st_nlink != 1):
        os.close(handle)
        raise refused
    return os.fdopen(handle, "a", encoding="utf-8", errors="replace")


@dataclasses.dataclass(frozen=True)
class _Failure:
    output: str
    killed: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class _Attempt:
    code: int
    finished: int
    failures: tuple[_Failure, ...]
    tail: str


def _run_attempt(
    command: Sequence[str], environ: Mapping[str, str], log: Path, on_status: Callable[[Status], None]
) -> _Attempt:
    """Run ninja once, in a process group of its own.

    So a signal reaches its compilers through it alone.
    """
    made = dict(environ, NINJA_STATUS=STATUS_FORMAT, TERM="dumb")
    log.parent.mkdir(parents=True, exist_ok=True)
    estimator = Estimator()
    finished = 0
    latest: Status | None = None
    failures: list[tuple[str, int | None, list[str]]] = []
    last = ""
    with open_log(log) as out:
        out.write(f"$ {' '.join(command)}\n")
        with _start_ninja(command, made) as process:
            for line in _read_lines(process.stdout):
                out.write(line)
                out.flush()
                text = line.rstrip("\n")
                last = text or last
                status = _STATUS.match(text)
                failed = _FAILED.match(text)
                if status:
                    done, total, running = (int(status[n]) for n in (1, 2, 3))
                    seconds = float(status[4])
                    finished = max(finished, done)
                    eta = estimator.eta(done, total, seconds)
                    latest = Status(done, total, running, seconds, eta, status[5])
                    on_status(latest)
                elif failed:
                    failures.append((failed[2].split()[0], int(failed[1]) if failed[1] else None, []))
                elif failures:
                    failures[-1][2].append(text)
            code = process.wait()
        if code == 0 and latest is not None and latest.done < latest.total:
            # A last edge on ninja's console (an install) is announced when it starts and not again when it ends.
            finished = latest.total
            out.write(f"[{latest.total}/{latest.total} 0 {latest.seconds}] done\n")
            on_status(dataclasses.replace(latest, done=latest.total, running=0, eta=0.0))
    return _Attempt(code, finished, tuple(_judge_failure(*failure) for failure in failures), last)


def _judge_failure(output: str, code: int | None, lines: Sequence[str]) -> _Failure:
    """Return whether the edge was killed, and the line that says why it failed."""
    text = "\n".join(lines[1:])  # the first line repeats the command
    killed = code in (137, 9) or bool(_KILLED.search(text))
    errors = [line for line in lines[1:] if re.search(r"\berror\b|\bfatal\b|undefined reference", line, re.IGNORECASE)]
    reason = errors[0].strip() if errors else next((line for line in lines[1:] if line.strip()), "failed")
    return _Failure(output, killed, reason)


def _read_lines(stream: IO[str] | None) -> Iterator[str]:
    if stream is not None:
        yield from stream


@contextlib.contextmanager
def _start_ninja(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start ninja, and pass an interrupt or a termination on to it.

    ninja is waited for, then KeyboardInterrupt is raised. One that comes while it is being started waits until it can
    be passed on: no ninja stays behind, at work in the folder where the next one is.
    """
    known: list[subprocess.Popen[str]] = []
    told: list[int] = []

    def note_signal(number: int, frame: object) -> None:
        told.append(number)
        if known:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note_signal) for number in _list_passed_signals()}
    try:
        known.append(_open_process(command, environ))
        try:
            if told:
                raise KeyboardInterrupt
            yield known[0]
        except BaseException:
            _end_ninja(known[0])
            raise
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _list_passed_signals() -> tuple[signal.Signals, ...]:
    """List the signals that are passed on.

    An interrupt is one only where Python would raise KeyboardInterrupt for it.
    """
    if not _is_in_main_thread():
        return ()
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return (signal.SIGTERM, signal.SIGINT) if listens else (signal.SIGTERM,)


def _open_process(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise WrappedCMakeError(f"{command[0]}: not found", "install ninja") from None


def _end_ninja(process: subprocess.Popen[str]) -> None:
    """Tell ninja to stop, and wait until it has tidied up."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)  # background jobs of a shell ignore SIGINT
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _is_in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


@dataclasses.dataclass(frozen=True)
class Edge:
    """One line of ``.ninja_log``: an output and the seconds its command took."""

    output: str
    seconds: float


def read_log(build_dir: Path) -> list[Edge]:
    """Read the newest entry of each output in ``.ninja_log`` (versions 5 to 7).

    Slowest first; one per command.
    """
    path = build_dir / LOG
    if not path.exists():
        return []
    newest: dict[str, tuple[int, int, str]] = {}
    for line in path.read_text(errors="replace").splitlines():
        fields = line.split("\t")
        if line.startswith("#") or len(fields) != 5:
            continue
        newest[fields[3]] = (int(fields[0]), int(fields[1]), fields[4])
    commands: dict[tuple[int, int, str], str] = {}
    for output, key in newest.items():
        commands.setdefault(key, output)
    edges = [Edge(output, (end - start) / 1000) for (start, end, _), output in commands.items()]
    return sorted(edges, key=lambda edge: -edge.seconds)


def list_slowest(build_dir: Path, count: int = 10) -> list[Edge]:
    """Return the slowest objects of the build so far."""
    return read_log(build_dir)[:count]
