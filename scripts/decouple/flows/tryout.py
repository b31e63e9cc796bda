"""Finished wheels on a bare system, as a user installs them: by its own Python and pip, from PyPI, on top of nothing.

>>> from pathlib import Path
>>> from decouple.flows.tryout import fitting
>>> fitting([Path("torch-2.6.0-cp311-cp311-manylinux_2_31_x86_64.whl"), Path("torch-2.6.0-cp39-cp39-any.whl")], "3.11")
[PosixPath('torch-2.6.0-cp311-cp311-manylinux_2_31_x86_64.whl')]
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import parse_wheel_filename

from decouple.base import programs
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.mounts import remove_tree
from decouple.base.paths import cache_dir
from decouple.base.process import run_logged
from decouple.build import preflight, rootfs, systems
from decouple.build.rootfs import Root
from decouple.build.sandbox import Bind, clean_environment
from decouple.build.systems import System
from decouple.flows import portable
from decouple.flows.environment import Work, need_tree
from decouple.flows.listener import QUIET, Listener
from decouple.release import projects
from decouple.upstream.download import Downloader
from decouple.verify import ecosystem, upstream_tests
from decouple.verify.checks import CheckResult
from decouple.verify.venvs import TorchEnvironment

_INSIDE = "/run/tryout"
_TEST = "/run/upstream/test"
_TOOLS = ("pytest", "expecttest", "hypothesis", "numpy", "psutil")
"""What upstream's tests import."""


class Tryout(Work, frozen=True):
    """Which wheels, on which system, and what is tried there."""

    system: str = ""
    wheels: tuple[Path, ...] = ()
    """Empty: those of ``dist/<release>`` for the system's Python."""
    projects: tuple[str, ...] = ()
    """Of ``ecosystem.toml``: installed from PyPI on top, and used."""
    tests: bool = True
    """Run upstream's CPU tests."""
    keep: bool = False
    """Leave the virtual environment behind."""


class Bare(Struct, frozen=True):
    """A bare system, with ``folder`` shown in it and upstream's tests beside."""

    root: Root
    binds: tuple[Bind, ...]

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        """As `decouple.base.process.Inside`; without network."""
        return self.root.sandbox(self.binds).command([*clean_environment(variables), *command], start=start)

    def online(self, command: Sequence[str]) -> list[str]:
        """The same with network, for pip, which gets this machine's settings of pip; an index may be named with its
        password."""
        named = [os.environ.get("PIP_CERT", ""), *os.environ.get("PIP_FIND_LINKS", "").split()]
        paths = [Path(name) for name in ("/etc/resolv.conf", "/etc/pip.conf", *named)]
        shown = [Bind(path, str(path)) for path in paths if path.is_absolute() and path.exists()]
        environment = clean_environment({}, network=True, inherited=("PIP_",))
        return self.root.sandbox([*self.binds, *shown]).command([*environment, *command], network=True)


def tryout(request: Tryout, listener: Listener = QUIET) -> tuple[CheckResult, ...]:
    """Install and use the wheels. Raises UsageError without a wheel for that Python, DecoupleError when pip fails."""
    system = systems.named(request.system)
    asked = [ecosystem.select_project(request.release, name) for name in request.projects]
    places = request.places
    wheels = fitting(request.wheels or sorted(places.dist.glob("*.whl")), system.python)
    core = [wheel for wheel in wheels if _project(wheel) == projects.CORE]
    if len(core) != 1:
        raise UsageError(
            f"{places.dist}: {len(core)} core wheels for Python {system.python}, which {system.name} has",
            next_step=f"decouple build {request.release} --env portable --stage 1 --python {system.python}, or --wheel",
        )
    preflight.check(cache_dir(), system.description())
    shown = []
    if request.tests:
        need_tree(replace(request, env=portable.KIND), places, listener)
        shown.append(Bind(places.tree / "test", _TEST))
    folder = places.stage2.parent / "tryout" / system.name
    remove_tree(folder)
    folder.mkdir(parents=True)
    for wheel in wheels:
        shutil.copy2(wheel, folder)
    bare = Bare(_root(system, listener), (Bind(folder, _INSIDE), *shown))
    try:
        pip = _installed(bare, system, wheels, listener)
        on = TorchEnvironment(system.name, tuple(bare.argv([f"{_INSIDE}/venv/bin/python"], {}, "/")), folder, _INSIDE)
        site = next((folder / "venv/lib").glob("python3*/site-packages"))
        before = _version(bare)
        # first, for upstream's tests use a torchvision that is there, and one for another CUDA cannot be imported
        tests = [_tests(bare, on, listener)] if request.tests else []
        found = _on_top(bare, system, pip, [one.requirement for one in asked], before, listener)
        cuda = _says(bare, "import torch; print(torch.version.cuda or '')")[1]
        for one in asked:
            found += ecosystem.try_project(on, one, site, cuda=cuda)
        found += tests
    finally:
        if not request.keep:
            remove_tree(folder)
    return tuple(found)


def fitting(wheels: Iterable[Path], python: str) -> list[Path]:
    """Those that Python ``python`` ("3.11") takes, by the tags in their names (PEP 425)."""
    wanted = {f"cp{python.replace('.', '')}", "py3"}
    return [wheel for wheel in wheels if wanted & {tag.interpreter for tag in parse_wheel_filename(wheel.name)[3]}]


def _project(wheel: Path) -> str:
    return parse_wheel_filename(wheel.name)[0]


def _root(system: System, listener: Listener) -> Root:
    log = cache_dir() / "logs" / "rootfs.log"
    described = system.description()
    if system.keyring:
        package, _ = Downloader(cache_dir(), progress=listener.progress).get(system.keyring)
        unpacked = package.with_suffix("")
        run_logged(["dpkg-deb", "-x", str(package), str(unpacked)], log=log, what=f"unpack {package.name}")
        keys = sorted((unpacked / "usr/share/keyrings").glob("*-archive-keyring.gpg"))
        if not keys:
            raise DecoupleError(f"{package}: no keyring in it", next_step=f"read {log}")
        described = system.description(str(keys[0]))
    return rootfs.ensure(cache_dir(), described, [], log=log, progress=listener.progress)


def _installed(bare: Bare, system: System, wheels: Sequence[Path], listener: Listener) -> list[str]:
    """A virtual environment with the wheels; returns the command of its pip."""
    log = _log(system.name)
    listener.progress.start(f"pip install on {system.name}")
    run_logged(
        bare.argv([f"python{system.python}", "-m", "venv", f"{_INSIDE}/venv"], {}, "/"), log=log, what="python -m venv"
    )
    pip = [f"{_INSIDE}/venv/bin/python", "-m", "pip"]
    if system.old_pip:
        run_logged(bare.online([*pip, "install", "-q", "--upgrade", "pip"]), log=log, what="pip install --upgrade pip")
    files = [f"{_INSIDE}/{wheel.name}" for wheel in wheels]
    run_logged(
        bare.online([*pip, "install", "-q", *files]), log=log, what=f"pip install {' '.join(map(_project, wheels))}"
    )
    listener.progress.finish()
    return pip


def _on_top(
    bare: Bare,
    system: System,
    pip: Sequence[str],
    requirements: Sequence[str],
    before: tuple[bool, str],
    listener: Listener,
) -> list[CheckResult]:
    """pip installs what others made: the torch of ours stays as it was ``before``, and pip is content."""
    for requirement in requirements:
        listener.progress.start(f"pip install {requirement} on {system.name}")
        run_logged(
            bare.online([*pip, "install", "-q", requirement]),
            log=_log(system.name),
            what=f"pip install {requirement}",
        )
        listener.progress.finish()
    after = _version(bare)
    content = programs.ask(bare.argv([*pip, "check"], {}, "/"))
    glibc = programs.ask(bare.argv(["getconf", "GNU_LIBC_VERSION"], {}, "/"))
    where = f"{system.name}: Python {system.python}, {glibc.stdout.strip()}"
    return [
        CheckResult(f"{where}: import torch", before[0] and before == after, after[1]),
        CheckResult("pip check", content.returncode == 0, (content.stdout + content.stderr).strip().splitlines()[-1]),
    ]


def _log(system: str) -> Path:
    return cache_dir() / "logs" / f"tryout-{system}.log"


def _version(bare: Bare) -> tuple[bool, str]:
    """Whether torch is imported, and what it says of itself and computes, or the error."""
    return _says(bare, "import torch; print(torch.__version__, (torch.ones(8, 8) @ torch.ones(8, 8)).sum().item())")


def _says(bare: Bare, program: str) -> tuple[bool, str]:
    """Whether a Python program runs, and its last line or the error's."""
    argv = bare.argv([f"{_INSIDE}/venv/bin/python", "-c", program], {}, "/")
    done = programs.ask(argv)
    good = done.returncode == 0
    return good, ((done.stdout if good else done.stderr).strip().splitlines() or [""])[-1]


def _tests(bare: Bare, on: TorchEnvironment, listener: Listener) -> CheckResult:
    log = _log(on.name)
    command = [f"{_INSIDE}/venv/bin/python", "-m", "pip", "install", "-q", *_TOOLS]
    run_logged(bare.online(command), log=log, what=f"pip install {' '.join(_TOOLS)}")
    listener.progress.start(f"upstream's CPU tests on {on.name}")
    suites = upstream_tests.load_suites()
    seen = upstream_tests.run_suites(on, _TEST, suites, log)
    listener.progress.finish()
    found = upstream_tests.check_outcomes(seen, {one.file: one.crashes.get(on.name, "") for one in suites})
    return found if found.passed else replace(found, observed=f"{found.observed}\n       read {log}")
