"""Who hears of a flow while it works: a flow prints nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from decouple.base.progress import SILENT, Progress


@dataclass(frozen=True)
class Listener:
    """``say`` gets whole lines, ``warn`` those that a reader must see, ``progress`` how far a long piece of work is.

    The default hears nothing.
    """

    say: Callable[[str], None] = lambda line: None
    progress: Progress = SILENT
    warn: Callable[[str], None] = lambda line: None


QUIET = Listener()
