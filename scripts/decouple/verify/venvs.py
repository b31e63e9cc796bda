"""Make environments that wheels are tried in.

There is a virtual environment per combination, made where the wheels were built.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.files import compute_sha256, hold_lock, write_atomically
from decouple.base.mounts import remove_tree
from decouple.base.process import CommandPlace, run_logged


class Workplace(Struct, frozen=True):
    """An environment, and a folder that both sides see.

    ``folder`` is its name from outside, ``inside`` from in there.
    """

    environment: CommandPlace
    folder: Path
    inside: str
    log: Path


class TorchEnvironment(Struct, frozen=True):
    """A Python with torch in it.

    ``prefix`` is the command line that starts it from outside.
    """

    name: str
    prefix: tuple[str, ...]
    folder: Path
    inside: str


def install_wheels(
    place: Workplace, name: str, wheels: Sequence[Path], *, packages: str = "", libraries: str = ""
) -> TorchEnvironment:
    """Make a virtual environment ``name`` with ``wheels`` installed by pip.

    Without dependencies (the root has them). ``packages`` is a folder of packages put on its path (a torch unpacked
    beside), ``libraries`` the LD_LIBRARY_PATH it needs. Made anew only when the wheels changed, and of two runs at once
    by one. Raises DecoupleError when pip fails.
    """
    with hold_lock(place.folder / f".{name}.lock"):
        return _install_wheels(place, name, wheels, packages, libraries)


def _install_wheels(
    place: Workplace, name: str, wheels: Sequence[Path], packages: str, libraries: str
) -> TorchEnvironment:
    """Do what `install_wheels` says; no other run makes that environment now."""
    folder, inside = place.folder / name, f"{place.inside}/{name}"
    python = f"{inside}/venv/bin/python"
    content = "\n".join([*(compute_sha256(wheel) for wheel in wheels), packages, libraries])
    marker = folder / "content"
    if not (marker.exists() and marker.read_text() == content):
        marker.unlink(missing_ok=True)  # first: a kill from here on leaves no mark of what is half deleted
        remove_tree(folder)
        (folder / "wheels").mkdir(parents=True)
        for wheel in wheels:
            shutil.copy2(wheel, folder / "wheels")
        venv = ["python3", "-m", "venv", "--system-site-packages", f"{inside}/venv"]
        run_logged(place.environment.argv(venv, {}, "/"), log=place.log, what=f"virtual environment {name}")
        if packages:
            site = next((folder / "venv/lib").glob("python3*/site-packages"))
            (site / "beside.pth").write_text(packages + "\n")
        if wheels:
            pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
            pip += [f"{inside}/wheels/{wheel.name}" for wheel in wheels]
            run_logged(place.environment.argv(pip, {}, "/"), log=place.log, what=f"install into {name}")
        write_atomically(marker, content)
    variables = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    return TorchEnvironment(name, tuple(place.environment.argv([python], variables, "/")), folder, inside)
