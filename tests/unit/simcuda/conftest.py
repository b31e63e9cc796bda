"""The stand-ins that tests of this folder share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from decouple.base.files import hold_lock
from decouple.base.paths import find_cache
from simcuda import build, library, vendor
from simcuda.errors import SimcudaError
from tests.support.tools import leave_test, require_tool
from tests.support.variables import set_variables
from tests.unit.simcuda.hip_headers import write_headers

HERE = Path(__file__).parent
SCRIPTS = HERE.parents[2] / "scripts"


@pytest.fixture(scope="session")
def built() -> Path:
    """The stand-ins for the runtime, the driver and CUPTI."""
    return stand_ins(vendor.CUDA, "threads", "cudart", "cuda", "cupti")


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Headers of a made-up ROCm."""
    return write_headers(tmp_path_factory.mktemp("rocm") / "include")


def run_program(
    text: str,
    built: Path,
    *preload: str | Path,
    under: Sequence[str] = (),
    python: str = sys.executable,
    **env: str,
) -> str:
    """What a Python program printed where the stand-ins are those of ``built``; of these ``preload`` go before others.

    It can import what is in this folder and simcuda. The command ``under`` starts it.
    """
    variables = {**os.environ, "LD_LIBRARY_PATH": str(built), "PYTHONPATH": f"{HERE}:{SCRIPTS}"}
    if preload:
        variables["LD_PRELOAD"] = ":".join(str(built / one) for one in preload)
    variables |= {"SIMCUDA_MEMORY": str(64 << 20), **env}
    command = [*under, python, "-c", text]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def use_shared_cache() -> AbstractContextManager[None]:
    """Let simcuda find and leave what it makes in decouple's cache, which machines keep; SIMCUDA_CACHE goes before."""
    return set_variables(SIMCUDA_CACHE=os.environ.get("SIMCUDA_CACHE", str(find_cache() / "simcuda")))


def stand_ins(version: str, *names: str) -> Path:
    """The stand-ins of these names for a version of CUDA: those of the same sources that the cache has, or made there.

    They need a C++ compiler and NVIDIA's wheels with headers. Where those wheels cannot be had a test is left, with the
    reason; a source that does not compile is an error.
    """
    require_tool("c++", "nm")
    with use_shared_cache():
        digest = build.compute_fingerprint(version)
        whole = build.locate_build_folder("stand-ins", digest)
        folder = (
            whole if (whole / "done").exists() else build.locate_build_folder("tested", f"{digest}-{'-'.join(names)}")
        )
        if (folder / "done").exists():
            return folder
        try:
            kit = vendor.find_kit(Path("/nowhere"), build.find_cache_folder() / "wheels", version)
            libraries, fills = library.load_libraries(kit.sonames)
            wanted = [one for one in libraries if one.name in names]
            for one in wanted:
                kit.list_include_folders(one.header_wheels)
                if one.wheel:
                    kit.read_exported_names(one.wheel, one.soname)
        except SimcudaError as error:
            leave_test(str(error))
        folder.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder.with_name(f"{folder.name}.lock")):
            if not (folder / "done").exists():
                part = vendor.make_part_folder(folder)
                try:
                    for one in wanted:
                        build.compile_stand_in(one, fills, kit, part)
                    build._finish_folder(part, folder)
                finally:  # a test that ran out of time leaves no half of it in the cache
                    shutil.rmtree(part, ignore_errors=True)
    return folder
