"""The toolkit is laid over PyTorch's tree, so tests import it from third_device/tools; projects are real CMake ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tools import require_tool

sys.path.insert(0, str(Path(__file__).parents[3] / "third_device" / "tools"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A CMake project of six C objects and one program, configured with Ninja in ``build``."""
    require_tool("cmake", "ninja", "cc")
    source = tmp_path / "source"
    source.mkdir()
    for number in range(6):
        (source / f"part{number}.c").write_text(f"int part{number}(void) {{ return {number}; }}\n")
    (source / "main.c").write_text("int part5(void); int main(void) { return part5() - 5; }\n")
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(tiny C)\n"
        "add_executable(tiny main.c part0.c part1.c part2.c part3.c part4.c part5.c)\n"
    )
    configure(tmp_path)
    return tmp_path


@pytest.fixture
def source(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with the CMakeLists.txt that the test's file has as ``PROJECT``."""
    require_tool("cmake", "ninja", "cc", "c++")
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(request.module.PROJECT)
    return folder


def configure(folder: Path, *definitions: str) -> None:
    """Run CMake on ``folder/source`` in ``folder/build``."""
    subprocess.run(
        ["cmake", "-GNinja", f"-S{folder}/source", f"-B{folder}/build", *definitions],
        check=True,
        capture_output=True,
        env=dict(os.environ),
    )
