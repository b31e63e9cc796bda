"""How many jobs at once: the cores say how many may run, the memory says how many can.

Figures for one job come from ``WRAPPED_CMAKE_*_MEMORY``; a C++ file of PyTorch peaks near 1.5 GiB, a ``.cu`` near 4 GiB
for one architecture. ninja pools keep the classes apart, so that a ``.cu`` does not meet three others.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from .parameters import Settings

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class JobLimits:
    """Jobs at once: ``jobs`` of any kind (``ninja -j``), and the depths of the pools ``cuda`` and ``link``."""

    jobs: int
    cuda: int
    link: int
    reason: str

    def definitions(self) -> dict[str, str]:
        """The pools for CMake's Ninja generator; a project puts its CUDA objects into the pool ``cuda``."""
        return {"CMAKE_JOB_POOLS": f"cuda={self.cuda};link={self.link}", "CMAKE_JOB_POOL_LINK": "link"}


def cores() -> int:
    """The cores this process may use (its affinity mask, not the machine's count)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that can be had without swapping: ``MemAvailable``, or less where a cgroup v2 limit is lower."""
    free: int | None = None
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        left = max(int(limit.read_text()) - int(used.read_text()), 0)
        free = left if free is None else min(free, left)
    return free


def plan(settings: Settings, *, processors: int | None = None, memory: int | None = None) -> JobLimits:
    """The limits for one build. ``MAX_JOBS`` overrides the total; the pools still respect the memory."""
    processors = processors or cores()
    memory = available_memory() if memory is None else memory

    def fitting(name: str) -> int:
        each = (settings.number(name) or 1) * MIB
        return processors if memory is None else max(1, min(processors, memory // each))

    asked = settings.number("MAX_JOBS")
    by_memory = fitting("WRAPPED_CMAKE_JOB_MEMORY")
    total = asked or by_memory
    if asked:
        reason = "MAX_JOBS"
    elif by_memory < processors:
        reason = f"{(memory or 0) // MIB} MiB of memory"
    else:
        reason = f"{processors} cores"
    return JobLimits(
        jobs=total,
        cuda=min(total, fitting("WRAPPED_CMAKE_CUDA_JOB_MEMORY")),
        link=min(total, fitting("WRAPPED_CMAKE_LINK_JOB_MEMORY")),
        reason=reason,
    )
