"""Estimate a build's cost before it starts; refuse one this machine cannot hold."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.base.untrusted_input import is_count
from decouple.build.settings import Cost

_COMPILED = re.compile(r"build (\S+\.o): (?:C|CXX|CUDA|ASM|OBJC|OBJCXX)\w*_COMPILER__")
GIB = 1 << 30
MIB = 1 << 20


class Estimate(Struct, frozen=True):
    """Hold wall seconds with a cold compiler cache, MiB to write, memory of one job.

    The MiB are still to be written on the build's disk. ``measured`` is another release, of which the figures are; ""
    where they are of this one.
    """

    what: str
    objects: int
    objects_done: int
    seconds: float
    disk_mib: int
    job_mib: int
    measured: str = ""

    def format_line(self) -> str:
        """Describe it in one line for the user."""
        left = self.objects - self.objects_done
        done = f" ({self.objects_done} of {self.objects} are there)" if self.objects_done else ""
        return (
            f"{self.what}: {left} objects to go{done}, about {_format_span(self.seconds)} with a cold compiler cache "
            f"(minutes with a warm one), {self.disk_mib / 1024:.1f} GiB of disk"
            + (f"; figures of {self.measured}, this release was not measured" if self.measured else "")
        )


class RootEstimate(Struct, frozen=True):
    """Hold wall seconds and cache MiB in ``folder`` to make or complete a Debian root."""

    what: str
    folder: Path
    seconds: float
    disk_mib: int

    def format_line(self) -> str:
        """Describe it in one line for the user."""
        return f"{self.what}: made once, about {_format_span(self.seconds)}, {self.disk_mib / 1024:.1f} GiB of disk"


def estimate_remaining(
    what: str, cost: Cost, *, done: int, jobs: int, share: float | None = None, measured: str = ""
) -> Estimate:
    """Estimate the cost of what is left when ``done`` objects are there.

    ``done`` objects are in the build directory and ``jobs`` run at once. ``share`` of the seconds is left; None: as of
    the objects.
    """
    done = min(done, cost.objects)
    left = 1 - done / cost.objects
    seconds = cost.core_seconds * (left if share is None else share) / jobs
    return Estimate(what, cost.objects, done, seconds, round(cost.disk_mib * left), cost.job_mib, measured)


def refuse_if_too_small(
    estimates: Sequence[Estimate], *, folder: Path, memory: int | None, root: RootEstimate | None = None
) -> None:
    """Raise DecoupleError, with numbers, when the machine cannot hold the build.

    Looked at are the disk of ``folder``, that of the ``root`` to make, and the memory.

    ``memory`` in bytes (None: not known).
    """
    needed = sum(stage.disk_mib for stage in estimates)
    _refuse_full(folder, needed, "or build one stage at a time (--stage 1)")
    if root is not None:
        another = "or name a folder on a larger disk in DECOUPLE_CACHE"
        one_disk = _find_existing_folder(root.folder).stat().st_dev == _find_existing_folder(folder).stat().st_dev
        _refuse_full(root.folder, root.disk_mib + (needed if one_disk else 0), another)
    for stage in estimates:
        # packing what is compiled takes no compiler's memory
        if memory is not None and stage.seconds and memory < stage.job_mib * MIB:
            raise DecoupleError(
                f"{stage.what}: one compile needs {stage.job_mib / 1024:.1f} GiB of memory, "
                f"{memory / GIB:.1f} GiB are free, swap included",
                next_step="free memory or add swap",
                code=CANNOT_HERE,
            )


def _refuse_full(folder: Path, needed: int, otherwise: str) -> None:
    """Raise DecoupleError when ``needed`` MiB are not free where ``folder`` is to be."""
    free = shutil.disk_usage(_find_existing_folder(folder)).free // MIB
    if free < needed:
        raise DecoupleError(
            f"{folder}: {needed / 1024:.1f} GiB of disk are needed, {free / 1024:.1f} GiB are free",
            next_step=f"free {(needed - free) / 1024:.1f} GiB, {otherwise}",
            code=CANNOT_HERE,
        )


def read_available_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Return bytes of memory to be had, swap included (``proc_meminfo(5)``).

    One compile may swap; how many run at once wrapped_cmake reckons without it.
    """
    if not meminfo.exists():
        return None
    rows = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    if "MemAvailable" not in rows:
        return None
    return sum(int(rows[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree") if name in rows)


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_objects(build_dir: Path) -> int:
    """Count the objects that ninja has already made in ``build_dir``, by its own log."""
    return len(_read_object_seconds(build_dir))


def read_planned_objects(build_dir: Path) -> frozenset[str]:
    """Read the objects that ``build_dir`` compiles from its ``build.ninja``.

    Empty before it is configured.
    """
    plan = build_dir / "build.ninja"
    if not plan.exists():
        return frozenset()
    with plan.open(encoding="utf-8", errors="replace") as lines:
        return frozenset(match[1] for line in lines if (match := _COMPILED.match(line)))


def read_done_objects(build_dir: Path) -> frozenset[str]:
    """Read the objects that ninja has already made in ``build_dir``, by its own log."""
    return frozenset(_read_object_seconds(build_dir))


def sum_object_seconds(build_dir: Path) -> float:
    """Add up the seconds of the newest compile of each object in ``build_dir``.

    The seconds are those of ninja's own log. With one compile per core at once, that over the cores is the wall time of
    a build from nothing. What came from the compiler's cache counts with the little that it took, so a cold build takes
    no less.
    """
    return sum(_read_object_seconds(build_dir).values())


def _read_object_seconds(build_dir: Path) -> dict[str, float]:
    """Map each object that is there to the seconds of its newest compile.

    They are read from ``.ninja_log`` (start and end in ms).
    """
    log = build_dir / ".ninja_log"
    if not log.exists():
        return {}
    lines = (line.split("\t") for line in log.read_text(errors="replace").splitlines() if line.count("\t") == 4)
    newest = {
        name: (int(end) - int(start)) / 1000
        for start, end, _, name, _ in lines
        if name.endswith(".o") and is_count(start) and is_count(end)  # of a killed ninja's last line, say
    }
    # os.path.exists: a name may be longer than any file's
    return {name: seconds for name, seconds in newest.items() if os.path.exists(build_dir / name)}  # noqa: PTH110


def _find_existing_folder(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _format_span(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
