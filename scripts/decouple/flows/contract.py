"""Check backends by the contract, on our wheels or a distribution's PyTorch.

The distribution's PyTorch is of the same release.

>>> from decouple.flows.contract import ContractRequest, check_contract
>>> check_contract(ContractRequest(project, "2.6", device="acme"))
Traceback (most recent call last):
decouple.base.errors.UsageError: ...third_device/torch_acme: no backend there (decouple new-device acme)
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import UsageError, refuse_below
from decouple.base.files import remove_folder
from decouple.build import settings
from decouple.build.wheel_finishing import find_series, refuse_other_core
from decouple.device import contract
from decouple.flows.listener import QUIET, Listener
from decouple.flows.tree_overlay import warn_of_older_wheels
from decouple.flows.work_environment import WorkRequest, hold_trials, open_environment
from decouple.release import status
from decouple.verify import venvs


class ContractRequest(WorkRequest, frozen=True):
    """Which backend, on which PyTorch."""

    device: str | None = None
    """Of ``third_device/torch_<device>``; without one the template is taken, as ``sim``."""
    core: str = "built"
    """The PyTorch: "built" or "stock"."""
    beside_cuda: bool = False
    """With the torch_cuda wheel installed, too."""
    upstream: bool = False
    """Upstream's own suites of the applied tree, too."""
    jobs: int | None = None
    pytest: tuple[str, ...] = ()
    """Further arguments for pytest."""


class ContractRun(Struct, frozen=True):
    """Whether every test passed, and the folder of the report."""

    ok: bool
    report: Path


def check_contract(request: ContractRequest, listener: Listener = QUIET) -> ContractRun:
    """Install, build, check; record the template's whole contract in ``ci/status``.

    Raises UsageError when a folder or a wheel is missing, or torch_cuda is for another core; DecoupleError when the
    backend does not build.
    """
    refuse_below(1, jobs=request.jobs)
    with contract.open_backend(request.project / "third_device", request.device) as backend:
        return _check_backend(request, backend, listener)


def _check_backend(request: ContractRequest, backend: Path, listener: Listener) -> ContractRun:
    """Do what `check_contract` says with the sources in ``backend``."""
    places = request.places
    stock = request.core == "stock"
    if stock and request.beside_cuda:
        raise UsageError(
            "--core stock --beside-cuda: torch_cuda in dist/ belongs to the core there", next_step="drop one"
        )
    core = None if stock else contract.find_only_wheel(places.dist, "torch")
    cuda = contract.find_only_wheel(places.dist, "torch_cuda") if request.beside_cuda else None
    again = f"nox -s build-{request.release}"
    if cuda:
        refuse_other_core(cuda, "built", again)
    warn_of_older_wheels(request, places, [wheel for wheel in (core, cuda) if wheel], again, listener)
    places.create_folders()
    with hold_trials(places, "contract"):
        return _check_wheels(request, backend, core, cuda, listener)


def _check_wheels(
    request: ContractRequest, backend: Path, core: Path | None, cuda: Path | None, listener: Listener
) -> ContractRun:
    """Do what `check_contract` says on these wheels, or on the stock core."""
    places = request.places
    third_device, stock = places.project / "third_device", core is None
    layers = ["core", *(["stock"] if stock else []), *(["cuda"] if cuda else [])]
    environment = open_environment(request, places, layers, listener)
    table = settings.find_core(request.core)
    libraries, packages, prefix = "", "", ""
    if environment.kind == "rootfs":  # a host finds its own
        libraries, packages = table.find_libraries(environment.kind), table.packages
        prefix = table.prefix if stock else ""
    names = environment.name_places()
    place = venvs.Workplace(environment, places.verify, names["verify"], places.logs / "contract.log")
    # one environment to compile in: the backend is built against the core, whatever lies beside it when it runs
    if core:
        built = venvs.install_wheels(place, "contract-core", [core])
    else:
        built = venvs.install_wheels(place, "contract-stock", [], packages=packages, libraries=libraries)
    needed = libraries if stock else ""
    site = contract.ContractSite(environment, built.folder, built.inside, needed, names["ccache"], place.log, prefix)
    tried, used = built, site
    if core and cuda:
        tried = venvs.install_wheels(place, "contract-both", [core, cuda], libraries=libraries)
        used = replace(site, folder=tried.folder, inside=tried.inside, libraries=libraries)
    folders = []
    for project in (backend, third_device / contract.CONTRACT):
        listener.progress.start(f"{project.name} for {core.name if core else 'the stock PyTorch'}")
        folders.append(contract.install_backend(site, third_device, project, jobs=request.jobs))
        listener.progress.finish()
    report = tried.folder / "report"
    remove_folder(report, ignore_errors=True)  # an earlier run's would be taken for this one's
    options = ["--contract-report", f"{tried.inside}/report", *request.pytest]
    if request.upstream:
        options.append(f"--upstream-tests={names['tree']}/test")
    code = contract.run_contract(used, request.device or contract.SIMULATED, folders, options)
    if request.device is None and not request.pytest:  # the whole contract, on the backend of this project
        again = f"nox -s build-{request.release}"
        series = find_series([wheel for wheel in (core, cuda) if wheel], again, listener.warn)
        if series is not None:
            summary = replace(contract.read_summary(report / "contract.json"), series=series)
            record_contract(request, tried.name.removeprefix("contract-"), summary, code, listener)
    return ContractRun(code == 0, report)


def record_contract(
    request: ContractRequest, label: str, found: status.ContractSection, code: int, listener: Listener
) -> None:
    """Record in ``ci/status`` what the whole contract found on the torch ``label``.

    Not where an earlier run on the same torch tried more items (``--upstream``) and this one found no fault. Nor where
    the exit status ``code`` of pytest tells of another fault than the failed tests: the report is written before it
    ends.
    """
    if code and not (code == 1 and found.tests.get("failed")):
        ending = f"by signal {-code}" if code < 0 else f"with exit status {code}"
        again = "read what it said above, and run the contract again"
        listener.warn(f"contract: pytest ended {ending} behind its report, so nothing is recorded; {again}")
        return
    path = status.locate_status(request.project, request.release)
    before = status.read_status(path).contract.get(label)
    if before and (before.series, before.torch) == (found.series, found.torch):
        fewer = before.items.get(contract.UNTRIED, 0) < found.items.get(contract.UNTRIED, 0)
        if fewer and not found.tests.get("failed"):
            more = "" if request.upstream else "; --upstream tries upstream's own suites, too"
            listener.say(f"recorded as it was: an earlier run tried more items, and this one found no fault{more}")
            return
    status.update_status(path, contract={label: found})
