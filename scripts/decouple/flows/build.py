"""Make both wheels of a release; fetch, apply and build what is missing.

>>> from decouple.flows.build_request import BuildRequest
>>> BuildRequest(project, "2.6").stages, BuildRequest(project, "2.6", core="stock").stages
((1, 2), (2,))

``build_wheels(request)`` then makes what it says, and returns the stages with their wheels.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from msgspec.structs import asdict, replace

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.build import remote_cache
from decouple.build.environment import Environment, Places
from decouple.build.estimate import count_cores, read_available_memory, refuse_if_too_small, sum_object_seconds
from decouple.build.options import Choices, Provenance
from decouple.build.shards import ObjectShard
from decouple.build.stage import BuildJob, ShardResult, Stage, StageWheel
from decouple.build.stage1 import Stage1
from decouple.build.stage2 import OtherVendor, Stage2
from decouple.build.wheel_finishing import find_series
from decouple.flows import portable_environment
from decouple.flows.build_environment import open_build, select_stage
from decouple.flows.build_request import (
    BuildRequest,
    estimate_root,
    estimate_stages,
    format_lines,
    refuse_unbuildable,
)
from decouple.flows.listener import QUIET, Listener
from decouple.flows.prebuilt_kernels import build_over_kernels
from decouple.patch import series_file
from decouple.release import status
from decouple.series.digest import compute_change_digests


def build_wheels(request: BuildRequest, listener: Listener = QUIET) -> tuple[StageWheel, ...]:
    """Build what is not up to date; record each whole stage in ``ci/status``.

    A part of a stage is a check. Raises DecoupleError: the machine is too small (with numbers), a step failed (with its
    log).
    """
    with _open_shared_cache(request, listener) as cache:
        return _build_stages(request, listener, cache)


def build_shard(request: BuildRequest, shard: ObjectShard, listener: Listener = QUIET) -> ShardResult:
    """Compile one shard of a stage's objects into the shared cache, and stop.

    Whoever builds the stage then, with the same cache, compiles nothing of it and links.

    Raises UsageError without a stage or a cache, DecoupleError as `build_wheels`.
    """
    if len(request.stages) != 1 or request.kernels != "compiled":
        raise UsageError(f"--shard {shard}: the slice of one stage that is compiled", next_step="add --stage 1 or 2")
    if not request.cache:
        raise UsageError(
            f"--shard {shard}: without a cache nobody else would see the objects",
            next_step="add --cache redis://HOST:6379/0, or --cache file:FOLDER",
        )
    [number] = request.stages
    with _open_shared_cache(request, listener) as cache:
        environment, known, choices = _open_build(request, listener, cache)
        job = BuildJob(select_stage(environment, number, choices), known, choices, listener.progress, listener.say)
        made = _make_stage(number, job).compile_shard(shard)
    part, whole = made.expected
    listener.say(
        f"stage {number}, shard {shard}: {made.objects} of {made.total} objects, {part / whole:.1%} of the expected "
        f"seconds; {made.effort.compiled} compiled, {made.effort.cached} from a cache, {made.effort.seconds:.0f} s"
    )
    return made


@contextlib.contextmanager
def _open_shared_cache(request: BuildRequest, listener: Listener) -> Iterator[remote_cache.CacheProxy | None]:
    """Open a proxy to the cache that machines share.

    What it has to say is said when it closes, also after a failure.
    """
    if not request.cache or request.kernels != "compiled":  # bindings are a few objects
        yield None
        return
    with remote_cache.open_proxy(request.cache, os.environ.get(remote_cache.KEY, "")) as proxy:
        try:
            yield proxy
        finally:
            for line in proxy.format_report():
                listener.say(line)


def _open_build(
    request: BuildRequest, listener: Listener, cache: remote_cache.CacheProxy | None
) -> tuple[Environment, Provenance, Choices]:
    """Open as `open_build` does, with the cost said before, behind ``cache``.

    A machine that is too small is refused.
    """
    refuse_unbuildable(request)
    costs = estimate_stages(request)
    root = estimate_root(request)
    for line in format_lines(root, costs):
        listener.say(line)
    refuse_if_too_small(costs, folder=request.places.dist, memory=read_available_memory(), root=root)
    environment, known, choices = open_build(request, listener)
    if cache is not None:
        environment, variables = cache.add_to_environment(environment)
        choices = replace(choices, variables={**choices.variables, **variables})
    return environment, known, choices


def _build_stages(
    request: BuildRequest, listener: Listener, cache: remote_cache.CacheProxy | None
) -> tuple[StageWheel, ...]:
    if request.kernels != "compiled":
        return (build_over_kernels(request, listener),)
    environment, known, choices = _open_build(request, listener, cache)
    places = request.places
    made = []
    for stage in request.stages:
        job = BuildJob(select_stage(environment, stage, choices), known, choices, listener.progress, listener.say)
        outcome = _make_stage(stage, job).build_wheel()
        usual = not choices.cuda and not choices.toolkit
        counts = choices.slice == "all" and (stage == 1 or choices.core == "built") and usual
        # the table has one row per stage: the usual environment's and CUDA's
        if outcome.built and counts and request.env != portable_environment.KIND:
            _record_stage(outcome, places, known, choices.jobs or count_cores(), listener)
        listener.say(outcome.format_line())
        made.append(outcome)
    return tuple(made)


def _make_stage(number: int, job: BuildJob) -> Stage:
    if number == 1:
        return Stage1(job)
    return OtherVendor(job) if job.choices.toolkit else Stage2(job)


def _record_stage(outcome: StageWheel, places: Places, known: Provenance, jobs: int, listener: Listener) -> None:
    """Record a whole stage, if the tree that it was compiled from was the series."""
    again = f"decouple build {places.release} --stage {outcome.stage}"
    if find_series([outcome.wheel], again, listener.warn) is None:
        return
    path, section = status.locate_status(places.project, places.release), f"stage{outcome.stage}"
    stage = status.StageSection(
        wheel=outcome.wheel.name,
        wheel_bytes=outcome.wheel.stat().st_size,
        objects=outcome.objects,
        cores=jobs,
        series=known.series_digest,
        object_seconds=sum_object_seconds(places.stage1 if outcome.stage == 1 else places.stage2),
        **asdict(outcome.effort),
    )
    listed = series_file.read_series(Checkout(places.project).locate_series(places.release))
    series = status.SeriesSection(len(known.patches), known.series_digest, *listed.made_on)
    changed = compute_change_digests(places.project, places.release)

    def keep_others(before: status.ReleaseStatus) -> Mapping[str, Mapping[str, str]]:
        return {**before.changes, known.series_digest: changed}

    def keep_costliest(before: status.ReleaseStatus) -> status.StageSection:
        return status.keep_costliest(stage, getattr(before, section))

    status.update_status(path, series=series, changes=keep_others, **{section: keep_costliest})
