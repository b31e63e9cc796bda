"""Writing the new series: patches that changed get a body under the new release, the others keep their old home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import write_atomically
from decouple.series import seriesfile
from decouple.series.rebase.series import Outcome, Sides
from decouple.series.rebase.verdicts import Verdict
from decouple.series.stack import applier
from decouple.series.stack.commits import CommitText, NewCommit, write_chain
from decouple.series.stack.patchtext import PatchText, load
from decouple.series.stack.plumbing import Repository


@dataclass(frozen=True)
class NewSeries:
    """The files of the new series: ``lines`` of ``series/<release>``, ``bodies`` by path below ``patches/``."""

    lines: tuple[str, ...]
    bodies: tuple[tuple[str, bytes], ...]


def new_series(outcome: Outcome, release: str) -> NewSeries:
    """What a finished rebase writes. The header of a patch goes with it, byte for byte."""
    lines: list[str] = []
    bodies: list[tuple[str, bytes]] = []
    for step, carried in zip(outcome.steps, outcome.carried, strict=True):
        if not carried.verdict.keeps:
            continue
        if carried.body is None:
            lines.append(step.patch.name if step.patch.strip == 1 else f"{step.patch.name} -p{step.patch.strip}")
            continue
        name = f"{release}/{step.patch.name.rsplit('/', 1)[-1]}"
        lines.append(name)
        whole = carried.verdict is Verdict.REGENERATED
        bodies.append((name, carried.body if whole else step.patch.header + carried.body))
    return NewSeries(tuple(lines), tuple(bodies))


def texts(project: Path, series: NewSeries) -> list[PatchText]:
    """The patches of the new series as they will be read back: new bodies, and old files that it lists."""
    bodies = dict(series.bodies)
    entries = seriesfile.parse("".join(f"{line}\n" for line in series.lines)).entries
    return [
        PatchText(entry.name, bodies[entry.name], entry.strip)
        if entry.name in bodies
        else load(project / "patches", entry)
        for entry in entries
    ]


def prove(repository: Repository, sides: Sides, outcome: Outcome, patches: Sequence[PatchText]) -> None:
    """Apply the new series to the new release from its own text; raise DecoupleError unless it gives the same tree."""
    made = applier.apply(repository, sides.new, patches, repository.own)
    text = CommitText("decouple <decouple@localhost>", "0 +0000", "rebase\n")
    commits = write_chain(repository, sides.new, [NewCommit(text, one.changes) for one in made])
    if repository.tree_of(commits[-1] if commits else sides.new) != repository.tree_of(outcome.tips[-1]):
        raise DecoupleError("the new series does not give the tree that the rebase made", next_step="report this")


def write(project: Path, release: str, series: NewSeries, *, old: str) -> list[Path]:
    """Write the new series; the series file comes last, so that a kill leaves no series that names a missing patch.

    Returns the paths written. Raises UsageError when ``series/<release>`` exists already.
    """
    target = project / "series" / release
    if target.exists():
        raise UsageError(f"{target} exists", next_step="delete it (git keeps it) to rebase anew, or rebase from it")
    written = []
    for name, body in series.bodies:
        path = project / "patches" / name
        write_atomically(path, body)
        written.append(path)
    head = f"# PyTorch {release}: carried from {old} by `decouple rebase`; quilt syntax, paths relative to patches/\n"
    write_atomically(target, head + "".join(f"{line}\n" for line in series.lines))
    return [*written, target]
