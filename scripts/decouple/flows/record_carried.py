"""Record how far a release without a series of its own was seen.

That is on its exact text, on a tree, and by a compiler.

>>> from decouple.flows.record_carried import CarriedTrial, record_trial
>>> record_trial(CarriedTrial(project, "2.7", name="like-2.7", tree=project / "none"))
Traceback (most recent call last):
decouple.base.errors.UsageError: --trial: .../none is no folder (name the folder of a source tree)
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.base.files import copy_folders, make_scratch_folder, write_atomically
from decouple.base.paths import find_cache
from decouple.flows.apply import ApplyRequest, apply_series
from decouple.flows.carry import find_nearest
from decouple.flows.listener import QUIET, Listener
from decouple.flows.patch_regeneration import RELOCATION, PatchRemaker
from decouple.flows.rebase import RebaseRequest, rebase_series
from decouple.patch import series_file
from decouple.patch.apply import Tree
from decouple.patch.parse import Patch
from decouple.rebase.verdicts import CarryResult, Verdict
from decouple.release import status
from decouple.release.manifest import RemoteFile
from decouple.release.manifest_toml import render_manifest
from decouple.series import check
from decouple.series.digest import compute_series_digest
from decouple.upstream.cuda_headers import fetch_headers
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.upstream.official_text import compare_with_wheel
from decouple.upstream.providers.wheel import find_wheel
from decouple.upstream.unpublished_manifest import describe_local
from decouple.verify import header_compile

_OWN_UNITS = Path("third_device/torch_cuda/torch_cuda/csrc")


class WheelRequest(Struct, frozen=True):
    """Which release; its official wheel is read by range."""

    project: Path
    release: str
    from_source: str = "auto"
    """Where the source of the series' own release comes from."""


class CarriedTrial(WheelRequest, frozen=True, kw_only=True):
    """Choose a tree for a release without whole source; ``name`` says how it was made."""

    name: str
    tree: Path


class HeaderCompile(WheelRequest, frozen=True, kw_only=True):
    """Compile stage 2's own units against the wheel's headers and those of a CUDA."""

    cuda: Path | None = None
    """A folder with the CUDA toolkit's headers somewhere below it; None: those of NVIDIA's wheels for the release."""
    compiler: str = "g++"


def record_exact(request: WheelRequest, listener: Listener = QUIET) -> status.ExactSection:
    """Record what becomes of each patch on the official wheel's text.

    Raises DecoupleError.
    """
    project, release = request.project, request.release
    wheel, old = _find_wheel(request), find_nearest(project, release)
    asked = RebaseRequest(project, (old, release), "wheel", from_source=request.from_source, report=True)
    carried, patches = rebase_series(asked, listener).outcome.carried, check.load_series(project, old)
    edited, unseen = set[str](), set[str]()
    for result, patch in zip(carried, patches, strict=True):
        if patch.header.decouple_id == RELOCATION:
            continue
        edited |= {file.old_path for file in patch.files if file.old_path}
        if result.verdict is Verdict.NOT_SEEN:
            unseen |= {note.path for note in result.notes if note.path}
    found = status.ExactSection(
        compute_series_digest(project, old),
        wheel.name,
        _count_verdicts(carried),
        len(edited),
        len(edited - unseen),
        tuple(patch.name for result, patch in zip(carried, patches, strict=True) if result.verdict.is_stop),
    )
    status.update_status(status.locate_status(project, release), exact=found)
    return found


def record_trial(request: CarriedTrial, listener: Listener = QUIET) -> status.CarriedTrialSection:
    """Carry the series to the tree in a copy of the checkout, judge and record it.

    Where a patch stops, all that stop are named and nothing is judged. Raises DecoupleError.
    """
    project, release = request.project, request.release
    tree = request.tree.resolve()
    if not tree.is_dir():
        raise UsageError(f"--trial: {request.tree} is no folder", next_step="name the folder of a source tree")
    old, source = find_nearest(project, release), f"local:{tree}"
    near = compare_with_wheel(tree, load_release(project, release), progress=listener.progress)
    with make_scratch_folder(Checkout(project).rebase, "trial") as folder:
        copy = copy_folders(project, folder, ("patches", "series", "third_device"))
        manifest = describe_local(request.name, tree, find_cache())
        write_atomically(Checkout(copy).locate_manifest(request.name), render_manifest(manifest))
        asked = RebaseRequest(copy, (old, request.name), source, from_source=request.from_source, report=True)
        started = time.monotonic()
        outcome = rebase_series(asked, listener).outcome
        found = status.CarriedTrialSection(
            series=compute_series_digest(project, old),
            patches=_count_verdicts(outcome.carried),
            stops=outcome.stops,
            seconds=round(time.monotonic() - started, 1),
            likeness=near.format_line() if near else None,
        )
        if not found.stops:
            rebase_series(structs.replace(asked, report=False), listener)
            found = _judge_trial(ApplyRequest(copy, request.name, source), found, listener)
    path = status.locate_status(project, release)
    status.update_status(path, trials={request.name: found})
    return found


def record_headers(request: HeaderCompile, listener: Listener = QUIET) -> status.HeaderCompileSection:
    """Let a compiler check each unit of ours against the wheel's headers.

    The headers are as the series leaves them. Raises DecoupleError where the wheel cannot be read, or there is no
    compiler or no CUDA header.
    """
    project, release = request.project, request.release
    wheel, old = _find_wheel(request), find_nearest(project, release)
    cache = find_cache()
    downloader = Downloader(cache, progress=listener.progress)
    toolchain = load_release(project, release).toolchain
    cuda = [request.cuda] if request.cuda else fetch_headers(toolchain, cache, downloader, progress=listener.progress)
    with tempfile.TemporaryDirectory(prefix="decouple-headers-") as folder:
        headers = header_compile.lay_out_headers(wheel, Path(folder) / "wheel", downloader, listener.progress)
        unpatched = _lay_patched(project, old, header_compile.InstalledHeaders(headers.include))
        answer = header_compile.compile_units(project / _OWN_UNITS, headers, cuda, request.compiler, listener.progress)
    found = status.HeaderCompileSection(
        compute_series_digest(project, old),
        wheel.name,
        answer.compiler,
        answer.cuda,
        headers.standard,
        len(answer.units),
        {unit: error for unit, error in answer.units.items() if error},
        unpatched,
    )
    status.update_status(status.locate_status(project, release), headers=found)
    return found


def _find_wheel(request: WheelRequest) -> RemoteFile:
    wheel = find_wheel(load_release(request.project, request.release))
    if wheel is None:
        raise UsageError(
            f"series/{request.release}.toml names no official wheel",
            next_step=f"decouple manifest fill {request.release} --write",
        )
    return wheel


def _lay_patched(project: Path, old: str, installed: header_compile.InstalledHeaders) -> tuple[str, ...]:
    """Patch the wheel's headers one by one; return those where nothing fits.

    A patch may change other files too, which no wheel shows: so each header is judged by itself.
    """
    series, tree, left = check.load_series(project, old), Tree(installed), []
    workshop = PatchRemaker.of_project(project).with_merging(project, old, series)
    for patch in series:
        for section in patch.files:
            path = section.old_path
            if path is None or path != section.new_path or installed.mode(path) is None:
                continue
            alone = Patch(patch.name, patch.header_bytes + section.to_text(), patch.strip)
            made = workshop.remake_file(alone, path, tree)
            if made is None:
                left.append(path)
            else:
                tree.update({path: made})
                installed.locate(path).write_bytes(made.data)
    return tuple(left)


def _judge_trial(
    request: ApplyRequest, found: status.CarriedTrialSection, listener: Listener
) -> status.CarriedTrialSection:
    """Return the section with the verdict of the applied series, and its tree."""
    verdict = apply_series(request, listener).verdict
    assert verdict, "a carried series is judged"
    tree, _ = series_file.read_series(Checkout(request.project).locate_series(request.release)).made_on
    return structs.replace(
        found, faults=verdict.count_found(), vendors=verdict.vendors, unasked=verdict.unasked, tree=tree
    )


def _count_verdicts(carried: Sequence[CarryResult]) -> Mapping[str, int]:
    return dict(Counter(result.verdict.value for result in carried))
