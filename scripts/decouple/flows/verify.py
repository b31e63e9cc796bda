"""Check the wheels in ``dist/``: audits, imports, upstream's tests, parity.

>>> from decouple.flows.verify import VerifyRequest, audit_wheels, verify_wheels
>>> [report.faults for report in audit_wheels(core=python)]  # a wheel, or a folder with ELF files
[(), (), ()]
>>> verify_wheels(VerifyRequest(project, "2.6"))
Traceback (most recent call last):
decouple.base.errors.UsageError: ...dist/2.6: nothing built yet (nox -s build-2.6)
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from decouple.base.errors import UsageError
from decouple.base.files import compute_sha256
from decouple.base.process import limit_time
from decouple.build import inputs, settings, toolkits
from decouple.build.environment import Environment, Places, RootEnvironment
from decouple.build.wheel_finishing import find_series, read_manifest, refuse_other_core, refuse_portable_wheels
from decouple.flows import kernels
from decouple.flows.build import build_wheels
from decouple.flows.build_request import BuildRequest
from decouple.flows.extensions import compile_extension
from decouple.flows.listener import QUIET, Listener
from decouple.flows.tree_overlay import warn_of_older_wheels
from decouple.flows.work_environment import WorkRequest, hold_trials, needs_root, open_environment
from decouple.release import status
from decouple.upstream.manifests import load_release
from decouple.verify import (
    audit,
    checks,
    extensions,
    facts,
    parity,
    third_party_wheels,
    upstream_tests,
    venvs,
    virtual_functions,
)
from decouple.verify.audit import ElfAudit
from decouple.verify.checks import CheckResult
from decouple.verify.facts import ExpectedFact
from decouple.verify.kernels.compare import KernelComparison
from decouple.verify.parity import Parity
from decouple.verify.venvs import TorchEnvironment, Workplace

_KERNEL_LABELS = {"official": "built", "monolith": f"built{status.MONOLITH}"}
"""What machine code was compared with -> label of the record; a file's has none."""
_NOTHING_NEW = "recorded as it was: an earlier run on these wheels looked at more, and this one found nothing new"

Heard = Callable[[Sequence[ElfAudit]], None]
"""Gets the audits as soon as they are there: what follows takes minutes and may fail."""


class VerifyRequest(WorkRequest, frozen=True):
    """Which checks, of the wheels of the last build."""

    core: str = "built"
    """The core that torch_cuda goes on: "built" or "stock"."""
    over: str = "compiled"
    """Whose kernels torch_cuda has, as ``Build.kernels`` says it: "compiled" or "monolith"."""
    parity: bool = True
    """Compare with the monolith."""
    extensions: bool = True
    """Compile third-party CUDA extensions."""
    tests: bool = True
    """Run upstream's CPU tests on the core."""
    kernels: str | None = None
    """Compare the machine code with that of "official", "monolith" (the root's), or a file."""

    @property
    def places(self) -> Places:
        return BuildRequest(self.project, self.release, self.env, self.tree, kernels=self.over, core=self.core).places


class VerifyResult(Struct, frozen=True):
    """Everything that was looked at."""

    audits: tuple[ElfAudit, ...]
    checks: tuple[CheckResult, ...]
    parity: tuple[Parity, ...] = ()
    kernels: KernelComparison | None = None
    wheels: Mapping[str, str] = {}
    """File of each wheel -> its SHA-256."""

    @property
    def ok(self) -> bool:
        """Whether every promise is kept."""
        clean = not any(part.faults for part in self.audits)
        same = all(part.ok for part in self.parity) and (self.kernels is None or self.kernels.ok)
        return clean and same and all(part.passed for part in self.checks)


class SmokeRequest(WorkRequest, frozen=True):
    """Check stage 2's runtime part on a stock core; give up after ``minutes``."""

    archs: str = ""
    jobs: int | None = None
    minutes: float = 40
    record: bool = False
    """Write how the machine code compares to ``ci/status``."""
    toolkit: str = ""
    """Another vendor's ("rocm"); empty: CUDA."""


def audit_wheels(
    core: Path | None = None, backend: Path | None = None, others: Sequence[Path] = ()
) -> tuple[ElfAudit, ...]:
    """Audit wheels or folders: each alone, and both together.

    Extensions of ``others`` are audited against them. Raises UsageError when there is neither.
    """
    if core is None and backend is None:
        raise UsageError("nothing to look at", next_step="name --core, --backend or both")
    with contextlib.ExitStack() as stack:
        cores = audit.list_libraries(stack.enter_context(audit.open_folder(core))) if core else []
        backends = audit.list_libraries(stack.enter_context(audit.open_folder(backend))) if backend else []
        reports = []
        if core:
            reports += [audit.audit_core(cores), audit.audit_layout(cores), audit.audit_resolved(cores)]
        if backend:
            reports += [audit.audit_backend(backends), audit.audit_layout(backends)]
        if core and backend:
            reports += [audit.audit_pair(cores, backends), audit.audit_resolved(backends, cores)]
            reports.append(audit.audit_resolved(cores, backends))  # the official wheel's half asks torch_cuda for much
            reports.append(audit.audit_registry(cores, backends))
        for other in others:
            libraries = audit.list_libraries(stack.enter_context(audit.open_folder(other)))
            reports.append(third_party_wheels.audit_elsewhere(other.name, libraries, [*cores, *backends]))
    return tuple(reports)


def verify_wheels(
    request: VerifyRequest, listener: Listener = QUIET, heard: Heard = lambda reports: None
) -> VerifyResult:
    """Check the wheels of the last build, and record the result in ``ci/status``.

    Raises UsageError without any, DecoupleError where other bytes lie there.
    """
    places = request.places
    stamps = [inputs.read_stamp(places.state / f"stage{stage}.json") for stage in (1, 2)]
    how = f"decouple build {request.release} --stage 2 --core {request.core}"
    if request.over != "compiled":
        how += f" --kernels {request.over}"
    elif request.core == "built":
        how = f"nox -s build-{request.release}"
    core = inputs.locate_wheel(stamps[0], places.dist, how) if stamps[0] and request.core == "built" else None
    backend = inputs.locate_wheel(stamps[1], places.dist, how) if stamps[1] else None
    if core is None and backend is None:
        raise UsageError(f"{places.dist}: nothing built yet", next_step=how)
    if request.kernels and backend is None:
        raise UsageError(f"--kernels {request.kernels}: no torch_cuda is built", next_step=how)
    for half, stamp in zip(("core", "torch_cuda"), stamps, strict=True):
        if stamp is None and (half == "torch_cuda" or request.core == "built"):
            listener.warn(f"no {half} is built, so none is checked; `{how}` builds it")
    refuse_portable_wheels([wheel for wheel in (core, backend) if wheel], how)
    if backend:
        refuse_other_core(backend, request.core, how)
    warn_of_older_wheels(request, places, [wheel for wheel in (core, backend) if wheel], how, listener)
    places.create_folders()
    with hold_trials(places, "verify"):
        return _verify_built(request, core, backend, stamps[1], how, listener, heard)


def _verify_built(
    request: VerifyRequest,
    core: Path | None,
    backend: Path | None,
    stamp: inputs.Stamp | None,
    how: str,
    listener: Listener,
    heard: Heard,
) -> VerifyResult:
    """Do what `verify_wheels` says with these wheels; ``how`` builds them.

    ``stamp`` is that of the backend.
    """
    places = request.places
    tested, compared = choose_debian_checks(request, core, backend, listener)
    layers = ["core", *(["cuda"] if backend else []), *(["stock"] if request.core == "stock" or tested else [])]
    layers += ["monolith"] if compared or request.kernels == "monolith" else []
    trial = _Trial(open_environment(request, places, layers, listener), listener)
    reports = audit_wheels(core, backend)
    heard(reports)
    looked = status.hash_wheels(wheel for wheel in (core, backend) if wheel)  # at once: what follows takes long
    found = checks.check_core_alone(venvs.install_wheels(trial.place, "core", [core])) if core else []
    if core and tested:
        found.append(trial.run_upstream_tests(core))
    if core and stamp:
        found.append(check_same_core(core, stamp, how))
    same: list[Parity] = []
    if backend:
        both = trial.install_wheels(request.core, core, backend)
        ours = parity.dump_torch(both.prefix, both.folder, both.inside)
        found += checks.check_both_wheels(both, ours, trial.list_expected_facts(request.core, backend))
        if compared:
            same = [parity.explain_missing(category, request.core) for category in trial.compare_parity(ours, backend)]
        if request.extensions:
            found += trial.try_extensions(request.core, both, backend)
    code = None
    if backend and request.kernels:
        code = kernels.compare_backend(trial.environment, backend, request.kernels, progress=listener.progress)
    result = VerifyResult(reports, tuple(found), tuple(same), code, looked)
    series = find_series([wheel for wheel in (core, backend) if wheel], how, listener.warn)
    if series is not None:
        whole = compared and request.extensions and (tested or request.core == "stock")
        _record_result(request, backend, result, series, listener, whole=whole)
    return result


def choose_debian_checks(
    request: VerifyRequest, core: Path | None, backend: Path | None, listener: Listener = QUIET
) -> tuple[bool, bool]:
    """Return whether the core is tested beside Debian's, and both wheels compared.

    They are with Debian's CUDA build. Both builds are in the root alone: on this machine some other torch, or none,
    would answer for them. What was asked for and is left out for that is said.
    """
    tested, compared = core is not None and request.tests, backend is not None and request.parity
    if (tested or compared) and not needs_root(request, request.places, ["core", *(["cuda"] if backend else [])]):
        listener.say("not compared with Debian's builds, which are in the Debian root: upstream's CPU tests, parity")
        return False, False
    return tested, compared


def check_same_core(core: Path, backend: inputs.Stamp, how: str) -> CheckResult:
    """Check that torch_cuda was compiled against these very bytes of the core.

    A class whose layout changed between two cores is no missing symbol. The stamp of its build says it, but for one of
    an earlier version; ``how`` builds it.
    """
    name, digest = "torch_cuda was compiled against this core", compute_sha256(core)
    if not backend.core:
        return CheckResult(name, True, f"not known: built before that was noted; `{how}` notes it", done=False)
    same = backend.core == digest
    other = f"compiled against {backend.core}, and {core.name} is {digest}; `{how}`"
    return CheckResult(name, same, f"{core.name}, SHA-256 {digest}" if same else other)


def run_smoke(request: SmokeRequest, listener: Listener = QUIET, heard: Heard = lambda reports: None) -> VerifyResult:
    """Build that part, audit it, and load it on a stock core.

    Its machine code is compared with the official wheel's. Raises DecoupleError when the time is over.
    """
    if not 0 < request.minutes < math.inf:  # a clock that is set to 0 never rings
        raise UsageError(f"--minutes {request.minutes:g}: a time from above 0", next_step="--minutes 40")
    work = BuildRequest(
        request.project, request.release, request.env, request.tree,
        stage=2, core="stock", archs=request.archs, flash=False, part="runtime", jobs=request.jobs,
        toolkit=request.toolkit,
    )  # fmt: skip
    if request.toolkit:
        return _smoke_vendor(work, request.minutes, listener, heard)
    again = f"decouple smoke {request.release} goes on from there; --minutes gives it more"
    with limit_time(request.minutes, "smoke", again):
        (made,) = build_wheels(work, listener)
        with hold_trials(work.places, "smoke"):
            trial = _Trial(open_environment(work, work.places, ["core", "cuda", "stock"], listener), listener)
            reports = audit_wheels(backend=made.wheel)
            heard(reports)
            both = trial.install_wheels("stock", None, made.wheel)
            ours = parity.dump_torch(both.prefix, both.folder, both.inside)
            found = checks.check_both_wheels(both, ours, trial.list_expected_facts("stock", made.wheel))
            if not kernels.has_official_dump(load_release(work.project, work.release), made.wheel):
                listener.say(
                    "machine code not compared: for this architecture `decouple verify --kernels official` fetches it"
                )
                return VerifyResult(reports, tuple(found))
            progress = listener.progress
            code = kernels.compare_backend(trial.environment, made.wheel, "official", part=True, progress=progress)
            again = f"decouple smoke {request.release} --record"
            if request.record and (series := find_series([made.wheel], again, listener.warn)) is not None:
                record_kernels(request.project, request.release, "smoke", code, series)
            return VerifyResult(reports, tuple(found), kernels=code)


def _smoke_vendor(work: BuildRequest, minutes: float, listener: Listener, heard: Heard) -> VerifyResult:
    """Build that part with another toolkit, load it, and compile an extension."""
    again = f"decouple smoke {work.release} --toolkit {work.toolkit} goes on from there; --minutes gives it more"
    with limit_time(minutes, "smoke", again):
        (made,) = build_wheels(work, listener)
        with hold_trials(work.places, "smoke"):
            layers = toolkits.list_vendor_layers(work.toolkit, ["core", "stock"], part=True)
            trial = _Trial(open_environment(work, work.places, layers, listener), listener)
            reports = audit_wheels(backend=made.wheel)
            heard(reports)
            table, kind = settings.find_core("stock"), trial.environment.kind
            archs = read_manifest(made.wheel).arch_list
            told = toolkits.list_vendor_variables(work.toolkit, archs, table.find_libraries(kind))
            libraries = told.get("LD_LIBRARY_PATH", "")
            name = f"both-{work.toolkit}"
            both = venvs.install_wheels(trial.place, name, [made.wheel], packages=table.packages, libraries=libraries)
            found = checks.check_vendor(both, toolkits.find_vendor(work.toolkit).project)
            (saxpy,) = extensions.select_extensions(["decouple_saxpy"])
            variables = {**told, **extensions.select_compilers(work.toolkit)}
            inside = trial.environment.name_places()["project"]
            found.append(virtual_functions.check_virtual_functions(both, variables))
            found.append(compile_extension(trial.place, both, saxpy, variables, inside, work.places, listener))
            return VerifyResult(reports, tuple(found))


class _Trial(Struct, frozen=True):
    """Wheels tried in one environment."""

    environment: Environment
    listener: Listener

    @property
    def place(self) -> Workplace:
        places = self.environment.places
        return Workplace(
            self.environment, places.verify, self.environment.name_places()["verify"], places.logs / "verify.log"
        )

    def install_wheels(self, kind: str, core: Path | None, backend: Path) -> TorchEnvironment:
        """Make an environment with both wheels, or the backend on an unpacked stock core."""
        table = settings.find_core(kind)
        libraries = table.find_libraries(self.environment.kind)
        wheels = [core, backend] if core else [backend]
        return venvs.install_wheels(self.place, f"both-{kind}", wheels, packages=table.packages, libraries=libraries)

    def list_expected_facts(self, kind: str, backend: Path) -> tuple[ExpectedFact, ...]:
        """Return the facts that ``backend`` must show a user on this kind of core here."""
        places, environment = self.environment.places, self.environment
        installed = environment.root.read_versions() if isinstance(environment, RootEnvironment) else {}
        toolchain = load_release(places.project, places.release).toolchain
        return facts.list_expected_facts(toolchain, read_manifest(backend).arch_list, environment.kind, installed, kind)

    def run_upstream_tests(self, core: Path) -> CheckResult:
        """Run upstream's CPU tests on our core alone and on the root's unmodified build."""
        table = settings.find_core("stock")
        libraries = table.find_libraries(self.environment.kind)
        stock = venvs.install_wheels(self.place, "stock", [], packages=table.packages, libraries=libraries)
        tests, suites = f"{self.environment.name_places()['tree']}/test", upstream_tests.load_suites()
        seen = []
        for tried in (venvs.install_wheels(self.place, "core", [core]), stock):
            self.listener.progress.start(f"upstream's CPU tests on {tried.name}")
            seen.append(upstream_tests.run_suites(tried, tests, suites, self.place.log))
            self.listener.progress.finish()
        return upstream_tests.compare_outcomes(*seen)

    def compare_parity(self, ours: dict[str, Any], backend: Path) -> list[Parity]:
        """Compare what both wheels offer with the monolith in the root.

        Operators, names, and the symbols to link.
        """
        same = parity.compare_parity(ours, checks.ask_monolith(self.place))
        if isinstance(self.environment, RootEnvironment):
            with audit.open_folder(backend) as folder:
                single = audit.list_libraries(self.environment.root.tree / checks.MONOLITH.lstrip("/") / "lib")
                same += checks.compare_library_symbols(audit.list_libraries(folder), single)
        return same

    def try_extensions(self, kind: str, both: TorchEnvironment, backend: Path) -> list[CheckResult]:
        """Compile others' CUDA extensions against both wheels for the backend's archs."""
        archs = ";".join(read_manifest(backend).arch_list)
        variables = {**extensions.select_compilers(self.environment.kind), "TORCH_CUDA_ARCH_LIST": archs}
        if libraries := settings.find_core(kind).find_libraries(self.environment.kind):
            variables["LD_LIBRARY_PATH"] = libraries
        project, places = self.environment.name_places()["project"], self.environment.places
        known = extensions.load_extensions()
        left_out = [extension.name for extension in known if extension.finds_torch and kind == "stock"]
        if left_out:
            words = "find_package(Torch) of an unmodified core does not know torch_cuda (docs/wheels.md#cmake)"
            self.listener.say(f"not compiled: {', '.join(left_out)}: {words}")
        return [
            compile_extension(self.place, both, extension, variables, project, places, self.listener)
            for extension in known
            if extension.name not in left_out
        ]


def _record_result(
    request: VerifyRequest, backend: Path | None, result: VerifyResult, series: str, listener: Listener, *, whole: bool
) -> None:
    """Record in ``ci/status``, somebody else's kernels in a section of their own.

    They say nothing of those we compile, and an unmodified core nothing of ours. What a run that was not ``whole`` left
    out is kept, where it was recorded of the same wheels, byte for byte.
    """
    if request.over != "compiled" and backend:
        _record_installed(request, backend, result, series, listener, whole=whole)
        return
    if result.kernels and (label := _KERNEL_LABELS.get(request.kernels or "")):
        record_kernels(request.project, request.release, label, result.kernels, series)
    if request.core != "built":
        listener.say(f"not recorded: checks on --core {request.core} say nothing of our core")
        return
    path, found = status.locate_status(request.project, request.release), make_section(request.core, result)
    before, found = status.read_status(path).verify, structs.replace(found, series=series)
    merged = found if whole else _keep_unasked(found, before, result)
    if merged == before != found:
        listener.say(_NOTHING_NEW)
    else:
        status.update_status(path, verify=merged)


def _record_installed(
    request: VerifyRequest, backend: Path, result: VerifyResult, series: str, listener: Listener, *, whole: bool
) -> None:
    """Record what was seen of a wheel over an installed build's kernels."""
    path, found = status.locate_status(request.project, request.release), make_section(request.core, result)
    before = status.read_status(path).over_installed
    merged = _keep_unasked(found, before.verify, result) if before and not whole else found
    asked = result.kernels if request.kernels == request.over else None
    code = choose_kernels(asked, before, backend.name, result.wheels)
    section = status.WheelSection(backend.name, series, merged, code)
    if section == before and merged != found:
        listener.say(_NOTHING_NEW)
    else:
        status.update_status(path, over_installed=section)


def _keep_unasked(
    found: status.VerifySection, before: status.VerifySection, result: VerifyResult
) -> status.VerifySection:
    """Add to ``found`` what this run left out and ``before`` has of the same wheels.

    ``found`` is of ``result``. Else a run with fewer checks would erase a comparison, or a check that failed. Nothing
    is added of other wheels, nor of a record that does not say which they were.
    """
    if not found.wheels or before.wheels != found.wheels:
        return found
    asked = tuple(f"{check.name}: " for check in result.checks)
    unasked = [line for line in before.failed if not line.startswith(asked)]
    fewer = found.audited < before.audited
    return structs.replace(
        found,
        audited=max(found.audited, before.audited),
        faults=tuple(dict.fromkeys([*before.faults, *found.faults])) if fewer else found.faults,
        checks=max(found.checks, before.checks),
        failed=(*unasked, *found.failed),
        parity=found.parity or before.parity,
    )


def choose_kernels(
    code: KernelComparison | None, before: status.WheelSection | None, wheel: str, wheels: Mapping[str, str]
) -> status.KernelsSection | None:
    """Return the section of ``code``, else what ``before`` has of the same wheel.

    ``wheels`` are the SHA-256 of this run's; the same is one of the same bytes.
    """
    if code:
        return status.KernelsSection(**code.to_dict())
    same = before is not None and wheel in wheels and before.verify.wheels.get(wheel) == wheels[wheel]
    return before.kernels if before and same else None


def make_section(core: str, result: VerifyResult) -> status.VerifySection:
    """Make the section of what was looked at, for the status file.

    Machine code has a section of its own.
    """
    return status.VerifySection(
        core=core,
        # every rule looks at the libraries anew, the last ones at those of both wheels
        audited=max((part.files for part in result.audits), default=0),
        faults=tuple(str(fault) for part in result.audits for fault in part.faults),
        checks=sum(part.done for part in result.checks),
        failed=tuple(f"{part.name}: {part.observed}" for part in result.checks if not part.passed),
        parity=make_parity_section(result.parity) if result.parity else None,
        wheels=result.wheels,
    )


def make_parity_section(parts: Sequence[Parity]) -> status.ParitySection:
    """Make the section of all compared names: counts, and names without a reason.

    A category without names, which makes the verdict FAILED too, stands among these.
    """
    nothing = [f"{part.category}: nothing to compare" for part in parts if not part.total]
    return status.ParitySection(
        sum(part.total for part in parts),
        sum(len(part.missing) for part in parts),
        sum(len(part.extra) for part in parts),
        sum(len(part.different) for part in parts),
        (*nothing, *(f"{part.category}: {name}" for part in parts for name in part.unexplained)),
    )


def record_kernels(project: Path, release: str, label: str, comparison: KernelComparison, series: str) -> None:
    """Write figures of our build ``label`` to the status file; keep those of others.

    ``series`` is the digest that its wheel names.
    """
    path = status.locate_status(project, release)
    section = status.KernelsSection(**comparison.to_dict(), series=series)
    status.update_status(path, kernels={label: section})
