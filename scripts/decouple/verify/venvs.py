"""Environments that wheels are tried in: a virtual environment per combination, made inside the build environment."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import sha256_of
from decouple.build.environment import Environment, run
from decouple.build.mounts import remove_tree


@dataclass(frozen=True)
class Tried:
    """A Python with torch in it: ``prefix`` is the command line that starts it from outside."""

    name: str
    prefix: tuple[str, ...]
    folder: Path
    inside: str


def install(
    environment: Environment, name: str, wheels: Sequence[Path], *, log: Path, packages: str = "", libraries: str = ""
) -> Tried:
    """A virtual environment ``name`` with ``wheels`` installed by pip, without dependencies (the root has them).

    ``packages`` is a folder of packages put on its path (a torch unpacked beside), ``libraries`` the LD_LIBRARY_PATH it
    needs. Made anew only when the wheels changed. Raises DecoupleError when pip fails.
    """
    places, names = environment.places, environment.names()
    folder = places.verify / name
    inside = f"{names['verify']}/{name}"
    content = "\n".join([*(sha256_of(wheel) for wheel in wheels), packages, libraries])
    marker = folder / "content"
    if not (marker.exists() and marker.read_text() == content):
        remove_tree(folder)
        folder.mkdir(parents=True)
        box = places.raw / f"verify-{name}"
        remove_tree(box)
        box.mkdir(parents=True)
        for wheel in wheels:
            shutil.copy2(wheel, box)
        venv = ["python3", "-m", "venv", "--system-site-packages", f"{inside}/venv"]
        run(environment, venv, variables={}, start="/", log=log, what=f"virtual environment {name}")
        if packages:
            site = next((folder / "venv/lib").glob("python3*/site-packages"))
            (site / "beside.pth").write_text(packages + "\n")
        if wheels:
            pip = [f"{inside}/venv/bin/python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
            pip += [f"{names['raw']}/{box.name}/{wheel.name}" for wheel in wheels]
            run(environment, pip, variables={}, start="/", log=log, what=f"install into {name}")
        remove_tree(box)
        marker.write_text(content)
    variables = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    argv = environment.argv([f"{inside}/venv/bin/python"], variables, "/")
    if not (folder / "venv").exists():
        raise DecoupleError(f"{folder}: no virtual environment was made", next_step=f"read {log}")
    return Tried(name, tuple(argv), folder, inside)
