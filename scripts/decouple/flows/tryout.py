"""Try finished wheels on a bare system, as a user installs them.

That is by its own Python and pip, from PyPI, on top of nothing.

>>> from pathlib import Path
>>> from decouple.flows.tryout import select_fitting
>>> names = "torch-2.6.0-cp311-cp311-manylinux_2_31_x86_64.whl", "torch-2.6.0-cp39-cp39-any.whl"
>>> select_fitting(map(Path, names), "3.11")
[PosixPath('torch-2.6.0-cp311-cp311-manylinux_2_31_x86_64.whl')]
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from decouple.base import program_output
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import hold_lock
from decouple.base.mounts import remove_tree
from decouple.base.paths import find_cache
from decouple.base.process import run_logged
from decouple.build import bare_systems, preflight, rootfs, wheel_finishing
from decouple.build.bare_systems import System
from decouple.build.rootfs import Root
from decouple.build.sandbox import BindMount, make_clean_environment
from decouple.flows import portable_environment
from decouple.flows.listener import QUIET, Listener
from decouple.flows.work_environment import WorkRequest, ensure_tree
from decouple.release import projects, status
from decouple.release.wheel_name import WheelName
from decouple.upstream.download import Downloader
from decouple.verify import ecosystem, upstream_tests
from decouple.verify.checks import CheckResult
from decouple.verify.venvs import TorchEnvironment

_INSIDE = "/run/tryout"
_TEST = "/run/upstream/test"
_TOOLS = ("pytest", "expecttest", "hypothesis", "numpy", "psutil")
"""What upstream's tests import."""


class TryoutRequest(WorkRequest, frozen=True):
    """Which wheels, on which system, and what is tried there."""

    system: str = ""
    wheels: tuple[Path, ...] = ()
    """Empty: those of ``dist/<release>`` for the system's Python."""
    projects: tuple[str, ...] = ()
    """Of ``ecosystem.toml``: installed from PyPI on top, and used."""
    tests: bool = True
    """Run upstream's CPU tests."""
    record: bool = False
    """Write the figures to ``ci/status``."""
    keep: bool = False
    """Leave the virtual environment behind."""


class BareSystem(Struct, frozen=True):
    """A bare system, with ``folder`` shown in it and upstream's tests beside."""

    root: Root
    binds: tuple[BindMount, ...]

    def argv(self, command: Sequence[str], variables: Mapping[str, str], start: str) -> list[str]:
        """As `decouple.base.process.CommandPlace`; without network."""
        return self.root.make_sandbox(self.binds).make_command(
            [*make_clean_environment(variables), *command], start=start
        )

    def make_online_command(self, command: Sequence[str]) -> list[str]:
        """Make the same with network, for pip, which gets this machine's settings of pip.

        An index may be named with its password.
        """
        named = [os.environ.get("PIP_CERT", ""), *os.environ.get("PIP_FIND_LINKS", "").split()]
        paths = [Path(name) for name in ("/etc/resolv.conf", "/etc/pip.conf", *named)]
        shown = [BindMount(path, str(path)) for path in paths if path.is_absolute() and path.exists()]
        environment = make_clean_environment({}, network=True, inherited=("PIP_",))
        return self.root.make_sandbox([*self.binds, *shown]).make_command([*environment, *command], network=True)


def try_wheels(request: TryoutRequest, listener: Listener = QUIET) -> tuple[CheckResult, ...]:
    """Install and use the wheels.

    Raises UsageError without a wheel for that Python, DecoupleError when pip fails.
    """
    if request.record and not request.tests:
        raise UsageError(
            "--record: upstream's tests are a part of what is recorded", next_step="leave --no-tests or --record out"
        )
    system = bare_systems.find_system(request.system)
    asked = [ecosystem.select_project(request.release, name) for name in request.projects]
    places = request.places
    wheels = select_fitting(request.wheels or sorted(places.dist.glob("*.whl")), system.python)
    core = [wheel for wheel in wheels if _read_project(wheel) == projects.CORE]
    if len(core) != 1:
        named = ", ".join(map(str, request.wheels)) or places.dist
        raise UsageError(
            f"{named}: {len(core)} core wheels for Python {system.python}, which {system.name} has",
            next_step=f"decouple build {request.release} --env portable --stage 1 --python {system.python}, or --wheel",
        )
    if missing := [wheel for wheel in wheels if not wheel.is_file()]:
        raise UsageError(f"{missing[0]}: no such file", next_step="name another --wheel, or leave it out")
    # refused before an hour of tests
    section = describe_trial(request, wheels, listener) if request.record else None
    preflight.check_root(find_cache(), system.make_description())
    shown = []
    if request.tests:
        ensure_tree(replace(request, env=portable_environment.KIND), places, listener)
        shown.append(BindMount(places.tree / "test", _TEST))
    folder = places.stage2.parent / "tryout" / system.name
    with _make_trial_folder(folder, wheels, keep=request.keep):
        bare = BareSystem(_make_root(system, listener), (BindMount(folder, _INSIDE), *shown))
        pip = _install_wheels(bare, system, wheels, listener)
        on = TorchEnvironment(system.name, tuple(bare.argv([f"{_INSIDE}/venv/bin/python"], {}, "/")), folder, _INSIDE)
        site = next((folder / "venv/lib").glob("python3*/site-packages"))
        before = _read_version(bare)
        # first, for upstream's tests use a torchvision that is there, and one for another CUDA cannot be imported
        tests = [_run_tests(bare, on, listener)] if request.tests else []
        found = _install_on_top(bare, system, pip, [project.requirement for project in asked], before, listener)
        cuda = _run_program(bare, "import torch; print(torch.version.cuda or '')")[1]
        for project in asked:
            found += ecosystem.try_project(on, project, site, cuda=cuda)
        found += tests
    if section:
        record_checks(request, section, found)
    return tuple(found)


@contextlib.contextmanager
def _make_trial_folder(folder: Path, wheels: Sequence[Path], *, keep: bool) -> Iterator[None]:
    """Put the wheels into an empty ``folder``, which goes at the end but for ``keep``.

    Raises DecoupleError while another run tries wheels there.
    """

    def refuse_second() -> None:
        raise DecoupleError(
            f"{folder}: another `decouple try wheels` works there", next_step="wait until it ends, or stop it"
        )

    with hold_lock(folder.with_name(f".{folder.name}.lock"), refuse_second):
        remove_tree(folder)
        folder.mkdir(parents=True)
        for wheel in wheels:
            shutil.copy2(wheel, folder)
        try:
            yield
        finally:
            if not keep:
                remove_tree(folder)


def describe_trial(
    request: TryoutRequest, wheels: Sequence[Path], listener: Listener = QUIET
) -> status.VerifySection | None:
    """Describe for ``ci/status`` what is tried.

    None, and it is said, where nothing is to be recorded of these wheels. Raises DecoupleError where they are of
    several series, and UsageError where projects were tried on the same wheels that this run leaves out: a record of
    fewer would hide what they found.
    """
    _refuse_mixed(request, wheels)
    series = wheel_finishing.find_series(wheels, _format_build(request), listener.warn)
    if series is None:
        return None
    names = ", ".join(sorted(wheel.name for wheel in wheels))
    section = status.VerifySection(
        core=names, series=series, wheels=status.hash_wheels(wheels), projects=tuple(dict.fromkeys(request.projects))
    )
    before = status.read_status(status.locate_status(request.project, request.release)).systems.get(request.system)
    same = before.projects if before and before.wheels == section.wheels else ()
    if left_out := [project for project in same if project not in section.projects]:
        raise UsageError(
            f"--record: {', '.join(left_out)} was tried on these wheels on {request.system}, and would be left out",
            next_step=f"add {' '.join(f'--with {project}' for project in left_out)}, or leave --record out",
        )
    return section


def record_checks(request: TryoutRequest, section: status.VerifySection, found: Sequence[CheckResult]) -> None:
    """Write to ``ci/status`` what the wheels of ``section`` gave on the system."""
    failed = tuple(f"{result.name}: {result.observed}" for result in found if not result.passed)
    section = replace(section, checks=sum(result.done for result in found), failed=failed)
    path = status.locate_status(request.project, request.release)
    status.update_status(path, systems={request.system: section})


def _refuse_mixed(request: TryoutRequest, wheels: Sequence[Path]) -> None:
    """Raise DecoupleError where the wheels are of several series."""
    digests = {wheel_finishing.read_manifest(wheel).series.digest for wheel in wheels}
    if len(digests) != 1:
        raise DecoupleError(
            f"{', '.join(sorted(wheel.name for wheel in wheels))}: made of different series, so nothing is recorded",
            next_step=_format_build(request),
        )


def _format_build(request: TryoutRequest) -> str:
    return f"decouple build {request.release} --env {portable_environment.KIND}"


def select_fitting(wheels: Iterable[Path], python: str) -> list[Path]:
    """Return those whose tags (PEP 425) Python ``python`` ("3.11") takes.

    Raises DecoupleError for a file that is not called as a wheel is.
    """
    wanted = {f"cp{python.replace('.', '')}", "py3"}
    return [wheel for wheel in wheels if wanted & {tag.interpreter for tag in WheelName.parse(wheel.name).tags}]


def _read_project(wheel: Path) -> str:
    return canonicalize_name(WheelName.parse(wheel.name).distribution)


def _make_root(system: System, listener: Listener) -> Root:
    log = find_cache() / "logs" / "rootfs.log"
    described = system.make_description()
    if system.keyring:
        package, _ = Downloader(find_cache(), progress=listener.progress).fetch_file(system.keyring)
        unpacked = package.with_suffix("")
        run_logged(["dpkg-deb", "-x", str(package), str(unpacked)], log=log, what=f"unpack {package.name}")
        keys = sorted((unpacked / "usr/share/keyrings").glob("*-archive-keyring.gpg"))
        if not keys:
            raise DecoupleError(f"{package}: no keyring in it", next_step=f"read {log}")
        described = system.make_description(str(keys[0]))
    return rootfs.ensure_root(find_cache(), described, [], log=log, progress=listener.progress)


def _install_wheels(bare: BareSystem, system: System, wheels: Sequence[Path], listener: Listener) -> list[str]:
    """Make a virtual environment with the wheels; returns the command of its pip."""
    log = _locate_log(system.name)
    listener.progress.start(f"pip install on {system.name}")
    run_logged(
        bare.argv([f"python{system.python}", "-m", "venv", f"{_INSIDE}/venv"], {}, "/"), log=log, what="python -m venv"
    )
    pip = [f"{_INSIDE}/venv/bin/python", "-m", "pip"]
    if system.old_pip:
        run_logged(
            bare.make_online_command([*pip, "install", "-q", "--upgrade", "pip"]),
            log=log,
            what="pip install --upgrade pip",
        )
    files = [f"{_INSIDE}/{wheel.name}" for wheel in wheels]
    run_logged(
        bare.make_online_command([*pip, "install", "-q", *files]),
        log=log,
        what=f"pip install {' '.join(map(_read_project, wheels))}",
    )
    listener.progress.finish()
    return pip


def _install_on_top(
    bare: BareSystem,
    system: System,
    pip: Sequence[str],
    requirements: Sequence[str],
    before: tuple[bool, str],
    listener: Listener,
) -> list[CheckResult]:
    """Install by pip what others made.

    The torch of ours stays as it was ``before``, and pip is content.
    """
    for requirement in requirements:
        listener.progress.start(f"pip install {requirement} on {system.name}")
        run_logged(
            bare.make_online_command([*pip, "install", "-q", requirement]),
            log=_locate_log(system.name),
            what=f"pip install {requirement}",
        )
        listener.progress.finish()
    after = _read_version(bare)
    content = program_output.run_program(bare.argv([*pip, "check"], {}, "/"))
    glibc = program_output.run_program(bare.argv(["getconf", "GNU_LIBC_VERSION"], {}, "/"))
    place = f"{system.name}: Python {system.python}, {glibc.stdout.strip()}"
    return [
        CheckResult(f"{place}: import torch", before[0] and before == after, after[1]),
        CheckResult("pip check", content.returncode == 0, (content.stdout + content.stderr).strip().splitlines()[-1]),
    ]


def _locate_log(system: str) -> Path:
    return find_cache() / "logs" / f"tryout-{system}.log"


def _read_version(bare: BareSystem) -> tuple[bool, str]:
    """Return whether torch is imported, and what it says and computes, or the error."""
    return _run_program(
        bare, "import torch; print(torch.__version__, (torch.ones(8, 8) @ torch.ones(8, 8)).sum().item())"
    )


def _run_program(bare: BareSystem, program: str) -> tuple[bool, str]:
    """Return whether a Python program runs, and its last line or the error's."""
    argv = bare.argv([f"{_INSIDE}/venv/bin/python", "-c", program], {}, "/")
    done = program_output.run_program(argv)
    good = done.returncode == 0
    return good, ((done.stdout if good else done.stderr).strip().splitlines() or [""])[-1]


def _run_tests(bare: BareSystem, on: TorchEnvironment, listener: Listener) -> CheckResult:
    log = _locate_log(on.name)
    command = [f"{_INSIDE}/venv/bin/python", "-m", "pip", "install", "-q", *_TOOLS]
    run_logged(bare.make_online_command(command), log=log, what=f"pip install {' '.join(_TOOLS)}")
    listener.progress.start(f"upstream's CPU tests on {on.name}")
    suites = upstream_tests.load_suites()
    seen = upstream_tests.run_suites(on, _TEST, suites, log)
    listener.progress.finish()
    result = upstream_tests.check_outcomes(seen, {suite.file: suite.crashes.get(on.name, "") for suite in suites})
    return result if result.passed else replace(result, observed=f"{result.observed}\n       read {log}")
