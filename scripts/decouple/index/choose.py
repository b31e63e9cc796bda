"""Choose the one core and the one torch-cuda that suit a machine.

They are chosen from what an index offers. The libraries of torch-cuda come along where they are a wheel of their own.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import sysconfig
from collections.abc import Iterable

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags
from packaging.utils import BuildTag, canonicalize_name
from packaging.version import InvalidVersion, Version

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.untrusted_input import is_count
from decouple.index.offer import Offer, Page
from decouple.index.remote import STATEMENT_BOUND, Index, NotThereError
from decouple.index.site import METADATA
from decouple.release import projects
from decouple.release.projects import CORE, CUDA, LIBRARIES


class Machine(Struct, frozen=True):
    """What the wheels must run on.

    A Python version, its tags best first, the newest CUDA its driver can run.
    """

    python: Version
    tags: tuple[Tag, ...]
    driver_cuda: Version | None


class ChosenPackages(Struct, frozen=True):
    """The files to fetch, core first, and why this CUDA version was taken.

    ``refused`` says of each page what of it was not looked at, in a line.
    """

    packages: tuple[Offer, ...]
    reason: str
    refused: tuple[str, ...] = ()


class _Pages(dict[str, Page]):
    """Each project's page, asked for once."""

    def __init__(self, index: Index) -> None:
        super().__init__()
        self.index = index

    def __missing__(self, project: str) -> Page:
        self[project] = page = self.index.read_project(project)
        return page

    def describe_refused(self) -> tuple[str, ...]:
        """Describe what of them was refused."""
        return tuple(f"{name}: {text}" for name, page in self.items() if (text := _describe_refused(page)))


def detect_machine(python: str | None = None) -> Machine:
    """Describe this machine with its own Python, or with version ``python``.

    That is ``3.13``, or ``3.13t`` for one that is free-threaded.

    Raises UsageError.
    """
    free = sysconfig.get_config_var("Py_GIL_DISABLED") == 1
    if python is None:
        version = (sys.version_info.major, sys.version_info.minor)
    else:
        free = python.endswith("t")
        parts = python.removesuffix("t").split(".")
        if len(parts) < 2 or not all(map(is_count, parts)):
            raise UsageError(
                f"--python {python}: expected a version such as 3.13 or 3.13t",
                next_step="--into PATH/bin/python asks an interpreter",
            )
        version = (int(parts[0]), int(parts[1]))
    platforms = list(platform_tags())
    interpreter = f"cp{version[0]}{version[1]}"
    tags = [
        *cpython_tags(python_version=version, abis=[f"{interpreter}t" if free else interpreter], platforms=platforms),
        *compatible_tags(python_version=version, interpreter=interpreter, platforms=platforms),
    ]
    return Machine(Version(f"{version[0]}.{version[1]}"), tuple(tags), read_driver_cuda())


def read_driver_cuda(library: str = "libcuda.so.1") -> Version | None:
    """Read the newest CUDA version that the installed NVIDIA driver runs.

    None without a driver. Asked by ``cuDriverGetVersion``.
    """
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return None
    number = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    return Version(f"{number.value // 1000}.{number.value % 1000 // 10}")


def choose_packages(index: Index, release: str, machine: Machine, cuda: str | None = None) -> ChosenPackages:
    """Choose the newest files of ``release`` for this machine.

    ``cuda`` is a local version such as ``cu124``, ``cpu`` for the core alone, or None: the newest that the driver
    runs; without a driver the newest there is. Raises DecoupleError naming what the index offers instead, UsageError
    for a release that is called by no version.
    """
    try:
        Version(release)
    except InvalidVersion:
        raise UsageError(
            f"{release}: wheels are chosen by their version, and that is none",
            next_step="name the release that their version begins with, such as 2.7, and --trust-index",
        ) from None
    pages = _Pages(index)
    if cuda == "cpu":
        bare = [
            core for core in _select_fitting(pages, CORE, release, machine) if not _read_label(core).startswith("cu")
        ]
        if not bare:
            raise DecoupleError(
                f"{CORE} {release}: every one in {index.address} brings CUDA",
                next_step="name the index for all, or cpu/",
            )
        return ChosenPackages((bare[-1],), "the core alone, as asked", pages.describe_refused())
    offers = dict[str, list[Offer]]()
    for package in _select_fitting(pages, CUDA, release, machine):
        offers.setdefault(_read_label(package), []).append(package)
    if not offers:
        raise DecoupleError(
            f"{CUDA} {release}: no wheel in the index names its CUDA version",
            next_step="tell its publisher; --cuda cpu takes the core alone",
        )
    if cuda is not None:
        if cuda not in offers:
            raise DecoupleError(
                f"{CUDA} {release}: no {cuda} in {index.address}; it has {', '.join(sorted(offers))}",
                next_step="choose one of these with --cuda, or --cuda cpu",
            )
        label, reason = cuda, "as asked"
    else:
        label, reason = _choose_for_driver(offers, machine)
    for package in reversed(offers[label]):
        if pinned := _find_pinned(pages, package, release, machine):
            return ChosenPackages((*pinned, package), f"{label}: {reason}", pages.describe_refused())
    raise DecoupleError(
        f"{offers[label][-1].filename}: for an unmodified torch, and this command installs the patched one with it",
        next_step=f"pip install it beside that torch, such as {offers[label][-1].version.public}+cpu; "
        "or choose another with --cuda",
    )


def _choose_for_driver(offers: Iterable[str], machine: Machine) -> tuple[str, str]:
    ordered = sorted(offers, key=_parse_cuda_version)
    if machine.driver_cuda is None:
        return ordered[-1], "the newest; no NVIDIA driver here to ask (choose with --cuda)"
    older = [label for label in ordered if _parse_cuda_version(label) <= machine.driver_cuda]
    same_major = [label for label in ordered if _parse_cuda_version(label).major == machine.driver_cuda.major]
    runs = f"the driver (CUDA {machine.driver_cuda}) runs"
    if older and (older[-1] in same_major or not same_major):
        return older[-1], f"the newest that {runs}"
    if same_major:
        # CUDA's minor version compatibility: within a major version a driver also runs what is newer than itself.
        return same_major[0], f"the nearest that {runs}, by minor version compatibility"
    raise DecoupleError(
        f"the driver runs CUDA {machine.driver_cuda}, the index has only {', '.join(ordered)}",
        next_step="update the driver, or choose with --cuda",
    )


def _find_pinned(pages: _Pages, package: Offer, release: str, machine: Machine) -> list[Offer]:
    """Find what a torch-cuda wheel is pinned to by its metadata.

    The core, and its libraries where they are apart. Empty of one for an unmodified torch, for which the index has no
    core: all of ours are patched.

    Raises DecoupleError when it pins no core, or something that the index does not have.
    """
    data = _read_metadata(pages.index, package)
    if package.metadata and hashlib.sha256(data).hexdigest() != package.metadata:
        raise DecoupleError(
            f"{package.filename}{METADATA}: not the bytes the index promised (sha256 {package.metadata[:12]}…)",
            next_step="tell its publisher; do not install",
        )
    try:
        asked = projects.parse_requirements(projects.parse_metadata(data))
    except ValueError as error:
        raise DecoupleError(
            f"{package.filename}: its metadata: {error}", next_step="tell the publisher; do not install"
        ) from error
    if projects.find_unmodified_core(package.project, asked):
        return []
    pinned: dict[str, Offer] = {}
    for requirement in asked:
        name = canonicalize_name(requirement.name)
        if name in (CORE, LIBRARIES):
            matching = [
                offer
                for offer in _select_fitting(pages, name, release, machine)
                if requirement.specifier.contains(str(offer.version), prereleases=True)
            ]
            if not matching:
                raise DecoupleError(
                    f"{package.filename}: needs {requirement}, which {pages.index.address} does not have",
                    next_step="tell its publisher; choose another with --cuda, or --cuda cpu",
                )
            pinned[name] = matching[-1]
    if CORE not in pinned:
        raise DecoupleError(
            f"{package.filename}: its metadata pins no torch", next_step="tell the publisher; do not install"
        )
    return [pinned[name] for name in (CORE, LIBRARIES) if name in pinned]


def _read_metadata(index: Index, package: Offer) -> bytes:
    """Read the METADATA of a wheel.

    The file beside it (PEP 658), else that in the wheel itself. Raises DecoupleError.
    """
    try:
        data = index.read_address(package.make_sibling_address(METADATA), STATEMENT_BOUND)
        if package.metadata is not None or data.startswith(b"Metadata-Version:"):
            return data
    except NotThereError:
        if package.metadata is not None:
            raise
    return index.read_metadata(package)


def _select_fitting(pages: _Pages, project: str, release: str, machine: Machine) -> list[Offer]:
    """Select wheels of a release that run here and are not yanked, worst first.

    Raises DecoupleError when none is left.
    """
    page = pages[project]
    of_release = [package for package in page.offers if package.version.release[:2] == Version(release).release[:2]]
    kept = [package for package in of_release if package.yanked is None]
    by_python = [package for package in kept if _has_fitting_python(package, machine)]
    rank = {tag: -position for position, tag in enumerate(machine.tags)}
    fitting = [package for package in by_python if any(tag in rank for tag in package.tags)]
    if not fitting:
        if not of_release:
            offered = sorted({f"{package.version.major}.{package.version.minor}" for package in page.offers})
            why = f"the index has {', '.join(offered) or 'no release of it'}"
        elif not kept:
            why = "every file of it was yanked"
        else:
            names = sorted({str(tag) for package in kept for tag in package.tags})
            why = f"built for {', '.join(names)}"
        raise DecoupleError(
            f"{project} {release}: nothing for Python {machine.python} here; {why}{_append_refused(page)}",
            next_step="choose with --python, or build it: nox -s build-" + release,
        )

    def rank_offer(package: Offer) -> tuple[Version, int, BuildTag]:
        return package.version, max(rank.get(tag, -len(rank)) for tag in package.tags), package.build

    return sorted(fitting, key=rank_offer)


def _has_fitting_python(package: Offer, machine: Machine) -> bool:
    try:
        return SpecifierSet(package.requires_python or "").contains(machine.python, prereleases=True)
    except InvalidSpecifier:
        return False


def _describe_refused(page: Page) -> str:
    """Describe what of the page was not looked at, for a message.

    Empty when nothing was left out.
    """
    wheels = [refusal for refusal in page.refused if refusal.of_wheel]
    return f"{len(wheels)} of its wheels refused: {wheels[0].filename}: {wheels[0].why}" if wheels else ""


def _append_refused(page: Page) -> str:
    text = _describe_refused(page)
    return f"; {text}" if text else ""


def _read_label(package: Offer) -> str:
    """Read ``cu124`` of ``2.6.0+cu124.2``, ``cu124.sm90`` of one for such GPUs alone.

    Else how its local version begins.
    """
    local = package.version.local
    return projects.parse_cuda_label(local) or (local or "").split(".")[0]


def _parse_cuda_version(label: str) -> Version:
    digits = label.split(".")[0].removeprefix("cu")
    return Version(f"{digits[:-1]}.{digits[-1]}") if label.startswith("cu") and len(digits) > 1 else Version("0")
