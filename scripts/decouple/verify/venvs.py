"""Make environments that wheels are tried in.

There is a virtual environment per combination, made where the wheels were built.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
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
    beside), ``libraries`` the LD_LIBRARY_PATH it needs. Made anew only when the wheels changed. For who holds the
    trials alone; `use_wheels` keeps the environment as it is. Raises DecoupleError as that does.
    """
    with use_wheels(place, name, wheels, packages=packages, libraries=libraries) as made:
        return made


@contextlib.contextmanager
def use_wheels(
    place: Workplace,
    name: str,
    wheels: Sequence[Path],
    *,
    packages: str = "",
    libraries: str = "",
    users: str = "run",
) -> Iterator[TorchEnvironment]:
    """Do what `install_wheels` says, and keep the environment as it is meanwhile.

    Its lock is shared by all who use it, with the same wheels; who makes it anew has the lock alone. Raises
    DecoupleError when pip fails, and where another of ``users`` works there with other wheels.
    """
    folder, inside = place.folder / name, f"{place.inside}/{name}"
    python = f"{inside}/venv/bin/python"
    content = "\n".join([*(compute_sha256(wheel) for wheel in wheels), packages, libraries])
    marker, lock = folder / "content", place.folder / f".{name}.lock"

    def is_made() -> bool:
        return marker.exists() and marker.read_text() == content

    def leave_as_is() -> None:
        raise BlockingIOError

    with contextlib.suppress(BlockingIOError), hold_lock(lock, leave_as_is):
        if not is_made():
            marker.unlink(missing_ok=True)  # first: a kill from here on leaves no mark of what is half deleted
            _make_environment(place, name, wheels, packages)
            write_atomically(marker, content)
    with hold_lock(lock, shared=True):  # waits for who makes it now
        if not is_made():
            raise DecoupleError(
                f"{folder}: another {users} works there with other wheels", next_step="wait until it ends, or stop it"
            )
        variables = {"LD_LIBRARY_PATH": libraries} if libraries else {}
        yield TorchEnvironment(name, tuple(place.environment.argv([python], variables, "/")), folder, inside)


def _make_environment(place: Workplace, name: str, wheels: Sequence[Path], packages: str) -> None:
    """Make the environment ``name`` anew."""
    folder, inside = place.folder / name, f"{place.inside}/{name}"
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
        pip = [f"{inside}/venv/bin/python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
        pip += [f"{inside}/wheels/{wheel.name}" for wheel in wheels]
        run_logged(place.environment.argv(pip, {}, "/"), log=place.log, what=f"install into {name}")
