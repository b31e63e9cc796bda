"""The one exception of the toolkit."""

from __future__ import annotations


class WrappedCMakeError(Exception):
    """A failure in one line with the next step, printed without a traceback."""

    def __init__(self, what: str, next_step: str | None = None) -> None:
        super().__init__(f"{what} ({next_step})" if next_step else what)
        self.what = what
        self.next_step = next_step
