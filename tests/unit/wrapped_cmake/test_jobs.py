"""Job limits follow the memory where it is scarcer than the cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from wrapped_cmake import JobLimits, Settings, WrappedCMake, plan_jobs, read_project
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


@pytest.mark.parametrize(
    ("limit", "used", "given_back"),
    [
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ],
    ids=["v2", "v1"],
)
def test_files_that_a_container_has_read_take_no_memory_from_a_build(
    tmp_path: Path, limit: str, used: str, given_back: str
) -> None:
    """After an hour of compiling all of a container's memory is used, most of it by files: one job was left."""
    (tmp_path / limit).parent.mkdir(exist_ok=True)
    (tmp_path / limit).write_text(f"{8 * GIB}\n")
    (tmp_path / used).write_text(f"{8 * GIB - 4096}\n")
    (tmp_path / limit).with_name("memory.stat").write_text(f"anon {GIB}\n{given_back} {6 * GIB}\nactive_file {GIB}\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 6 * GIB + 4096


def test_another_number_of_jobs_is_no_other_configuration(project: Path) -> None:
    made = WrappedCMake(project / "source", project / "build", environ=os.environ)
    rules = project / "build/CMakeFiles/rules.ninja"
    made.limits = JobLimits(4, {"link": 3}, "a quiet machine")
    assert made.configure() and "pool link\n  depth = 3\n" in rules.read_text()
    made.build(["all"])
    made.limits = JobLimits(1, {"link": 1}, "a busy one")
    assert not made.configure() and "pool link\n  depth = 1\n" in rules.read_text()
    assert made.build(["all"]).edges == 0
    made.limits = JobLimits(1, {"link": 1, "acme": 1}, "another pool")
    assert made.configure() and "pool acme\n  depth = 1\n" in rules.read_text()


def test_pools_that_the_user_gives_stay(project: Path) -> None:
    environ = {**os.environ, "CMAKE_ARGS": "-DCMAKE_JOB_POOLS=link=7"}
    made = WrappedCMake(project / "source", project / "build", environ=environ)
    for jobs in (4, 1):
        made.limits = JobLimits(jobs, {"link": jobs}, "")
        made.configure()
        assert "depth = 7\n" in (project / "build/CMakeFiles/rules.ninja").read_text()
