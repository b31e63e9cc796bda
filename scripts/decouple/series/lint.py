"""Lint: every fault of every series file and every patch, in one run.

What one patch must be is in ``lint_patch``; here is what only the whole shows: names on disk, ids, dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.patch import series_file
from decouple.patch.faults import CODES, Fault
from decouple.patch.lint import lint_patch
from decouple.patch.moved_runs import find_moved_runs
from decouple.patch.parse import Patch
from decouple.patch.series_file import SeriesFile
from decouple.series.overlap import find_overlaps
from decouple.series.upstream_commits import ONLY_HERE

CODES.update(
    {
        "missing-patch": "a series names a patch that is not on disk",
        "unused-patch": "a file below patches/ that no series names",
        "unused-id": "a file of series/recipes or series/upstream whose name is the Decouple-Id of no patch",
        "strip-level": "a -pN other than -p1: git am knows only -p1",
        "patch-name": "a patch file that is not called NNNN-short-name.patch, or numbers out of order",
        "duplicate-id": "two patches of one series have the same Decouple-Id",
        "unknown-depends": "Depends names an id that no earlier patch of the series has",
        "moved-text": "a line that a patch takes out with text that it moves, and that the copy lacks",
        "overlap": "a hunk that contains lines an earlier patch changed, without Depends on it",
    }
)
_NAME = re.compile(r"(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.patch\Z")


class LintReport(Struct, frozen=True):
    """The series and patches that lint looked at, and the faults it found."""

    series: tuple[str, ...]
    patches: int
    faults: tuple[Fault, ...]
    """Sorted by file and line."""


Explained = Callable[[str, str], bool]
"""Whether something says of the patch with this Decouple-Id that a moved line like this one may change on the way."""


def lint_series(
    project: Path, chosen: Sequence[str] = (), explained: Explained = lambda identity, line: False
) -> LintReport:
    """List every fault of the chosen releases, of all if none is named.

    Unused files are looked for in the patch folders of the chosen releases, but count as used if any release's series
    names them: a later series lists a patch of an earlier release as long as it applies unchanged. Those of ids are
    looked for where no release is named. Raises UsageError for a release without a series file, or where there is none.
    """
    releases = Checkout(project).list_releases()
    for release in chosen:
        if release not in releases:
            raise UsageError(f"no series file series/{release}", next_step=f"known: {', '.join(releases) or 'none'}")
    if not releases:
        raise UsageError(f"{project / 'series'}: no series", next_step="run it in a checkout that has one")
    faults: set[Fault] = set()
    used: set[str] = set()
    read: dict[tuple[str, int], tuple[Patch, list[Fault]]] = {}
    for release in releases:
        series, faults_of_file = _read_series(project, release)
        used.update(series.names)
        if not chosen or release in chosen:
            faults.update(faults_of_file)
            faults.update(_lint_whole_series(project, release, series, read, explained))
    for release in chosen or [path.name for path in sorted(Checkout(project).patches.glob("*")) if path.is_dir()]:
        faults.update(_lint_unused_files(project, release, used))
    if not chosen:
        faults.update(_lint_unused_ids(project, {patch.header.decouple_id for patch, _ in read.values()}))
    return LintReport(tuple(chosen or releases), len(read), tuple(sorted(faults)))


def _read_series(project: Path, release: str) -> tuple[SeriesFile, list[Fault]]:
    file = f"series/{release}"
    data = (project / file).read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = data.decode("utf-8", "replace")
        series, problems = series_file.scan_series(text)
        return series, [Fault(file, line, "not-utf8", "not UTF-8"), *_make_faults(file, problems)]
    series, problems = series_file.scan_series(text)
    faults = _make_faults(file, problems)
    if text and not text.endswith("\n"):
        faults.append(Fault(file, text.count("\n") + 1, "no-newline", "the last line has no newline"))
    return series, faults


def _make_faults(file: str, problems: Sequence[series_file.SeriesProblem]) -> list[Fault]:
    return [Fault(file, problem.line, problem.code, problem.message) for problem in problems]


def _lint_whole_series(
    project: Path,
    release: str,
    series: SeriesFile,
    read: dict[tuple[str, int], tuple[Patch, list[Fault]]],
    explained: Explained,
) -> list[Fault]:
    """List the faults of the patches of one series, alone and together."""
    file = f"series/{release}"
    faults: list[Fault] = []
    patches: list[Patch] = []
    previous: tuple[str, int] | None = None
    for entry in series.entries:
        if entry.strip != 1:
            faults.append(
                Fault(file, entry.line, "strip-level", f"{entry.name} has -p{entry.strip}; refresh it as -p1")
            )
        path = PurePosixPath(entry.name)
        match = _NAME.match(path.name)
        if not match:
            faults.append(Fault(file, entry.line, "patch-name", f"{entry.name}: call it NNNN-short-name.patch"))
        else:
            number = (str(path.parent), int(match.group(1)))
            if previous and previous[0] == number[0] and number[1] <= previous[1]:
                faults.append(
                    Fault(file, entry.line, "patch-name", f"{entry.name}: its number is not past {previous[1]:04}")
                )
            previous = number
        on_disk = Checkout(project).patches / entry.name
        if not on_disk.is_file():
            faults.append(Fault(file, entry.line, "missing-patch", f"patches/{entry.name} is not there"))
            continue
        key = (entry.name, entry.strip)
        if key not in read:
            found, wrong = lint_patch(on_disk.read_bytes(), f"patches/{entry.name}", strip=entry.strip)
            read[key] = found, [*wrong, *find_moved_faults(found, explained)]
        patch, own = read[key]
        faults += own
        patches.append(patch)
    faults += _lint_identities(patches)
    faults += _lint_overlaps(patches)
    return faults


def find_moved_faults(patch: Patch, explained: Explained) -> list[Fault]:
    """Find lines that ``patch`` takes out among text that it moves.

    A fault is one that does not stand where that text went.
    """
    if patch.header.find("Moved-Differs"):
        return []
    identity = patch.header.decouple_id or ""
    faults = []
    for run in find_moved_runs(patch):
        for line, text in run.lost:
            shown = text.decode("utf-8", "replace").strip()
            if not explained(identity, text.decode("utf-8", "replace").rstrip("\n")):
                message = (
                    f"{run.source}:{line} goes with text that moves to {run.target}:{run.copy.start} and is not there: "
                    f"{shown[:120]!r}; take it over, or let the recipe (drop, replace) or Moved-Differs: say why not"
                )
                faults.append(Fault(patch.name, 1, "moved-text", message))
    return faults


def _lint_identities(patches: Sequence[Patch]) -> list[Fault]:
    """Check that ids are unique in a series, and that Depends names earlier ones."""
    faults = []
    seen: dict[str, Patch] = {}
    for patch in patches:
        field = patch.header.find("Depends")
        for identity in sorted(patch.header.depends):
            if identity not in seen:
                line = field.line if field else 1
                faults.append(Fault(patch.name, line, "unknown-depends", f"no earlier patch has the id {identity}"))
        own = patch.header.find("Decouple-Id")
        if own and own.value:
            if own.value in seen:
                message = f"{own.value} is the id of {seen[own.value].name}, too"
                faults.append(Fault(patch.name, own.line, "duplicate-id", message))
            seen.setdefault(own.value, patch)
    return faults


def _lint_overlaps(patches: Sequence[Patch]) -> list[Fault]:
    faults = []
    for overlap in find_overlaps(patches):
        identity = overlap.earlier.header.decouple_id
        if identity in overlap.later.header.depends:
            continue
        message = (
            f"{overlap.path}: the hunk at line {overlap.hunk.old_start} contains lines that {overlap.earlier.name} "
            f"changed; if that is meant, add Depends: {identity or 'its Decouple-Id'}"
        )
        faults.append(Fault(overlap.later.name, overlap.hunk.line, "overlap", message))
    return faults


def _lint_unused_files(project: Path, release: str, used: set[str]) -> list[Fault]:
    folder = Checkout(project).patches / release
    faults = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(Checkout(project).patches).as_posix()
            if name not in used:
                faults.append(Fault(f"patches/{name}", 1, "unused-patch", "no series names it"))
    return faults


def _lint_unused_ids(project: Path, used: Collection[str | None]) -> list[Fault]:
    """List the files that say something of a patch by an id that no patch has.

    The patch was dropped, or its id was changed: then its recipe carries nothing any more, and nobody is told.
    """
    checkout = Checkout(project)
    return [
        Fault(path.relative_to(project).as_posix(), 1, "unused-id", f"no patch has the Decouple-Id {path.stem}")
        for folder in (checkout.recipes, checkout.upstream_texts)
        for path in sorted(folder.glob("*.toml"))
        if path.stem not in used and path.stem != ONLY_HERE
    ]
