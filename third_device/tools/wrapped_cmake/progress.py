"""What a person sees of a build: ninja's status as lines."""

from __future__ import annotations

import os
import sys
import time

from . import jobs, ninja


class Lines:
    """A line that rewrites itself on a terminal, a line every ten seconds in a log."""

    def __init__(self, limits: jobs.JobLimits) -> None:
        self._terminal = sys.stderr.isatty()
        self._every = 0.2 if self._terminal else 10.0
        self._said = 0.0
        pools = ", ".join(f"at most {depth} {name}" for name, depth in limits.pools.items())
        print(f"{limits.jobs} jobs ({limits.reason}), {pools}", file=sys.stderr)

    def __call__(self, status: ninja.Status) -> None:
        now = time.monotonic()
        if now - self._said < self._every and status.done != status.total:
            return
        self._said = now
        left = f", {format_span(status.eta)} left" if status.eta is not None else ""
        line = f"[{status.done}/{status.total}] {status.running} running{left}: {status.what}"
        if self._terminal:
            line = "\r\x1b[K" + line[: os.get_terminal_size(2).columns - 1]
        print(line, end="" if self._terminal and status.done != status.total else "\n", file=sys.stderr, flush=True)


def format_span(seconds: float) -> str:
    """Seconds as hours and minutes, minutes and seconds, or seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
