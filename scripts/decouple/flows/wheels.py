"""Choose a machine's wheels of an index, verify them by this checkout, install.

>>> from decouple.flows.wheels import WheelsRequest, choose_wheels, fetch_wheels
>>> from decouple.index.site import build_site
>>> made = build_site(wheel.parent, project / "site")
>>> request = WheelsRequest(project, "2.6", (str(project / "site"),), cuda="cpu")
>>> [one.path.name for one in fetch_wheels(request, choose_wheels(request))]
['torch-2.6.0+decoupled-py3-none-any.whl']
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.interpreter import find_python
from decouple.base.paths import find_cache
from decouple.flows.listener import QUIET, Listener
from decouple.index import choose as choosing
from decouple.index import get, release_list
from decouple.index.choose import ChosenPackages
from decouple.index.remote import Index
from decouple.index.wheel import Wheel
from decouple.series.digest import compute_series_digest
from decouple.upstream.download import Downloader


class WheelsRequest(Struct, frozen=True):
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


class WheelChoice(Struct, frozen=True):
    """Say what to fetch, from which index, and which mirrors to ask else."""

    packages: ChosenPackages
    index: Index
    mirrors: tuple[Index, ...]


def choose_wheels(request: WheelsRequest, listener: Listener = QUIET) -> WheelChoice:
    """Choose the files for the machine, of the first index that has them.

    Raises UsageError, DecoupleError.
    """
    version = get.read_python_version(_find_target(request.into)) if request.into else request.python
    if request.into and request.python not in (None, version):
        raise UsageError(
            f"--python {request.python}: {request.into} is Python {version}", next_step="leave --python out"
        )
    machine = choosing.detect_machine(version)
    indexes = tuple(Index(address, cache=find_cache(), offline=request.offline) for address in request.indexes)
    for number, index in enumerate(indexes):
        try:
            if request.root:
                _apply_signed_list(index, request.root, request.release)
            packages = choosing.choose_packages(index, request.release, machine, request.cuda)
            for line in packages.refused:
                listener.warn(f"{request.indexes[number]}: {line}")
            return WheelChoice(packages, index, indexes[number + 1 :])
        except DecoupleError as error:
            if index is indexes[-1]:
                raise
            listener.warn(f"{request.indexes[number]}: {error.what}; asking the next")
    raise UsageError("no index", next_step="name one")


def _apply_signed_list(index: Index, root: Path, release: str) -> None:
    """Take from the index only what its signed list names."""
    listed = release_list.read_current_list(index, root, release, find_cache())
    index.narrow = lambda page: release_list.narrow_page(page, listed, release)


def fetch_wheels(request: WheelsRequest, choice: WheelChoice, listener: Listener = QUIET) -> list[Wheel]:
    """Fetch the files, verify and, with ``into``, install them.

    Raises DecoupleError: nothing is installed then.
    """
    expected = None if request.any_series else compute_series_digest(request.project, request.release)
    if request.any_series:
        listener.warn("WARNING: --trust-index: these wheels may hold another series than this checkout's")
    folder = request.folder or request.project / "dist" / request.release
    downloader = Downloader(find_cache(), offline=request.offline, progress=listener.progress)
    trust = get.Trust(expected, request.key)
    wheels = get.get_wheels(choice.index, choice.packages.packages, folder, trust, downloader, choice.mirrors)
    for wheel in wheels:
        listener.say(f"verified {wheel.path}")
    if request.into:
        get.install_wheels(wheels, _find_target(request.into))
    return wheels


def _find_target(into: Path) -> Path:
    """Return the path of the interpreter: pip takes no name."""
    return find_python(into, get.NAME_PYTHON)


def find_active_python(project: Path) -> Path:
    """Return the active virtual environment's interpreter, else the running one.

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
