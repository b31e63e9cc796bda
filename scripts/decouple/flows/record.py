"""What is proven of a series without building it, written to ``ci/status/<release>.json``.

>>> from decouple.flows.record import Record, record
>>> found = record(Record(project, "2.6", source=f"local:{source}"))
>>> found.ok, found.sources
(True, ('pristine',))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.paths import cache_dir
from decouple.build import seconds
from decouple.build.environment import Places
from decouple.flows.source import OfRelease
from decouple.patch import seriesfile
from decouple.patch.parse import Patch
from decouple.release import status
from decouple.release.manifest import Manifest
from decouple.series import burndown, check
from decouple.series.digest import patch_digests, series_digest
from decouple.series.evidence import Level, levels
from decouple.stack.journal import State
from decouple.upstream.manifests import load_release
from decouple.upstream.providers.wheel import of_manifest
from decouple.upstream.readers import OpenedSource
from decouple.upstream.source_word import open_named

_FINE = {"clean", "offset"}


class Record(OfRelease, frozen=True):
    """Which series (the source is of the pristine tree of a whole one), and what else is known of it."""

    census: Path | None = None
    """What ``census --json`` wrote."""


class Recorded(Struct, frozen=True):
    """What was written: the file, and how each patch fares on each source."""

    path: Path
    sources: tuple[str, ...]
    applies: Mapping[str, Mapping[str, str]]
    """patch -> source -> status."""

    @property
    def bad(self) -> list[str]:
        """The patches that do not apply to one of the sources."""
        return [name for name, found in self.applies.items() if not set(found.values()) <= _FINE]

    @property
    def ok(self) -> bool:
        """Whether every patch applies everywhere."""
        return not self.bad


def record(request: Record) -> Recorded:
    """Check the series on every tree there is of its release, and write down what that proves.

    That is the pristine tree and Debian's patched one, where Debian has the release. Raises DecoupleError.
    """
    project, release = request.project, request.release
    path, manifest = status.path_of(project, release), load_release(project, release)
    census = _key_number(request.census, release) if request.census else None
    series = check.load(project, release)
    listed = seriesfile.read(Checkout(project).series(release))
    applies: dict[str, dict[str, str]] = {patch.name: {} for patch in series}
    proven: dict[str, tuple[Level, str]] = {}
    sources = {}
    for name, opened, under in _sources(request, manifest, series):
        sources[name] = _described(manifest, opened)
        for verdict in check.check(series, opened.source, under=under, partial=opened.partial):
            applies[verdict.patch.name][name] = verdict.status.value
        proven = proven or levels(series, opened.source, partial=opened.partial)
    if _configured(project, release, series):
        better = {Level.FULL: Level.CONFIGURED}
        proven = {name: (better.get(level, level), why) for name, (level, why) in proven.items()}
    digest = series_digest(project, release)
    status.update(
        path,
        series=status.SeriesSection(len(series), digest, *listed.made_on),
        applies=status.AppliesSection(sources, applies),
        proven=_rows(series, proven),
    )
    if census:
        status.update(path, census=census)
    return Recorded(path, tuple(sources), applies)


def record_seconds(project: Path, release: str, kind: str) -> list[tuple[Path, int]]:
    """Put the seconds per object that builds of this checkout took into the shipped tables: each table, and how many
    objects. Stage 2 has one table: CUDA versions have most objects in common, and its seconds say how those compare.

    Raises DecoupleError where no build in an environment of ``kind`` recorded any.
    """
    places = Places.of(project, release, cache_dir())
    whole, own = places.stage2.parent, f"{kind}-cuda*/{places.stage2.name}"  # its own for a CUDA, a Python, a core
    stages = [(1, places.stage1), *((2, folder) for folder in sorted([*whole.glob(own), *whole.glob(f"*/{own}")]))]
    recorded = [(number, folder) for number, folder in stages if seconds.measured(folder)]
    return [seconds.record(release, kind, number, folder) for number, folder in recorded or stages[:1]]


def _rows(series: Sequence[Patch], proven: Mapping[str, tuple[Level, str]]) -> dict[str, status.Proof]:
    """Decouple-Id -> patch, level, and why not a better one."""
    rows: dict[str, status.Proof] = {}
    for patch in series:
        level, why = proven[patch.name]
        identity = patch.header.decouple_id or patch.name
        rows[identity] = status.Proof(patch.name, level.value, why or None)
    return rows


def _sources(request: Record, manifest: Manifest, series: list[Patch]) -> list[tuple[str, OpenedSource, list[Patch]]]:
    """Name, source, and what Debian lays under the series, of each tree; the first decides what is proven."""
    project, release, wanted, offline = request.project, request.release, check.wanted(series), request.offline
    found = [("pristine", *open_named(project, release, request.source, wanted, offline=offline))]
    if request.source == "auto" and manifest.source("debian"):
        found.append(("debian", *open_named(project, release, "auto", wanted, offline=offline, debian_patches=True)))
    return found


def _described(manifest: Manifest, opened: OpenedSource) -> str:
    """What the source is, whether it came by range or from the cache, so that a second record is the same file."""
    wheel = of_manifest(manifest)
    return wheel.name if opened.partial and wheel else opened.described


def _configured(project: Path, release: str, series: list[Patch]) -> bool:
    """Whether CMake has run on the tree that the series makes: no build file in it is newer than the result."""
    tree = Checkout(project).tree(release)
    state, made = tree / ".git" / "decouple" / "state.json", tree / "build" / "build.ninja"
    if not state.is_file() or not made.is_file():
        return False
    applied = [item.sha256 for item in State.from_json(state.read_text(encoding="utf-8")).applied]
    if applied != [digest for _, digest in patch_digests(project, release)]:
        return False
    touched = {path for patch in series for path in patch.touched if path.endswith((".cmake", "CMakeLists.txt"))}
    return all((tree / path).stat().st_mtime <= made.stat().st_mtime for path in touched if (tree / path).is_file())


def _key_number(census: Path, release: str) -> status.CensusSection:
    counted = burndown.couplings_of(census, release)
    others = {word: status.VendorCouplings(*pair) for word, pair in counted.items() if word != "cuda"}
    return status.CensusSection(*counted["cuda"], others)
