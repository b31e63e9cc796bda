"""Find NVIDIA's headers and exported names in its wheels, at build time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from simcuda import symbols, tables
from simcuda.errors import SimcudaError, explain_os_error
from simcuda.torchbuild import make_python_environment

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

    def find_folder(self, wheel: str) -> Path:
        """Return the folder that has the wheel's ``include`` and ``lib``."""
        installed = self.site / self.inside[wheel]
        # NVIDIA's wheels for CUDA 11 and for 12 have the same folder
        recorded = self.pins[wheel].partition("==")[0].replace("-", "_")
        if (installed / "include").is_dir() and any(self.site.glob(f"{recorded}-*.dist-info")):
            return installed
        return fetch_wheel(self.pins[wheel], self.cache, self.wheels) / self.inside[wheel]

    def list_include_folders(self, wheels: Iterable[str] = ()) -> list[Path]:
        """Include folders of these wheels and of what all of them need."""
        return [self.find_folder(wheel) / "include" for wheel in dict.fromkeys((*BASE, *wheels))]

    def read_exported_names(self, wheel: str, soname: str) -> frozenset[str]:
        """Return the functions that NVIDIA's library of that name exports."""
        listing = locate_listing(self.cache, self.pins[wheel], soname)
        if not listing.exists():
            folder = self.find_folder(wheel)
            if not listing.exists():  # an installed wheel; one that is fetched is listed when it is unpacked
                write_listing(folder / "lib" / soname, listing)
        return frozenset(listing.read_text(encoding="utf-8").split())


def locate_listing(cache: Path, pin: str, soname: str) -> Path:
    """Return the file of a library's exported names; ``pin``: wheel, name==version."""
    return cache / f"{pin.replace('==', '-')}-{soname}.symbols"


def write_listing(library: Path, listing: Path) -> None:
    """Write the file with the names that a library exports.

    What is mangled or reserved is internal, and nobody outside links to it.
    """
    functions = symbols.read_defined_functions(library)
    names = {name for name in functions if not name.startswith("_") or name.startswith("__cuda")}
    handle, part = tempfile.mkstemp(prefix=f"{listing.name}.part", dir=listing.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write("\n".join(sorted(names)) + "\n")
    Path(part).chmod(0o644)
    Path(part).rename(listing)


def find_kit(site: Path, cache: Path, version: str = CUDA, wheels: Path | None = None) -> Kit:
    """Return the kit of ``version``; ``SIMCUDA_WHEELS`` is the default of ``wheels``."""
    table = tables.read_table(TABLE)
    if version not in table["cuda"]:
        raise SimcudaError(
            f"no wheels are known for CUDA {version}", next_step=f"one of {', '.join(table['cuda'])}, or vendor.toml"
        )
    variable = os.environ.get("SIMCUDA_WHEELS")
    with explain_os_error(cache, "set SIMCUDA_CACHE to a folder that can be written"):
        cache.mkdir(parents=True, exist_ok=True)
    own = table["cuda"][version]
    wheels = wheels or (Path(variable) if variable else None)
    return Kit(version, site, cache, wheels, own["wheels"], own["soname"], table["folder"])


def match_cuda_version(needed: Iterable[str]) -> str:
    """Return the CUDA version whose runtime is among the SONAMEs that a library needs.

    It is `CUDA` where none of them is a runtime. Raises SimcudaError for a runtime without known wheels.
    """
    versions = tables.read_table(TABLE)["cuda"]
    runtimes = [name for name in needed if name.startswith("libcudart.so.")]
    for version, own in versions.items():
        if own["soname"]["cudart"] in runtimes:
            return str(version)
    if runtimes:
        known = ", ".join(own["soname"]["cudart"] for own in versions.values())
        raise SimcudaError(
            f"this torch needs {runtimes[0]}, and there are stand-ins for {known}",
            next_step="add its wheels to vendor.toml",
        )
    return CUDA


def fetch_wheel(pin: str, cache: Path, wheels: Path | None) -> Path:
    """Return the wheel's headers, from the cache, the folder ``wheels`` or PyPI.

    Of its libraries only the names that they export are kept. What ``wheels`` has needs no pip. Raises SimcudaError.
    """
    folder = cache / pin.replace("==", "-")
    if folder.is_dir():
        return folder
    if wheels and not wheels.is_dir():  # pip would go to PyPI without a word
        raise SimcudaError(f"SIMCUDA_WHEELS: {wheels} is no folder", next_step="name the one that has the wheels")
    part = make_part_folder(folder)
    try:
        given = find_wheel(wheels, pin, "*x86_64") if wheels else None
        unpack_wheel(given or download_wheel(pin, part, wheels), pin, cache, part)
    except BaseException:  # an interrupt, too: one wheel has hundreds of megabytes
        shutil.rmtree(part, ignore_errors=True)
        raise
    return place_folder(part, folder)


def find_wheel(folder: Path, pin: str, tag: str = "*") -> Path | None:
    """Return the file of ``pin`` (name==version) that lies in a folder."""
    name, _, version = pin.partition("==")
    return next(iter(sorted(folder.glob(f"{name.replace('-', '_')}-{version}-{tag}.whl"))), None)


def download_wheel(pin: str, folder: Path, wheels: Path | None) -> Path:
    """Have pip download a wheel into ``folder``. Raises SimcudaError."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64", "-d", str(folder.absolute())]
    if wheels:
        command += ["--find-links", str(wheels.absolute())]
    # not in the current folder, which -m puts first on the path of modules
    done = subprocess.run([*command, pin], capture_output=True, text=True, cwd="/", env=make_python_environment())
    archive = find_wheel(folder, pin)
    if done.returncode or archive is None:
        reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
        own = "set SIMCUDA_WHEELS to a folder that has it"
        raise SimcudaError(
            f"pip download {pin} failed: {reason}",
            next_step=f"install pip for this Python, or {own}" if "No module named pip" in reason else own,
        )
    return archive


def unpack_wheel(wheel: Path, pin: str, cache: Path, folder: Path) -> None:
    """Unpack a wheel's headers into ``folder``, and list what its libraries export.

    Raises SimcudaError for a file that is no wheel or cannot be read, and where there is no room.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [n for n in archive.namelist() if "/include/" in n or "/lib/lib" in n])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SimcudaError(f"{wheel}: {error}", next_step="delete it and fetch it again") from None
    except OSError as error:
        raise SimcudaError(
            f"cannot unpack {wheel} in {cache}: {error.strerror}",
            next_step="look whether it can be read; SIMCUDA_CACHE names a folder with more room",
        ) from None
    if wheel.parent == folder:
        wheel.unlink()
    for library in folder.rglob("lib*.so.*"):
        write_listing(library, locate_listing(cache, pin, library.name))
        library.unlink()


def make_part_folder(folder: Path) -> Path:
    """Make this process's own folder beside ``folder``, which it becomes when whole.

    Raises SimcudaError where nothing can be written there.
    """
    with explain_os_error(folder.parent, "set SIMCUDA_CACHE to a folder that can be written"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part", dir=folder.parent))
    part.chmod(0o755)
    return part


def place_folder(part: Path, folder: Path) -> Path:
    """Give a folder its name when whole, unless another process was quicker."""
    try:
        part.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(part)
    return folder
