"""Third-party CUDA extensions: they must compile and import against the wheels as they do against the monolith."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.base.mounts import remove_tree
from decouple.base.process import run_logged
from decouple.release.manifest import RemoteFile
from decouple.verify.audit import cuda_library, libraries
from decouple.verify.checks import Promise
from decouple.verify.venvs import Tried, Workplace

_FILE = Path(__file__).with_name("extensions.toml")


class Extension(Struct, frozen=True):
    """To compile: a ``folder`` of this repository, or an ``sdist``; ``says`` matches the trial's last line."""

    name: str
    trial: str
    says: str
    folder: str = ""
    sdist: RemoteFile | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if bool(self.folder) == bool(self.sdist):
            raise ValueError(f"{self.name}: `folder` or [extension.sdist], and not both")

    @property
    def source(self) -> Path | RemoteFile:
        """The folder, relative to this repository, or what to download."""
        return self.sdist or Path(self.folder)


class _File(Struct, frozen=True):
    extension: tuple[Extension, ...]
    compilers: Mapping[str, Mapping[str, str]]


@cache
def _facts() -> _File:
    return toml.read(_FILE, _File, mend=f"git checkout {_FILE}")


def load() -> tuple[Extension, ...]:
    """The projects of ``extensions.toml``."""
    return _facts().extension


def compilers(kind: str) -> Mapping[str, str]:
    """The variables that ``torch.utils.cpp_extension`` needs in an environment of this kind."""
    return _facts().compilers.get(kind, {})


def lay(sdist: Path, target: Path) -> None:
    """Put a project's folder, or the one folder in its sdist, at ``target``. Raises DecoupleError on an odd sdist."""
    remove_tree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if sdist.is_dir():
        shutil.copytree(sdist, target)
        return
    opened = target.with_name(target.name + ".opened")
    remove_tree(opened)
    with tarfile.open(sdist) as archive:
        archive.extractall(opened, filter="data")
    folders = [path for path in opened.iterdir() if path.is_dir()]
    if len(folders) != 1:
        raise DecoupleError(
            f"{sdist.name}: {len(folders)} folders at its top, an sdist has one",
            next_step="name another sdist in extensions.toml",
        )
    folders[0].rename(target)
    remove_tree(opened)


def compile_and_try(
    place: Workplace, both: Tried, extension: Extension, sdist: Path, variables: Mapping[str, str]
) -> Promise:
    """Build the project's wheel with the torch of ``both``, install it beside, run its trial; a fault fails the check.

    ``variables`` are those of the compilers and the architectures; ``sdist`` is a folder or an sdist on this machine.
    """
    name = f"CUDAExtension: {extension.name}"
    folder, inside = both.folder / "extensions" / extension.name, f"{both.inside}/extensions/{extension.name}"
    python = f"{both.inside}/venv/bin/python"
    pip = [python, "-m", "pip"]
    quiet = ["-q", "--no-deps", "--no-index"]
    given = {**variables, **extension.environment}
    began = time.monotonic()
    try:
        lay(sdist, folder / "source")
        for made in ("wheel", "site"):  # by an earlier run, perhaps of another version
            remove_tree(folder / made)
        build = [*pip, "wheel", *quiet, "--no-build-isolation", "-w", f"{inside}/wheel", f"{inside}/source"]
        _run(place, build, given, f"wheel of {extension.name}")
        wheel = next((folder / "wheel").glob("*.whl"))
        install = [*pip, "install", *quiet, "--target", f"{inside}/site", f"{inside}/wheel/{wheel.name}"]
        _run(place, install, given, f"install {extension.name}")
        needed = sorted({lib for one in libraries(folder / "site") for lib in one.needed if cuda_library().match(lib)})
    except DecoupleError as error:
        return Promise(name, False, str(error))
    took = time.monotonic() - began
    environment = {**given, "PYTHONPATH": f"{inside}/site"}
    done = subprocess.run(
        place.environment.argv([python, "-c", extension.trial], environment, "/"),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    told = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    last = told[-1] if told else f"exit status {done.returncode}"
    right = done.returncode == 0 and re.fullmatch(extension.says, last) is not None and bool(needed)
    return Promise(name, right, f"{last}; needs {', '.join(needed) or 'no CUDA library'}; compiled in {took:.0f} s")


def _run(place: Workplace, command: Sequence[str], variables: Mapping[str, str], what: str) -> None:
    run_logged(place.environment.argv(command, variables, "/"), log=place.log, what=what)
