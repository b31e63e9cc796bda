"""The stand-ins that tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.files import hold_lock
from simcuda import build, library, vendor
from simcuda.errors import SimcudaError
from tests.support.tools import require_tool
from tests.support.workers import shared_folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-ins for the runtime and the driver: need a C++ compiler and three of NVIDIA's wheels with headers."""
    return stand_ins(shared_folder(tmp_path_factory) / "stand-ins", vendor.CUDA, "threads", "cudart", "cuda")


def stand_ins(out: Path, version: str, *names: str) -> Path:
    """The stand-ins of these names for a version of CUDA.

    A test is skipped, with the reason, where NVIDIA's wheels cannot be had; a source that does not compile is an error.
    """
    require_tool("c++", "nm")
    try:
        kit = vendor.find(Path("/nowhere"), build.cache_folder() / "wheels", version)
        libraries, fills = library.load(kit.sonames)
        wanted = [one for one in libraries if one.name in names]
        for one in wanted:
            kit.include(one.header_wheels)
            if one.wheel:
                kit.exported(one.wheel, one.soname)
    except SimcudaError as error:
        pytest.skip(str(error))
    with hold_lock(out.with_suffix(".lock")):
        for one in wanted:
            if not (out / one.soname).exists():
                build.stand_in(one, fills, kit, out)
    return out
