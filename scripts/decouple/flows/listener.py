"""Who hears of a flow while it works: a flow prints nothing."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from decouple.base.progress import SILENT, Progress


class Listener(Struct, frozen=True):
    """Receive what a flow reports; the default ignores it.

    ``say`` gets whole lines, ``warn`` those that a reader must see, ``progress`` how far a long piece of work is.
    """

    say: Callable[[str], None] = lambda line: None
    progress: Progress = SILENT
    warn: Callable[[str], None] = lambda line: None


QUIET = Listener()
