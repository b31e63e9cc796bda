"""Check the portable wheels against the official torch, on this machine.

They are a core, and torch_cuda compiled with one CUDA.

The Python of the check is a user's own, with the official torch of the release in it: it brings what torch requires,
and the values and names that ours are compared with.

>>> from decouple.flows.verify_portable import VerifyPortableRequest, make_toolchain, verify_portable_wheels
>>> verify_portable_wheels(VerifyPortableRequest(project, "2.6", python=python / "python", cuda="11.8"))
Traceback (most recent call last):
decouple.base.errors.UsageError: ...python/python: no torch 2.6.0: ...
>>> from decouple.upstream.manifests import load_release
>>> make_toolchain("2.6", load_release(project, "2.6").toolchain, "11.8").cuda
'11.8'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from decouple.base import zips
from decouple.base.process import run_logged
from decouple.build import inputs, root_description, toolkits, wheel_finishing
from decouple.build.environment import HostEnvironment, Places
from decouple.flows import kernels, portable_environment
from decouple.flows.listener import QUIET, Listener
from decouple.flows.official_python import find_official_torch
from decouple.flows.parity import unpack_wheels
from decouple.flows.portable_wheels import PortableWheels
from decouple.flows.tree_overlay import warn_of_older_wheels
from decouple.flows.verify import (
    VerifyResult,
    audit_wheels,
    check_same_core,
    choose_kernels,
    make_section,
    record_kernels,
)
from decouple.flows.work_environment import WorkRequest, hold_trials
from decouple.release import projects, status
from decouple.release.manifest import Toolchain
from decouple.upstream.manifests import load_release
from decouple.verify import checks, facts, parity
from decouple.verify.audit import ElfAudit
from decouple.verify.venvs import TorchEnvironment


class VerifyPortableRequest(WorkRequest, frozen=True):
    """Which wheels: the last ones of ``--env portable`` for the Python that is named."""

    python: Path | None = None
    """Has the official torch of the release, with all that it requires."""
    cuda: str = ""
    """The CUDA that torch_cuda was compiled with; empty: the official wheel's."""
    kernels: str | None = None
    """Compare the machine code with that of "official", "monolith" (Debian's), or a file."""


def verify_portable_wheels(
    request: VerifyPortableRequest,
    listener: Listener = QUIET,
    heard: Callable[[Sequence[ElfAudit]], None] = lambda _: None,
) -> VerifyResult:
    """Check audit, facts and parity, recorded in ``ci/status``.

    The wheel of the core is unpacked twice, alone and with torch_cuda. Raises UsageError without the wheels, or without
    a Python that has the official torch.
    """
    manifest = load_release(request.project, request.release)
    toolchain = make_toolchain(request.release, manifest.toolchain, request.cuda)
    other = (toolchain.cuda or "") if toolchain.cuda != manifest.toolchain.cuda else ""
    python, version = find_official_torch(request.python, manifest.version, "--env portable")
    made = PortableWheels(request.project, request.release, tree=request.tree, python=version, cuda=request.cuda)
    places, core, backend = made.places, made.find_wheel(1), made.find_wheel(2)
    stamp = inputs.read_stamp(places.state / "stage2.json")
    warn_of_older_wheels(request, places, [core, backend], made.format_command(), listener)
    reports = audit_wheels(core, backend)
    heard(reports)
    looked = status.hash_wheels([core, backend])
    with hold_trials(places, "verify"):
        alone = _make_torch_environment("core", unpack_wheels(python, places.verify / "alone", [core]))
        results = [*checks.check_core_alone(alone)]
        if stamp:
            results.append(check_same_core(core, stamp, made.format_command()))
        both = _make_torch_environment("both", _install_wheels(python, places, [core, backend], other=bool(other)))
        listener.progress.start("parity with the official wheel")
        ours, theirs = (
            parity.dump_torch(item.prefix, both.folder) for item in (both, _make_torch_environment("official", python))
        )
        listener.progress.finish()
        results += checks.check_both_wheels(
            both,
            ours,
            facts.list_expected_facts(toolchain, wheel_finishing.read_manifest(backend).arch_list, "host", {}),
        )
        code = None
        if request.kernels:
            code = kernels.compare_backend(
                HostEnvironment(places), backend, request.kernels, progress=listener.progress
            )
        same = tuple(parity.explain_missing(item, "built", other) for item in parity.compare_parity(ours, theirs))
        result = VerifyResult(tuple(reports), tuple(results), same, code, looked)
    _record_result(request, made, (core, backend), result, listener)
    return result


def _install_wheels(python: Path, places: Places, both: Sequence[Path], *, other: bool) -> Path:
    """Install both wheels on what that Python has.

    With ``other`` CUDA, pip adds NVIDIA's libraries of it, as the wheel requires them.
    """
    made = unpack_wheels(python, places.verify / "both", both)
    if other:
        install_libraries(python, made, both[-1], places.logs / "verify.log")
    return made


def _make_torch_environment(name: str, python: Path) -> TorchEnvironment:
    folder = python.parent.parent
    return TorchEnvironment(name, (str(python.absolute()),), folder, str(folder))


def _record_result(
    request: VerifyPortableRequest,
    built: PortableWheels,
    wheels: tuple[Path, Path],
    result: VerifyResult,
    listener: Listener = QUIET,
) -> None:
    """Record a section per Python and CUDA, with the comparison of kernels.

    Nothing of a core and a torch_cuda that are a proof of no series, which is said. The comparison is with the official
    machine code. That with another's stands beside those of all builds, and the section keeps what was seen of the same
    wheel.
    """
    series = wheel_finishing.find_series(wheels, built.format_command(), listener.warn)
    if series is None:
        return
    path, backend = status.locate_status(request.project, request.release), wheels[1]
    label = f"py{built.python}-cu{wheel_finishing.read_manifest(backend).cuda}"
    if result.kernels and request.kernels == "monolith":
        record_kernels(request.project, request.release, label + status.MONOLITH, result.kernels, series)
    official = result.kernels if request.kernels == "official" else None
    code = choose_kernels(official, status.read_status(path).portable.get(label), backend.name, result.wheels)
    found = status.WheelSection(backend.name, series, make_section("built", result), code)
    status.update_status(path, portable={label: found})


def make_toolchain(release: str, official: Toolchain, cuda: str) -> Toolchain:
    """Return the official wheel's toolchain where ``cuda`` is its own or empty.

    Else it is one with the libraries that CUDA's layer is made of.

    Raises UsageError where the release has no such CUDA.
    """
    if cuda in ("", official.cuda):
        return official
    toolkits.check_release(release, portable_environment.KIND, cuda)
    return replace(official, cuda=cuda, libraries=tuple(_list_pins(cuda)))


def _list_pins(cuda: str) -> Iterator[str]:
    found = toolkits.find_toolkit(portable_environment.KIND, cuda)
    root = root_description.load_description(root_description.PORTABLE)
    for layer in found.layers if found else ():
        for toolkit in root.find_layer(layer).toolkit:
            yield from (f"{wheel.project}=={wheel.version}" for wheel in toolkit.wheels)


def install_libraries(python: Path, trial: Path, backend: Path, log: Path) -> None:
    """Install what ``backend`` requires of NVIDIA into the Python ``trial``.

    The pip of ``python`` installs it. Raises CommandError.
    """
    libraries = list_libraries(backend)
    pip = [str(python.absolute()), "-m", "pip", "--python", str(trial.absolute())]
    command = [*pip, "install", "-q", "--no-deps", *libraries]
    run_logged(command, cwd=Path("/"), log=log, what=f"pip install {' '.join(libraries)}")


def list_libraries(backend: Path) -> list[str]:
    """List what a wheel of torch_cuda requires of NVIDIA, as its metadata has it."""
    with zips.open_zip(backend) as archive:
        metadata = archive.read(f"{wheel_finishing.find_dist_info(archive, backend)}/METADATA")
    wanted = projects.parse_requirements(projects.parse_metadata(metadata))
    return [str(requirement) for requirement in wanted if requirement.name.startswith("nvidia-")]
