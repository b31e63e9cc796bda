"""``ci/status/<release>.json``: what was built and verified. Only this module writes it; README shows it as a table.

The classes are the document: who builds, records or verifies fills one in and calls :func:`update`. A column of
README's table is one row of :data:`COLUMNS`.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import asdict, replace

from decouple.base.checkout import version_key
from decouple.base.errors import DecoupleError
from decouple.base.files import locked, replace_between, write_atomically
from decouple.base.outside import read_json

SCHEMA = 1
BUILT = "built"
NOTHING = "not proven"
#: Best first: decouple.series.evidence.Level, which writes all but the first.
_LEVELS = (
    BUILT, "configured", "applied to the full tree", "applied to the touched files", "Python only", NOTHING,
)  # fmt: skip
BEGIN, END = "<!-- status:begin -->", "<!-- status:end -->"


class SeriesSection(Struct, frozen=True):
    """How many patches, the digest over them, and how many of the older series' are not carried."""

    patches: int
    digest: str = ""
    not_carried: int = 0
    made_on: str | None = None
    """Id of the upstream tree that it was carried to; None where that was not written down."""
    likeness: str | None = None
    """How near that tree is to the official text, as the series says it."""


class AppliesSection(Struct, frozen=True):
    """Name of a source -> what it is; patch -> name of a source -> its verdict there ("clean", "offset", …)."""

    sources: Mapping[str, str]
    patches: Mapping[str, Mapping[str, str]]


class Proof(Struct, frozen=True):
    """How far one patch was proven, and why not farther."""

    patch: str
    level: str
    why: str | None = None


class CensusSection(Struct, frozen=True):
    """Couplings between the core and CUDA, before the series and after."""

    before: int
    after: int


class StageSection(Struct, frozen=True):
    """A stage's wheel and what it took: wall ``seconds``, and ``object_seconds`` of all compiles together."""

    wheel: str
    wheel_bytes: int
    objects: int
    cores: int
    seconds: float
    object_seconds: float | None = None
    series: str | None = None
    """Digest of the series that it was built from; these two the first builds did not record."""
    compiled: int | None = None
    cached: int | None = None


class AuditSection(Struct, frozen=True):
    """One ELF audit."""

    files: int
    faults: tuple[str, ...]
    what: str = ""


class CheckSection(Struct, frozen=True):
    """One check of installed wheels."""

    name: str
    ok: bool
    seen: str


class ParitySection(Struct, frozen=True):
    """One category against Debian's monolith: how many that has, and which of them differ."""

    total: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    different: tuple[str, ...]
    category: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    percent: float = 0.0


UNPATCHED = "unpatched"
"""Among ``kernels``: a sample of ours against the same sources of the release's own tree."""

MONOLITH = "/monolith"
"""Ends the labels among ``kernels`` of wheels of ours against Debian's single-stage build."""


class KernelsSection(Struct, frozen=True):
    """Machine code against that of ``theirs``: decouple.verify.kernels.compare.KernelComparison in figures."""

    theirs: str
    same: int
    total: int
    archs: tuple[str, ...]
    missing: int
    extra: int
    of_sources: int = 0
    """How many sources the other side has; ``sources`` of them were compared."""
    ours: str = ""
    code: int = 0
    launch: int = 0
    sources: int = 0
    mine: int = 0
    renamed: int = 0
    data: int = 0
    data_same: int = 0
    explained: int = 0
    unexplained: tuple[str, ...] = ()


class VerifySection(Struct, frozen=True):
    """What ``decouple verify`` saw; ``facts`` are what the installed torch said."""

    core: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    audit: tuple[AuditSection, ...] = ()
    checks: tuple[CheckSection, ...] = ()
    parity: tuple[ParitySection, ...] = ()


class WheelSection(Struct, frozen=True):
    """What ``decouple verify`` saw of one ``wheel`` of torch_cuda: over another build's kernels, or a portable one."""

    wheel: str
    series: str
    verify: VerifySection
    kernels: KernelsSection | None = None


class Against(Struct, frozen=True):
    """Another build on which the same tests ran: how many of them ended with the same outcome."""

    label: str
    tests: int
    outcomes: int
    ledgers: int = 0
    exact: int = 0
    loose: int = 0
    only_ours: int = 0
    only_theirs: int = 0
    unexplained: tuple[str, ...] = ()


class SuitesSection(Struct, frozen=True):
    """Upstream's CUDA suites: suite -> outcome -> tests, in the order of ``outcomes``, on a ``device``."""

    device: str
    outcomes: tuple[str, ...]
    tally: Mapping[str, Mapping[str, int]]
    label: str = ""
    against: Against | None = None


class PatchCheck(Struct, frozen=True):
    """One question of a patch: what a torch answered, with a ``device`` or without, and the pattern it must match."""

    patch: str
    asks: str
    device: bool
    ok: bool
    seen: str
    expected: str = ""


class PatchTrialSection(Struct, frozen=True):
    """What `decouple test-patches` was told by one torch; ``kind`` says whether it has the patches."""

    kind: str
    torch: str
    device: str
    answers: tuple[PatchCheck, ...]


class ContractSection(Struct, frozen=True):
    """One run of the backend contract: items by status, tests by outcome."""

    items: Mapping[str, int]
    tests: Mapping[str, int] = field(default_factory=dict)
    torch: str = ""


class ReleaseStatus(Struct, frozen=True):
    """The whole document; None where nobody has looked yet. Each field is a section that is written by itself."""

    series: SeriesSection | None = None
    applies: AppliesSection | None = None
    proven: Mapping[str, Proof] = field(default_factory=dict)
    census: CensusSection | None = None
    stage1: StageSection | None = None
    stage2: StageSection | None = None
    verify: VerifySection = field(default_factory=VerifySection)
    over_official: WheelSection | None = None
    """The official wheel's kernels, on its CPU half."""
    over_installed: WheelSection | None = None
    """An installed build's kernels, on an unmodified CPU torch of the same kind."""
    portable: Mapping[str, WheelSection] = field(default_factory=dict)
    """Python and CUDA ("py3.13-cu12.4") -> our portable wheels, against the official wheel."""
    kernels: Mapping[str, KernelsSection] = field(default_factory=dict)
    """Which of our builds ("built", "smoke") -> its machine code against another's."""
    suites: Mapping[str, SuitesSection] = field(default_factory=dict)
    """Which torch on which device ("built-simulated", "official-gpu") -> what became of the tests on it."""
    patches: Mapping[str, PatchTrialSection] = field(default_factory=dict)
    """Which torch on which device -> what it answered to the questions of the patches."""
    contract: Mapping[str, ContractSection] = field(default_factory=dict)


def path_of(project: Path, release: str) -> Path:
    """The status file of one release."""
    return project / "ci" / "status" / f"{release}.json"


def read(path: Path) -> ReleaseStatus:
    """The document, an empty one when there is no file. Raises DecoupleError when it is not ours."""
    return of(_raw(path), path)


def of(document: Mapping[str, Any], path: Path = Path("status")) -> ReleaseStatus:
    """The document as values; ``path`` names it in errors. Raises DecoupleError naming the key that is wrong."""
    try:
        return convert(document, ReleaseStatus)
    except ValidationError as error:
        raise DecoupleError(f"{path}: {error}", next_step="update decouple, or git checkout it") from None


def update(path: Path, **sections: Any) -> None:
    """Replace the named sections (fields of :class:`ReleaseStatus`); the others stay. Raises DecoupleError."""
    if strange := sections.keys() - set(ReleaseStatus.__struct_fields__):
        raise TypeError(f"a status has no section {min(strange)!r}")
    with locked(path.with_name(f".{path.name}.lock")):
        document = {**_raw(path), **_plain(sections)}
        of(document, path)
        text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
        write_atomically(path, text + "\n")


def _plain(value: Any) -> Any:
    """For JSON; a field that says None is left out."""
    if isinstance(value, Struct):
        return {name: _plain(item) for name, item in asdict(value).items() if item is not None}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _raw(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"schema": SCHEMA}
    found = read_json(path, dict[str, Any], mend="git checkout it, or delete it")
    if found.get("schema") != SCHEMA:
        raise DecoupleError(
            f"{path}: schema: expected {SCHEMA}, found {found.get('schema')!r}",
            next_step="update decouple, or git checkout it",
        )
    return found


def costliest(stage: StageSection, before: StageSection | None) -> StageSection:
    """``stage`` with the larger ``object_seconds`` of both: the nearest to a cold build's.

    Building again on a warm compiler cache says little about what the stage costs.
    """
    spent = max((before and before.object_seconds) or 0.0, stage.object_seconds or 0.0)
    return replace(stage, object_seconds=round(spent, 1), seconds=round(stage.seconds, 1))


def table(statuses: Mapping[str, ReleaseStatus]) -> str:
    """README's Markdown table: newest release first, then series with names of their own; neighbouring releases of
    which the status files say the same share a row."""
    lines = [f"| release | {' | '.join(COLUMNS)} |", f"|---{'|---' * len(COLUMNS)}|"]

    def row(release: str) -> tuple[str, tuple[str, ...]]:
        released, _, name = version_key(release)
        return "" if released else name, _cells(statuses[release])

    for (_, cells), same in itertools.groupby(_newest_first(statuses), row):
        releases = list(same)
        named = releases[0] if len(releases) == 1 else f"{releases[-1]} to {releases[0]}"
        lines.append(f"| {' | '.join([named, *cells])} |")
    return "\n".join(lines) + "\n"


def _cells(status: ReleaseStatus) -> tuple[str, ...]:
    return tuple(cell(status) for cell in COLUMNS.values())


def matrix(statuses: Mapping[str, ReleaseStatus]) -> str:
    """The Markdown table of what was proven: a row per patch (by Decouple-Id), a column per release, oldest first."""
    releases = list(reversed(_newest_first(statuses)))
    found = {release: levels(statuses[release]) for release in releases}
    first: dict[str, str] = {}
    for release in releases:
        for identity, row in statuses[release].proven.items():
            first.setdefault(identity, row.patch)
    lines = [f"| patch | {' | '.join(releases)} |", f"|---{'|---' * len(releases)}|"]
    for identity in sorted(first, key=lambda name: first[name].rsplit("/", 1)[-1]):
        cells = [found[release].get(identity, "not in the series") for release in releases]
        lines.append(f"| {identity} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def levels(status: ReleaseStatus) -> dict[str, str]:
    """Decouple-Id -> what was proven: "built" where both stages were built from the series that is recorded."""
    digest = status.series.digest if status.series else ""
    built = all(stage and stage.series == digest for stage in (status.stage1, status.stage2))
    return {name: BUILT if built and row.level != NOTHING else row.level for name, row in status.proven.items()}


def insert_table(page: Path, text: str, *, write: bool = True) -> bool:
    """Put the table between the page's markers; returns whether it differed. Raises DecoupleError without any."""
    return replace_between(page, BEGIN, END, text, write=write)


def _newest_first(statuses: Mapping[str, Any]) -> list[str]:
    return sorted(statuses, key=version_key, reverse=True)


def _patches(status: ReleaseStatus) -> str:
    series = status.series
    if series is None:
        return "not known"
    lacking = series.not_carried
    return f"{series.patches} of {series.patches + lacking}" if lacking else str(series.patches)


def _proven(status: ReleaseStatus) -> str:
    """How many patches were proven how far, the best proof first."""
    counts = Counter(levels(status).values())
    ordered = sorted(counts, key=lambda level: _LEVELS.index(level) if level in _LEVELS else len(_LEVELS))
    said = ", ".join(f"{counts[level]} {level}" for level in ordered) or "not checked"
    return said + _other_tree(status.series)


def _other_tree(series: SeriesSection | None) -> str:
    """Words for a series that was carried to a tree that is not the release byte for byte."""
    if series is None or series.made_on is None:
        return ""
    percent, measured, _ = (series.likeness or "").partition(" % official text")
    if percent == "100.0":
        return ""
    percent = percent if measured else ""
    return f"; tried on a tree of which {f'{percent} %' if percent else 'an unknown part'} is the official text"


def _applies(status: ReleaseStatus) -> str:
    """On which trees every patch applies, and at how many an offset was needed."""
    if not status.applies:
        return "not checked"
    cells = []
    for source in status.applies.sources:
        found = [patch.get(source) for patch in status.applies.patches.values()]
        offsets = found.count("offset")
        bad = len(found) - found.count("clean") - offsets
        cells.append(f"{source}: {f'{bad} fail' if bad else 'all'}{f' ({offsets} with an offset)' if offsets else ''}")
    return ", ".join(cells)


def _couplings(status: ReleaseStatus) -> str:
    return f"{status.census.after} of {status.census.before}" if status.census else "not counted"


def _earlier(status: ReleaseStatus, *stages: StageSection | WheelSection | None) -> str:
    """Words for what was seen of wheels that another series made than the one that is recorded now."""
    digest = status.series.digest if status.series else ""
    old = digest and any(stage and stage.series != digest for stage in stages)
    return ", of an earlier series" if old else ""


def _stage(status: ReleaseStatus, stage: StageSection | None) -> str:
    if not stage:
        return "not built"
    size, spent = stage.wheel_bytes / (1 << 20), stage.object_seconds
    cost = f"at least {spent / 60 / stage.cores:.0f} min of compiling on {stage.cores} cores, " if spent else ""
    return f"{stage.objects} objects, {cost}{size:.0f} MiB{_earlier(status, stage)}"


def _parity(status: ReleaseStatus) -> str:
    said = _names(status.verify)
    return said + _earlier(status, status.stage1, status.stage2) if status.verify.parity else said


def _names(verify: VerifySection) -> str:
    found = verify.parity
    if not found:
        return "not checked"
    total = sum(one.total for one in found)
    short = sum(len(one.missing) + len(one.different) for one in found)
    extra = sum(len(one.extra) for one in found)
    return f"{100 * (total - short) / total:.2f} % of {total}" + (f", {extra} extra" if extra else "")


def _kernels(status: ReleaseStatus) -> str:
    """How many functions of the official wheel are ours byte for byte, of the largest part that was compared."""
    portable = [one.kernels for one in status.portable.values() if one.kernels]
    compared = [one for one in (*status.kernels.values(), *portable) if one.theirs.startswith("official")]
    if not compared:
        return "not compared"
    found = max(compared, key=lambda one: one.total)
    rest = "".join(f", {count} {what}" for what, count in (("missing", found.missing), ("extra", found.extra)) if count)
    percent = 100 * found.same / found.total  # cut, not rounded: 100.00 only when all are
    part = f" in {found.sources} of {found.of_sources} sources" if found.sources < found.of_sources else ""
    cell = f"{int(100 * percent) / 100:.2f} % of {found.total}{part} ({', '.join(found.archs)}){rest}"
    cell += "".join(
        f"<br>Debian's monolith: {one.same} of {one.total}, {len(one.unexplained)} unexplained"
        for label, one in sorted(status.kernels.items())
        if label.endswith(MONOLITH)
    )
    if sample := status.kernels.get(UNPATCHED):
        cell += f"<br>unpatched tree: {sample.same} of {sample.total} in {sample.sources} files"
    return cell


def _suites(status: ReleaseStatus) -> str:
    """Upstream's CUDA tests by outcome, torch by torch (the release's own wheels first), and against another build."""
    ordered = sorted(status.suites.values(), key=lambda one: (one.label not in ("", BUILT), one.label))
    return "<br>".join(map(_suite_run, ordered)) or "not run"


def _suite_run(suites: SuitesSection) -> str:
    """One torch's outcomes; nobody is to take another's for those of our wheels."""
    counts = Counter[str]()
    for one in suites.tally.values():
        counts.update(one)
    said = ", ".join(f"{counts[name]} {name}" for name in suites.outcomes if counts[name])
    whose = suites.label if suites.label not in ("", BUILT) else "our wheels"
    which = ", ".join(suites.tally) if len(suites.tally) <= 3 else f"{len(suites.tally)} suites"
    cell, against = f"{whose} ({suites.device}; {which}): {said}", suites.against
    if against:
        cell += f"; {against.tests - against.outcomes} of {against.tests} not as {against.label}"
        if against.ledgers:
            cell += f", {against.loose} of {against.ledgers} ledgers the same"
    return cell


def _over(status: ReleaseStatus, found: WheelSection | None, kept: str = "untouched") -> str:
    """Our bindings over another build's kernels, against that build; or our own kernels against it."""
    if found is None:
        return "not checked"
    bad = sum(not one.ok for one in found.verify.checks)
    said = [_names(found.verify), f"audit {_audited(found.verify)}", f"{bad} checks FAILED" if bad else "checks ok"]
    if found.kernels:
        said.append(f"{found.kernels.same} of {found.kernels.total} functions {kept}")
    return ", ".join(said) + _earlier(status, found)


def _portable(status: ReleaseStatus) -> str:
    """A line per Python and CUDA."""
    lines = [f"{label}: {_over(status, found, 'the same')}" for label, found in sorted(status.portable.items())]
    return "<br>".join(lines) or "not checked"


def _audit(status: ReleaseStatus) -> str:
    said = _audited(status.verify)
    return said + _earlier(status, status.stage1, status.stage2) if status.verify.audit else said


def _audited(verify: VerifySection) -> str:
    found = verify.audit
    if not found:
        return "not checked"
    faults = sum(len(one.faults) for one in found)
    # every rule looks at the libraries anew, the last ones at those of both wheels
    return f"{faults} faults" if faults else f"clean ({max(one.files for one in found)} files)"


def _patch_checks(status: ReleaseStatus) -> str:
    """Torch by torch: how many answers are those that it must give, with the patches or without."""
    said = []
    for label, one in sorted(status.patches.items()):
        good, device = sum(answer.ok for answer in one.answers), f"-{one.device}"
        said.append(f"{label.removesuffix(device)} ({one.kind}; {one.device}): {good} of {len(one.answers)}")
    return "<br>".join(said) or "not asked"


def _contract(status: ReleaseStatus) -> str:
    """The items that torch_sim keeps on this release, where most of them could be asked."""
    if not status.contract:
        return "not checked"
    best = max((run.items for run in status.contract.values()), key=lambda items: items.get("supported", 0))
    rest = ", ".join(f"{count} {state}" for state, count in best.items() if state != "supported" and count)
    return f"{best['supported']} of {sum(best.values())}" + (f" ({rest})" if rest else "")


#: README's table behind the release: what a column is called, and what stands in it. A new column is a row here.
COLUMNS: Mapping[str, Callable[[ReleaseStatus], str]] = {
    "patches": _patches,
    "proven": _proven,
    "apply to": _applies,
    "couplings left": _couplings,
    "stage 1": lambda status: _stage(status, status.stage1),
    "stage 2": lambda status: _stage(status, status.stage2),
    "parity with Debian's monolith": _parity,
    "kernels identical to the official": _kernels,
    "over the official kernels": lambda status: _over(status, status.over_official),
    "over Debian's kernels on its CPU torch": lambda status: _over(status, status.over_installed),
    "portable wheels against the official": _portable,
    "CUDA suites": _suites,
    "patches' own checks": _patch_checks,
    "ELF audit": _audit,
    "contract of backends": _contract,
}
