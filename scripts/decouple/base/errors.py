"""The one exception that users see, and what raises it for a number."""

from __future__ import annotations

OK = 0
CHECK_FAILED = 1
USAGE = 2
FAULT = 70  # EX_SOFTWARE of sysexits.h: decouple itself is wrong
CANNOT_HERE = 75  # EX_TEMPFAIL of sysexits.h: too little disk, memory or time on this machine, or not allowed to
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class DecoupleError(Exception):
    """A failure in one line: what is wrong, where, and what to do next.

    The place is a file, patch or key.

    ``cli`` prints it without a traceback and exits with ``code`` (1: the check or the work failed,
    2: the call itself was wrong, 75: this machine cannot do it, another can).
    """

    def __init__(self, what: str, *, next_step: str | None = None, code: int = CHECK_FAILED) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step
        self.code = code

    def __str__(self) -> str:
        return f"{self.what} ({self.next_step})" if self.next_step else self.what


class UsageError(DecoupleError):
    """A wrong command line or argument."""

    def __init__(self, what: str, *, next_step: str | None = None) -> None:
        super().__init__(what, next_step=next_step, code=USAGE)


def refuse_below(least: int, **options: float | None) -> None:
    """Raise UsageError for an option's number below ``least``; None was not given."""
    for name, number in options.items():
        if number is not None and number < least:
            raise UsageError(f"--{name} {number}: at least {least}", next_step=f"leave --{name} out")
