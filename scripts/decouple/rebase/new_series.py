"""Write the new series.

Patches that changed get a body under the new release, the others keep their old place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import restore_files, write_atomically
from decouple.base.git import Repository
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.patch.series_file import MADE_ON, SeriesEntry
from decouple.rebase.series_carry import RebaseOutcome, ReleasePair
from decouple.rebase.verdicts import Verdict
from decouple.stack import applier
from decouple.stack.commits import SCRATCH, NewCommit, write_chain
from decouple.stack.series_update import make_numbered_name

_NUMBER = re.compile(r"\A\d+-")


class NewSeries(Struct, frozen=True):
    """The files of the new series.

    ``lines`` of ``series/<release>``, ``bodies`` by path below ``patches/``.
    """

    lines: tuple[str, ...]
    bodies: tuple[tuple[str, bytes], ...]
    made_on: str = ""
    """Id of upstream's tree that it was made on."""
    likeness: str = ""
    """How near that tree is to the official text, in one line; empty where that was not measured."""


def make_series(project: Path, outcome: RebaseOutcome, release: str) -> NewSeries:
    """Make the files that a finished rebase writes.

    The header of a patch goes with it, byte for byte. A new body never takes the name of a file with other bytes that
    the series of another release lists: it gets the next number.
    """
    kept = [pair for pair in zip(outcome.steps, outcome.carried, strict=True) if pair[1].verdict.is_kept]
    others = _list_names_of_others(project, release)
    taken = {old.patch.name for old, carried in kept if carried.body is None}
    wanted = {_make_name(release, old.patch) for old, carried in kept if carried.body is not None}
    lines: list[str] = []
    bodies: list[tuple[str, bytes]] = []
    for old, carried in kept:
        if carried.body is None:
            lines.append(SeriesEntry(old.patch.name, old.patch.strip).to_text())
            continue
        whole = carried.verdict is Verdict.REGENERATED
        data = carried.body if whole else old.patch.header_bytes + carried.body
        name = _make_name(release, old.patch)
        if name in taken or (name in others and _read_body(project, name) != data):
            slug = _NUMBER.sub("", name.rpartition("/")[2]).removesuffix(".patch")
            name = make_numbered_name(others | taken | wanted, release, slug)
        taken.add(name)
        lines.append(name)
        bodies.append((name, data))
    return NewSeries(tuple(lines), tuple(bodies))


def _make_name(release: str, patch: Patch) -> str:
    return f"{release}/{patch.name.rpartition('/')[2]}"


def _list_names_of_others(project: Path, release: str) -> set[str]:
    """Return the patch files that the series of all other releases list."""
    checkout = Checkout(project)
    others = (checkout.locate_series(other) for other in checkout.list_releases() if other != release)
    return {name for series in others for name in series_file.read_series(series).names}


def _read_body(project: Path, name: str) -> bytes | None:
    path = Checkout(project).patches / name
    return path.read_bytes() if path.is_file() else None


def read_patches(project: Path, series: NewSeries) -> list[Patch]:
    """Return the patches of the new series as they will be read back.

    New bodies, and old files that it lists.
    """
    bodies = dict(series.bodies)
    entries = series_file.parse_series("".join(f"{line}\n" for line in series.lines)).entries
    return [
        Patch(entry.name, bodies[entry.name], entry.strip)
        if entry.name in bodies
        else entry.load_patch(Checkout(project).patches).check_readable()
        for entry in entries
    ]


def check_series(repository: Repository, sides: ReleasePair, outcome: RebaseOutcome, patches: Sequence[Patch]) -> None:
    """Apply the new series to the new release from its own text.

    Raises DecoupleError unless it gives the same tree.
    """
    made = applier.apply_patches(repository, sides.new, patches, repository.state_folder)
    commits = write_chain(repository, sides.new, [NewCommit(SCRATCH, applied.changes) for applied in made])
    if repository.read_tree_id(commits[-1] if commits else sides.new) != repository.read_tree_id(outcome.tips[-1]):
        raise DecoupleError("the new series does not give the tree that the rebase made", next_step="report this")


def write_series(project: Path, release: str, series: NewSeries, *, old: str) -> list[Path]:
    """Write the new series; the series file comes last.

    So a kill leaves no series that names a missing patch, or has no manifest where one was read off its tree; what
    fails leaves the files as they were. Returns the paths written. Raises UsageError when another
    ``series/<release>`` exists already; the same one was written by a run that was killed behind it.
    """
    checkout = Checkout(project)
    target, draft = checkout.locate_series(release), checkout.locate_draft_manifest(release)
    head = f"# PyTorch {release}: carried from {old} by `decouple rebase`; quilt syntax, paths relative to patches/\n"
    if series.made_on:
        measured = series.likeness or "its distance to the official wheel was not measured"
        head += f"{MADE_ON}{series.made_on}: {measured}\n"
    texts = {checkout.patches / name: body for name, body in series.bodies}
    if draft.is_file() and not checkout.locate_manifest(release).is_file():
        texts[checkout.locate_manifest(release)] = draft.read_bytes()
    texts[target] = (head + "".join(f"{line}\n" for line in series.lines)).encode()
    before = {path: path.read_bytes() for path in texts if path.is_file()}
    if target.exists() and before != texts:
        raise UsageError(f"{target} exists", next_step="commit it, then delete it to rebase anew; or rebase from it")
    written: list[Path] = []
    try:
        for path, text in texts.items():
            write_atomically(path, text)
            written.append(path)
    except BaseException:
        restore_files(written, before)
        raise
    draft.unlink(missing_ok=True)  # it belongs to a series from now on
    return written
