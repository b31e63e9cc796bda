"""The ledgers of the processes that a test starts: ranks, a loader's workers.

The plug-in names a folder in the environment. Each Python that starts below it writes its ledger there when it ends.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from simcuda.ledger import KINDS, Ledger, Totals

VARIABLE = "SIMCUDA_PROCESSES"
KEEP_ENTRIES = "entries"


def register_writer(folder: Path) -> None:
    """Have this process write its ledger to ``folder`` when it ends.

    One that is killed, or ends by ``os._exit``, writes nothing.
    """
    if write := prepare_writer(folder):
        atexit.register(write)


def prepare_writer(folder: Path) -> Callable[[], None] | None:
    """Begin this process's ledger, with no automatic collection; return its writer.

    None where nothing records.
    """
    ledger = Ledger.find_loaded()
    if ledger is None:
        return None
    # when Python collects by itself hangs on its version and on all that was imported, and with it when memory is freed
    gc.disable()
    entries = (folder / KEEP_ENTRIES).exists()
    ledger.reset(keep_entries=entries)
    return functools.partial(_write_ledger, ledger, folder, os.getpid(), entries=entries)


def _write_ledger(ledger: Ledger, folder: Path, process: int, *, entries: bool) -> None:
    totals = ledger.read_totals()
    if os.getpid() != process or not any(getattr(totals, kind) for kind in KINDS) or not folder.is_dir():
        return  # a forked child, which has its parent's ledger; no user of a device; the test ended before
    row = {"totals": totals.as_dict(), "entries": ledger.read_entries() if entries else []}
    part = folder / f".{process}"
    part.write_text(json.dumps(row), encoding="utf-8")
    part.replace(folder / f"{process}.json")


class ProcessFolder:
    """The folder that processes below this one write to."""

    def __init__(self, path: Path, *, entries: bool = False) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        if entries:
            (path / KEEP_ENTRIES).touch()
        os.environ[VARIABLE] = str(path)

    def _list_files(self) -> list[Path]:
        """Return the files in the order in which their processes started.

        Where the system's process numbers began anew in between, the order is another.
        """
        return sorted(self._path.glob("*.json"), key=lambda path: int(path.stem))

    def clear(self) -> None:
        """Remove what processes of the tests before left."""
        for path in self._list_files():
            path.unlink(missing_ok=True)

    def read_ledgers(self) -> Iterator[tuple[Totals, list[Any]]]:
        """Yield totals and entries of each ended process in the order of their start."""
        for path in self._list_files():
            row = json.loads(path.read_text(encoding="utf-8"))
            yield Totals(**row["totals"]), [json.loads(entry) for entry in row["entries"]]

    def remove(self) -> None:
        """Remove the folder."""
        os.environ.pop(VARIABLE, None)
        for path in self._path.iterdir():
            path.unlink(missing_ok=True)
        self._path.rmdir()
