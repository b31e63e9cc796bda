"""When a build of torch_cuda leaves Kineto's CUPTI half out, and the line that says why."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from tests.support.files import write_files

MODULE = find_project() / "third_device/torch_cuda/cmake/Kineto.cmake"
TOOLKIT = MODULE.with_name("toolkit") / "cuda.cmake"
HEADER = "include/libkineto.h"

pytestmark = pytest.mark.tools("cmake")


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A tree with Kineto, a core that has the same one, and CUPTI."""
    names = (
        "tree/third_party/kineto/libkineto/src/CuptiActivityProfiler.cpp",
        f"tree/third_party/kineto/libkineto/{HEADER}",
        "core/kineto/libkineto.h",
        "cupti/include/cupti.h",
        "cupti/lib/libcupti.so.12",
    )
    return write_files(tmp_path, dict.fromkeys(names, "// 2.6\n"))


def said(world: Path, *variables: str) -> str:
    """Why it is left out, as the configuration says it; empty when it is not."""
    script = world / "ask.cmake"
    settings = {
        "PYTORCH_SOURCE_DIR": world / "tree",
        "CORE_HEADERS": world / "core",
        "CORE_HAS_KINETO": "ON",
        "CORE_torch_cpu": "libtorch_cpu.so",
        "CUDAToolkit_VERSION": "12.4",
        "CUDAToolkit_VERSION_MAJOR": "12",
        "CUPTI_ROOT": world / "cupti",
        "Python_EXECUTABLE": sys.executable,
        "USE_KINETO": "ON",
        "CMAKE_FIND_LIBRARY_PREFIXES": "lib",
        "CMAKE_FIND_LIBRARY_SUFFIXES": ".so",
        **dict(variable.split("=") for variable in variables),
    }
    script.write_text(
        "".join(f'set({name} "{value}")\n' for name, value in settings.items())
        + f'include("{TOOLKIT}")\ninclude("{MODULE}")\n'
    )
    done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True)
    found = [line for line in done.stdout.splitlines() if "torch.profiler will record no CUDA activities: " in line]
    if not found:
        assert "libkineto_defs.bzl" in done.stderr, done.stderr  # it goes on to Kineto's list of sources
        return ""
    return found[0].partition("activities: ")[2]


def test_all_is_there(world: Path) -> None:
    assert said(world) == ""


def test_switched_off(world: Path) -> None:
    assert said(world, "USE_KINETO=0") == "USE_KINETO=0"


def test_a_core_without_kineto(world: Path) -> None:
    assert said(world, "CORE_HAS_KINETO=OFF") == "libtorch_cpu.so has no Kineto"


def test_a_tree_without_kinetos_sources(world: Path) -> None:
    shutil.rmtree(world / "tree/third_party")
    assert said(world) == f"no Kineto in {world}/tree/third_party"


def test_a_toolkit_without_cupti(world: Path) -> None:
    (world / "cupti/lib/libcupti.so.12").unlink()
    assert said(world) == "no cupti.h or libcupti in CUDA 12.4 (CUPTI_ROOT names their prefix)"


def test_a_core_with_another_kineto(world: Path) -> None:
    (world / "core/kineto/libkineto.h").write_text("// 2.7\n")
    assert said(world).startswith("the core's Kineto is another one (libkineto.h is not that of ")
