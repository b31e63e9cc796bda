"""Reading this process's ledger from the stand-in runtime."""

from __future__ import annotations

import ctypes
import hashlib
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

KINDS = ("launches", "copies", "sets", "allocations", "calls", "graphs", "events")


@dataclass(frozen=True)
class Totals:
    """Digests over every entry since the last reset, in each thread's order.

    They come with how many there were of each kind. ``exact`` has each device pointer as (allocation, offset),
    allocations numbered as they first appear; ``loose`` has all device pointers alike. ``plain`` is over launches
    without their argument bytes, copies, fills, events and graphs: what a real GPU is asked for too. ``device`` says
    which it was: "simulated" or "gpu". ``unset`` tells one list of argument bytes that are left out (``run --unset``)
    from another; ledgers with different ones say nothing of each other. No more do those of two ``format`` s: what an
    entry says, as native/runtime/ledger.h numbers it; 1 where none is named.
    """

    device: str
    unset: str
    exact: str
    loose: str
    plain: str
    launches: int
    copies: int
    sets: int
    allocations: int
    calls: int
    graphs: int
    events: int
    processes: int = 0
    """How many other processes' ledgers are in it."""
    format: int = 1

    def add_process(self, other: Totals) -> Totals:
        """Return these totals with those of another process, in whatever order."""
        totals: dict[str, Any] = {kind: getattr(self, kind) + getattr(other, kind) for kind in KINDS}
        for name in ("exact", "loose", "plain"):
            totals[name] = _add_digests(getattr(self, name), getattr(other, name))
        return replace(self, **totals, processes=self.processes + 1 + other.processes)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Ledger:
    """This process's ledger; `find_loaded` returns None if no stand-in is preloaded."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.simcuda_ledger_entries.restype = ctypes.c_size_t
        library.simcuda_ledger_entries.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    @classmethod
    def find_loaded(cls) -> Ledger | None:
        """Return the ledger of the simulated runtime loaded here, or of the recorder."""
        library = ctypes.CDLL(None)
        return cls(library) if hasattr(library, "simcuda_ledger_reset") else None

    def reset(self, *, keep_entries: bool = False) -> None:
        """Begin anew; ``keep_entries`` keeps each entry as text, at most 64 MiB of it."""
        self._library.simcuda_ledger_reset(int(keep_entries))

    def read_totals(self) -> Totals:
        """Digests and numbers."""
        out = (ctypes.c_ulonglong * 10)()
        self._library.simcuda_ledger_totals(out)
        digests = (f"{out[0]:016x}", f"{out[1]:016x}", f"{out[2]:016x}")
        device = "simulated" if hasattr(self._library, "simcuda_device_count") else "gpu"
        totals = Totals(device, _compute_unset_digest(), *digests, *(int(n) for n in out[3:]))
        return replace(totals, format=self._library.simcuda_ledger_format())

    def read_entries(self) -> list[str]:
        """Return what was kept, JSON arrays such as ``["copy","HD",1024,0,[0,512]]``."""
        size = self._library.simcuda_ledger_entries(None, 0)
        buffer = ctypes.create_string_buffer(size + 1)
        self._library.simcuda_ledger_entries(buffer, size)
        return buffer.raw[:size].decode().splitlines()


def _add_digests(ours: str, theirs: str) -> str:
    """Return the sum of two digests, as the runtime adds up those of its threads."""
    return f"{(int(ours, 16) + int(theirs, 16)) % (1 << 64):016x}"


def _compute_unset_digest() -> str:
    """Return a digest of the file that the runtime read, empty when there was none."""
    path = os.environ.get("SIMCUDA_UNSET")
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16] if path and Path(path).exists() else ""
