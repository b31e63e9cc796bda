"""Both wheels of a release, from whatever is there: fetched, applied and built as far as it is not yet.

>>> from decouple.flows.build import Build, estimates
>>> request = Build(project, "2.6", core="stock", archs="9.0", jobs=2)
>>> [cost.what for cost in estimates(request)]
['stage 2']

``build(request)`` then makes what it says, and returns the stages with their wheels.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import asdict, replace

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.base.paths import cache_dir
from decouple.build import inputs, remote_cache, seconds, settings, stages, toolkits
from decouple.build.environment import Environment, Places, RootEnvironment, with_places
from decouple.build.estimate import (
    Estimate,
    available_memory,
    cores,
    estimate,
    object_seconds,
    objects_in,
    refuse_if_too_small,
)
from decouple.build.probe import check_archs, split_archs
from decouple.build.shards import ObjectShard
from decouple.build.stages import Choices, Provenance, Slice, StageWheel
from decouple.flows import portable
from decouple.flows.environment import Work, need_tree, open_environment
from decouple.flows.listener import QUIET, Listener
from decouple.flows.provenance import provenance
from decouple.patch import seriesfile
from decouple.prebuilt import folder, installed, official, pairing, symbols
from decouple.release import status
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.verify import checks

OFFICIAL = "official"
"""For architectures: those of the release's official wheel."""
HALF = "official-half"
"""The folder below ``build/<release>/`` of stage 2 that is compiled for the CPU half of the official wheel."""
SMOKE = "smoke"
"""The folder below ``build/<release>/`` of a part of stage 2: never that of a whole build."""
_PASSED = ("USE_", "CMAKE_", "BUILD_TEST")  # as upstream; other BUILD_* are mostly a CI host's own


class Build(Work, frozen=True):
    """What to build. Variables of the environment that upstream's build reads (USE_*, MAX_JOBS, …) count too."""

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
    cache: str = ""
    """The address of a compiler cache that machines share, ``redis://[USER:PASSWORD@]HOST[:PORT]/DB`` or
    ``file:FOLDER``; empty: none."""

    @property
    def places(self) -> Places:
        places = super().places
        if self.python:
            places = places.of_python(self.python)
        if self.kernels != "compiled":  # its wheel goes where all go; its name tells it apart
            names = (self.kind, *(["built"] if self.against == "built" else []), *self._elsewhere)
            return replace(places.beside("-".join(names)), dist=places.dist)
        if self.against == "official":  # a trial on a test bed: its wheel is named as one for the patched core
            core = folder.place(pairing.pair_of(self.release), cache_dir())
            return replace(places.beside(HALF), core=core)
        return places.beside(SMOKE) if self.part != "all" else places

    @property
    def kind(self) -> str:
        """Whose kernels, in a word: that of the wheel's version."""
        return self.kernels if self.kernels in ("compiled", folder.KIND) else installed.KIND

    @property
    def _elsewhere(self) -> list[str]:
        """CMake keeps what it found in one environment: another one's objects lie in a folder of their own."""
        return [portable.KIND] if self.env == portable.KIND else []

    @property
    def against(self) -> str:
        """What stage 2 builds against, where ``core`` leaves it open too."""
        return self.core or {"compiled": "built", folder.KIND: "official"}.get(self.kind, "stock")

    @property
    def stages(self) -> tuple[int, ...]:
        """Which stages are built, in order."""
        if self.stage:
            return (self.stage,)
        return (2,) if self.against != "built" or self.kernels != "compiled" else (1, 2)


def estimates(request: Build) -> list[Estimate]:
    """What each stage would still cost. Raises UsageError or DecoupleError where the request is wrong."""
    settings.profile(request.profile)
    choices, places = choices_of(request), request.places
    made = []
    for stage in request.stages:
        part = choices.slice != "all"
        cost = settings.cost(stage, request.env, arch_count=len(choices.archs), flash=choices.flash, part=part)
        cost = seconds.cost(request.release, request.env, stage, cost)
        if request.kernels != "compiled":
            cost = settings.facts().bindings.cost
        stage2 = places.of_cuda(request.env, choices.cuda).stage2 if choices.cuda else places.stage2
        done = objects_in(places.stage1 if stage == 1 else stage2)
        made.append(estimate(f"stage {stage}", cost, done=done, jobs=request.jobs or cores()))
    return made


def build(request: Build, listener: Listener = QUIET) -> tuple[StageWheel, ...]:
    """Build what is not up to date, and record a whole stage in ``ci/status``; a part of one is a check.

    Raises DecoupleError: the machine is too small (with numbers), a step failed (with its log).
    """
    with _shared_cache(request, listener) as cache:
        return _build(request, listener, cache)


def build_shard(request: Build, shard: ObjectShard, listener: Listener = QUIET) -> Slice:
    """Compile one slice of a stage's objects into the shared cache, and stop: whoever builds the stage then, with the
    same cache, compiles nothing of it and links.

    Raises UsageError without a stage or a cache, DecoupleError as `build`.
    """
    if len(request.stages) != 1 or request.kernels != "compiled":
        raise UsageError(f"--shard {shard}: the slice of one stage that is compiled", next_step="add --stage 1 or 2")
    if not request.cache:
        raise UsageError(
            f"--shard {shard}: without a cache nobody else would see the objects",
            next_step="add --cache redis://HOST:6379/0, or --cache file:FOLDER",
        )
    [number] = request.stages
    with _shared_cache(request, listener) as cache:
        environment, known, choices = _opened(request, listener, cache)
        job = stages.Job(_where(environment, number, choices), known, choices, listener.progress, listener.say)
        made = stages.stage_of(number, job).compile_slice(shard)
    part, whole = made.expected
    listener.say(
        f"stage {number}, shard {shard}: {made.objects} of {made.total} objects, {part / whole:.1%} of the expected "
        f"seconds; {made.effort.compiled} compiled, {made.effort.cached} from a cache, {made.effort.seconds:.0f} s"
    )
    return made


@contextlib.contextmanager
def _shared_cache(request: Build, listener: Listener) -> Iterator[remote_cache.Door | None]:
    """The door to the cache that machines share; what it has to say is said when it closes, also after a failure."""
    if not request.cache or request.kernels != "compiled":  # bindings are a few objects
        yield None
        return
    with remote_cache.opened(request.cache, os.environ.get(remote_cache.KEY, "")) as door:
        try:
            yield door
        finally:
            for line in door.lines():
                listener.say(line)


def _opened(
    request: Build, listener: Listener, cache: remote_cache.Door | None
) -> tuple[Environment, Provenance, Choices]:
    """Where the stages of ``request`` are built, of what and how; the tree is made if need be."""
    choices, places = choices_of(request), request.places
    if request.against == "official" and request.env != portable.KIND:
        raise UsageError(
            "--core official: kernels for it are compiled in an old userland and with its C++ ABI",
            next_step=f"add --env {portable.KIND}, or --kernels official to compile none",
        )
    costs = estimates(request)
    for cost in costs:
        listener.say(cost.line())
    refuse_if_too_small(costs, folder=places.dist, memory=available_memory())
    need_tree(request, places, listener)
    if request.against == "official":
        halves = _official(pairing.pair_of(request.release), listener)
        choices = replace(choices, wheels=(halves.origin()["wheel"],))
    places.make()
    layers = [one for n in request.stages for one in stages.layers_of(n, choices, request.env)]
    environment = open_environment(request, places, list(dict.fromkeys(layers)), listener)
    known = provenance(places)
    if choices.cuda:
        known = replace(known, cuda=choices.cuda)
    if request.env == portable.KIND:
        bundled = portable.bundle(places, request.third_party, QUIET)
        choices = replace(choices, variables={**bundled.variables, **choices.variables})
        known = replace(known, sources=(*known.sources, *bundled.rows))
    if cache is not None:
        environment, variables = cache.into(environment)
        choices = replace(choices, variables={**choices.variables, **variables})
    return environment, known, choices


def _build(request: Build, listener: Listener, cache: remote_cache.Door | None) -> tuple[StageWheel, ...]:
    if request.kernels != "compiled":
        return (_over_kernels(request, listener),)
    environment, known, choices = _opened(request, listener, cache)
    places = request.places
    made = []
    for stage in request.stages:
        job = stages.Job(_where(environment, stage, choices), known, choices, listener.progress, listener.say)
        outcome = stages.stage_of(stage, job).build()
        counts = choices.slice == "all" and (stage == 1 or choices.core == "built") and not choices.cuda
        # the table has one row per stage: the usual environment's and CUDA's
        if outcome.built and counts and request.env != portable.KIND:
            _record(outcome, places, known, request.jobs or cores())
        listener.say(_line(outcome))
        made.append(outcome)
    return tuple(made)


def _where(environment: Environment, stage: int, choices: Choices) -> Environment:
    """The environment with the places of one stage: a CUDA version that was chosen has its own."""
    if stage == 1 or not choices.cuda:
        return environment
    places = environment.places.of_cuda(environment.kind, choices.cuda)
    places.make()
    return with_places(environment, places)


def _over_kernels(request: Build, listener: Listener) -> StageWheel:
    """Stage 2 without a kernel compiled. Whether the symbols and the ABI fit is asked before anything is."""
    if request.part != "all" or request.stage == 1:
        raise UsageError(
            f"--kernels {request.kernels} builds stage 2, whole",
            next_step="leave --slice out, and build stage 1 by itself",
        )
    if request.against == "official" and request.kind != folder.KIND:
        raise UsageError(
            f"--core official --kernels {request.kernels}: that half goes with its own kernels, or with compiled ones",
            next_step="add --kernels official",
        )
    pair = pairing.pair_of(request.release)
    choices, places = choices_of(request), request.places
    if request.against == "built":
        _need_core(request, places)
    costs = estimates(request)
    for cost in costs:
        listener.say(cost.line())
    refuse_if_too_small(costs, folder=places.dist, memory=available_memory())
    need_tree(request, places, listener)
    halves = _kernels(request, pair, listener)
    origin = halves.origin()
    places = replace(places, kernels=halves.kernels)
    if request.against == "official":
        places = replace(places, core=halves.folder)
    places.make()
    kind = portable.KIND if request.env == portable.KIND else "rootfs"
    environment = open_environment(
        request, places, stages.bindings_layers(choices, kind), listener, settings.facts().bindings.components
    )
    core = stages.core_folder(environment, provenance(places).version, request.against)
    offered = (
        *official.of_folder(core, official.CORE),
        *(installed.beside(core) if request.against == "stock" else ()),
    )
    taken = (*official.of_folder(halves.kernels, official.KERNELS), *installed.beside(halves.kernels / "lib"))
    symbols.refuse(symbols.compare(taken, offered), origin["wheel"]["name"])
    choices = replace(choices, wheels=(origin["wheel"],), archs=tuple(origin["arch_list"]))
    known = provenance(places)
    if request.env == portable.KIND:
        bundled = portable.bundle(places, request.third_party, QUIET, settings.facts().bindings.components)
        known = replace(known, sources=(*known.sources, *bundled.rows))
    job = stages.Job(environment, known, choices, listener.progress, listener.say)
    outcome = stages.Bindings(job).build()
    listener.say(_line(outcome))
    return outcome


def _need_core(request: Build, places: Places) -> None:
    """Before anything is fetched. Raises UsageError without a core wheel of ours, naming what makes one."""
    stamp = inputs.read_stamp(places.core_state / "stage1.json")
    if stamp is None or not (places.dist / stamp.wheel).exists():
        env = f"--env {portable.KIND}" if request.kind == folder.KIND else f"--env {request.env}"
        raise UsageError(
            f"{places.dist}: no core wheel of {request.release} for --core built",
            next_step=f"decouple build {request.release} {env} --stage 1 (hours), or leave --core out",
        )


def _kernels(request: Build, pair: pairing.Pair, listener: Listener) -> folder.Halves:
    """The folder of libraries with kernels: fetched, or taken from an installed build."""
    if request.kind == folder.KIND:
        return _official(pair, listener)
    downloader = Downloader(cache_dir(), progress=listener.progress)
    source = Path(request.kernels)
    if request.kernels == "monolith":
        environment = open_environment(request, request.places, ["core", "monolith"], listener)
        if not isinstance(environment, RootEnvironment):
            raise UsageError("--kernels monolith: it lies in the Debian root", next_step="add --env rootfs")
        source = environment.root.tree / checks.MONOLITH.lstrip("/")
    elif not source.is_dir():
        raise UsageError(
            f"--kernels {request.kernels}: no such folder",
            next_step="compiled, official, monolith, or the folder of a torch that has CUDA",
        )
    halves = installed.make(source, pair, cache_dir(), downloader, listener.progress)
    listener.say(f"kernels: those of {source}")
    return halves


def _official(pair: pairing.Pair, listener: Listener) -> folder.Halves:
    """The official wheel as two halves, fetched unless it is there."""
    halves = folder.make(pair, cache_dir(), Downloader(cache_dir(), progress=listener.progress), listener.progress)
    fetched = f"{halves.received / (1 << 20):.0f} MiB fetched" if halves.received else "as fetched before"
    listener.say(f"official wheel: {pair.wheel.name}, {fetched}")
    return halves


def choices_of(request: Build) -> Choices:
    """What the request leaves open, settled by the environment and the tables. Raises UsageError, DecoupleError."""
    asked = request.archs or os.environ.get("TORCH_CUDA_ARCH_LIST") or settings.stage(2).arch_list
    if asked == OFFICIAL:
        asked = _official_archs(request)
    archs = split_archs(asked)
    if not archs:
        raise UsageError("--arch is empty", next_step="name an architecture, e.g. --arch 9.0")
    check_archs(archs, (), "")
    if request.jobs is not None and request.jobs < 1:
        raise UsageError(f"--jobs {request.jobs}: at least one", next_step="--jobs 1, or leave it out")
    if request.revision < 0:
        raise UsageError(
            f"--revision {request.revision}: a number from 1 on", next_step="leave it out for the first build"
        )
    if request.python:
        if request.env != portable.KIND:
            raise UsageError(f"--python {request.python}: of --env portable alone", next_step="add --env portable")
        if request.against == "official":
            raise UsageError(
                f"--python {request.python}: the Python of the official wheel is taken", next_step="leave --python out"
            )
        settings.facts().portable.interpreter(request.python)
    cuda = _cuda(request)
    most = os.environ.get("MAX_JOBS", "")
    return Choices(
        profile=request.profile,
        core=request.against,
        kernels=request.kind,
        archs=archs,
        flash=request.flash,
        jobs=request.jobs or (int(most) if most.isdigit() else None),
        slice=request.part,
        revision=request.revision,
        python=request.python,
        cuda=cuda,
        variables={name: value for name, value in os.environ.items() if name.startswith(_PASSED)},
    )


def _cuda(request: Build) -> str:
    """The CUDA that kernels are compiled with, "" where the environment has but one. Raises UsageError."""
    if request.cuda and (request.kernels != "compiled" or 2 not in request.stages):
        raise UsageError(
            f"--cuda {request.cuda}: of stage 2 with compiled kernels",
            next_step="leave --cuda out: the core has none, and libraries with kernels have their own",
        )
    portably = request.env == portable.KIND
    if request.kernels != "compiled" or 2 not in request.stages or not (request.cuda or portably):
        return ""
    usual = load_release(request.project, request.release).toolchain.cuda or ""
    cuda = request.cuda or usual
    toolkits.of_release(request.release, request.env, cuda)
    return "" if cuda == usual and not portably else cuda


def _official_archs(request: Build) -> str:
    """Those of the release's official wheel. Raises UsageError where they are not known."""
    archs = load_release(request.project, request.release).toolchain.archs
    if not archs:
        raise UsageError(
            f"--arch {OFFICIAL}: series/{request.release}.toml does not say what the official wheel has code for",
            next_step=f"decouple manifest fill {request.release} --write, or name the architectures",
        )
    return ";".join(archs)


def _record(outcome: StageWheel, places: Places, known: Provenance, jobs: int) -> None:
    path, section = status.path_of(places.project, places.release), f"stage{outcome.stage}"
    before = status.read(path)
    stage = status.StageSection(
        wheel=outcome.wheel.name,
        wheel_bytes=outcome.wheel.stat().st_size,
        objects=outcome.objects,
        cores=jobs,
        series=known.series_digest,
        object_seconds=object_seconds(places.stage1 if outcome.stage == 1 else places.stage2),
        **asdict(outcome.effort),
    )
    listed = seriesfile.read(Checkout(places.project).series(places.release))
    series = status.SeriesSection(len(known.patches), known.series_digest, len(listed.not_carried), *listed.made_on)
    status.update(path, series=series, **{section: status.costliest(stage, getattr(before, section))})


def _line(outcome: StageWheel) -> str:
    size, minutes = outcome.wheel.stat().st_size / (1 << 20), outcome.effort.seconds / 60
    did = "built" if outcome.built else "up to date"
    made = f"{size:.1f} MiB, {outcome.objects} objects, {minutes:.1f} min"
    return f"stage {outcome.stage}: {did}: {outcome.wheel} ({made})"
