"""A small file system that a test fills, or sets read-only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tools import require_tool


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """16 MiB that can really run out, or as much as a test asks for with ``disk(MIB)``."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("mounting a small tmpfs takes root on Linux")
    mark = request.node.get_closest_marker("disk")
    size = mark.args[0] if mark else 16
    require_tool("mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(folder)], check=False)
    if done.returncode:
        pytest.skip("this container may not mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Use up the disk but for ``leave`` bytes."""
    filler = disk / "filler"
    info = os.statvfs(disk)
    with filler.open("wb") as out:
        out.write(b"\0" * (info.f_bavail * info.f_frsize - leave))
    return filler
