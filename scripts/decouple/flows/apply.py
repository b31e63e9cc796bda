"""One release from source to applied tree.

>>> from decouple.flows.apply import ApplyRequest, apply_series
>>> request = ApplyRequest(project, "2.6", source=f"local:{source}")
>>> moved = apply_series(request)
>>> moved.top, moved.overlay
('2.6/0003-split.patch', 'laid')
>>> apply_series(request).files  # all is there
0
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace

from decouple.base.checkout import Checkout, SeriesPlaces
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import hold_lock, restore_files, write_atomically
from decouple.flows.listener import QUIET, Listener
from decouple.flows.release_request import BaselineRequest
from decouple.patch import series_file
from decouple.stack.engine import MoveResult, Stack, create_tree, link_objects
from decouple.stack.journal import StackState
from decouple.stack.trees import compare_trees
from decouple.upstream import source_specifier

if TYPE_CHECKING:
    from decouple.flows.verdict import SeriesVerdict


class ApplyRequest(BaselineRequest, frozen=True):
    """Choose a series and its source; the tree is ``build/<release>/src``."""

    also: Path | None = None
    """Words, macros and rules of this tree alone, for a carried series' verdict (``decouple.census.additions``)."""

    @property
    def command(self) -> str:
        """The command that asks for the same, to be typed in any folder."""
        words = ["decouple", "apply", self.release]
        if self.source != "auto":
            words += ["--source", self.source]
        if self.debian_patches is not None:
            words.append("--debian-patches" if self.debian_patches else "--no-debian-patches")
        words += ["--offline"] if self.offline else []
        words += ["--also", str(self.also.absolute())] if self.also else []
        return shlex.join(words)

    @property
    def expected_state(self) -> dict[str, str]:
        """What the state of a tree says of its source when this request made it."""
        manifest = Checkout(self.project).locate_manifest(self.release).read_bytes()
        return {
            "source": self.source,
            "debian_patches": "yes" if self.debian_patches else "no",
            "manifest": hashlib.sha256(manifest).hexdigest(),
        }


class AppliedSeries(MoveResult, frozen=True):
    """Report what moved, and what a carried series is worth on the tree that it made."""

    verdict: SeriesVerdict | None = None
    """None for a series that was not carried."""


def apply_series(request: ApplyRequest, listener: Listener = QUIET) -> AppliedSeries:
    """Bring the tree to the whole series and the overlay, from any state.

    A carried series is judged. Where the release has no whole series, the nearest one is carried to it first
    (``decouple.flows.carry``). Fetches what the cache lacks. Only files that differ are touched; a second run finds
    nothing to do. Raises DecoupleError; the tree is then as it was before.
    """
    _refuse_files_alone(request)
    if request.release not in Checkout(request.project).list_releases():
        from decouple.flows.carry import name_release  # here: a release with a series does not pay for it

        request = replace(request, release=name_release(request.project, request.release))
        if request.release not in Checkout(request.project).list_releases():
            return _carry_and_apply(request, listener)
    if request.also and not _is_carried(request):
        raise UsageError(
            f"--also: {request.release} has a series of its own, which is not judged",
            next_step=f"leave it out; `decouple census {request.release} --also FILE` counts by it",
        )
    return _apply_patches(request, listener)


def _is_carried(request: ApplyRequest) -> bool:
    """Say whether the series there was carried to its release."""
    made_on, _ = series_file.read_series(Checkout(request.project).locate_series(request.release)).made_on
    return made_on is not None


def _refuse_files_alone(request: ApplyRequest) -> None:
    """Raise UsageError for a source with only some of the files, before any fetch."""
    if request.source == "auto" or source_specifier.parse_local_path(request.source):
        return
    from decouple.upstream.providers.table import PROVIDERS  # and what they import: only for a word that is one

    provider = PROVIDERS.get(request.source)
    if provider and provider.lacks:
        raise UsageError(
            f"--source {request.source}: {provider.lacks}",
            next_step=f"decouple check {request.release} --source {shlex.quote(request.source)} judges the patches "
            "by it; for a tree leave --source out, or name one that you have",
        )


def _carry_and_apply(request: ApplyRequest, listener: Listener) -> AppliedSeries:
    """Carry the nearest whole series to the release, and apply it.

    Runs that would write a series, too, wait meanwhile. What fails takes the files back that it wrote, and no others.
    """
    from decouple.flows.rebase import hold_rebase_lock

    checkout, release = Checkout(request.project), request.release
    with hold_rebase_lock(request.project, listener):
        if release not in checkout.list_releases():  # else another run carried it while this one waited
            bodies = (checkout.patches / release).rglob("*")
            before = {path: path.read_bytes() for path in bodies if path.is_file() and not path.is_symlink()}
            written = _carry_series(request, listener)
            try:
                return _apply_patches(request, listener)
            except BaseException:
                restore_files(written, before)
                raise
    return _apply_patches(request, listener)


def _carry_series(request: ApplyRequest, listener: Listener) -> tuple[Path, ...]:
    """Write the series that the release lacks, and a manifest where it has none.

    Returns these files, the series last: it needs the others. What is read off a tree lies in ``build`` until then: a
    run that is killed, or stops for a person, leaves nothing. Raises DecoupleError.
    """
    from decouple.flows.carry import carry_series, read_manifest
    from decouple.release.manifest_toml import render_manifest

    project, release, checkout = request.project, request.release, Checkout(request.project)
    manifest = read_manifest(project, release, request.source)
    if manifest and not (checkout.rebase / "state.json").exists():  # one that waits has its own; carry says so
        write_atomically(checkout.locate_draft_manifest(release), render_manifest(manifest))
    return carry_series(request, request.command, listener)


def _apply_patches(request: ApplyRequest, listener: Listener) -> AppliedSeries:
    """Bring the tree to the series, which is there."""
    places = Checkout(request.project).find_series(request.release)
    made = _make_tree(places, request, listener)
    with Stack.open(places) as stack:
        for line in stack.recovered:
            listener.say(line)
        start = stack.state
        if not made:
            request = _settle_debian_patches(request, start)
            stack.check_unedited()
            if dict(start.source) != request.expected_state or source_specifier.parse_local_path(request.source):
                start = _change_base(stack, request, listener)
            else:
                listener.say(f"source: unchanged, base {start.base[:12]}")
        moved = _finish_tree(stack, start, listener)
    return AppliedSeries(**structs.asdict(moved), verdict=_judge_carried(request, listener))


def _judge_carried(request: ApplyRequest, listener: Listener) -> SeriesVerdict | None:
    """Judge what a series that was carried is worth, once its patches are on the tree.

    None for a series that was not carried.
    """
    if not _is_carried(request):
        return None
    from decouple.flows.verdict import (  # here: a release with a series of its own does not pay for it
        JudgeRequest,
        judge_once,
    )

    verdict = judge_once(
        JudgeRequest(request.project, request.release, request.source, request.offline, also=request.also), listener
    )
    for line in verdict.format_lines(request.release):
        listener.say(line)
    return verdict


def _settle_debian_patches(request: ApplyRequest, start: StackState) -> ApplyRequest:
    """Return the request with Debian's patches where the tree has them.

    A choice of the user's stays. A build in the Debian root lays them, and the next `apply` must not undo that.
    """
    if request.debian_patches is not None:
        return request
    has = start.source.get("debian_patches") == "yes"
    of_debian = {request.source, start.source.get("source")} <= {"auto", "debian"}
    return replace(request, debian_patches=has and of_debian)


def _make_tree(places: SeriesPlaces, request: ApplyRequest, listener: Listener) -> bool:
    """Make the tree unless it is there, one run at a time; return if it was made."""
    state = places.tree / ".git" / "decouple" / "state.json"
    if state.exists():
        return False
    folder = places.tree.parent
    with hold_lock(
        folder.with_name(f".{folder.name}.lock"), lambda: listener.say("waits: another run makes this tree")
    ) as lock:
        if state.exists():
            return False
        commit, pristine, repo = _prepare_baseline(request, listener)
        create_tree(places, repo, commit, pristine, request.expected_state, held=(lock,))
        listener.say(f"tree: {places.tree} made")
    return True


def _prepare_baseline(request: ApplyRequest, listener: Listener) -> tuple[str, str, Path]:
    """Return the baseline's commit, upstream's below it, and their repository."""
    from decouple.flows.fetch import fetch_source  # here: a run with nothing to fetch does not pay for it

    fetched, base = fetch_source(request, listener)
    if base is None:
        raise DecoupleError(
            f"source {fetched.provider} has no sources to build from", next_step="use --source auto, or another one"
        )
    listener.say(f"source: {fetched.provider}, {fetched.why}")
    patched = " with Debian patches" if request.debian_patches else ""
    listener.say(f"baseline: commit {base.commit[:12]}, tree {base.tree[:12]}{patched}")
    return base.commit, base.upstream, base.repo


def _change_base(stack: Stack, request: ApplyRequest, listener: Listener) -> StackState:
    """Return the state to start from when another source is asked for.

    Its objects are brought in, nothing moves yet.
    """
    commit, pristine, repo = _prepare_baseline(request, listener)
    start = replace(stack.state, source=request.expected_state)
    if commit == start.base:
        return start
    link_objects(repo / "objects", stack.repository.git_dir / "objects")
    return replace(start, base=commit, upstream=pristine, applied=(), overlay=None)


def _finish_tree(stack: Stack, start: StackState, listener: Listener) -> MoveResult:
    names = stack.series.names
    moved = stack.move_to([stack.read_patch(name) for name in names], verb="apply", overlay=True, start=start)
    if stack.repository.resolve_commit("refs/decouple/base") != start.base:
        stack.repository.run("update-ref", "refs/decouple/base", start.base)
        stack.repository.run("update-ref", "refs/decouple/upstream", start.upstream)
    new = f", {len(moved.pushed)} of them now" if moved.pushed else ", none of them new"
    listener.say(f"patches: {len(names)} applied{new}")
    for item in stack.state.applied:
        for offset in item.offsets:
            listener.say(f"  {item.name}: {offset}")
    laid = stack.state.overlay
    count = len(compare_trees(stack.repository, stack.state.tip, laid.commit)) if laid and moved.overlay else 0
    listener.say(f"overlay: {f'{count} files laid' if moved.overlay else 'unchanged'}")
    listener.say(f"tree: {stack.places.tree} at {stack.state.head[:12]}, {moved.files} files touched")
    return moved
