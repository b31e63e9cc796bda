"""What others made for the official torch, as PyPI has it: which projects, and what shows that they work on ours."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import UsageError
from decouple.base.python import run_elsewhere
from decouple.verify import audit, elsewhere
from decouple.verify.checks import Promise
from decouple.verify.elf import Library
from decouple.verify.venvs import Tried

_FILE = Path(__file__).with_name("ecosystem.toml")
_ASK = """
import importlib, json, sys, torch
importlib.import_module(sys.argv[1])
has = torch._C._dispatch_has_kernel_for_dispatch_key
print(json.dumps({name: has(name, "CUDA") for name in sys.argv[2:]}))
"""


class Project(Struct, frozen=True):
    """A project with wheels for torch ``release``: ``trial`` is a program whose last line matches ``says``."""

    release: str
    name: str
    version: str
    trial: str
    says: str
    operators: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """As pip takes it."""
        return f"{self.name}=={self.version}"


class _File(Struct, frozen=True):
    project: tuple[Project, ...]


@functools.cache
def load(release: str) -> tuple[Project, ...]:
    """Those of ``ecosystem.toml`` for a release ("2.6")."""
    found = toml.read(_FILE, _File, mend=f"git checkout {_FILE}").project
    return tuple(one for one in found if one.release == release)


def named(release: str, name: str) -> Project:
    """One of them. Raises UsageError naming the others."""
    for one in load(release):
        if one.name == name:
            return one
    known = ", ".join(one.name for one in load(release)) or "none"
    raise UsageError(f"{name}: no project of {_FILE.name} for {release}", next_step=f"use one of: {known}")


def tried(on: Tried, project: Project, site: Path, *, cuda: str) -> list[Promise]:
    """``project``, installed in ``site`` (the site-packages of ``on`` as this side sees it), used on the torch there:
    its symbols, its program, and where that torch has a ``cuda`` ("12.4") its operators.

    One that is linked with another CUDA's runtime than that torch brings is not used: that is said instead.
    """
    libraries = audit.libraries(site / project.name)
    found = [_symbols(project, site, libraries)]
    runtimes = {name for one in libraries for name in one.needed if name.startswith("libcudart.so.")}
    if cuda and runtimes and cuda.partition(".")[0] not in {name.split(".")[2] for name in runtimes}:
        said = f"it needs {', '.join(sorted(runtimes))}, and this torch is of CUDA {cuda}"
        return [*found, Promise(f"{project.requirement}: not used", True, said)]
    found.append(_program(on, project))
    if cuda:
        found.append(_operators(on, project))
    return found


def _symbols(project: Project, site: Path, libraries: Sequence[Library]) -> Promise:
    """Every symbol of torch that its libraries name is in the libraries of torch and torch_cuda."""
    offered = [
        one for name in ("torch", "torch_cuda") if (site / name).is_dir() for one in audit.libraries(site / name)
    ]
    report = elsewhere.audit_elsewhere(project.requirement, libraries, offered)
    said = f"{report.symbols} symbols of torch's, {len(report.faults)} missing"
    return Promise(
        f"{project.requirement}: symbols", not report.faults and report.symbols > 0, _with(said, report.faults)
    )


def _program(on: Tried, project: Project) -> Promise:
    done = run_elsewhere([*on.prefix, "-c", project.trial])
    lines = (done.stdout if done.returncode == 0 else done.stdout + done.stderr).strip().splitlines() or [""]
    return Promise(f"{project.requirement}: used", bool(re.fullmatch(project.says, lines[-1])), lines[-1])


def _operators(on: Tried, project: Project) -> Promise:
    argv = [*on.prefix, "-c", _ASK, project.name, *project.operators]
    done = run_elsewhere(argv)
    lines = (done.stdout or done.stderr).strip().splitlines() or [""]
    name = f"{project.requirement}: CUDA operators"
    if done.returncode:
        return Promise(name, False, lines[-1])
    lacking = [operator for operator, there in json.loads(lines[-1]).items() if not there]
    return Promise(name, not lacking, _with(f"{len(project.operators)} registered, {len(lacking)} missing", lacking))


def _with(said: str, faults: Sequence[object]) -> str:
    return said + "".join(f"\n       {one}" for one in faults[:10])
