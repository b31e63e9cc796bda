"""Carry a series to another release; stop for a person and go on from there.

>>> from decouple.flows.rebase import RebaseRequest, rebase_series
>>> request = RebaseRequest(project, ("2.6", "2.7"), f"local:{newer}", f"local:{source}", report=True)
>>> found = rebase_series(request)
>>> [(one.name, one.verdict.value) for one in found.outcome.carried]
[('2.6/0001-relocate.patch', 'unmodified'), ('2.6/0002-hooks.patch', 'offset'), ('2.6/0003-split.patch', 'unmodified')]
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct, structs
from packaging.version import Version

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import clear_folder, hold_lock
from decouple.base.git import GitError, Repository
from decouple.base.paths import find_cache
from decouple.flows.listener import QUIET, Listener
from decouple.flows.patch_regeneration import RELOCATION
from decouple.inventory.rules import load_rules
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.rebase import new_series, rebase_state, resolution_replay, resolutions, series_carry
from decouple.rebase.history import check_clone, explain_stops
from decouple.rebase.new_series import NewSeries
from decouple.rebase.partial_release import commit_files, find_hidden_files
from decouple.rebase.rebase_state import Leg, RebaseState
from decouple.rebase.series_carry import Decision, RebaseOutcome, Regenerate, RegeneratedPatch, ReleasePair
from decouple.rebase.verdicts import Note
from decouple.rebase.workspace import has_lost_objects, open_workspace
from decouple.recipes.model import load_recipes
from decouple.release.manifest import Manifest
from decouple.relocate import move_cache
from decouple.relocate.plan import HOLLOW, Move, list_unclassified, make_plan, plan_python_moves
from decouple.relocate.relocation_patch import render_patch, render_python
from decouple.upstream import source_specifier, tree_record
from decouple.upstream.baseline import Baseline, ensure_baseline
from decouple.upstream.fetch import choose_provider, fetch_source
from decouple.upstream.manifests import load_release
from decouple.upstream.named_sources import open_named_source
from decouple.upstream.official_text import Likeness, compare_with_wheel
from decouple.upstream.providers.wheel import find_wheel
from decouple.upstream.readers import list_paths

_NAMES_A_SOURCE = re.compile(r"^(?:name|choose) |(?<![\w-])--[a-z]")
"""Advice of which no step of a rebase under way reads what it names."""


class RebaseRequest(Struct, frozen=True):
    """What is carried where; or how to go on with the rebase that waits for a person."""

    project: Path
    releases: tuple[str, ...] = ()
    """(TO,) or (FROM, TO); FROM is the newest series without it."""
    source: str = "auto"
    """Where TO's source comes from: "auto", a provider, "local:PATH"; "wheel": only what the official wheel shows."""
    from_source: str = "auto"
    debian_patches: bool = False
    """Lay Debian's own patches under TO."""
    via: tuple[str, ...] = ()
    """Releases between, as NAME or NAME=SOURCE: each gets a series, carried from the one before."""
    report: bool = False
    """Judge every patch, stop at none, write no series."""
    history: Path | None = None
    """A clone of upstream: name the commits behind a conflict."""
    step: str | None = None
    """"continue", "skip", "restart" or "abort"; None: start."""
    reason: str = ""
    """Why a conflict is settled so, or the patch left out: kept with the resolution."""
    replace: bool = False
    """Write the series of a release for a local tree that is not the official text."""
    offline: bool = False
    """Only what the cache has."""
    alone: bool = False
    """The caller keeps other rebases out of the checkout: it holds `hold_rebase_lock`."""

    @property
    def folder(self) -> Path:
        """Where the work lies: ``objects``, ``src`` with an open conflict, ``state.json``."""
        return Checkout(self.project).rebase


class RebaseJudgement(Struct, frozen=True):
    """What becomes of every patch between two versions of PyTorch."""

    outcome: RebaseOutcome
    old: str
    new: str


class RebaseResult(Struct, frozen=True):
    """Report a rebase: given up (no ``judged``), stopped at a patch, judged, written."""

    judged: RebaseJudgement | None = None
    release: str = ""
    stopped_at: str = ""
    """The patch whose conflict is in ``tree``."""
    tree: Path = Path()
    written: tuple[Path, ...] = ()
    """The files of the new series, its own last."""
    series: NewSeries | None = None
    resolutions: Path | None = None
    """The file of settled conflicts, where there is one."""

    @property
    def outcome(self) -> RebaseOutcome:
        """The verdicts. Only of a rebase that was not given up."""
        assert self.judged
        return self.judged.outcome


def rebase_series(
    request: RebaseRequest, listener: Listener = QUIET, heard: Callable[[RebaseJudgement], None] = lambda judged: None
) -> RebaseResult:
    """Start a rebase, go on with it, or give it up.

    ``heard`` gets the verdicts before anything is written. Raises UsageError for a step without a rebase, or a start
    while one waits; DecoupleError.
    """
    request.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext() if request.alone else hold_rebase_lock(request.project, listener):
        return _run_step(request, listener, heard)


@contextlib.contextmanager
def hold_rebase_lock(project: Path, listener: Listener = QUIET) -> Iterator[None]:
    """Keep every other run that writes a carried series out of the checkout."""
    folder = Checkout(project).rebase
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder, lambda: listener.say("waits: another rebase is at work in this checkout")):
        yield


def _run_step(request: RebaseRequest, listener: Listener, heard: Callable[[RebaseJudgement], None]) -> RebaseResult:
    state_file = request.folder / "state.json"
    if request.step and not state_file.exists():
        raise UsageError(f"no rebase is under way for --{request.step}", next_step="start one: decouple rebase TO")
    if request.step == "abort":
        _give_up(request, state_file)
        return RebaseResult()
    waiting = rebase_state.load_state(state_file)
    if waiting is None or request.report:
        waiting = _start_rebase(request, listener)
    elif not request.step:
        raise UsageError(
            f"a rebase from {waiting.old} to {waiting.new} is under way",
            next_step="`decouple rebase --continue` goes on with it, `decouple rebase --abort` gives it up, "
            "`decouple rebase --help` says what else there is",
        )
    found = _continue_rebase(request, state_file, waiting, listener, heard)
    while found.series and (following := waiting.next_leg):
        listener.say(f"series: {waiting.new} is whole, {len(found.series.lines)} patches; next {following.new}")
        waiting = following
        found = _continue_rebase(structs.replace(request, step=None), state_file, waiting, listener, heard)
    return found


def _start_rebase(request: RebaseRequest, listener: Listener) -> RebaseState:
    project, named = request.project, request.releases
    if not 1 <= len(named) <= 2:
        raise UsageError("decouple rebase takes [FROM] TO", next_step="e.g. decouple rebase 2.7.0")
    have = list(Checkout(project).list_releases())
    old = named[0] if len(named) == 2 else have[-1] if have else ""
    if request.source == "wheel" and not request.report:
        raise UsageError(
            "--source wheel shows headers and Python files, of which no series can be made",
            next_step="with --report it judges the patches that touch nothing else; "
            f"decouple apply {named[-1]} --source PATH makes a series",
        )
    if old not in have:
        raise UsageError(f"no series {old!r} to start from", next_step=f"name one of: {', '.join(have) or 'none'}")
    new = _name_release(project, named[-1])
    if new == old and not request.report:
        raise UsageError(
            f"{old} to {new}: the series is there",
            next_step=f"with --report it is judged; for another tree decouple apply NAME --source PATH carries {old}",
        )
    if (series := Checkout(project).locate_series(new)).is_file() and not request.report:
        raise UsageError(f"{series} exists", next_step="commit it, then delete it to rebase anew; or rebase from it")
    if request.via and request.report:
        raise UsageError(
            "--via writes a series for each release between, and --report writes none",
            next_step="leave one of them out",
        )
    legs = [*_list_legs(project, old, new, request.via), Leg(new, request.source, request.debian_patches)]
    for leg in legs:
        if source_specifier.parse_local_path(leg.source) and not (request.replace or request.report):
            _refuse_another_text(request, leg, listener)
    start, from_source = old, request.from_source
    for leg in legs[:-1]:  # what an earlier run came to is not carried anew
        if leg.release in have:
            start, from_source = leg.release, leg.source
    left = legs[[leg.release for leg in legs].index(start) + 1 :] if start != old else legs
    first, later = left[0], tuple(left[1:])
    return RebaseState(
        start, first.release, first.source, first.debian_patches, {}, from_source, later, request.offline
    )


def _list_legs(project: Path, old: str, new: str, via: tuple[str, ...]) -> list[Leg]:
    """Return the releases on the way, in order.

    Raises UsageError for one that does not lie between.
    """
    named = [word.partition("=")[::2] for word in via]
    if not named:
        return []  # backwards, and to itself, is no step by step
    # whole paths: the rebase is gone on with from any folder, mostly the one of the conflict
    legs = [
        Leg(_name_release(project, name), source_specifier.normalize_word(source or "auto")) for name, source in named
    ]
    versions = [Version(load_release(project, one).version) for one in (old, *(leg.release for leg in legs), new)]
    for before, after, leg in zip(versions, versions[1:], [*legs, Leg(new)], strict=False):
        if before >= after:
            raise UsageError(
                f"--via: {leg.release} is not newer than what it would be carried from",
                next_step=f"name releases between {old} and {new}, the oldest first",
            )
    return legs


def _refuse_another_text(request: RebaseRequest, leg: Leg, listener: Listener) -> None:
    """Raise UsageError where the official wheel shows that a user's tree is misnamed."""
    new, source, quoted = leg.release, leg.source, shlex.quote(leg.source)
    manifest, offline = load_release(request.project, new), request.offline
    tree = fetch_source(manifest, source, offline=offline, progress=listener.progress).path
    near = _measure_likeness(request.project, manifest, tree, offline, listener)
    step = (
        f"call it what it is: decouple apply NAME --source {quoted}; decouple rebase {new} --source {quoted} --report "
        "judges every patch and writes no series, --replace in its place writes it"
    )
    if near and not near.is_official and manifest.find_source("wheel"):
        first = f" ({near.different[0]}, …)" if near.different else ""
        raise UsageError(f"{source} is not PyTorch {manifest.version}: {near.format_line()}{first}", next_step=step)


def _measure_likeness(
    project: Path, manifest: Manifest, tree: Path, offline: bool, listener: Listener
) -> Likeness | None:
    """Return how near ``tree`` is to the official wheel of its release.

    None where that cannot be read.

    What was not published has none: the nearest of the one that its version belongs to and the one before, because
    upstream raises ``version.txt`` of ``main`` right after a cut.
    """
    near = [manifest]
    if not manifest.find_source("wheel"):
        major, minor = Version(manifest.version).release[:2]
        names = [f"{major}.{number}" for number in (minor, minor - 1)]
        near = [load_release(project, name) for name in names if Checkout(project).locate_manifest(name).is_file()]
    likenesses = [compare_with_wheel(tree, item, offline=offline, progress=listener.progress) for item in near]
    return max((item for item in likenesses if item), key=lambda item: item.percent, default=None)


def _name_release(project: Path, text: str) -> str:
    """Return ``2.7`` of ``2.7.0``, unless there is a manifest for the longer name.

    Raises UsageError, DecoupleError.
    """
    return load_release(project, text).release


def _continue_rebase(
    request: RebaseRequest,
    state_file: Path,
    waiting: RebaseState,
    listener: Listener,
    heard: Callable[[RebaseJudgement], None],
) -> RebaseResult:
    project, source = request.project, request.folder / "src"
    step = (request.step or "continue") if state_file.exists() and not request.report else None
    work, (old, new), tree = prepare_work(project, waiting, listener, step=step)
    tags = (work.sides.old_tag.partition("+")[0], work.sides.new_tag.partition("+")[0])
    if request.history:  # before the work, and before a decision is taken over
        check_clone(request.history, *tags)
    killed = waiting.tip is not None and waiting.stopped_at is None
    if request.step == "restart":
        waiting = structs.replace(waiting, decisions={})
        _drop_conflict(request, waiting)
    elif request.step in ("skip", "continue") and waiting.stopped_at:
        waiting = _take_decision(request, work, waiting)
    elif waiting.stopped_at is None:
        _drop_conflict(request, waiting)
    waiting = structs.replace(waiting, stopped_at=None, tip=None)
    work.decisions = waiting.decisions
    outcome = work.run(stop=not request.report, progress=listener.progress)
    if request.history:
        outcome = _explain_outcome(request.history, work, outcome, tags)
    judged = RebaseJudgement(outcome, old.version, new.version)
    heard(judged)
    if request.report:
        return RebaseResult(judged, waiting.new)
    if outcome.stopped and outcome.waiting:
        waiting.save(state_file)  # so that --abort always can
        shown, name = _make_work_tree(work, source), outcome.stopped.name
        changed = rebase_state.list_changed_paths(work.repository, outcome.waiting, outcome.tips[-1])
        if killed:  # a run at its work there
            rebase_state.remove_untracked(shown, changed)
        rebase_state.refuse_edits(shown, outcome.waiting, changed)
        structs.replace(waiting, tip=outcome.tips[-1]).save(state_file)
        rebase_state.show_conflict(shown, outcome.tips[-1], outcome.waiting)
        structs.replace(waiting, stopped_at=name, tip=outcome.tips[-1]).save(state_file)
        return RebaseResult(judged, waiting.new, stopped_at=name, tree=source)
    made = new_series.make_series(project, outcome, waiting.new)
    if tree is not None:
        near = _measure_likeness(project, new, tree, waiting.offline, listener)
        made = structs.replace(
            made, made_on=work.repository.read_tree_id(work.sides.new), likeness=near.format_line() if near else ""
        )
    new_series.check_series(work.repository, work.sides, outcome, new_series.read_patches(project, made))
    written = new_series.write_series(project, waiting.new, made, old=waiting.old)
    if following := waiting.next_leg:
        following.save(state_file)  # so that the way goes on from there whatever ends this run
    else:
        state_file.unlink(missing_ok=True)
    kept = resolutions.make_path(project, waiting.old, waiting.new)
    return RebaseResult(
        judged, waiting.new, written=tuple(written), series=made, resolutions=kept if kept.exists() else None
    )


def _take_decision(request: RebaseRequest, work: series_carry.RebaseWork, waiting: RebaseState) -> RebaseState:
    """Take over what a person did in the work tree, and remember it for the next time."""
    assert request.step
    assert waiting.stopped_at
    assert waiting.tip
    step = next((entry for entry in work.steps if entry.patch.name == waiting.stopped_at), None)
    if step is None:
        raise UsageError(
            f"the series of {waiting.old} no longer lists {waiting.stopped_at}", next_step="decouple rebase --restart"
        )
    if _is_relocation(step.patch):
        rebase_state.refuse_decision(waiting.stopped_at, request.step)
    tree = _make_work_tree(work, request.folder / "src")
    before = work.repository.read_tree_id(waiting.tip)
    settled = None
    if request.step == "continue":
        changed = rebase_state.list_changed_paths(work.repository, step, waiting.tip)
        settled = rebase_state.read_settled_tree(tree, waiting.tip, step, changed)
        if settled == before:
            rebase_state.refuse_nothing(tree, waiting.stopped_at)
    decision = Decision(settled, before, request.reason)
    made_on = work.repository.read_tree_id(work.sides.new)
    kept = resolution_replay.make_resolution(
        work.repository,
        step,
        waiting.tip,
        settled,
        made_on,
        request.reason,
        waiting.new,
        work.list_recipe_paths(step.patch),
    )
    resolutions.remember_resolution(resolutions.make_path(request.project, waiting.old, waiting.new), kept)
    work.memory = [kept, *work.memory]  # where a patch before it was edited meanwhile, the decision does not hold
    decided = structs.replace(waiting, decisions={**waiting.decisions, waiting.stopped_at: decision})
    _drop_conflict(request, decided)
    return decided


def _give_up(request: RebaseRequest, state_file: Path) -> None:
    """Forget the rebase under way, one whose state or work tree cannot be read, too."""
    tree = Repository(request.folder / "src")
    try:
        waiting = rebase_state.load_state(state_file)
    except DecoupleError:
        if tree.root.exists() and (head := tree.resolve_commit("HEAD")):
            rebase_state.drop_conflict(tree, head)
    else:
        assert waiting
        try:
            _drop_conflict(request, waiting)
        except GitError:
            if not has_lost_objects(tree):
                raise
            clear_folder(tree.root)
    state_file.unlink()


def _drop_conflict(request: RebaseRequest, waiting: RebaseState) -> None:
    """Take the open conflict out of the work tree.

    The state says so first: what was settled there is in no other place afterwards, and a run that is killed from here
    on is gone on with by any step.
    """
    source, state_file = request.folder / "src", request.folder / "state.json"
    if not waiting.tip or not source.exists():
        return
    if waiting.stopped_at is None:  # killed at its work there
        rebase_state.forget_locks(Repository(source), state_file.stat().st_mtime)
    else:
        structs.replace(waiting, stopped_at=None).save(state_file)
    rebase_state.drop_conflict(Repository(source), waiting.tip)


def prepare_work(
    project: Path, waiting: RebaseState, listener: Listener = QUIET, *, step: str | None = None
) -> tuple[series_carry.RebaseWork, tuple[Manifest, Manifest], Path | None]:
    """Return the work, the old and new manifest, and where the new tree lies.

    The trees of both releases are at hand. The place is None if only a wheel is known. ``step`` is that
    of a rebase that waits: none reads another source.
    """
    old, new = load_release(project, waiting.old), load_release(project, waiting.new)
    listed = series_file.read_series(Checkout(project).locate_series(waiting.old))
    patches = [entry.load_patch(Checkout(project).patches).check_readable() for entry in listed.entries]
    folder = Checkout(project).rebase
    borrowed = [folder / "src" / ".git"]
    sides: list[tuple[str, str]] = []
    regenerate: Regenerate = lambda patch: None  # noqa: E731
    tree: Path | None = None
    for manifest, word, debian, option in (
        (old, waiting.from_source, False, "--from-source"),
        (new, waiting.source, waiting.debian_patches, "--source"),
    ):
        of_new = option == "--source"
        advised = _advise_wheel(waiting, new) if of_new else contextlib.nullcontext()
        with _advise_anew(step) if step else advised, source_specifier.name_option(option):
            if word == "wheel" and not debian:
                repository = open_workspace(folder / "objects", borrowed)
                commit, regenerate = _open_wheel_side(project, repository, manifest, patches, waiting.offline, listener)
                tree = None
                if not of_new:
                    _refuse_hidden_files(repository, patches, commit)
            else:
                baseline, tree = _open_full_side(manifest, word, debian, waiting.offline, listener)
                commit, regenerate = baseline.commit, _make_regenerator(tree, baseline.upstream, waiting.new)
                borrowed.append(baseline.repo)
        sides.append((f"{manifest.tag}{'+debian' if debian else ''}", commit))
    known = resolutions.load_all_resolutions(project)
    work = series_carry.RebaseWork(
        open_workspace(folder / "objects", borrowed),
        ReleasePair(sides[0][0], sides[0][1], sides[1][0], sides[1][1]),
        patches,
        regenerate,
        known,
        recipes=load_recipes(project),
    )
    if waiting.source == "wheel":
        work.partial = True
    return work, (old, new), tree


_STEPS = {
    "continue": "`decouple rebase --continue`",
    "skip": "`decouple rebase --skip`",
    "restart": "`decouple rebase --restart`",
}


@contextlib.contextmanager
def _advise_anew(step: str) -> Iterator[None]:
    """Say how a rebase under way is gone on with, or comes by another source.

    A step reads no option that names one. What else the advice has stays.
    """
    try:
        yield
    except DecoupleError as error:
        advice = re.split(", or |; ", error.next_step or "")
        kept = [part for part in advice if not _NAMES_A_SOURCE.search(part)]
        if kept != advice:
            anew = "`decouple rebase --abort` and start anew with what there is: what was settled is replayed"
            error.next_step = ", or ".join([*(kept or [f"{_STEPS[step]} once it can be had"]), anew])
        raise


@contextlib.contextmanager
def _advise_wheel(waiting: RebaseState, new: Manifest) -> Iterator[None]:
    """Say what the official wheel is good for where TO's whole source cannot be had."""
    try:
        yield
    except UsageError:
        raise
    except DecoupleError as error:
        if waiting.source != "auto" or not new.find_source("wheel"):
            raise
        start = "" if waiting.from_source == "auto" else f" --from-source {shlex.quote(waiting.from_source)}"
        step = (
            f"{error.next_step}; `decouple rebase {waiting.old} {waiting.new}{start} --source wheel --report` judges "
            "the patches whose files the official wheel shows"
        )
        raise DecoupleError(error.what, next_step=step) from error


def _refuse_hidden_files(repository: Repository, patches: list[Patch], commit: str) -> None:
    """Raise UsageError where FROM's wheel lacks a file that its series changes."""
    made = {file.new_path for patch in patches for file in patch.files if not file.old_path}
    for patch in patches:
        for note in find_hidden_files(repository, patch, commit, {}):
            if note.path not in made:
                raise UsageError(
                    f"--from-source wheel: the official wheel has no {note.path}, which {patch.name} changes",
                    next_step="name the whole source of that release: --from-source PATH",
                )


def _open_full_side(
    manifest: Manifest, word: str, debian: bool, offline: bool, listener: Listener
) -> tuple[Baseline, Path]:
    """Return the baseline of a release's whole tree, and the tree on disk."""
    word = choose_provider(manifest, word, debian_patches=debian)
    fetched = fetch_source(manifest, word, offline=offline, progress=listener.progress)
    return ensure_baseline(find_cache(), manifest, fetched, debian, listener.progress), fetched.path


def _open_wheel_side(
    project: Path, repository: Repository, manifest: Manifest, patches: list[Patch], offline: bool, listener: Listener
) -> tuple[str, Regenerate]:
    """Make a commit with what the official wheel has of the files that matter.

    The relocation of its Python files comes with it.
    """
    wanted = {path for patch in patches for path in patch.touched_paths}
    release, progress = manifest.release, listener.progress
    opened, _ = open_named_source(project, release, "wheel", wanted, offline=offline, progress=progress)
    moves, unplaced = plan_python_moves(list_paths(opened.source), load_rules())
    if not wanted >= (moving := {move.origin for move in moves}):
        wanted |= moving
        opened, _ = open_named_source(project, release, "wheel", wanted, offline=offline, progress=progress)
    title = f"upstream: what {_find_wheel_name(manifest)} has of PyTorch {manifest.version}"
    return commit_files(repository, opened.source, wanted, title), _make_python_regenerator(moves, unplaced, manifest)


def _find_wheel_name(manifest: Manifest) -> str:
    wheel = find_wheel(manifest)
    if wheel is None:
        raise UsageError(
            f"release {manifest.release} has no wheel in its manifest", next_step="choose another --source"
        )
    return wheel.name


def _is_relocation(patch: Patch) -> bool:
    return patch.identity == RELOCATION


def _make_python_regenerator(moves: list[Move], unplaced: list[str], manifest: Manifest) -> Regenerate:
    """Make the relocation of what a wheel shows: Python files."""

    def regenerate(patch: Patch) -> RegeneratedPatch | None:
        if not _is_relocation(patch):
            return None
        data = render_python(moves, load_rules(), manifest.release, _find_wheel_name(manifest)).encode()
        before = {file.old_path for file in patch.files}
        notes = [Note(path, 0, "a CUDA file that no rule places; a full source will stop here") for path in unplaced]
        notes += [
            Note(move.origin, 0, f"new in this release, moves to {move.target}")
            for move in moves
            if move.origin not in before
        ]
        return RegeneratedPatch(data, tuple(notes))

    return regenerate


def _make_regenerator(tree: Path, commit: str, release: str) -> Regenerate:
    """Make what generates the relocation, a rule set.

    On another release it is generated, never merged.

    ``tree`` is what ``commit`` holds; it is read where the moves of that commit are not known.
    """

    def regenerate(patch: Patch) -> RegeneratedPatch | None:
        if not _is_relocation(patch):
            return None
        rules = load_rules()
        before = {file.old_path: file.new_path for file in patch.files if file.old_path}
        loose: list[Note] = []
        found = move_cache.find_moves(find_cache(), commit, rules)
        if found is None:
            tree_record.check_tree(tree)
            try:
                plan = make_plan(tree, rules)
                if plan.hollow:
                    return RegeneratedPatch(None, tuple(Note(path, 0, HOLLOW) for path in plan.hollow))
                found = plan.moves
            except DecoupleError as error:
                with contextlib.suppress(DecoupleError):  # the same fault may stop this count too; it is told above
                    loose = [
                        Note(path, 0, "a CUDA file that no rule places") for path in list_unclassified(tree, rules)
                    ]
                left = (path for path in before if not (tree / path).exists())
                absent = (Note(path, 0, "moved before, not in this release") for path in left)
                return RegeneratedPatch(None, (Note("", 0, error.what), *loose, *absent))
            move_cache.keep_moves(find_cache(), commit, rules, found)
        moves = {move.origin: move.target for move in found}
        new = [Note(path, 0, f"new in this release, moves to {moves[path]}") for path in moves.keys() - before.keys()]
        gone = [Note(path, 0, "moved before, not in this release") for path in before.keys() - moves.keys()]
        notes = sorted((*new, *gone), key=lambda note: note.path)
        return RegeneratedPatch(render_patch(found, rules, release).encode(), tuple(notes))

    return regenerate


def _make_work_tree(work: series_carry.RebaseWork, source: Path) -> Repository:
    """Make the work tree for conflicts.

    Plain git, the objects borrowed from the workspace.
    """
    return open_workspace(source, [work.repository.git_dir])


def _explain_outcome(
    clone: Path, work: series_carry.RebaseWork, outcome: RebaseOutcome, tags: tuple[str, str]
) -> RebaseOutcome:
    files = [file for patch in work.patches for file in patch.files]
    moved = {f.new_path: f.old_path for f in files if f.new_path and f.old_path and f.new_path != f.old_path}
    return structs.replace(outcome, carried=tuple(explain_stops(outcome.carried, clone, *tags, moved)))
