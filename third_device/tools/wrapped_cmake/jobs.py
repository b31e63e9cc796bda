"""Compute how many jobs run at once.

The cores say how many may run, the memory says how many can. Figures for one job come from ``WRAPPED_CMAKE_*_MEMORY``
and from the project (`project`); a C++ file of PyTorch peaks near 1.5 GiB, a ``.cu`` near 4 GiB for one architecture.
ninja pools keep the classes apart, so that a ``.cu`` does not meet three others.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from .parameters import Settings
from .project import Project

MIB = 1 << 20
#: a container's limit and use, and how its memory.stat calls what it keeps of files that were not read lately; v2, v1
_CGROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


@dataclasses.dataclass(frozen=True)
class JobLimits:
    """How many jobs run at once.

    ``jobs`` of any kind (``ninja -j``), and the depths of the pools: ``link``, and the project's.
    """

    jobs: int
    pools: Mapping[str, int]
    reason: str

    def definitions(self) -> dict[str, str]:
        """Return the pools for CMake's Ninja generator."""
        pools = ";".join(f"{name}={depth}" for name, depth in self.pools.items())
        return {"CMAKE_JOB_POOLS": pools, "CMAKE_JOB_POOL_LINK": "link"}


def count_cores() -> int:
    """Count the cores in this process's affinity mask, not the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the bytes that can be had without swapping.

    They are ``MemAvailable``, or less where the limit of a container (cgroup v2 or v1) leaves less. Of what it has used
    the kernel gives back what it keeps of files that nobody reads: a compile has read many.
    """
    free: int | None = None
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    for limit_file, used_file, given_back in _CGROUP_FILES:
        limit, used = cgroup / limit_file, cgroup / used_file
        if limit.exists() and used.exists() and limit.read_text().strip() != "max":
            statistics = _read_statistics(limit.with_name("memory.stat"))
            left = max(int(limit.read_text()) - int(used.read_text()) + statistics.get(given_back, 0), 0)
            free = left if free is None else min(free, left)
    return free


def _read_statistics(path: Path) -> dict[str, int]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: int(value) for name, value in (line.split() for line in lines)}


def plan_jobs(
    settings: Settings,
    project: Project | None = None,
    *,
    processors: int | None = None,
    memory: int | None = None,
) -> JobLimits:
    """Plan the limits for one build.

    ``MAX_JOBS`` overrides the total; the pools still respect the memory.
    """
    processors = processors or count_cores()
    memory = available_memory() if memory is None else memory

    def count_fitting(mebibytes: int | None) -> int:
        return processors if memory is None else max(1, min(processors, memory // ((mebibytes or 1) * MIB)))

    asked = settings.number("MAX_JOBS")
    by_memory = count_fitting(settings.number("WRAPPED_CMAKE_JOB_MEMORY"))
    total = asked or by_memory
    if asked:
        reason = "MAX_JOBS"
    elif by_memory < processors:
        reason = f"{(memory or 0) // MIB} MiB of memory"
    else:
        reason = f"{processors} cores"
    each = {"link": settings.number("WRAPPED_CMAKE_LINK_JOB_MEMORY")} | (project or Project()).list_memory()
    each |= {one.pool: settings.number(one.name) for one in settings.parameters if one.pool}
    return JobLimits(total, {name: min(total, count_fitting(memory_of)) for name, memory_of in each.items()}, reason)
