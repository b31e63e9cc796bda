"""Try what others made for the official torch, as PyPI has it.

It says which projects, and what shows that they work on ours.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import UsageError
from decouple.base.interpreter import run_python
from decouple.verify import audit, third_party_wheels
from decouple.verify.checks import CheckResult
from decouple.verify.elf import Library
from decouple.verify.venvs import TorchEnvironment

_FILE = Path(__file__).with_name("ecosystem.toml")
_ASK = """
import importlib, json, sys, torch
importlib.import_module(sys.argv[1])
has = torch._C._dispatch_has_kernel_for_dispatch_key
print(json.dumps({name: has(name, "CUDA") for name in sys.argv[2:]}))
"""


class Project(Struct, frozen=True):
    """A project with wheels for torch ``release``.

    ``trial`` is a program whose last line matches ``says``.
    """

    release: str
    name: str
    version: str
    trial: str
    says: str
    operators: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """The requirement as pip takes it."""
        return f"{self.name}=={self.version}"


class _File(Struct, frozen=True):
    project: tuple[Project, ...]


@functools.cache
def load_projects(release: str) -> tuple[Project, ...]:
    """Return the projects of ``ecosystem.toml`` for a release ("2.6")."""
    found = toml.read_own_table(_FILE, _File).project
    return tuple(project for project in found if project.release == release)


def select_project(release: str, name: str) -> Project:
    """Return the project of this name. Raises UsageError naming the others."""
    for project in load_projects(release):
        if project.name == name:
            return project
    known = ", ".join(project.name for project in load_projects(release)) or "none"
    raise UsageError(f"{name}: no project of {_FILE.name} for {release}", next_step=f"use one of: {known}")


def try_project(on: TorchEnvironment, project: Project, site: Path, *, cuda: str) -> list[CheckResult]:
    """Use an installed ``project`` on the torch of ``on``.

    Its symbols, its program, and where that torch has a ``cuda`` ("12.4") its operators. ``site`` is the site-packages
    of ``on`` as this side sees it. One that is linked with another CUDA's runtime than that torch brings is not used:
    that is said instead.
    """
    libraries = audit.list_libraries(site / project.name)
    found = [_check_symbols(project, site, libraries)]
    runtimes = {name for library in libraries for name in library.needed if name.startswith("libcudart.so.")}
    if cuda and runtimes and cuda.partition(".")[0] not in {name.split(".")[2] for name in runtimes}:
        said = f"it needs {', '.join(sorted(runtimes))}, and this torch is of CUDA {cuda}"
        return [*found, CheckResult(f"{project.requirement}: not used", True, said, done=False)]
    found.append(_check_program(on, project))
    if cuda:
        found.append(_check_operators(on, project))
    return found


def _check_symbols(project: Project, site: Path, libraries: Sequence[Library]) -> CheckResult:
    """Check that torch and torch_cuda have every torch symbol the project names."""
    offered = [
        library
        for name in ("torch", "torch_cuda")
        if (site / name).is_dir()
        for library in audit.list_libraries(site / name)
    ]
    report = third_party_wheels.audit_elsewhere(project.requirement, libraries, offered)
    said = f"{report.symbols} symbols of torch's, {len(report.faults)} missing"
    return CheckResult(
        f"{project.requirement}: symbols", not report.faults and report.symbols > 0, _append_faults(said, report.faults)
    )


def _check_program(on: TorchEnvironment, project: Project) -> CheckResult:
    done = run_python([*on.prefix, "-c", project.trial])
    said = _read_last_line(done)
    return CheckResult(
        f"{project.requirement}: used", done.returncode == 0 and bool(re.fullmatch(project.says, said)), said
    )


def _check_operators(on: TorchEnvironment, project: Project) -> CheckResult:
    argv = [*on.prefix, "-c", _ASK, project.name, *project.operators]
    done = run_python(argv)
    said, name = _read_last_line(done), f"{project.requirement}: CUDA operators"
    if done.returncode:
        return CheckResult(name, False, said)
    lacking = [operator for operator, there in json.loads(said).items() if not there]
    return CheckResult(
        name, not lacking, _append_faults(f"{len(project.operators)} registered, {len(lacking)} missing", lacking)
    )


def _read_last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a program said last; of one that failed, its status and the error's."""
    *_, said = ["", *(done.stderr if done.returncode else done.stdout).strip().splitlines()]
    return f"exit status {done.returncode}: {said or 'no error told'}" if done.returncode else said


def _append_faults(said: str, faults: Sequence[object]) -> str:
    return said + "".join(f"\n       {fault}" for fault in faults[:10])
