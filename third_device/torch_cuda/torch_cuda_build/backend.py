"""PEP 517 backend: configure and build with CMake, install into a staging folder, pack the wheel.

Choices come from the environment under upstream's names (``cmake/Options.cmake`` lists them); besides,

``TORCH_CUDA_BUILD_DIR``  where to build (default ``build/`` here); kept, so an interrupted build goes on,
``MAX_JOBS``              parallel compilations (default: what cores and memory allow, by the toolkit wrapped_cmake),
``CMAKE_ARGS``            more arguments for CMake.

``config_settings`` of pip (``-C NAME=VALUE``) become ``-DNAME=VALUE``. From a checkout, without pip:
``python -m torch_cuda_build.backend DIST_FOLDER``.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_cuda_build import wheel

ROOT = Path(__file__).resolve().parent.parent
CORE_PRELOAD = ROOT.parent / "added_to_core" / "torch" / "_decoupled" / "preload.py"
TOOLKIT = ROOT.parent / "tools" / "wrapped_cmake"
OWN_FILES = ("__init__.py", "_after_import.py", "_autoload.py", "_libraries.py", "_preload.py", "py.typed")

START = ("torch_cuda.pth", "torch_cuda_start.py")
"""What site-packages itself gets, for a stock core."""


class BuildError(Exception):
    """The build cannot go on; one line that says why, and what to do."""


def build_dir() -> Path:
    """Where CMake builds."""
    return Path(os.environ.get("TORCH_CUDA_BUILD_DIR") or ROOT / "build").absolute()


def configure(settings: Mapping[str, Any] | None = None) -> None:
    """Run CMake in `build_dir`. Raises BuildError when it fails; its own message has been shown."""
    defines = [f"-D{name}={value}" for name, value in (settings or {}).items() if name.isidentifier()]
    _run(
        [
            *("cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build_dir()), f"-DPython_EXECUTABLE={sys.executable}"),
            *defines,
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        ],
        "configure",
    )


def compile_all() -> None:
    """Build every target by the toolkit: as many jobs as memory allows, second tries. Raises BuildError."""
    _run([sys.executable, str(TOOLKIT), "build", str(build_dir())], "compile")


def stage() -> Path:
    """Install into a fresh ``stage/`` below `build_dir` and return it. Raises BuildError."""
    folder = build_dir() / "stage"
    shutil.rmtree(folder, ignore_errors=True)
    _run(["cmake", "--install", str(build_dir()), "--prefix", str(folder), "--strip"], "install")
    return folder


def members(staged: Path, core: str) -> dict[str, Path | bytes]:
    """Every file of the wheel but its metadata: name in the wheel -> file.

    A patched *core* ("built") loads us itself; for a stock one Python's start gets a finder.
    """
    found: dict[str, Path | bytes] = {
        f"{wheel.IMPORT_NAME}/{path.relative_to(staged).as_posix()}": path
        for path in staged.rglob("*")
        if path.is_file()
    }
    found.update({f"{wheel.IMPORT_NAME}/{name}": ROOT / wheel.IMPORT_NAME / name for name in OWN_FILES})
    # One loader for both kinds of core: a stock core gets a copy of the patched core's.
    if not CORE_PRELOAD.is_file():
        raise BuildError(f"{CORE_PRELOAD} is missing; next: build in a tree that `decouple apply` made")
    found[f"{wheel.IMPORT_NAME}/_core_preload.py"] = CORE_PRELOAD
    if core != "built":
        found.update({name: ROOT / name for name in START})
    return found


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """PEP 517: build everything, write the wheel, return its file name."""
    configure(config_settings)
    compile_all()
    staged = stage()
    info = json.loads((staged / "build_info.json").read_text(encoding="utf-8"))
    folder = Path(wheel_directory)
    folder.mkdir(parents=True, exist_ok=True)
    requires = wheel.requirements(Path(__file__).with_name("requirements.toml"), info)
    return wheel.write(
        members(staged, info["core"]), info, wheel.tag(info, sysconfig.get_platform()), folder, requires
    ).name


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """PEP 517 asks for it; there is none. Raises BuildError always."""
    raise BuildError("torch-cuda has no sdist: it builds from a whole PyTorch tree; next: build the wheel in that tree")


def _run(command: list[str], step: str) -> None:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        status = subprocess.run(command, env=environment, check=False).returncode
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not installed; next: install CMake >= 3.24 and ninja to {step}") from None
    if status != 0:
        raise BuildError(
            f"{step} failed with exit status {status}; next: read the message above, then run the same command again: "
            f"finished objects in {build_dir()} are kept"
        )


if __name__ == "__main__":
    try:
        sys.stdout.write(build_wheel(sys.argv[1] if len(sys.argv) > 1 else "dist") + "\n")
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
