"""Dump and compare the machine code in CUDA libraries, kernel by kernel.

Nothing is executed or translated.

>>> from decouple.flows.kernels import KernelRequest, compare_kernels
>>> compare_kernels(KernelRequest(project, str(python), "official:2.6"))
Traceback (most recent call last):
decouple.base.errors.DecoupleError: ...python: no device code in it (name a wheel or folder that has some)
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_cache
from decouple.base.progress import SILENT, Progress
from decouple.build import root_description
from decouple.build.environment import Environment
from decouple.build.wheel_finishing import read_manifest
from decouple.flows import portable_environment
from decouple.flows.listener import QUIET, Listener
from decouple.release.manifest import Manifest
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.verify import audit, checks, elf, facts
from decouple.verify.kernels import code_diff, fatbin, official
from decouple.verify.kernels import compare as comparing
from decouple.verify.kernels import dump as dumps
from decouple.verify.kernels import host_symbols as hosts
from decouple.verify.kernels.code_diff import CodeDifference
from decouple.verify.kernels.compare import KernelComparison, KernelDifference
from decouple.verify.kernels.dump import KernelDump
from decouple.verify.kernels.host_symbols import HostSymbols

OFFICIAL = "official:"


class KernelRequest(Struct, frozen=True):
    """Two sides, each a library, a wheel, a folder, a dump, or "official:RELEASE"."""

    project: Path
    ours: str
    theirs: str
    archs: tuple[str, ...] = ()
    """For example "sm_90"; empty: those in both."""
    sides: str = ""
    """Whose explanations of differences hold, e.g. "built/official"."""


def compare_kernels(request: KernelRequest, listener: Listener = QUIET) -> KernelComparison:
    """Compare two sides: what is missing, extra and different.

    Raises UsageError or DecoupleError for a side without device code.
    """
    archs = request.archs or _find_common_archs(request.ours, request.theirs) or None
    ours, theirs = (
        _dump_side(request.project, side, archs, listener.progress) for side in (request.ours, request.theirs)
    )
    comparison = comparing.compare_dumps(ours, theirs, sides=request.sides)
    if request.archs:
        return comparison
    there = {arch for arch in (*ours.images, *theirs.images) if arch.startswith("sm_")}
    return replace(comparison, left_out=tuple(sorted(there - set(comparison.archs))))


def explain_differences(ours: Path, theirs: Path, kernels: Sequence[KernelDifference]) -> list[CodeDifference]:
    """Explain each function that differs in two libraries, by its instructions."""
    with contextlib.ExitStack() as stack:
        sides = [_find_libraries([path], stack) for path in (ours, theirs)]
        return list(code_diff.compare_code(sides[0], sides[1], kernels))


def read_host_symbols(word: Path, arch: str) -> dict[str, HostSymbols]:
    """Return library with device code -> what its host side registers and needs.

    Raises DecoupleError where there is none, or none for ``arch``; "sm_90" means its variants, such as "sm_90a", too.
    """
    with contextlib.ExitStack() as stack:
        libraries = _find_libraries([word], stack)
        there = {name for library in libraries for name in fatbin.count_images(library) if name.startswith("sm_")}
        archs = dumps.select_archs(there, [arch], str(word))
        return {library.name: hosts.read_host_symbols(library, archs) for library in libraries}


def dump_kernels(
    paths: Sequence[Path], label: str, archs: Sequence[str] | None, progress: Progress = SILENT
) -> KernelDump:
    """Dump the hashes of every function in libraries, objects, wheels and folders.

    Raises DecoupleError where is none.
    """
    with contextlib.ExitStack() as stack:
        return dumps.dump_libraries(_find_libraries(paths, stack), label, archs, progress=progress)


def compare_backend(
    environment: Environment,
    backend: Path,
    against: str,
    *,
    part: bool = False,
    kept: bool = False,
    progress: Progress = SILENT,
) -> KernelComparison:
    """Compare the machine code of the wheel ``backend`` with ``against``.

    "official", "monolith" (of the Debian root, which is made where it is not there), or a file. Against others the
    official wheel is the witness, where it is kept here.

    ``part`` compares only the sources that the wheel has, and those of the attention kernels are left out where it was
    asked for without them; the architectures are those of the wheel that a monolith or a file has, too, or the
    ``kept`` ones, for which nothing is fetched. Raises DecoupleError where the wheel has no code for an architecture
    that it was made for.
    """
    places = environment.places
    archs = made_for = _read_archs(backend)
    if kept:
        archs = list_kept_archs(load_release(places.project, places.release), backend)
    word = against
    if against == "official":
        word = f"{OFFICIAL}{places.release}"
    elif against == "monolith":
        root = portable_environment.make_root(
            root_description.load_description(), "Debian", ["monolith"], Listener(progress=progress)
        )
        folder = root.tree / checks.MONOLITH.lstrip("/") / "lib"
        word = str(next(iter(sorted(folder.rglob("libtorch_cuda.so*"))), folder))
    attention = read_manifest(backend).flags.get("flash", True) is not False
    whole = "built" if attention else "built without attention"
    sides = f"{whole}/{against}" if against in ("official", "monolith") else ""
    with contextlib.ExitStack() as stack:
        looked = backend
        if kept:  # the dump that is kept is libtorch_cuda's; MAGMA's kernels are not in it
            looked = next(stack.enter_context(audit.open_folder(backend)).rglob("libtorch_cuda.so"))
        ours = dump_kernels([looked], backend.name, archs, progress)
    if (there := _list_archs(word)) is not None and (shared := [arch for arch in archs if arch in there]):
        archs, ours = shared, ours.keep_archs(shared)
    theirs = _dump_side(places.project, word, archs, progress)
    witness = None
    if against != "official" and len(archs) == 1:
        path = official.find_kept_dump(load_release(places.project, places.release).version, archs[0])
        witness = dumps.read_dump(path) if path.exists() else None
    comparison = comparing.compare_dumps(ours, theirs, part=part, attention=attention, sides=sides, witness=witness)
    return replace(comparison, left_out=tuple(arch for arch in made_for if arch not in archs))


def has_official_dump(release: Manifest, backend: Path) -> bool:
    """Return whether the official wheel's machine code is kept here.

    Then nothing is fetched for the architectures of ``backend``.
    """
    archs = _read_archs(backend)
    return len(archs) == 1 and official.find_kept_dump(release.version, archs[0]).exists()


def list_kept_archs(release: Manifest, backend: Path) -> list[str]:
    """List the architectures of ``backend`` whose official machine code is kept here.

    Raises DecoupleError where it is for none.
    """
    archs = _read_archs(backend)
    kept = [arch for arch in archs if official.find_kept_dump(release.version, arch).exists()]
    if not kept:
        words = " ".join(
            [shlex.quote(str(backend)), f"{OFFICIAL}{release.release}", *(f"--arch {arch}" for arch in archs)]
        )
        raise DecoupleError(
            f"{backend.name}: the official {release.version}'s machine code is not kept here for {', '.join(archs)}",
            next_step=f"decouple kernels compare {words} fetches it",
        )
    return kept


def _read_archs(backend: Path) -> list[str]:
    """Read the architectures of a wheel of ours.

    "sm_90" means its variants, such as "sm_90a", too.
    """
    flags = facts.list_arch_flags(read_manifest(backend).arch_list)
    return sorted({fatbin.drop_variant(flag) for flag in flags if flag.startswith("sm_")})


def _find_libraries(paths: Sequence[Path], stack: contextlib.ExitStack) -> list[Path]:
    """Find the libraries and objects with device code among ``paths``.

    Wheels and folders are searched.
    """
    libraries: list[Path] = []
    for path in paths:
        if path.is_dir() or path.suffix == ".whl":
            folder = stack.enter_context(audit.open_folder(path))
            files = sorted({file.resolve() for file in folder.rglob("*") if file.is_file()})
            libraries += [file for file in files if elf.is_elf(file) and fatbin.count_images(file)]
        else:
            libraries.append(path)
    if not libraries:
        raise DecoupleError(f"{paths[0]}: no device code in it", next_step="name a wheel or folder that has some")
    return libraries


def _find_common_archs(ours: str, theirs: str) -> list[str]:
    """Find the architectures that two sides share, as known without reading code."""
    sides = [{"sm_90"} if word.startswith(OFFICIAL) else _list_archs(word) or set() for word in (ours, theirs)]
    return sorted(sides[0] & sides[1])


def _list_archs(word: str) -> set[str] | None:
    """List the architectures of a library, wheel, folder or dump that is there.

    "sm_90" means its variants, such as "sm_90a", too. None for the official wheel, which is asked for those that are
    wanted.
    """
    path = Path(word)
    if word.startswith(OFFICIAL) or not path.exists():
        return None
    if path.is_file() and dumps.is_dump(path):
        found = {*dumps.read_dump(path).architectures()}
    else:
        with contextlib.ExitStack() as stack:
            found = {arch for library in _find_libraries([path], stack) for arch in fatbin.count_images(library)}
    return {fatbin.drop_variant(arch) for arch in found if arch.startswith("sm_")}


def _dump_side(project: Path, word: str, archs: Sequence[str] | None, progress: Progress) -> KernelDump:
    if word.startswith(OFFICIAL):
        manifest = load_release(project, word.removeprefix(OFFICIAL))
        downloader = Downloader(find_cache(), progress=progress)
        return official.load_official_dump(manifest, archs or ["sm_90"], find_cache(), downloader, progress=progress)
    path = Path(word)
    if not path.exists():
        raise UsageError(f"{path}: not there", next_step="name a library, a wheel, a dump, or official:RELEASE")
    if path.is_file() and dumps.is_dump(path):
        read = dumps.read_dump(path)
        return read.keep_archs(archs) if archs else read
    return dump_kernels([path], path.name, archs, progress)
