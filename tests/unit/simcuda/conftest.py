"""The stand-ins that tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcuda import build, library, vendor
from simcuda.errors import SimcudaError


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-ins for the runtime and the driver: need a C++ compiler and three of NVIDIA's wheels with headers."""
    out = tmp_path_factory.mktemp("built")
    libraries, fills = library.load()
    try:
        kit = vendor.find(Path("/nowhere"), build.cache_folder() / "wheels")
        kit.include()
    except SimcudaError as error:
        pytest.skip(str(error))
    for one in libraries:
        if one.soname in {"libcudart.so.12", "libcuda.so.1"}:
            build.stand_in(one, fills, kit, out)
    return out
