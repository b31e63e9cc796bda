"""What somebody may put in the place of a file that a command will write, whose name can be known before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

Plant = Callable[[Path], Callable[[], None]]
"""Puts something in a place; what it gives back asserts that it led nowhere."""


def _hard(place: Path, victim: Path) -> None:
    place.hardlink_to(victim)


PLANTS: dict[str, Callable[[Path, Path], None]] = {
    "a link": lambda place, victim: place.symlink_to(victim),
    "a dangling link": lambda place, victim: place.symlink_to(victim.with_name("nowhere")),
    "a hard link": _hard,
    "a FIFO": lambda place, victim: os.mkfifo(place),
}


def planting(kind: str, folder: Path) -> Plant:
    """A `Plant` of one of `PLANTS`; what it leads to is in ``folder``."""
    victim = folder / "victim"

    def put(place: Path) -> Callable[[], None]:
        victim.write_text("precious\n")
        place.parent.mkdir(parents=True, exist_ok=True)
        PLANTS[kind](place, victim)

        def untouched() -> None:
            assert victim.read_text() == "precious\n" and not victim.with_name("nowhere").exists()

        return untouched

    return put
