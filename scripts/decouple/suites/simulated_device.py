"""Provide the simulated device to a Debian root, which has no network.

What it is made from is built or fetched outside.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from decouple.base import program_output
from decouple.base.errors import DecoupleError
from decouple.base.files import make_work_folder, remove_folder
from decouple.base.interpreter import OWN
from decouple.base.paths import read_folder_variable

#: Words of `simcuda` that name the folders of a torch that Debian packaged, per word of ``--torch``.
TORCH_FOLDERS = {
    "monolith": (
        "--torch-include", "/opt/monolith/usr/include",
        "--torch-include", "/opt/monolith/usr/include/torch/csrc/api/include",
        "--torch-lib", "/opt/monolith/usr/lib/x86_64-linux-gnu",
    )
}  # fmt: skip


def select_unset_table(release: str, project: str) -> tuple[str, ...]:
    """Return the options of `simcuda` for the argument bytes that nobody sets.

    They were learned per release; empty where there are none of ``release``. ``project`` is this checkout as the tests
    see it.
    """
    file = f"scripts/decouple/suites/unset-{release}.xz"
    return ("--unset", f"{project}/{file}") if (Path(__file__).parents[3] / file).exists() else ()


def hash_simulator() -> str:
    """Return a digest of the simulated device's sources.

    Results and ledgers depend on them.
    """
    folder, digest = Path(__file__).parents[2] / "simcuda", hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".h", ".py", ".toml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def select_cache(device: str, cache: Path) -> dict[str, str]:
    """Return the variables that make a Python take the stand-ins of the roots.

    It is a Python of this machine; the roots' torches share the stand-ins. With a cache of its own it fetched NVIDIA's
    wheels and compiled everything once more. SIMCUDA_CACHE goes before. The folders are absolute: the tests run in
    another one. Raises UsageError for one that begins with "~".
    """
    if device != "simulated":
        return {}
    folders = {
        "SIMCUDA_CACHE": read_folder_variable("SIMCUDA_CACHE") or cache / "simcuda",
        "SIMCUDA_WHEELS": read_folder_variable("SIMCUDA_WHEELS"),
    }
    return {name: str(folder) for name, folder in folders.items() if folder}


def share_stand_ins(cache: Path, shared: Path, project: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Build the stand-in libraries in ``cache`` and copy them to ``shared``.

    The headers that a shadow needs are copied too. The first time NVIDIA's wheels are read for the names that its
    libraries export: from PyPI, or from the folder that SIMCUDA_WHEELS names. Raises DecoupleError with simcuda's own
    message.
    """
    say("simulated device: the stand-ins")
    command = [*OWN, "-m", "simcuda", "build", "--no-torch"]
    path = ":".join(filter(None, [str((project / "scripts").absolute()), os.environ.get("PYTHONPATH", "")]))
    variables = {**os.environ, "SIMCUDA_CACHE": str(cache), "PYTHONPATH": path}
    process = program_output.run_program(command, variables)
    if process.returncode:
        raise _parse_failure(process, path)
    stand_ins = Path(process.stdout.strip().splitlines()[-1])
    _copy_folders([(stand_ins, ".")], shared / "stand-ins" / stand_ins.name, "done")
    for folder in (cache / "wheels").iterdir():
        # no ".part…", which another run is unpacking, or one that was killed has left
        if (folder / "nvidia").is_dir() and ".part" not in folder.name:
            _copy_headers(folder, shared / "wheels" / folder.name)


def _parse_failure(process: subprocess.CompletedProcess[str], path: str) -> DecoupleError:
    """Return simcuda's own message and hint as an error."""
    message, hint = program_output.read_failure(process)
    return DecoupleError(
        f"the simulated device: {message.removeprefix('simcuda: ')}",
        next_step=hint or f"PYTHONPATH={shlex.quote(path)} python -m simcuda build --no-torch",
    )


def _copy_headers(wheel: Path, target: Path) -> None:
    """Copy the headers of an unpacked wheel, once."""
    _copy_folders([(include, str(include.relative_to(wheel))) for include in wheel.glob("nvidia/*/include")], target)


def _copy_folders(folders: Sequence[tuple[Path, str]], target: Path, mark: str = "") -> None:
    """Copy each folder to its place in ``target``, once.

    ``target`` is whole where it is there, or the file ``mark`` in it; so it gets its name when all is copied.
    """
    if not folders or (target / mark).exists():
        return
    with make_work_folder(target.parent, target.name) as part:
        if (target / mark).exists():  # by another run, which held the lock
            return
        for folder, place in folders:
            shutil.copytree(folder, part / target.name / place)
        remove_folder(target, ignore_errors=True)
        (part / target.name).rename(target)
