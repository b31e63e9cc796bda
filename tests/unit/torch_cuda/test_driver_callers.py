"""Which sources of c10d may call the driver is read from upstream's own build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.tools("cmake")

MODULE = Path(__file__).parents[3] / "third_device/torch_cuda/cmake/DriverCallers.cmake"
HERE = "/tree/third_device/torch_cuda/torch_cuda/csrc/framework/distributed/c10d"
SOURCES = [f"{HERE}/ProcessGroupNCCL.cpp", f"{HERE}/NCCLUtils.cpp", f"{HERE}/cuda/utils.cpp"]


def run(tmp_path: Path, upstream: str) -> subprocess.CompletedProcess[str]:
    """DRIVER_CALLERS, said by real CMake of a tree with this caffe2/CMakeLists.txt."""
    (tmp_path / "caffe2").mkdir()
    (tmp_path / "caffe2/CMakeLists.txt").write_text(upstream)
    script = tmp_path / "script.cmake"
    script.write_text(
        f'cmake_minimum_required(VERSION 3.24)\nset(PYTORCH_SOURCE_DIR "{tmp_path}")\n'
        f'set(DISTRIBUTED_SOURCES {" ".join(SOURCES)})\ninclude("{MODULE}")\nmessage("${{DRIVER_CALLERS}}")\n'
    )
    return subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True)


def listed(*names: str) -> str:
    files = "\n".join(f"        ${{TORCH_SRC_DIR}}/csrc/distributed/c10d/{name}" for name in names)
    flag = "-DPYTORCH_C10_DRIVER_API_SUPPORTED=1"
    return f'other(a b)\nset_source_files_properties(\n{files}\n        PROPERTIES COMPILE_FLAGS "{flag}"\n      )\n'


def test_those_that_upstreams_build_names(tmp_path: Path) -> None:
    assert run(tmp_path, listed("intra_node_comm.cpp", "ProcessGroupNCCL.cpp")).stderr.split() == [SOURCES[0]]


def test_a_source_that_a_later_release_adds(tmp_path: Path) -> None:
    """2.8's cuda/utils.cpp did not compile: the names were a list of ours."""
    done = run(tmp_path, listed("ProcessGroupNCCL.cpp", "cuda/utils.cpp"))
    assert done.stderr.strip().split(";") == [SOURCES[0], SOURCES[2]]


def test_a_build_that_says_it_in_another_way_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "target_compile_definitions(torch_cuda PRIVATE PYTORCH_C10_DRIVER_API_SUPPORTED)\n")
    assert done.returncode == 1
    assert "caffe2/CMakeLists.txt gives no source of c10d" in " ".join(done.stderr.split())
