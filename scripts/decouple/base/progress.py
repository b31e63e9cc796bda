"""Report progress of long work to a terminal, a log or a test alike."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A report of how far work is.

    A package calls it; ``cli.output`` draws it (a bar with an ETA on a terminal, plain lines in a log).
    """

    def start(
        self,
        what: str,
        total: float | None = None,
        unit: str = "items",
        effort: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        """Begin a piece of work of ``total``, None when that is not known.

        The total is in ``unit`` ("items" or "bytes").

        Where items are not alike, ``effort`` is what all of them together are expected to take, in any measure.
        ``seconds`` is the estimate for the whole, None where there is none. Another piece that was under way is over;
        of the same name, it is the one that goes on with what is left of it.
        """

    def advance(self, amount: float = 1.0, effort: float = 0.0, measured: tuple[float, float] | None = None) -> None:
        """Count ``amount`` more of the unit, which was expected to take ``effort``.

        ``measured``: of items that are done, now or before, what was expected and what they did take; None where
        nobody knows.
        """

    def finish(self, note: str = "") -> None:
        """End the piece of work."""


class SilentProgress:
    """A report to nobody; the default of every function that takes a Progress."""

    def start(
        self,
        what: str,
        total: float | None = None,
        unit: str = "items",
        effort: float = 0.0,
        seconds: float | None = None,
    ) -> None: ...
    def advance(
        self, amount: float = 1.0, effort: float = 0.0, measured: tuple[float, float] | None = None
    ) -> None: ...
    def finish(self, note: str = "") -> None: ...


SILENT: Progress = SilentProgress()
