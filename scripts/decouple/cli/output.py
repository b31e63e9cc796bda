"""Print everything: rich on a terminal, plain in a log, no colour with NO_COLOR."""

from __future__ import annotations

import atexit
import sys
import time
from pathlib import Path

from decouple.base.errors import UsageError
from decouple.base.files import check_output
from decouple.base.progress import Progress
from decouple.cli.eta import Eta
from decouple.cli.shown import escape_text, unwrap_stream
from decouple.flows.listener import Listener


def make_listener(*, for_program: bool = False) -> Listener:
    """Make a listener that prints what flows say.

    Warnings, and how far they are, go to standard error; with ``for_program`` all does, because standard output is
    then what a program reads.
    """
    say = print_aside if for_program else lambda line: print(line, flush=True)
    return Listener(say, make_progress(), print_aside)


def parse_output(word: str) -> Path:
    """Return the file that an option names for an output.

    Raises UsageError where it cannot be written: that is told before the work, not behind it.
    """
    path = Path(word)
    try:
        check_output(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", next_step="name a file that you can write") from None
    return path


def print_aside(line: str) -> None:
    """Print a line that is no part of what a command was asked for."""
    print(line, file=sys.stderr, flush=True)


def make_progress() -> Progress:
    """Make a reporter for standard error.

    A bar with an ETA on a terminal, a line every ten seconds otherwise.
    """
    return _BarProgress() if sys.stderr.isatty() else _LineProgress()


class _LineProgress:
    """Plain lines for logs."""

    EVERY = 10.0

    def __init__(self) -> None:
        self._what, self._unit = "", "items"
        self._total: float | None = None
        self._began = self._said = time.monotonic()
        self._eta = Eta(self._began)

    def start(
        self,
        what: str,
        total: float | None = None,
        unit: str = "items",
        effort: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        again = what == self._what
        self._what, self._total, self._unit = what, total, unit
        if again:
            self._eta.follow(total or 0.0, effort)
            return
        self._began = self._said = time.monotonic()
        self._eta = Eta(self._began, total, effort, seconds)

    def advance(self, amount: float = 1.0, effort: float = 0.0, measured: tuple[float, float] | None = None) -> None:
        now = time.monotonic()
        self._eta.advance(now, amount, effort, measured)
        if now - self._said < self.EVERY:
            return
        self._said = now
        done, left = self._eta.done, self._eta.estimate_left()
        line = f"{self._what}: {_format_amount(done, self._total, self._unit)}"
        if self._total:
            line += f" ({done / self._total:.0%})"
        if left is not None:
            line += f", ETA {_format_duration(left)}"
        print(line, file=sys.stderr, flush=True)

    def finish(self, note: str = "") -> None:
        took = time.monotonic() - self._began
        if note or took > self.EVERY:
            print(f"{self._what}: {note or 'done'} in {_format_duration(took)}", file=sys.stderr, flush=True)
        self._what = ""


class _BarProgress:
    """A rich bar on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
        from rich.progress import Progress as Bars
        from rich.text import Text

        left = self.format_left

        class TimeLeftColumn(ProgressColumn):
            """The time to go, which passes between two steps too."""

            max_refresh = 1.0

            def render(self, task: Task) -> Text:
                return Text(left())

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeLeftColumn(),
            console=Console(file=unwrap_stream(sys.stderr)),
            transient=True,
        )
        self._task: TaskID | None = None
        self._what, self._unit, self._effort = "", "items", 0.0
        self._total: float | None = None
        self._eta = Eta(time.monotonic())
        # An error or an interrupt may come between start and finish: rich has hidden the cursor then.
        atexit.register(self._bars.stop)

    def start(
        self,
        what: str,
        total: float | None = None,
        unit: str = "items",
        effort: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        again = self._task is not None and what == self._what
        self._what, self._unit, self._effort, self._total = what, unit, effort, total
        if self._task is not None:  # one bar
            self._bars.remove_task(self._task)
        if again:
            self._eta.follow(total or 0.0, effort)
        else:
            self._eta = Eta(time.monotonic(), total, effort, seconds)
        self._bars.start()
        amount = _format_amount(0, total, unit) if total else ""
        self._task = self._bars.add_task(escape_text(what), total=effort or total, amount=amount)

    def advance(self, amount: float = 1.0, effort: float = 0.0, measured: tuple[float, float] | None = None) -> None:
        if self._task is not None:
            self._eta.advance(time.monotonic(), amount, effort, measured)
            step = effort if self._effort else amount
            self._bars.update(self._task, advance=step, amount=_format_amount(self._eta.done, self._total, self._unit))

    def format_left(self) -> str:
        """Format what the bar says of the time to go."""
        left = self._eta.estimate_left(time.monotonic()) if self._task is not None else None
        return "" if left is None else f"ETA {_format_duration(left)}"

    def finish(self, note: str = "") -> None:
        if self._task is not None:
            label = self._bars.tasks[-1].description
            self._bars.remove_task(self._task)
            self._task = None
            self._bars.stop()
            if note:
                print(f"{label}: {note}", file=sys.stderr)


def _format_amount(done: float, total: float | None, unit: str) -> str:
    """Format an amount as far as it is known: "12 of 34 objects", "1.5 of 3.0 MiB"."""
    scale, places, name = (2.0**20, 1, "MiB") if unit == "bytes" else (1.0, 0, unit if unit != "items" else "")
    words = [f"{done / scale:.{places}f}", *(["of", f"{total / scale:.{places}f}"] if total else []), name]
    return " ".join(filter(None, words))


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
