"""Job limits follow the memory where it is scarcer than the cores."""

from __future__ import annotations

from pathlib import Path

from wrapped_cmake import Settings, plan_jobs, read_project
from wrapped_cmake.jobs import available_memory

from decouple.base.paths import find_project

GIB = 1 << 30
TORCH_CUDA = read_project(find_project() / "third_device" / "torch_cuda").parameters


def test_a_cu_that_needs_four_gib_does_not_meet_three_others() -> None:
    limits = plan_jobs(Settings({}, TORCH_CUDA), processors=8, memory=12 * GIB)
    assert (limits.jobs, limits.pools) == (8, {"link": 3, "cuda": 3})


def test_memory_limits_the_total() -> None:
    limits = plan_jobs(Settings({}, TORCH_CUDA), processors=16, memory=3 * GIB)
    assert (limits.jobs, limits.pools) == (2, {"link": 1, "cuda": 1})
    assert limits.reason == "3072 MiB of memory"


def test_max_jobs_wins_but_the_pools_still_respect_memory() -> None:
    limits = plan_jobs(Settings({"MAX_JOBS": "6"}, TORCH_CUDA), processors=2, memory=4 * GIB)
    assert (limits.jobs, limits.pools["cuda"], limits.reason) == (6, 1, "MAX_JOBS")


def test_a_container_limit_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   8388608 kB\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 8 * GIB
    (tmp_path / "memory.max").write_text(f"{2 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{GIB}\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == GIB
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 8 * GIB
