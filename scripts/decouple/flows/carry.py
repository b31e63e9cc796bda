"""Carry the nearest whole series to a release that has none, before ``apply``.

>>> from decouple.flows.carry import find_nearest
>>> find_nearest(project, "2.6")
'2.6'
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs
from packaging.version import Version

from decouple.base.checkout import Checkout, is_name
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_cache
from decouple.flows.listener import QUIET, Listener
from decouple.flows.rebase import RebaseJudgement, RebaseRequest, rebase_series
from decouple.flows.rebase_route import choose_way
from decouple.flows.release_request import BaselineRequest
from decouple.rebase import rebase_state, report
from decouple.rebase.rebase_state import Leg, RebaseState
from decouple.release.manifest import Manifest, derive_release, is_released
from decouple.upstream import source_specifier
from decouple.upstream.manifests import load_release


def name_release(project: Path, word: str) -> str:
    """Return the release that ``word`` names.

    What is called so here, else "2.7" of "2.7.0". Raises UsageError.
    """
    have = Checkout(project)
    if is_name(word) and (have.locate_series(word).is_file() or have.locate_manifest(word).is_file()):
        return word
    return derive_release(word)


def read_manifest(project: Path, release: str, source: str) -> Manifest | None:
    """Return what can be read off the user's ``source`` for a name without a manifest.

    None where it needs none.

    Raises UsageError for a name with nothing to read it off, and for a path that is no source.
    """
    if Checkout(project).locate_manifest(release).is_file():
        return None
    path = source_specifier.parse_local_path(source)
    if path is None and is_released(release):
        raise UsageError(
            f"no manifest {Checkout(project).locate_manifest(release)}: releases with one: "
            f"{', '.join(Checkout(project).list_manifest_releases()) or 'none'}",
            next_step=f"decouple manifest fill {release} --write where the release is out; where it is not, "
            f"decouple apply {release} --source PATH: a folder, an archive or REPOSITORY@REVISION",
        )
    if path is None:
        note = "" if source == "auto" else f", and {source} is no file or folder"
        raise UsageError(
            f"{release}: no upstream release, and not known here{note}",
            next_step=f"decouple apply {release} --source PATH: a folder, an archive or REPOSITORY@REVISION",
        )
    from decouple.upstream.unpublished_manifest import describe_local  # only where there is something to read

    return describe_local(release, path, find_cache())


def find_nearest(project: Path, release: str) -> str:
    """Return the whole series to carry from.

    The newest that is not newer than ``release``, else the oldest.

    A series for a tree of the user's is passed over: its manifest names no source, and both trees are needed.
    Raises UsageError where no series is whole, or ``release`` has no manifest.
    """
    wanted = Version(load_release(project, release).version)
    every = Checkout(project).list_releases()
    whole = [name for name in every if load_release(project, name).sources] or every
    if not whole:
        raise UsageError("no whole series to carry from", next_step="name a checkout with a series of all patches")
    versions = {name: Version(load_release(project, name).version) for name in whole}
    older = [name for name in whole if versions[name] <= wanted]
    return max(older, key=lambda name: versions[name]) if older else min(whole, key=lambda name: versions[name])


def carry_series(request: BaselineRequest, again: str, listener: Listener = QUIET) -> tuple[Path, ...]:
    """Write the series and patches of a release; return these files.

    ``series/<release>`` and ``patches/<release>`` come from the nearest whole series; the listener hears a verdict for
    each patch. A rebase there that was broken off without a conflict is gone on with. The caller holds the lock of
    `hold_rebase_lock`. Raises DecoupleError at a patch that a person must settle; ``again`` is the command that goes on
    from there.
    """
    project, release = request.project, request.release
    old, debian = find_nearest(project, release), bool(request.debian_patches)
    asked = RebaseRequest(
        project, (old, release), request.source, debian_patches=debian, offline=request.offline, alone=True
    )
    waiting = rebase_state.load_state(asked.folder / "state.json")
    if waiting and _leads_to(waiting, asked):
        old, asked = waiting.old, structs.replace(asked, releases=(), step="continue")
    listener.say(f"series: {release} has no whole series; carried from {old}")

    def report_judgement(judged: RebaseJudgement) -> None:
        for line in report.format_text(judged.outcome.carried).splitlines():
            listener.say(f"  {line}")

    result = rebase_series(choose_way(asked, listener), listener, report_judgement)
    if result.stopped_at:
        raise DecoupleError(
            f"series/{release}: stopped at {result.stopped_at}, the conflict is in {result.tree}",
            next_step=f"{rebase_state.find_next_step(result.outcome.stopped)}, then `{again}` again",
        )
    assert result.series
    listener.say(
        f"series: {len(result.series.lines)} patches in series/{release}, {len(result.series.bodies)} new bodies"
    )
    return result.written


def _leads_to(waiting: RebaseState, asked: RebaseRequest) -> bool:
    """Say whether a rebase that waits for no person ends where ``asked`` does."""
    last = [Leg(waiting.new, waiting.source, waiting.debian_patches), *waiting.legs][-1]
    wanted = Leg(asked.releases[-1], asked.source, asked.debian_patches)
    return waiting.stopped_at is None and (last, waiting.offline) == (wanted, asked.offline)
