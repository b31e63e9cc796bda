"""Record what is proven of a series without building it.

It is written to ``ci/status/<release>.json``.

>>> from decouple.flows.record import RecordRequest, record_series
>>> found = record_series(RecordRequest(project, "2.6", source=f"local:{source}"))
>>> found.ok, found.sources
(True, ('pristine',))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.paths import find_cache
from decouple.build import object_times
from decouple.build.environment import Places, list_kept_objects, read_environment_note
from decouple.build.object_times import read_measured_seconds
from decouple.census import report
from decouple.flows.build_request import STOCK
from decouple.flows.record_history import complete_history
from decouple.flows.release_request import ReleaseRequest
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.release import status
from decouple.release.manifest import Manifest
from decouple.series import check
from decouple.series.digest import compute_patch_digests, compute_series_digest
from decouple.series.evidence import Level, is_refuted, prove_levels
from decouple.stack.journal import StackState
from decouple.upstream.manifests import load_release
from decouple.upstream.named_sources import open_named_source
from decouple.upstream.readers import OpenedSource

_FINE = {"clean", "offset"}
_PRISTINE, _DEBIAN = "pristine", "debian"


class RecordRequest(ReleaseRequest, frozen=True):
    """Choose a series, and what else is known of it.

    The source is that of the pristine tree of a whole series.
    """

    census: Path | None = None
    """What ``census --json`` wrote."""


class RecordResult(Struct, frozen=True):
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


def record_series(request: RecordRequest) -> RecordResult:
    """Check the series on every tree there is of its release; record the result.

    The trees are the pristine one and Debian's patched one, where Debian has the release. Raises DecoupleError.
    """
    project, release = request.project, request.release
    path, manifest = status.locate_status(project, release), load_release(project, release)
    digest = compute_series_digest(project, release)
    census = _read_census_section(request.census, release, digest) if request.census else None
    series = check.load_series(project, release)
    listed = series_file.read_series(Checkout(project).locate_series(release))
    applies: dict[str, dict[str, str]] = {patch.name: {} for patch in series}
    proven: dict[str, tuple[Level, str]] = {}
    refuted: set[str] = set()
    sources = {}
    looked = []
    for name, opened, under in _open_sources(request, manifest, series):
        _refuse_other_tree(opened, series)
        looked.append(name)
        if not opened.partial:  # of a wheel no verdict on the tree comes: it lacks what most patches change
            sources[name] = opened.published or opened.described
        verdicts = check.check_series(series, opened.source, under=under, partial=opened.partial)
        for verdict in verdicts:
            applies[verdict.patch.name][name] = verdict.status.value
        refuted |= {verdict.patch.name for verdict in verdicts if is_refuted(verdict)}
        proven = proven or prove_levels(verdicts, partial=opened.partial)
    if _is_configured(project, release, series):
        better = {Level.FULL: Level.CONFIGURED}
        proven = {name: (better.get(level, level), why) for name, (level, why) in proven.items()}
    named = {_PRISTINE, *([_DEBIAN] if manifest.find_source(_DEBIAN) else [])}
    status.update_status(
        path,
        series=status.SeriesSection(len(series), digest, *listed.made_on),
        applies=lambda known: {
            **dict.fromkeys(known.applies.keys() - named),  # of a source that left the manifest nobody records again
            **{name: _count_verdicts(what, name, applies) for name, what in sources.items()},
        },
        proven=lambda known: _keep_stronger(known, digest, _make_rows(series, proven), refuted),
    )
    if census:
        status.update_status(path, census=census)
    complete_history(project, release)
    return RecordResult(path, tuple(looked), applies)


def record_seconds(project: Path, release: str, kind: str) -> list[tuple[Path, int]]:
    """Make the shipped tables anew from the seconds per object of builds.

    The builds are those of this checkout. Returns each table, and how many objects it has. Stage 2 has one table: CUDA
    versions have most objects in common, and its seconds say how those compare.

    Raises DecoupleError where no build in an environment of ``kind`` recorded any.
    """
    places = Places.of_release(project, release, find_cache())
    whole, own = places.stage2.parent, f"{kind}-cuda*/{places.stage2.name}"  # its own for a CUDA, a Python, a core
    stage2 = sorted([*whole.glob(own), *whole.glob(f"*/{own}")])
    if kind == "rootfs":  # for the CUDA of the root
        stage2 += [places.with_stage2_in(STOCK).stage2, places.stage2]
    stage1 = [places.stage1, *list_kept_objects(places.stage1)]
    stages = {1: [one for one in stage1 if read_environment_note(one).partition(" ")[0] == kind], 2: stage2}
    recorded = {number: folders for number, folders in stages.items() if any(map(read_measured_seconds, folders))}
    if not recorded:
        raise DecoupleError(
            f"{whole}: no object's seconds in an environment of kind {kind} are recorded there",
            next_step=f"decouple build {release} --env {kind} --stage 1",
        )
    return [object_times.record_seconds(release, kind, number, folders) for number, folders in recorded.items()]


def _refuse_other_tree(opened: OpenedSource, series: Sequence[Patch]) -> None:
    """Raise DecoupleError where no file of the series is in what was opened.

    A slip in a path would take away all that is proven of every patch.
    """
    files = [file for patch in series for file in patch.files]
    wanted = {file.old_path for file in files if file.old_path} - {file.new_path for file in files if file.creates}
    if wanted and not opened.partial and all(opened.source.mode(path) is None for path in wanted):
        raise DecoupleError(
            f"{opened.described}: none of the files that the series changes is in it",
            next_step="give the root of a PyTorch tree: --source PATH",
        )


def _count_verdicts(what: str, source: str, applies: Mapping[str, Mapping[str, str]]) -> status.AppliesSection:
    """Count the verdicts on ``source``, which is ``what``; name unclean patches."""
    others = {patch: found[source] for patch, found in applies.items() if found[source] != "clean"}
    offset = tuple(patch for patch, verdict in others.items() if verdict == "offset")
    failed = {patch: verdict for patch, verdict in others.items() if verdict not in _FINE}
    return status.AppliesSection(what, len(applies) - len(others), offset, failed)


def _keep_stronger(
    known: status.ReleaseStatus, digest: str, rows: Mapping[str, status.Proof], refuted: Collection[str]
) -> dict[str, status.Proof]:
    """Return the stronger of what is proven now and what was of the same series.

    A tree that is gone, or a source that shows fewer files, says nothing against it; what ``refuted`` a patch does.
    """
    if not (known.series and known.series.digest == digest):
        return dict(rows)
    ranks = {level.value: rank for rank, level in enumerate(Level)}
    kept = {}
    for identity, row in rows.items():
        before = known.proven.get(identity, row)
        stronger = ranks[before.level] < ranks[row.level] and row.patch not in refuted
        kept[identity] = before if stronger else row
    return kept


def _make_rows(series: Sequence[Patch], proven: Mapping[str, tuple[Level, str]]) -> dict[str, status.Proof]:
    """Return Decouple-Id -> patch, level, and why not a better one."""
    rows: dict[str, status.Proof] = {}
    for patch in series:
        level, why = proven[patch.name]
        identity = patch.identity
        rows[identity] = status.Proof(patch.name, level.value, why or None)
    return rows


def _open_sources(
    request: RecordRequest, manifest: Manifest, series: list[Patch]
) -> list[tuple[str, OpenedSource, list[Patch]]]:
    """Return name, source, and what Debian lays under the series, of each tree.

    The first decides what is proven.
    """
    project, release, wanted, offline = (
        request.project,
        request.release,
        check.list_wanted_paths(series),
        request.offline,
    )
    opened, under = open_named_source(project, release, request.source, wanted, offline=offline)
    found = [(opened.described if opened.partial else _PRISTINE, opened, under)]
    if request.source == "auto" and manifest.find_source(_DEBIAN):
        found.append(
            (_DEBIAN, *open_named_source(project, release, "auto", wanted, offline=offline, debian_patches=True))
        )
    return found


def _is_configured(project: Path, release: str, series: list[Patch]) -> bool:
    """Return whether CMake has run on the tree that the series makes.

    No build file in it is newer than the result.
    """
    tree = Checkout(project).locate_tree(release)
    state, made = tree / ".git" / "decouple" / "state.json", tree / "build" / "build.ninja"
    if not state.is_file() or not made.is_file():
        return False
    applied = [item.sha256 for item in StackState.from_json(state.read_text(encoding="utf-8")).applied]
    if applied != [digest for _, digest in compute_patch_digests(project, release)]:
        return False
    touched = {path for patch in series for path in patch.touched_paths if path.endswith((".cmake", "CMakeLists.txt"))}
    return all((tree / path).stat().st_mtime <= made.stat().st_mtime for path in touched if (tree / path).is_file())


def _read_census_section(census: Path, release: str, series: str) -> status.CensusSection:
    counted = report.read_couplings(census, release, series)
    others = {word: status.VendorCouplings(*pair) for word, pair in counted.items() if word != "cuda"}
    return status.CensusSection(*counted["cuda"], others)
