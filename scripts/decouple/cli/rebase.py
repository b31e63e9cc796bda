"""``decouple rebase``: carry a series to another upstream release."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from decouple.base.errors import CHECK_FAILED, OK, DecoupleError, UsageError

if TYPE_CHECKING:
    from decouple.base.git import Repository
    from decouple.rebase.series import Outcome, Rebase, Regenerate
    from decouple.rebase.stop import Waiting
    from decouple.release.manifest import Manifest
    from decouple.relocate.plan import Move
    from decouple.stack.patchtext import PatchText

RELOCATION = "relocate-cuda-sources"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("rebase", help="carry a series to another upstream release")
    parser.add_argument(
        "releases", nargs="*", metavar="[FROM] TO", help="e.g. 2.7.0, or 2.6 2.7.0 (FROM: the newest series)"
    )
    parser.add_argument(
        "--source",
        default="auto",
        help="where TO's source comes from: auto, a provider, local:PATH; wheel: only what the official wheel shows",
    )
    parser.add_argument("--from-source", default="auto", help="where FROM's source comes from")
    parser.add_argument("--debian-patches", action="store_true", help="lay Debian's own patches under TO")
    parser.add_argument("--report", action="store_true", help="judge every patch, stop at none, write nothing")
    parser.add_argument(
        "--history", type=Path, metavar="CLONE", help="a clone of upstream: name the commits behind a conflict"
    )
    parser.add_argument("--format", choices=("text", "markdown", "json", "github"), default="text")
    parser.add_argument("--output", type=Path, help="write the report to this file as well as a summary here")
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--continue", dest="step", action="store_const", const="continue", help="the conflict is settled")
    step.add_argument("--skip", dest="step", action="store_const", const="skip", help="leave the stopped patch out")
    step.add_argument("--restart", dest="step", action="store_const", const="restart", help="forget what was decided")
    step.add_argument("--abort", dest="step", action="store_const", const="abort", help="forget the whole rebase")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """One call: start, go on, or give up; 1 while a patch waits for a person or --report found one that would."""
    from decouple.base.paths import find_project
    from decouple.rebase import stop

    project = find_project()
    state_file = project / "build" / "rebase" / "state.json"
    waiting = stop.load(state_file)
    if arguments.step and waiting is None:
        raise UsageError(f"no rebase is under way for --{arguments.step}", next_step="start one: decouple rebase TO")
    if arguments.step == "abort" and waiting is not None:
        _drop_conflict(project, waiting)
        state_file.unlink()
        print("rebase: given up; no series was written")
        return OK
    if waiting is None or arguments.report:
        waiting = _start(arguments, project)
    elif arguments.releases:
        raise UsageError(
            f"a rebase from {waiting.old} to {waiting.new} is under way",
            next_step="decouple rebase --continue, --skip, --restart or --abort",
        )
    return _go(arguments, project, state_file, waiting)


def _start(arguments: argparse.Namespace, project: Path) -> Waiting:
    from packaging.version import Version

    from decouple.rebase.stop import Waiting
    from decouple.stack.engine import partial_releases, releases

    named = arguments.releases
    if not 1 <= len(named) <= 2:
        raise UsageError("decouple rebase takes [FROM] TO", next_step="e.g. decouple rebase 2.7.0")
    have = sorted(releases(project), key=Version)
    old = named[0] if len(named) == 2 else have[-1] if have else ""
    if arguments.source == "wheel":
        have += partial_releases(project)  # from one wheel to the next
    elif old in partial_releases(project):
        raise UsageError(
            f"series/{old} is partial: most of its patches are not there",
            next_step="complete it first, or carry what it has with --source wheel",
        )
    if old not in have:
        raise UsageError(f"no series {old!r} to start from", next_step=f"name one of: {', '.join(have) or 'none'}")
    return Waiting(old, _release(project, named[-1]), arguments.source, arguments.debian_patches)


def _release(project: Path, text: str) -> str:
    """``2.7`` of ``2.7.0``, unless there is a manifest for the longer name. Raises UsageError."""
    for name in (text, ".".join(text.split(".")[:2])):
        if (project / "series" / f"{name}.toml").is_file():
            return name
    raise UsageError(
        f"no manifest series/{text}.toml",
        next_step=f"decouple manifest fill {text} --write reads its facts off the wheel",
    )


def _go(arguments: argparse.Namespace, project: Path, state_file: Path, waiting: Waiting) -> int:
    import dataclasses

    from decouple.cli import output
    from decouple.rebase import resolutions, result, stop

    work, manifests = prepare(project, waiting, arguments.from_source)
    source = project / "build" / "rebase" / "src"
    if arguments.step == "restart":
        _drop_conflict(project, waiting)
        waiting = dataclasses.replace(waiting, decisions={}, stopped_at=None, tip=None)
    elif arguments.step in ("skip", "continue") and waiting.stopped_at:
        waiting = _decide(arguments.step, project, work, waiting, source)
    work.decisions = waiting.decisions
    outcome = work.run(stop=not arguments.report, progress=output.progress())
    if arguments.history:
        outcome = _explained(arguments.history, work, outcome)
    _tell(arguments, outcome, manifests)
    if arguments.report:
        return CHECK_FAILED if any(one.verdict.stops for one in outcome.carried) else OK
    if outcome.stopped and outcome.waiting:
        tree = _work_tree(work, source)
        stop.show_conflict(tree, outcome.tips[-1], outcome.waiting)
        name = outcome.stopped.name
        dataclasses.replace(waiting, stopped_at=name, tip=outcome.tips[-1]).save(state_file)
        print(f"\nstopped at {name}; the conflict is in {source}")
        print(
            "  settle it there, `git add` the files, then: decouple rebase --continue (or --skip, --restart, --abort)"
        )
        return CHECK_FAILED
    series = result.new_series(outcome, waiting.new, work.partial)
    result.prove(work.repository, work.sides, outcome, result.texts(project, series))
    written = result.write(project, waiting.new, series, old=waiting.old)
    state_file.unlink(missing_ok=True)
    kept = resolutions.path_for(project, waiting.old, waiting.new)
    print(f"\nwrote {len(written) - 1} patches and series/{waiting.new}: {len(series.lines)} patches in all")
    if series.not_carried:
        print(f"PARTIAL: {len(series.not_carried)} patches are not carried, the wheel does not show their files")
    if kept.exists():
        print(f"resolutions are kept in {kept.relative_to(project)}; commit them with the series")
    proof = f"check {waiting.new} --source wheel" if series.not_carried else f"apply {waiting.new}"
    print(f"  next: decouple lint {waiting.new}, then decouple {proof}")
    return OK


def _decide(step: str, project: Path, work: Rebase, waiting: Waiting, source: Path) -> Waiting:
    """Take over what a person did in the work tree, and remember it for the next time."""
    import dataclasses

    from decouple.rebase import resolutions, stop
    from decouple.rebase.series import Decision, resolution_of

    assert waiting.stopped_at
    assert waiting.tip
    tree = _work_tree(work, source)
    before = work.repository.tree_of(waiting.tip)
    if step == "skip":
        decision = Decision(None, before)
    else:
        settled = stop.settled_tree(tree, waiting.tip)
        decision = Decision(settled, before)
        if settled != before:
            patch = next(p for p in work.patches if p.name == waiting.stopped_at)
            path = resolutions.path_for(project, waiting.old, waiting.new)
            resolutions.remember(path, resolution_of(work.repository, patch, work.sides, waiting.tip, settled))
    _drop_conflict(project, waiting)
    return dataclasses.replace(waiting, decisions={**waiting.decisions, waiting.stopped_at: decision})


def _drop_conflict(project: Path, waiting: Waiting) -> None:
    """Take the open conflict out of the work tree, as ``git rebase --abort`` does."""
    from decouple.base.git import Repository

    source = project / "build" / "rebase" / "src"
    if waiting.tip and source.exists():
        tree = Repository(source)
        tree.try_run("cherry-pick", "--quit")
        tree.run("reset", "-q", "--hard", waiting.tip)


def prepare(project: Path, waiting: Waiting, from_source: str = "auto") -> tuple[Rebase, tuple[Manifest, Manifest]]:
    """The work, with the trees of both releases at hand."""
    from decouple.patch import seriesfile
    from decouple.rebase import resolutions
    from decouple.rebase.partial import Partial
    from decouple.rebase.series import Rebase, Sides
    from decouple.rebase.workspace import open_workspace
    from decouple.recipes.model import load_all
    from decouple.release.manifest import load_release
    from decouple.stack.patchtext import load

    old, new = load_release(project, waiting.old), load_release(project, waiting.new)
    series = seriesfile.read(project / "series" / waiting.old)
    patches = [load(project / "patches", entry) for entry in series.entries]
    source = "wheel" if series.partial and from_source == "auto" else from_source
    folder = project / "build" / "rebase"
    borrowed = [folder / "src" / ".git"]
    sides: list[tuple[str, str]] = []
    regenerate: Regenerate = lambda patch: None  # noqa: E731
    for manifest, word, debian in ((old, source, False), (new, waiting.source, waiting.debian_patches)):
        if word == "wheel" and not debian:
            repository = open_workspace(folder / "objects", borrowed)
            commit, regenerate = _wheel_side(project, repository, manifest, patches)
        else:
            commit, repo, tree = _full_side(manifest, word, debian)
            borrowed.append(repo)
            regenerate = _regenerate(tree, waiting.new)
        sides.append((f"{manifest.tag}{'+debian' if debian else ''}", commit))
    known = resolutions.load(resolutions.path_for(project, waiting.old, waiting.new))
    work = Rebase(
        open_workspace(folder / "objects", borrowed),
        Sides(sides[0][0], sides[0][1], sides[1][0], sides[1][1]),
        patches,
        regenerate,
        known,
        recipes=load_all(project),
    )
    if waiting.source == "wheel":
        work.partial = Partial(_wheel_name(new), series.not_carried)
    return work, (old, new)


def _full_side(manifest: Manifest, word: str, debian: bool) -> tuple[str, Path, Path]:
    """The commit of a release's whole tree, the repository that has it, and the tree on disk."""
    from decouple.base.paths import cache_dir
    from decouple.cli import output
    from decouple.upstream.baseline import ensure_baseline
    from decouple.upstream.fetching import fetch

    try:
        fetched = fetch(manifest, word, progress=output.progress())
    except DecoupleError as error:
        if word == "auto" and manifest.source("wheel") and not isinstance(error, UsageError):
            step = f"{error.next_step}; --source wheel carries the patches whose files the official wheel shows"
            raise DecoupleError(error.what, next_step=step) from error
        raise
    baseline = ensure_baseline(cache_dir(), manifest, fetched, debian, output.progress())
    return baseline.commit, baseline.repo, fetched.path


def _wheel_side(
    project: Path, repository: Repository, manifest: Manifest, patches: list[PatchText]
) -> tuple[str, Regenerate]:
    """A commit with what the official wheel has of the files that matter, and the relocation of its Python files."""
    from decouple.cli import output
    from decouple.inventory.rules import load
    from decouple.rebase.partial import commit_of
    from decouple.relocate.plan import python_moves
    from decouple.upstream.readers import paths_of
    from decouple.upstream.source_word import open_named

    rules = load()
    wanted = {path for patch in patches for touched in patch.touched for path in touched.paths}
    opened, _ = open_named(project, manifest.release, "wheel", wanted, progress=output.progress())
    moves, unplaced = python_moves(paths_of(opened.source), rules)
    if not wanted >= (moving := {move.source for move in moves}):
        wanted |= moving
        opened, _ = open_named(project, manifest.release, "wheel", wanted, progress=output.progress())
    title = f"upstream: what {_wheel_name(manifest)} has of PyTorch {manifest.version}"
    return commit_of(repository, opened.source, wanted, title), _regenerate_python(moves, unplaced, manifest)


def _wheel_name(manifest: Manifest) -> str:
    from decouple.release.manifest import WheelSource

    source = manifest.source("wheel")
    if not isinstance(source, WheelSource):
        raise UsageError(
            f"release {manifest.release} has no wheel in its manifest", next_step="choose another --source"
        )
    return source.wheel.name


def _regenerate_python(moves: list[Move], unplaced: list[str], manifest: Manifest) -> Regenerate:
    """The relocation of what a wheel shows: Python files."""
    from decouple.inventory.rules import load
    from decouple.rebase.series import Regenerated
    from decouple.rebase.verdicts import Note
    from decouple.relocate.patch import render_python

    def regenerate(patch: PatchText) -> Regenerated | None:
        if f"Decouple-Id: {RELOCATION}\n" not in patch.header_text:
            return None
        data = render_python(moves, load(), manifest.release, _wheel_name(manifest)).encode()
        before = {touched.old for touched in patch.touched}
        notes = [Note(path, 0, "a CUDA file that no rule places; a full source will stop here") for path in unplaced]
        notes += [
            Note(move.source, 0, f"new in this release, moves to {move.target}")
            for move in moves
            if move.source not in before
        ]
        return Regenerated(data, tuple(notes))

    return regenerate


def _regenerate(tree: Path, release: str) -> Regenerate:
    """The relocation is a rule set: on another release it is generated, never merged (DESIGN section 4)."""
    from decouple.inventory.rules import load
    from decouple.rebase.series import Regenerated
    from decouple.rebase.verdicts import Note
    from decouple.relocate.patch import render
    from decouple.relocate.plan import make_plan, unclassified

    def regenerate(patch: PatchText) -> Regenerated | None:
        if f"Decouple-Id: {RELOCATION}\n" not in patch.header_text:
            return None
        rules = load()
        before = {touched.old: touched.new for touched in patch.touched if touched.old}
        loose: list[Note] = []
        try:
            plan = make_plan(tree, rules)
        except DecoupleError as error:
            with contextlib.suppress(DecoupleError):  # the same fault may stop this count too; it is told above
                loose = [Note(path, 0, "a CUDA file that no rule places") for path in unclassified(tree, rules)]
            gone = [Note(path, 0, "moved before, not in this release") for path in before if not (tree / path).exists()]
            return Regenerated(None, (Note("", 0, error.what), *loose, *gone))
        moves = {move.source: move.target for move in plan.moves}
        new = [Note(path, 0, f"new in this release, moves to {moves[path]}") for path in moves.keys() - before.keys()]
        gone = [Note(path, 0, "moved before, not in this release") for path in before.keys() - moves.keys()]
        notes = sorted((*new, *gone), key=lambda note: note.path)
        return Regenerated(render(plan, rules, release).encode(), tuple(notes))

    return regenerate


def _work_tree(work: Rebase, source: Path) -> Repository:
    """The work tree for conflicts: plain git, the objects borrowed from the workspace."""
    from decouple.rebase.workspace import open_workspace

    return open_workspace(source, [work.repository.git_dir])


def _explained(clone: Path, work: Rebase, outcome: Outcome) -> Outcome:
    import dataclasses

    from decouple.rebase.history import explained

    moved = {t.new: t.old for patch in work.patches for t in patch.touched if t.new and t.old and t.new != t.old}
    old, new = (tag.split("+")[0] for tag in (work.sides.old_tag, work.sides.new_tag))
    return dataclasses.replace(outcome, carried=tuple(explained(outcome.carried, clone, old, new, moved)))


def _tell(arguments: argparse.Namespace, outcome: Outcome, manifests: tuple[Manifest, Manifest]) -> None:
    from decouple.base.files import write_atomically
    from decouple.rebase import report

    old, new = (manifest.version for manifest in manifests)
    makers = {
        "markdown": lambda: report.markdown(outcome.carried, old, new),
        "json": lambda: report.as_json(outcome.carried, old, new),
        "github": lambda: "".join(f"{line}\n" for line in report.ci_annotations(outcome.carried)),
        "text": lambda: _text(outcome),
    }
    text = makers[arguments.format]()
    if arguments.output:
        write_atomically(arguments.output, text)
        print(f"{arguments.output}: {report.summary(outcome.carried)}")
    else:
        print(text, end="")


def _text(outcome: Outcome) -> str:
    from decouple.rebase import report

    width = max((len(one.name) for one in outcome.carried), default=0)
    lines = []
    for one in outcome.carried:
        lines.append(f"{one.name:<{width}}  {one.verdict.value}")
        shown = one.notes if one.verdict.stops else one.notes[:3]
        for note in shown[:20]:
            where = f"{note.path}:{note.line}: " if note.line else f"{note.path}: " if note.path else ""
            lines.append(f"    {where}{note.text}")
        if len(one.notes) > len(shown[:20]):
            lines.append(f"    … and {len(one.notes) - len(shown[:20])} more (--format markdown shows all)")
    return "\n".join([*lines, report.summary(outcome.carried), ""])
