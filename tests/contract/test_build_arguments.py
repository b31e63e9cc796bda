"""What a backend's build takes from the project's toolkit. Needs no torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path

import backend_env
import pytest

LimitJobs = Callable[[Path, MutableMapping[str, str]], None]


@pytest.fixture
def limit_jobs(monkeypatch: pytest.MonkeyPatch) -> LimitJobs:
    """The layer's function, imported as a backend's setup.py does: by the path of the layer."""
    monkeypatch.syspath_prepend(str(backend_env.THIRD_DEVICE / "common"))
    found: LimitJobs = importlib.import_module("backend_build.extension").limit_jobs
    return found


def test_a_compile_gets_the_memory_that_wrapped_cmake_reckons_with(limit_jobs: LimitJobs) -> None:
    tools = backend_env.THIRD_DEVICE / "tools"
    environ = {"WRAPPED_CMAKE_JOB_MEMORY": str(1 << 30)}  # 1 PiB each: one at a time on any machine
    limit_jobs(tools, environ)
    assert environ["MAX_JOBS"] == "1" and str(tools) not in sys.path
    environ = {"MAX_JOBS": "7"}
    limit_jobs(tools, environ)
    assert environ == {"MAX_JOBS": "7"}


def test_outside_a_checkout_nothing_is_limited(limit_jobs: LimitJobs, tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    limit_jobs(tmp_path, environ)
    assert environ == {}
