"""Prebuilt wheels of an index: the pair for a machine, verified against this checkout, and installed.

>>> from decouple.flows.wheels import Wheels, choose, take
>>> from decouple.index.site import build
>>> made = build(wheel.parent, project / "site")
>>> request = Wheels(project, "2.6", (str(project / "site"),), cuda="cpu")
>>> [one.path.name for one in take(request, choose(request))]
['torch-2.6.0+decoupled-py3-none-any.whl']
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import cache_dir
from decouple.flows.listener import QUIET, Listener
from decouple.index import choose as choosing
from decouple.index import get, release_list
from decouple.index.choose import ChosenPackages
from decouple.index.remote import Index
from decouple.index.wheel import Wheel
from decouple.series.digest import series_digest
from decouple.upstream.download import Downloader


class Wheels(Struct, frozen=True):
    """Which release, from where, for which machine, and whom to trust."""

    project: Path
    release: str
    indexes: tuple[str, ...]
    """Addresses of ``simple/``, or folders of sites; the others are asked when the first one fails."""
    cuda: str | None = None
    """"cu124", "cpu"; None: what the driver runs."""
    python: str | None = None
    """"3.13", for another Python than this one."""
    into: Path | None = None
    """The interpreter that they are for, and that they are installed into."""
    folder: Path | None = None
    """Where the files go; None: ``dist/<release>``."""
    key: Path | None = None
    """The public key that must have signed them."""
    root: Path | None = None
    """The index's ``root.json``: only what its signed list names is taken."""
    any_series: bool = False
    """Take wheels of another series than this checkout's."""
    offline: bool = False


class FoundWheels(Struct, frozen=True):
    """What to fetch, from which index, and the ones to ask for a file that it does not give."""

    packages: ChosenPackages
    index: Index
    mirrors: tuple[Index, ...]


def choose(request: Wheels, listener: Listener = QUIET) -> FoundWheels:
    """The files for the machine, of the first index that has them. Raises UsageError, DecoupleError."""
    version = get.version_of(request.into) if request.into else request.python
    if request.into and request.python not in (None, version):
        raise UsageError(
            f"--python {request.python}: {request.into} is Python {version}", next_step="leave --python out"
        )
    machine = choosing.this_machine(version)
    indexes = tuple(Index(address, cache=cache_dir(), offline=request.offline) for address in request.indexes)
    for number, index in enumerate(indexes):
        try:
            if request.root:
                _hold_to_list(index, request.root, request.release)
            packages = choosing.choose(index, request.release, machine, request.cuda)
            for line in packages.refused:
                listener.warn(f"{request.indexes[number]}: {line}")
            return FoundWheels(packages, index, indexes[number + 1 :])
        except DecoupleError as error:
            if index is indexes[-1]:
                raise
            listener.warn(f"{request.indexes[number]}: {error.what}; asking the next")
    raise UsageError("no index", next_step="name one")


def _hold_to_list(index: Index, root: Path, release: str) -> None:
    """Take from the index only what its signed list names."""
    listed = release_list.current(index, root, release, cache_dir())
    index.narrow = lambda page: release_list.narrowed(page, listed, release)


def take(request: Wheels, found: FoundWheels, listener: Listener = QUIET) -> list[Wheel]:
    """The files, fetched, verified and, with ``into``, installed. Raises DecoupleError: nothing is installed then."""
    expected = None if request.any_series else series_digest(request.project, request.release)
    if request.any_series:
        listener.warn("WARNING: --trust-index: these wheels may hold another series than this checkout's")
    folder = request.folder or request.project / "dist" / request.release
    downloader = Downloader(cache_dir(), offline=request.offline, progress=listener.progress)
    trust = get.Trust(expected, request.key)
    wheels = get.get(found.index, found.packages.packages, folder, trust, downloader, found.mirrors)
    for wheel in wheels:
        listener.say(f"verified {wheel.path}")
    if request.into:
        get.install(wheels, request.into)
    return wheels


def active_python(project: Path) -> Path:
    """The active virtual environment's interpreter, else the running one.

    Raises UsageError rather than install into nox's environment of this checkout.
    """
    active = os.environ.get("VIRTUAL_ENV")
    if active:
        return Path(active) / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if Path(sys.prefix).is_relative_to(project / ".nox"):
        raise UsageError(
            "--install: no virtual environment is active",
            next_step="activate one, or name a Python: --into PATH/bin/python",
        )
    return Path(sys.executable)
