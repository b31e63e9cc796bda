"""Writing the new series: patches that changed get a body under the new release, the others keep their old home."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.fault import step
from decouple.base.files import write_atomically
from decouple.base.git import Repository
from decouple.patch import seriesfile
from decouple.patch.parse import Patch
from decouple.patch.seriesfile import MADE_ON, NotCarried, SeriesEntry
from decouple.rebase.partial import Partial, reason
from decouple.rebase.series import RebaseOutcome, Sides
from decouple.rebase.verdicts import Verdict
from decouple.stack import applier
from decouple.stack.commits import SCRATCH, NewCommit, write_chain


class NewSeries(Struct, frozen=True):
    """The files of the new series: ``lines`` of ``series/<release>``, ``bodies`` by path below ``patches/``."""

    lines: tuple[str, ...]
    bodies: tuple[tuple[str, bytes], ...]
    wheel: str = ""
    """The wheel that a partial series is proven on."""
    not_carried: tuple[NotCarried, ...] = ()
    made_on: str = ""
    """Id of upstream's tree that it was made on."""
    likeness: str = ""
    """How near that tree is to the official text, in one line; empty where that was not measured."""


def new_series(outcome: RebaseOutcome, release: str, partial: Partial | None = None) -> NewSeries:
    """What a finished rebase writes. The header of a patch goes with it, byte for byte."""
    lines: list[str] = []
    bodies: list[tuple[str, bytes]] = []
    lacking = list(partial.left_out) if partial else []
    for old, carried in zip(outcome.steps, outcome.carried, strict=True):
        if carried.verdict is Verdict.NOT_SEEN:
            lacking.append(NotCarried(old.patch.name, reason(carried.notes)))
        if not carried.verdict.keeps:
            continue
        if carried.body is None:
            lines.append(SeriesEntry(old.patch.name, old.patch.strip).text())
            continue
        name = f"{release}/{old.patch.name.rsplit('/', 1)[-1]}"
        lines.append(name)
        whole = carried.verdict is Verdict.REGENERATED
        bodies.append((name, carried.body if whole else old.patch.header_bytes + carried.body))
    lacking.sort(key=lambda one: one.name)
    return NewSeries(tuple(lines), tuple(bodies), partial.wheel if partial else "", tuple(lacking))


def texts(project: Path, series: NewSeries) -> list[Patch]:
    """The patches of the new series as they will be read back: new bodies, and old files that it lists."""
    bodies = dict(series.bodies)
    entries = seriesfile.parse("".join(f"{line}\n" for line in series.lines)).entries
    return [
        Patch(entry.name, bodies[entry.name], entry.strip)
        if entry.name in bodies
        else entry.patch(Checkout(project).patches).checked()
        for entry in entries
    ]


def prove(repository: Repository, sides: Sides, outcome: RebaseOutcome, patches: Sequence[Patch]) -> None:
    """Apply the new series to the new release from its own text; raise DecoupleError unless it gives the same tree."""
    made = applier.apply(repository, sides.new, patches, repository.own)
    commits = write_chain(repository, sides.new, [NewCommit(SCRATCH, one.changes) for one in made])
    if repository.tree_of(commits[-1] if commits else sides.new) != repository.tree_of(outcome.tips[-1]):
        raise DecoupleError("the new series does not give the tree that the rebase made", next_step="report this")


def write(project: Path, release: str, series: NewSeries, *, old: str) -> list[Path]:
    """Write the new series; the series file comes last, so that a kill leaves no series that names a missing patch.

    A partial series gives way; bodies of its that no series names any more are deleted. Returns the paths written.
    Raises UsageError when ``series/<release>`` exists already and is whole.
    """
    target = Checkout(project).series(release)
    before = seriesfile.read(target) if target.exists() else None
    if before and not before.partial:
        raise UsageError(f"{target} exists", next_step="delete it (git keeps it) to rebase anew, or rebase from it")
    written = []
    for name, body in series.bodies:
        path = Checkout(project).patches / name
        write_atomically(path, body)
        written.append(path)
    head = f"# PyTorch {release}: carried from {old} by `decouple rebase`; quilt syntax, paths relative to patches/\n"
    if series.not_carried:
        head += (
            f"# PARTIAL: proven on the text of {series.wheel}, which has Python files and headers only.\n"
            f"# Nothing can be built from it. With full sources `decouple rebase {old} {release}` completes it\n"
            f"# (series/{old} first, where that is partial); what was settled there is in series/resolutions/.\n"
        )
        head += "".join(f"{one.text()}\n" for one in series.not_carried)
    if series.made_on:
        measured = series.likeness or "its distance to the official wheel was not measured"
        head += f"{MADE_ON}{series.made_on}: {measured}\n"
    write_atomically(target, head + "".join(f"{line}\n" for line in series.lines))
    _sweep(project, release, before.names if before else ())
    return [*written, target]


def _sweep(project: Path, release: str, names: Sequence[str]) -> None:
    """Delete those of ``names`` that were cut for ``release`` and that no series lists any more."""
    checkout = Checkout(project)
    used = {name for other in checkout.releases() for name in seriesfile.read(checkout.series(other)).names}
    for name in names:
        if name.startswith(f"{release}/") and name not in used:
            step("delete a patch of the partial series")
            (checkout.patches / name).unlink(missing_ok=True)
