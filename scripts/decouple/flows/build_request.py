"""Turn what a user asks of a build into places, stages, choices and cost.

>>> from decouple.flows.build_request import BuildRequest, estimate_stages
>>> request = BuildRequest(project, "2.6", core="stock", archs="9.0", jobs=2)
>>> [cost.what for cost in estimate_stages(request)]
['stage 2']
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from decouple.base.errors import UsageError, refuse_below
from decouple.base.paths import find_cache
from decouple.base.untrusted_input import is_count
from decouple.build import object_times, remote_cache, root_description, rootfs, settings, toolchain, toolkits
from decouple.build.environment import Places, find_other_tree, holds_other_objects, locate_kept_objects, name_objects
from decouple.build.estimate import (
    Estimate,
    RootEstimate,
    count_cores,
    estimate_remaining,
    read_done_objects,
    read_planned_objects,
)
from decouple.build.options import Choices
from decouple.build.probe import check_archs, split_archs
from decouple.flows import portable_environment
from decouple.flows.work_environment import WorkRequest, check_named_tree, needs_root, refuse_without_debian
from decouple.prebuilt import installed_torch, kernel_folder, pairing
from decouple.upstream.manifests import load_release

OFFICIAL = "official"
"""For architectures: those of the release's official wheel."""
HALF = "official-half"
"""The folder below ``build/<release>/`` of stage 2 that is compiled for the CPU half of the official wheel."""
STOCK = "stock"
"""The folder below ``build/<release>/`` of stage 2 that is compiled for an unmodified core."""
SMOKE = "smoke"
"""The folder below ``build/<release>/`` of a part of stage 2: never that of a whole build."""
_PASSED = ("USE_", "CMAKE_", "BUILD_TEST")  # as upstream; other BUILD_* are mostly a CI host's own


class BuildRequest(WorkRequest, frozen=True):
    """Choose what to build.

    Variables of the environment that upstream's build reads (USE_*, MAX_JOBS, …) count too.
    """

    stage: int | None = None
    """1 or 2; None: both, or with a stock core only 2."""
    core: str = ""
    """What stage 2 builds against: "built", "stock", or "official" (the CPU half of the official wheel). Empty:
    "built", and "official" with the kernels of that wheel."""
    kernels: str = "compiled"
    """"compiled"; "official": taken from the release's official wheel; "monolith": from the root's single-stage build;
    or the folder of an installed CUDA build of the same release."""
    profile: str = "core"
    archs: str = ""
    """CUDA architectures, e.g. "8.0;9.0+PTX", or "official": those of the release's wheel on PyPI; empty:
    TORCH_CUDA_ARCH_LIST, or what ``stages.toml`` says."""
    flash: bool = True
    python: str = ""
    """In the portable root: which Python the wheels are for ("3.13"); empty: its own."""
    part: str = "all"
    """Of stage 2: "all" or "runtime"."""
    jobs: int | None = None
    """Compilers at once; None: what cores and memory allow."""
    revision: int = 0
    cuda: str = ""
    """The CUDA that kernels are compiled with ("11.8"); empty: the environment's, in the portable root the one of the
    official wheel."""
    toolkit: str = ""
    """Another vendor's toolkit that stage 2 is compiled with ("rocm"), as ``build/toolkits.toml`` has it; empty: CUDA.
    It is in the Debian root, so ``env`` "auto" is that."""
    cache: str = ""
    """The address of a compiler cache that machines share, ``redis://[USER:PASSWORD@]HOST[:PORT]/DB`` or
    ``file:FOLDER``; empty: none."""

    def __post_init__(self) -> None:
        if self.toolkit and self.env == "auto":
            structs.force_setattr(self, "env", "rootfs")

    @property
    def places(self) -> Places:
        places = super().places
        if self.env == portable_environment.KIND:
            places = places.for_portable(self.python)
        if self.kernels != "compiled":  # its wheel goes where all go; its name tells it apart
            name = f"{self.kind}-built" if self.against == "built" else self.kind
            return replace(places.with_stage2_in(name), dist=places.dist)
        if self.against == "official":  # a trial on a test bed: its wheel is named as one for the patched core
            core = kernel_folder.locate_halves(pairing.load_pair(self.release), find_cache())
            return replace(places.with_stage2_in(HALF), core=core)
        if self.toolkit and self.part == "all":  # its wheel goes where all go; its name tells it apart
            return replace(places.with_stage2_in(self.toolkit), dist=places.dist)
        if self.toolkit:
            return places.with_stage2_in(f"{SMOKE}-{self.toolkit}")
        if self.part != "all":
            return places.with_stage2_in(SMOKE)
        if self.against == "stock" and self.stages == (2,):  # its wheel is named as one for the patched core
            return places.with_stage2_in(STOCK)
        return places

    @property
    def kind(self) -> str:
        """Whose kernels, in a word: that of the wheel's version."""
        return self.kernels if self.kernels in ("compiled", kernel_folder.KIND) else installed_torch.KIND

    @property
    def against(self) -> str:
        """What stage 2 builds against, where ``core`` leaves it open too."""
        return self.core or {"compiled": "built", kernel_folder.KIND: "official"}.get(self.kind, "stock")

    @property
    def stages(self) -> tuple[int, ...]:
        """Which stages are built, in order."""
        if self.stage or self.toolkit:
            return (self.stage or 2,)
        return (2,) if self.against != "built" or self.kernels != "compiled" else (1, 2)


def refuse_unbuildable(request: BuildRequest) -> None:
    """Raise UsageError for what no build makes, before its cost is told."""
    if request.kernels != "compiled":
        if request.part != "all" or request.stage == 1:
            raise UsageError(
                f"--kernels {request.kernels} builds stage 2, whole",
                next_step="leave --slice out, and build stage 1 by itself",
            )
        if request.against == "official" and request.kind != kernel_folder.KIND:
            raise UsageError(
                f"--core official --kernels {request.kernels}: that half goes with its own kernels, or with compiled "
                "ones",
                next_step="add --kernels official",
            )
        pairing.load_pair(request.release)  # of what is compiled against, whosever kernels they are
    elif request.against == "official" and request.env != portable_environment.KIND:
        raise UsageError(
            "--core official: kernels for it are compiled in an old userland and with its C++ ABI",
            next_step=f"add --env {portable_environment.KIND}, or --kernels official to compile none",
        )
    if request.cache and request.kernels == "compiled":  # bindings use none
        remote_cache.check_address(request.cache)
    places, layers = request.places, list_layers(request)
    check_named_tree(request, places)
    if request.kernels == "monolith" and request.env in ("host", portable_environment.KIND):
        raise UsageError("--kernels monolith: it lies in the Debian root", next_step="add --env rootfs")
    refuse_without_debian(request, places, layers)


def estimate_stages(request: BuildRequest) -> list[Estimate]:
    """Estimate what each stage would still cost.

    Raises UsageError or DecoupleError where the request is wrong.
    """
    settings.find_profile(request.profile)
    choices, places = settle_choices(request), request.places
    measured = settings.read_facts().measured
    if request.release == measured:
        measured = ""
    else:
        load_release(request.project, request.release)  # one that there is
    made = []
    for stage in request.stages:
        cost = object_times.estimate_stage_cost(request.release, request.env, stage, choices)
        if request.kernels != "compiled":
            cost = settings.read_facts().bindings.cost
        stage2 = places.with_cuda(request.env, choices.cuda).stage2 if choices.cuda else places.stage2
        folder = places.stage1 if stage == 1 else stage2
        planned, done = read_planned_objects(folder), read_done_objects(folder)
        if done and (own := _find_own_objects(request, stage, folder)) != folder:
            planned, done = (read_planned_objects(own), read_done_objects(own)) if own else (frozenset(), frozenset())
        known = object_times.load_nearest(request.release, request.env, stage)
        share = (
            object_times.compute_share_left(planned, done, known, settings.find_stage(stage).object_seconds)
            if planned
            else None
        )
        jobs = choices.jobs or count_cores()
        made.append(
            estimate_remaining(f"stage {stage}", cost, done=len(done), jobs=jobs, share=share, measured=measured)
        )
    return made


def format_lines(root: RootEstimate | None, stages: Sequence[Estimate]) -> list[str]:
    """Describe what lies ahead, in the order in which it is done."""
    return [*([root.format_line()] if root else []), *(stage.format_line() for stage in stages)]


def estimate_root(request: BuildRequest) -> RootEstimate | None:
    """Estimate what making the root would cost that the stages run in.

    None where it is there, or none is used.
    """
    places, layers = request.places, list_layers(request)
    if not needs_root(request, places, layers):
        return None
    described = (
        root_description.load_description(root_description.PORTABLE)
        if request.env == portable_environment.KIND
        else root_description.load_description()
    )
    return rootfs.estimate_root(find_cache(), described, layers)


def list_layers(request: BuildRequest) -> list[str]:
    """List the layers of the root that the stages of ``request`` need.

    Raises UsageError, DecoupleError where the request is wrong.
    """
    choices = settle_choices(request)
    if request.kernels != "compiled":
        return list(toolchain.list_bindings_layers(choices, request.env))
    return list(
        dict.fromkeys(layer for n in request.stages for layer in toolchain.list_layers(n, choices, request.env))
    )


def _find_own_objects(request: BuildRequest, stage: int, folder: Path) -> Path | None:
    """Return the folder of the objects that the build goes on with.

    It is another than ``folder``, and may not be there, where that has those of another environment or Python; None
    where that has those of another tree, which the build deletes. What they were compiled with is not asked: the
    programs may be in a root that is still to be made.
    """
    if stage == 2:
        return None if find_other_tree(folder, request.places.tree) else folder
    kind = request.env
    if kind == "auto":
        kind = "rootfs" if needs_root(request, request.places, list_layers(request)) else "host"
    kept = locate_kept_objects(folder, name_objects(kind, request.python))
    return kept if holds_other_objects(folder, kind, request.python) else folder


def settle_choices(request: BuildRequest) -> Choices:
    """Settle what the request leaves open by the environment and the tables.

    Raises UsageError, DecoupleError.
    """
    if request.toolkit:
        _check_toolkit(request)
    if request.env == portable_environment.KIND and request.against == "stock":
        raise UsageError(
            f"--env {request.env}: its root has no stock core, which is the Debian root's",
            next_step="leave --env out" if request.core else f"leave --env or --kernels {request.kernels} out",
        )
    usual = toolkits.find_vendor(request.toolkit).arch_list if request.toolkit else ""
    asked = request.archs or usual or os.environ.get("TORCH_CUDA_ARCH_LIST") or settings.find_stage(2).arch_list
    chosen = list[str]()
    for arch in split_archs(asked):
        chosen += _list_official_archs(request) if arch == OFFICIAL else [arch]
    archs = tuple(dict.fromkeys(chosen))
    if not archs:
        raise UsageError("--arch is empty", next_step="name an architecture, e.g. --arch 9.0")
    if not request.toolkit:
        check_archs(archs, (), "")
    refuse_below(1, jobs=request.jobs)
    if request.revision < 0:
        raise UsageError(
            f"--revision {request.revision}: a number from 1 on", next_step="leave it out for the first build"
        )
    if request.python:
        if request.env != portable_environment.KIND:
            raise UsageError(f"--python {request.python}: of --env portable alone", next_step="add --env portable")
        if request.against == "official":
            raise UsageError(
                f"--python {request.python}: the Python of the official wheel is taken", next_step="leave --python out"
            )
        settings.read_facts().portable.find_interpreter(request.python)
    if request.third_party and request.env != portable_environment.KIND:
        raise UsageError(
            f"--third-party {request.third_party}: of --env portable alone",
            next_step="add --env portable, or leave it out: another environment takes the tree's or Debian's",
        )
    _check_kernels(request)
    cuda = _choose_cuda(request)
    most = os.environ.get("MAX_JOBS")
    return Choices(
        profile=request.profile,
        core=request.against,
        kernels=request.kind,
        archs=archs,
        flash=request.flash,
        jobs=request.jobs or (int(most) if most and is_count(most) else None),
        slice=request.part,
        revision=request.revision,
        python=request.python,
        cuda=cuda,
        toolkit=request.toolkit,
        variables={name: value for name, value in os.environ.items() if name.startswith(_PASSED)},
    )


def _check_kernels(request: BuildRequest) -> None:
    """Raise UsageError where compiled kernels are taken and others are asked for."""
    if request.kernels == "compiled":
        return
    if request.kind == installed_torch.KIND and request.kernels != "monolith" and not Path(request.kernels).is_dir():
        raise UsageError(
            f"--kernels {request.kernels}: no such folder",
            next_step="compiled, official, monolith, or the folder of a torch that has CUDA",
        )
    theirs = f"--kernels {request.kernels}: the kernels are as they were compiled"
    if request.archs and (request.archs, request.kernels) != (OFFICIAL, kernel_folder.KIND):
        raise UsageError(
            f"--arch {request.archs}, {theirs}",
            next_step="leave --arch out; `decouple repack thin WHEEL --arch ARCHS` makes a smaller wheel of it",
        )
    if not request.flash:
        raise UsageError(f"--no-flash, {theirs}", next_step="leave --no-flash out, or compile them: no --kernels")


def _check_toolkit(request: BuildRequest) -> None:
    """Raise UsageError where another vendor's toolkit is not for what else is asked."""
    vendor = toolkits.find_vendor(request.toolkit)
    for option, other, usual in (
        ("--kernels", request.kernels, "compiled"),
        ("--cuda", request.cuda, ""),
        ("--env", request.env, "rootfs"),
        ("--core", request.core if request.core == OFFICIAL else "", ""),
        ("--stage", request.stage, None if request.stage is None else 2),
    ):
        if other != usual:
            raise UsageError(
                f"--toolkit {request.toolkit}, {option} {other}: {vendor.project} is stage 2, in the Debian root",
                next_step=f"leave {option} out",
            )
    for arch in split_archs(request.archs):
        if not re.fullmatch(vendor.arch, arch):
            raise UsageError(f"--arch {arch}: none of {vendor.summary}", next_step=f"e.g. --arch {vendor.arch_list}")


def _choose_cuda(request: BuildRequest) -> str:
    """Choose the CUDA that kernels are compiled with.

    "" where the environment has but one. Raises UsageError.
    """
    if request.cuda and (request.kernels != "compiled" or 2 not in request.stages):
        raise UsageError(
            f"--cuda {request.cuda}: of stage 2 with compiled kernels",
            next_step="leave --cuda out: the core has none, and libraries with kernels have their own",
        )
    portably = request.env == portable_environment.KIND
    if request.kernels != "compiled" or 2 not in request.stages or not (request.cuda or portably):
        return ""
    usual = load_release(request.project, request.release).toolchain.cuda or ""
    cuda = request.cuda or usual
    toolkits.check_release(request.release, request.env, cuda)
    return "" if cuda == usual and not portably else cuda


def _list_official_archs(request: BuildRequest) -> tuple[str, ...]:
    """List those of the release's official wheel.

    Raises UsageError where they are not known.
    """
    archs = load_release(request.project, request.release).toolchain.archs
    if not archs:
        raise UsageError(
            f"--arch {OFFICIAL}: series/{request.release}.toml does not say what the official wheel has code for",
            next_step=f"decouple manifest fill {request.release} --write, or name the architectures",
        )
    return archs
