"""The torch-free half of the layer, compiled and run alone: plain, and under two sanitizers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import backend_env
import pytest
from tests.support.cuda_headers import require_headers
from tests.support.tools import leave_test, require_tool

from simcuda import vendor

LAYER = backend_env.THIRD_DEVICE / "layer"
SOURCES = [
    *("runtime/runtime.cpp", "runtime/allocators.cpp", "runtime/graphs.cpp"),
    *("sim/sim_driver.cpp", "tests/runtime_test.cpp"),
]
MADE_UP = Path(__file__).parent / "made_up"
SANITIZERS = {"plain": [], "address": ["-g", "-fsanitize=address,undefined"], "thread": ["-g", "-fsanitize=thread"]}


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("kind", SANITIZERS)
def test_runtime(kind: str, tmp_path: Path) -> None:
    require_tool("c++")
    program = tmp_path / "runtime_test"
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", *SANITIZERS[kind], "-Iinclude", "-pthread"]
    built = subprocess.run([*command, *SOURCES, "-o", str(program)], cwd=LAYER, capture_output=True, text=True)
    if built.returncode and kind != "plain" and re.search("cannot find .*[atu]san", built.stderr):
        leave_test(f"the compiler has no {kind} sanitizer library")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ checks passed$", done.stdout, re.MULTILINE)
    assert "WARNING: ThreadSanitizer" not in done.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize("graphs", [[], ["-DTD_RUNTIME_GRAPHS"]], ids=["plain", "graphs"])
def test_the_example_of_a_driver_compiles(graphs: list[str]) -> None:
    """Against NVIDIA's headers, without a warning; nothing here can run it."""
    require_tool("c++")
    kit = require_headers(vendor.CUDA, [])
    headers = [word for folder in kit.list_include_folders() for word in ("-isystem", str(folder))]
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Iinclude"]
    command += [*graphs, *headers, "../examples/cuda_like_driver.cpp"]
    done = subprocess.run(command, cwd=LAYER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(300)
def test_a_driver_over_a_runtime_with_another_prefix_compiles() -> None:
    """Names that the runtime spells otherwise are mapped by the vendor, and it may give two errors one value."""
    require_tool("c++")
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Iinclude"]
    done = subprocess.run([*command, str(MADE_UP / "driver.cpp")], cwd=LAYER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", ["graphs", "errors"])
def test_a_driver_over_a_runtime_runs_and_leaves_nothing(what: str, tmp_path: Path) -> None:
    """With a leak check: each call that was captured goes with its graph, every other one once it ran.

    And no error that the driver told stays the runtime's last one.
    """
    require_tool("c++")
    program = tmp_path / what
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsanitize=address", "-Iinclude"]
    sources = [str(MADE_UP / name) for name in ("driver.cpp", f"{what}.cpp")]
    done = subprocess.run([*command, *sources, "-o", str(program)], cwd=LAYER, capture_output=True, text=True)
    if re.search("cannot find .*asan", done.stderr):
        leave_test("the compiler has no address sanitizer library")
    assert done.returncode == 0, done.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
