"""The stand-ins that tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcuda import build, library, vendor
from simcuda.errors import SimcudaError
from tests.support.tools import require_tool


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-ins for the runtime and the driver: need a C++ compiler and three of NVIDIA's wheels with headers."""
    return stand_ins(tmp_path_factory.mktemp("built"), vendor.CUDA, "threads", "cudart", "cuda")


def stand_ins(out: Path, version: str, *names: str) -> Path:
    """The stand-ins of these names for a version of CUDA; a test is skipped, with the reason, where there are none."""
    require_tool("c++")
    try:
        kit = vendor.find(Path("/nowhere"), build.cache_folder() / "wheels", version)
        libraries, fills = library.load(kit.sonames)
        for one in libraries:
            if one.name in names:
                build.stand_in(one, fills, kit, out)
    except SimcudaError as error:
        pytest.skip(str(error))
    return out
