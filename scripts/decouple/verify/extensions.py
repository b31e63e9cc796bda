"""Compile and import third-party CUDA extensions on the wheels and the monolith."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from decouple.base import program_output, toml
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import open_for_append
from decouple.base.mounts import remove_tree
from decouple.base.process import run_logged
from decouple.release.manifest import RemoteFile
from decouple.upstream.unpack import unpack_tar
from decouple.verify import elf
from decouple.verify.audit import make_library_pattern
from decouple.verify.checks import CheckResult
from decouple.verify.venvs import TorchEnvironment, Workplace

_FILE = Path(__file__).with_name("extensions.toml")


class Extension(Struct, frozen=True):
    """A project to compile: a ``folder`` of this repository, or an ``sdist``.

    ``says`` matches the trial's last line. pip makes a wheel of it, and ``trial`` is a program that uses that; or
    ``script``, a file of this repository, is run in the unpacked folder and does all by itself. Paths of the last kind
    and of the folder are relative to here.
    """

    name: str
    says: str
    trial: str = ""
    script: str = ""
    folder: str = ""
    sdist: RemoteFile | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of its build and its use; ``{project}`` in a value is this repository."""
    finds_torch: bool = False
    """By CMake's ``find_package(Torch)``. An unmodified core answers it without torch_cuda."""

    def __post_init__(self) -> None:
        if bool(self.folder) == bool(self.sdist):
            raise ValueError(f"{self.name}: `folder` or [extension.sdist], and not both")
        if bool(self.trial) == bool(self.script):
            raise ValueError(f"{self.name}: `trial` or `script`, and not both")

    @property
    def source(self) -> Path | RemoteFile:
        """The folder, relative to this repository, or what to download."""
        return self.sdist or Path(self.folder)


class _File(Struct, frozen=True):
    extension: tuple[Extension, ...]
    compilers: Mapping[str, Mapping[str, str]]


@cache
def _load_file() -> _File:
    return toml.read_own_table(_FILE, _File)


def load_extensions() -> tuple[Extension, ...]:
    """Read the projects of ``extensions.toml``."""
    return _load_file().extension


def select_extensions(names: Collection[str]) -> tuple[Extension, ...]:
    """Return the projects of these names, or all. Raises UsageError naming the others."""
    known = [extension.name for extension in load_extensions()]
    for name in names:
        if name not in known:
            raise UsageError(f"{name}: no project of {_FILE.name}", next_step=f"use one of: {', '.join(known)}")
    return tuple(extension for extension in load_extensions() if not names or extension.name in names)


def select_compilers(kind: str) -> Mapping[str, str]:
    """Return the compilers' variables in an environment, or with a toolkit.

    ``kind`` is the environment's, or another vendor's toolkit's name. ``torch.utils.cpp_extension`` needs them.
    """
    return _load_file().compilers.get(kind, {})


def unpack_project(sdist: Path, target: Path) -> None:
    """Put a project's folder, or the one folder in its sdist, at ``target``.

    Raises DecoupleError on an odd sdist.
    """
    remove_tree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if sdist.is_dir():
        shutil.copytree(sdist, target)
        return
    unpack_tar(sdist, target)


def compile_and_try(
    place: Workplace,
    both: TorchEnvironment,
    extension: Extension,
    sdist: Path,
    variables: Mapping[str, str],
    project: str = "",
) -> CheckResult:
    """Compile the project with the torch of ``both`` and use it.

    A fault fails the check. ``variables`` are those of the compilers and the architectures; ``sdist`` is a folder or an
    sdist on this machine; ``project`` is this repository as the environment sees it.
    """
    name = f"CUDAExtension: {extension.name}" if extension.trial else f"CUDA project: {extension.name}"
    folder, inside = both.folder / "extensions" / extension.name, f"{both.inside}/extensions/{extension.name}"
    python = both.prefix[-1]
    began = time.monotonic()
    try:
        unpack_project(sdist, folder / "source")
        environment = {key: value.format(project=project) for key, value in extension.environment.items()}
        given = {**variables, **environment}
        if extension.trial:
            _install_wheel(place, python, extension, folder, inside, given)
            where, command = "/", [python, "-c", extension.trial]
            given["PYTHONPATH"] = f"{inside}/site"
        else:
            where, command = f"{inside}/source", [python, f"{project}/{extension.script}"]
        done = program_output.run_program(place.environment.argv(command, given, where))
        _append_log(place.log, extension.name, done.stdout + done.stderr)
    except DecoupleError as error:
        return CheckResult(name, False, str(error))
    took = time.monotonic() - began
    told = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    last = told[-1] if told else f"exit status {done.returncode}"
    if done.returncode:
        return CheckResult(name, False, f"{last}; read {place.log}")
    needed = _list_cuda_libraries(folder / ("site" if extension.trial else "source"))
    right = re.fullmatch(extension.says, last) is not None and bool(needed)
    return CheckResult(name, right, f"{last}; needs {', '.join(needed) or 'no CUDA library'}; compiled in {took:.0f} s")


def _list_cuda_libraries(folder: Path) -> list[str]:
    """Return CUDA's libraries that what was linked in ``folder`` needs.

    Objects are not linked, and not executable.
    """
    linked = [path for path in folder.rglob("*") if path.is_file() and os.access(path, os.X_OK) and elf.is_elf(path)]
    return sorted(
        {
            library
            for path in linked
            for library in elf.read_library(path).needed
            if make_library_pattern().match(library)
        }
    )


def _install_wheel(
    place: Workplace, python: str, extension: Extension, folder: Path, inside: str, given: Mapping[str, str]
) -> None:
    """Build the project's wheel and install it into ``site`` beside its source.

    Raises DecoupleError when pip fails.
    """
    pip = [python, "-m", "pip"]
    quiet = ["-q", "--no-deps", "--no-index"]
    for made in ("wheel", "site"):  # by an earlier run, perhaps of another version
        remove_tree(folder / made)
    build = [*pip, "wheel", *quiet, "--no-build-isolation", "-w", f"{inside}/wheel", f"{inside}/source"]
    _run_command(place, build, given, f"wheel of {extension.name}")
    wheel = next((folder / "wheel").glob("*.whl"))
    install = [*pip, "install", *quiet, "--target", f"{inside}/site", f"{inside}/wheel/{wheel.name}"]
    _run_command(place, install, given, f"install {extension.name}")


def _append_log(log: Path, name: str, said: str) -> None:
    """Append the output of a trial or script to the log.

    It may be a compiler's whole output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open_for_append(log) as out:
        out.write(f"== use of {name}\n{said}\n")


def _run_command(place: Workplace, command: Sequence[str], variables: Mapping[str, str], what: str) -> None:
    run_logged(place.environment.argv(command, variables, "/"), log=place.log, what=what)
