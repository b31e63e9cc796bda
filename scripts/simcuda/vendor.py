"""Find NVIDIA's headers and exported names in its wheels, at build time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from simcuda import symbols, tables
from simcuda.errors import SimcudaError
from simcuda.torchbuild import absolute_path

TABLE = Path(__file__).with_name("vendor.toml")
CUDA = "12.4"
"""Where nothing says which version is meant."""
BASE = ("cuda-runtime", "cuda-nvcc", "cuda-cccl")
"""Headers that every other header includes."""


@dataclass(frozen=True)
class Kit:
    """One CUDA version's headers and symbol names.

    A wheel is fetched when it is first asked for. ``site`` is a site-packages folder that may have the wheels
    installed, ``wheels`` one that pip looks into first. ``pins``, ``sonames`` and ``inside`` are rows of
    ``vendor.toml``.
    """

    version: str
    site: Path
    cache: Path
    wheels: Path | None
    pins: dict[str, str]
    sonames: dict[str, str]
    inside: dict[str, str]

    def folder(self, wheel: str) -> Path:
        """Return the folder that has the wheel's ``include`` and ``lib``."""
        installed = self.site / self.inside[wheel]
        # NVIDIA's wheels for CUDA 11 and for 12 have the same folder
        recorded = self.pins[wheel].partition("==")[0].replace("-", "_")
        if (installed / "include").is_dir() and any(self.site.glob(f"{recorded}-*.dist-info")):
            return installed
        return fetched(self.pins[wheel], self.cache, self.wheels) / self.inside[wheel]

    def include(self, wheels: Iterable[str] = ()) -> list[Path]:
        """Include folders of these wheels and of what all of them need."""
        return [self.folder(wheel) / "include" for wheel in dict.fromkeys((*BASE, *wheels))]

    def exported(self, wheel: str, soname: str) -> frozenset[str]:
        """Return the functions that NVIDIA's library of that name exports."""
        listed = listing(self.cache, self.pins[wheel], soname)
        if not listed.exists():
            folder = self.folder(wheel)
            if not listed.exists():  # an installed wheel; one that is fetched is listed when it is unpacked
                write_listing(folder / "lib" / soname, listed)
        return frozenset(listed.read_text(encoding="utf-8").split())


def listing(cache: Path, pin: str, soname: str) -> Path:
    """Return the file of a library's exported names; ``pin``: wheel, name==version."""
    return cache / f"{pin.replace('==', '-')}-{soname}.symbols"


def write_listing(library: Path, listed: Path) -> None:
    """Write the file with the names that a library exports.

    What is mangled or reserved is internal, and nobody outside links to it.
    """
    found = symbols.defined(library)
    names = {name for name in found if not name.startswith("_") or name.startswith("__cuda")}
    handle, part = tempfile.mkstemp(prefix=f"{listed.name}.part", dir=listed.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write("\n".join(sorted(names)) + "\n")
    Path(part).chmod(0o644)
    Path(part).rename(listed)


def find(site: Path, cache: Path, version: str = CUDA, wheels: Path | None = None) -> Kit:
    """Return the kit of ``version``; ``SIMCUDA_WHEELS`` is the default of ``wheels``."""
    table = tables.read(TABLE)
    if version not in table["cuda"]:
        raise SimcudaError(
            f"no wheels are known for CUDA {version}", next_step=f"one of {', '.join(table['cuda'])}, or vendor.toml"
        )
    given = os.environ.get("SIMCUDA_WHEELS")
    cache.mkdir(parents=True, exist_ok=True)
    own = table["cuda"][version]
    wheels = wheels or (Path(given) if given else None)
    return Kit(version, site, cache, wheels, own["wheels"], own["soname"], table["folder"])


def version_of(needed: Iterable[str]) -> str:
    """Return the CUDA version whose runtime is among the SONAMEs that a library needs.

    It is `CUDA` where none of them is a runtime. Raises SimcudaError for a runtime without known wheels.
    """
    found = tables.read(TABLE)["cuda"]
    wanted = [name for name in needed if name.startswith("libcudart.so.")]
    for version, own in found.items():
        if own["soname"]["cudart"] in wanted:
            return str(version)
    if wanted:
        known = ", ".join(own["soname"]["cudart"] for own in found.values())
        raise SimcudaError(
            f"this torch needs {wanted[0]}, and there are stand-ins for {known}",
            next_step="add its wheels to vendor.toml",
        )
    return CUDA


def fetched(pin: str, cache: Path, wheels: Path | None) -> Path:
    """Return the wheel's headers, from the cache or from PyPI.

    Of its libraries only the names that they export are kept.
    """
    named = pin.replace("==", "-")
    folder = cache / named
    if folder.is_dir():
        return folder
    part = new_part(folder)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64", "-d", str(part.absolute())]
    if wheels:
        command += ["--find-links", str(wheels.absolute())]
    # not in the current folder, which -m puts first on the path of modules
    done = subprocess.run([*command, pin], capture_output=True, text=True, cwd="/", env=absolute_path())
    wheel, _, version = pin.partition("==")
    archives = sorted(part.glob(f"{wheel.replace('-', '_')}-{version}-*.whl"))
    if done.returncode or not archives:
        shutil.rmtree(part, ignore_errors=True)
        reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
        raise SimcudaError(
            f"pip download {pin} failed: {reason}", next_step="set SIMCUDA_WHEELS to a folder that has it"
        )
    with zipfile.ZipFile(archives[0]) as archive:
        archive.extractall(part, [n for n in archive.namelist() if "/include/" in n or "/lib/lib" in n])
    archives[0].unlink()
    for library in part.rglob("lib*.so.*"):
        write_listing(library, listing(cache, pin, library.name))
        library.unlink()
    return settle(part, folder)


def new_part(folder: Path) -> Path:
    """Make this process's own folder beside ``folder``, which it becomes when whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part", dir=folder.parent))
    part.chmod(0o755)
    return part


def settle(part: Path, folder: Path) -> Path:
    """Give a folder its name when whole, unless another process was quicker."""
    try:
        part.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(part)
    return folder
