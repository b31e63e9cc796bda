"""The simulated device in a Debian root, which has no network: what it is made from is made or fetched outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.python import OWN

#: Words of `simcuda` that name the folders of a torch that Debian packaged, per word of ``--torch``.
FOLDERS = {
    "monolith": (
        "--torch-include", "/opt/monolith/usr/include",
        "--torch-include", "/opt/monolith/usr/include/torch/csrc/api/include",
        "--torch-lib", "/opt/monolith/usr/lib/x86_64-linux-gnu",
    )
}  # fmt: skip


def unset(release: str, project: str) -> tuple[str, ...]:
    """Words of `simcuda` that name the argument bytes that nobody sets, where they were learned of ``release``.

    ``project`` is this checkout as the tests see it.
    """
    file = f"scripts/decouple/suites/unset/{release}.txt"
    return ("--unset", f"{project}/{file}") if (Path(__file__).parents[3] / file).exists() else ()


def share(cache: Path, shared: Path, project: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Make the stand-ins in ``cache``, and put them with the headers that a shadow needs into ``shared``.

    The first time NVIDIA's wheels are read for the names that its libraries export: from PyPI, or from the folder that
    SIMCUDA_WHEELS names. Raises DecoupleError in the words of simcuda.
    """
    say("simulated device: the stand-ins")
    command = [*OWN, "-m", "simcuda", "build", "--no-torch"]
    path = ":".join(filter(None, [str((project / "scripts").absolute()), os.environ.get("PYTHONPATH", "")]))
    variables = {**os.environ, "SIMCUDA_CACHE": str(cache), "PYTHONPATH": path}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise _failure(done, path)
    made = Path(done.stdout.strip().splitlines()[-1])
    here = shared / "stand-ins" / made.name
    if not (here / "done").exists():
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(made, here)
    wheels = cache / "wheels"
    for folder in (entry for entry in wheels.iterdir() if entry.is_dir() and (entry / "nvidia").is_dir()):
        _headers(folder, shared / "wheels" / folder.name)


def _failure(done: subprocess.CompletedProcess[str], path: str) -> DecoupleError:
    """What simcuda says is wrong, and its own hint."""
    said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    what, mark, hint = said[-2:][0], "  next: ", said[-1]
    if len(said) < 2 or not hint.startswith(mark):  # ended in another way than by an error that it tells
        what, hint = said[-1], f"{mark}PYTHONPATH={path} python -m simcuda build --no-torch"
    return DecoupleError(f"the simulated device: {what.removeprefix('simcuda: ')}", next_step=hint.removeprefix(mark))


def _headers(wheel: Path, here: Path) -> None:
    """Copy the headers of an unpacked wheel, once."""
    if here.exists():
        return
    for include in wheel.glob("nvidia/*/include"):
        shutil.copytree(include, here / include.relative_to(wheel))
