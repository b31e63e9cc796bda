"""Stage 2 is compiled by the C++ that the core's own headers need: 17, and 20 from 2.12 on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project

pytestmark = pytest.mark.tools("cmake", "c++")

STAGE_2 = find_project() / "third_device/torch_cuda"


@pytest.mark.parametrize("standard", ["17", "20"])
def test_the_standard_is_that_of_the_core(tmp_path: Path, standard: str) -> None:
    """Real CMake on stage 2's own CMakeLists.txt; of its modules only what Core.cmake says of the core."""
    shutil.copy(STAGE_2 / "CMakeLists.txt", tmp_path)
    (tmp_path / "cmake").mkdir()
    for name in re.findall(r"^ *include\((\w+)\)", (STAGE_2 / "CMakeLists.txt").read_text(), re.MULTILINE):
        (tmp_path / f"cmake/{name}.cmake").touch()
    (tmp_path / "cmake/toolkit").mkdir()
    (tmp_path / "cmake/toolkit/acme.cmake").touch()
    (tmp_path / "cmake/Options.cmake").write_text("set(TORCH_CUDA_TOOLKIT acme)\n")
    (tmp_path / "cmake/Core.cmake").write_text(
        f'if(CMAKE_CXX_STANDARD)\n  message(FATAL_ERROR "InstalledTorch would not ask")\nendif()\n'
        f"set(CORE_CXX_STANDARD {standard})\n"
    )
    (tmp_path / "cmake/Summary.cmake").write_text('message("C++${CMAKE_CXX_STANDARD}")\n')
    done = subprocess.run(["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"C++{standard}" in done.stderr.splitlines()
    assert 'set(CMAKE_CUDA_STANDARD "${CMAKE_CXX_STANDARD}")' in (STAGE_2 / "cmake/toolkit/cuda.cmake").read_text()
