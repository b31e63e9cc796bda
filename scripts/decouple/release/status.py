"""Read and write ``ci/status/<release>.json``: what was built and verified.

Only this module writes it.

The classes are the document: who builds, records or verifies fills one in and calls :func:`update_status`. README and
the docs show it as tables: `decouple.release.status_table`. A record holds figures, and names only of what went wrong;
the command that wrote it prints the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, hold_lock, write_atomically
from decouple.base.toml import format_restore
from decouple.base.untrusted_input import read_json

SCHEMA = 2
_WIDTH = 120
"""Characters of a line that a whole record may take."""


class StatusSection(Struct, frozen=True, omit_defaults=True):
    """A record, or a part of one; what it does not say is left out of the file."""


class SeriesSection(StatusSection, frozen=True):
    """The number of patches, and the digest over them."""

    patches: int
    digest: str = ""
    made_on: str | None = None
    """Id of the upstream tree that it was carried to; None where that was not written down."""
    likeness: str | None = None
    """How near that tree is to the official text, as the series says it."""


class AppliesSection(StatusSection, frozen=True):
    """Verdicts of patches on one source: ``clean`` as a number, others by name."""

    source: str
    """What the source is."""
    clean: int
    offset: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Patch -> its verdict."""


class Proof(StatusSection, frozen=True):
    """The proof of one patch: how far it went, and why not farther."""

    patch: str
    level: str
    why: str | None = None


class VendorCouplings(StatusSection, frozen=True):
    """Couplings between the core and one vendor, before the series and after."""

    before: int
    after: int


class CensusSection(StatusSection, frozen=True):
    """Couplings between the core and CUDA, before the series and after.

    Other vendors' stand under their words.
    """

    before: int
    after: int
    vendors: Mapping[str, VendorCouplings] | None = None


class StageSection(StatusSection, frozen=True):
    """A stage's wheel and what it took.

    ``seconds`` are of the wall clock, ``object_seconds`` of all compiles together.
    """

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


class ParitySection(StatusSection, frozen=True):
    """Names against the other build's: how many that has, and how many of them differ."""

    total: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    unexplained: tuple[str, ...] = ()
    """Those that differ or are missing without a reason, categories with nothing to compare, reasons out of date."""


UNPATCHED = "unpatched"
"""Among ``kernels``: a sample of ours against the same sources of the release's own tree."""

SINGLE_STAGE = "single-stage"
"""Ends the labels among ``kernels`` of another vendor's objects ("rocm/single-stage") against upstream's for it."""

MONOLITH = "/monolith"
"""Ends the labels among ``kernels`` of wheels of ours against Debian's single-stage build."""


class KernelsSection(StatusSection, frozen=True):
    """Machine code of ``ours`` against that of ``theirs``: functions.

    The figures are of decouple.verify.kernels.compare.KernelComparison.
    """

    theirs: str
    same: int
    total: int
    archs: tuple[str, ...]
    missing: int = 0
    extra: int = 0
    of_sources: int = 0
    """How many sources the other side has; ``sources`` of them were compared."""
    ours: str = ""
    sources: int = 0
    unexplained: int = 0
    series: str = ""
    """Digest of the series that our side was made of, where its wheel says it; so in the three below."""


class VerifySection(StatusSection, frozen=True):
    """The result of ``decouple verify`` on the torch ``core``."""

    core: str = ""
    audited: int = 0
    """ELF files that a rule looked at."""
    faults: tuple[str, ...] = ()
    """What the audit found."""
    checks: int = 0
    failed: tuple[str, ...] = ()
    """Checks that failed: name, and what was seen."""
    parity: ParitySection | None = None
    series: str = ""
    """Digest of the series that finished wheels were made of, which may be older than the checkout's."""
    wheels: Mapping[str, str] = field(default_factory=dict)
    """File of each wheel -> its SHA-256; empty in records up to 2026-11-28, of which nobody knows the bytes."""
    projects: tuple[str, ...] = ()
    """Of a bare system: what of PyPI was tried on top, as ``--with`` names it."""


class WheelSection(StatusSection, frozen=True):
    """The result of ``decouple verify`` on one ``wheel`` of torch_cuda.

    That is one over another build's kernels, or a portable one.
    """

    wheel: str
    series: str
    verify: VerifySection
    kernels: KernelsSection | None = None


class SuitesComparison(StatusSection, frozen=True):
    """A run of the same tests on another build.

    It says how many of them ended with the same outcome.
    """

    label: str
    tests: int
    outcomes: int
    ledgers: int = 0
    exact: int = 0
    loose: int = 0
    only_ours: int = 0
    only_theirs: int = 0
    unexplained: int = 0
    plain: bool = False
    """Whether ledgers were compared without arguments, as with those of a real GPU."""
    format: int = 1
    """What the ledgers' entries said, as `simcuda.ledger` numbers it; older records name none."""


class SuitesSection(StatusSection, frozen=True):
    """Upstream's CUDA suites on a ``device``: suite -> outcome -> tests.

    Outcomes are in the order of ``outcomes``.
    """

    device: str
    outcomes: tuple[str, ...]
    tally: Mapping[str, Mapping[str, int]]
    label: str = ""
    against: SuitesComparison | None = None
    series: str = ""
    collected: int | None = None
    """How many tests these suites have, of which a slice or an unfinished run has fewer; None in older records."""
    words: str = ""
    """Words of pytest's ``-k`` that chose those tests; empty: all of the suites."""
    flaky: int = 0
    """How many of those that passed had failed before, and passed alone; older records do not say."""
    options: str = ""
    """Options that chose its tests and its simulated devices, where not the defaults; older records have none."""


class PatchTrialSection(StatusSection, frozen=True):
    """The answers of one torch to `decouple try patches`, in number.

    Those that are not what they must be stand by name. ``kind`` says whether it has the patches.
    """

    kind: str
    torch: str
    device: str
    answers: int
    failed: tuple[str, ...] = ()
    series: str = ""


class ContractSection(StatusSection, frozen=True):
    """A run of the backend contract: items by status, tests by outcome."""

    items: Mapping[str, int]
    tests: Mapping[str, int] = field(default_factory=dict)
    torch: str = ""
    series: str = ""


class ExactSection(StatusSection, frozen=True):
    """A series of another release on the text that the official ``wheel`` shows.

    That text is the release's own.
    """

    series: str
    """Digest of the series that was carried; so in the two below."""
    wheel: str
    patches: Mapping[str, int]
    """What became of a patch -> of how many: values of decouple.rebase.verdicts.Verdict."""
    files: int
    """How many files of upstream's the series edits; ``shown`` of them are in the wheel."""
    shown: int
    stops: tuple[str, ...] = ()
    """The patches that a person had to settle."""


class CarriedTrialSection(StatusSection, frozen=True):
    """A series of another release on a tree that stands for the release.

    ``faults``: check of the verdict -> how many it found, without those that gave no answer.
    """

    series: str
    patches: Mapping[str, int]
    seconds: float
    stops: tuple[str, ...] = ()
    """The patches that a person had to settle; then no verdict was asked for."""
    faults: Mapping[str, int] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()
    """Checks that the tree gave no answer to."""
    vendors: tuple[str, ...] = ()
    """Whose couplings were counted; empty in records up to 2026-11-29, which counted CUDA's alone."""
    tree: str | None = None
    """Id of the tree; None where a patch stopped."""
    likeness: str | None = None
    """How near it is to the official text."""


class HeaderCompileSection(StatusSection, frozen=True):
    """Stage 2's own units, compiled against the headers as the series leaves them."""

    series: str
    wheel: str
    compiler: str
    cuda: str
    standard: int
    units: int
    refused: Mapping[str, str] = field(default_factory=dict)
    """Unit -> the compiler's first error."""
    unpatched: tuple[str, ...] = ()
    """Headers that the series changes and where its text does not fit."""


class RecordMark(StatusSection, frozen=True):
    """The day on which a proof's figures were last recorded, and its series' digest."""

    date: str
    series: str = ""
    """That which the proof's wheels were built from, where it names one; else the one last recorded before.

    Of a run of suites the first alone.
    """


class ReleaseStatus(StatusSection, frozen=True):
    """The whole document; None where nobody has looked yet.

    Each field is a section that is written by itself.
    """

    series: SeriesSection | None = None
    applies: Mapping[str, AppliesSection] = field(default_factory=dict)
    """Name of a source ("pristine", "debian") -> the verdicts there."""
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
    vendors: Mapping[str, VerifySection] = field(default_factory=dict)
    """Another vendor's toolkit ("rocm") -> its runtime part, against what upstream's own build for it registers."""
    whole: Mapping[str, VerifySection] = field(default_factory=dict)
    """Which torch ("built", "half") -> all of it against the official wheel, as `decouple parity` compares."""
    systems: Mapping[str, VerifySection] = field(default_factory=dict)
    """Bare system ("debian-12") -> what finished wheels gave there."""
    kernels: Mapping[str, KernelsSection] = field(default_factory=dict)
    """Which of our builds ("built", "smoke") -> its machine code against another's."""
    suites: Mapping[str, SuitesSection] = field(default_factory=dict)
    """Which torch on which device ("built-simulated", "official-gpu") -> what became of the tests on it."""
    patches: Mapping[str, PatchTrialSection] = field(default_factory=dict)
    """Which torch on which device -> what it answered to the questions of the patches."""
    contract: Mapping[str, ContractSection] = field(default_factory=dict)
    exact: ExactSection | None = None
    """Of a release without a series of its own, as the next two."""
    trials: Mapping[str, CarriedTrialSection] = field(default_factory=dict)
    """How a tree was made -> what the series of another release was worth on it."""
    headers: HeaderCompileSection | None = None
    recorded: Mapping[str, RecordMark] = field(default_factory=dict)
    """Proof ("stage1", "suites/built-simulated") -> when; `update_status` writes it."""
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Digest of a series that a proof is of -> name of a patch -> digest of what it changes in the tree."""


def hash_wheels(wheels: Iterable[Path]) -> dict[str, str]:
    """Return by what a record knows its wheels again: each file's SHA-256.

    Name and series stay the same when a wheel is built again with another flag, another architecture or a changed
    backend.
    """
    return {wheel.name: compute_sha256(wheel) for wheel in wheels}


def locate_status(project: Path, release: str) -> Path:
    """Return where the status file of one release is."""
    return project / "ci" / "status" / f"{release}.json"


def read_status(path: Path) -> ReleaseStatus:
    """Read the document, an empty one when there is no file.

    Raises DecoupleError when it is not ours.
    """
    return parse_status(_read_document(path), path)


def parse_status(document: Mapping[str, Any], path: Path = Path("status")) -> ReleaseStatus:
    """Parse the document; ``path`` names it in errors.

    Raises DecoupleError naming the key that is wrong.
    """
    try:
        return convert(document, ReleaseStatus)
    except ValidationError as error:
        raise DecoupleError(f"{path}: {error}", next_step=f"update decouple, or {format_restore(path)}") from None


def update_status(path: Path, **sections: Any) -> None:
    """Replace the named sections (fields of :class:`ReleaseStatus`); the others stay.

    Of a section of `LABELLED` only the given labels are replaced, and one that is None goes. A section may be a
    function that makes it of what the file says, called while nobody else writes. Raises DecoupleError.
    """
    if strange := sections.keys() - set(ReleaseStatus.__struct_fields__):
        raise TypeError(f"a status has no section {min(strange)!r}")
    with hold_lock(path.with_name(f".{path.name}.lock")):
        before = _read_document(path)
        known = parse_status(before, path)
        given = _make_plain({name: made(known) if callable(made) else made for name, made in sections.items()})
        beside = {
            name: {label: value for label, value in {**before.get(name, {}), **made}.items() if value is not None}
            for name, made in given.items()
            if name in LABELLED
        }
        document = {**before, **given, **beside}
        if marks := _mark_records(document, given):
            document["recorded"] = marks
        parse_status(document, path)
        write_atomically(path, render_document(document))


SINGLE_PROOFS = (
    "series", "proven", "census", "stage1", "stage2", "verify", "over_official", "over_installed",
)  # fmt: skip
"""Sections that are one proof each."""

PROOFS_BY_LABEL = ("applies", "portable", "kernels", "suites", "patches", "contract", "vendors", "whole", "systems")
"""Sections that hold a proof under each label."""

LABELLED = (*PROOFS_BY_LABEL, "trials")
"""Sections of which a command records one label: what another one records at the same time stays."""

_OF_STAGE_2 = ("verify", "kernels/built")


def list_proofs(document: Mapping[str, Any]) -> dict[str, Any]:
    """Map each proof's key to its figures: "stage1", "suites/built-simulated"."""
    proofs = {name: document[name] for name in SINGLE_PROOFS if name in document}
    for name in PROOFS_BY_LABEL:
        proofs |= {f"{name}/{label}": value for label, value in document.get(name, {}).items()}
    return proofs


def _make_mark(key: str, document: Mapping[str, Any], date: str) -> dict[str, str]:
    """Say of the proof under ``key`` when it was recorded and of which series."""
    series = list_proofs(document)[key].get("series")
    if not series and not key.startswith("suites/"):  # suites any torch may have run, also one that has no series
        built = document.get("stage2", {}).get("series") if key in _OF_STAGE_2 else None
        series = built or document.get("series", {}).get("digest")
    return {"date": date, "series": series} if series else {"date": date}


def _mark_records(document: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the marks of all proofs, those of ``given`` of today.

    A proof that gave the same figures again is of today, too.
    """
    known = document.get("recorded", {})
    if "recorded" in given:  # the days are given: a document that is written anew is the same
        return dict(known)
    marks = {key: known[key] for key in list_proofs(document) if key in known}
    today = datetime.now(tz=UTC).date().isoformat()
    for key in list_proofs(document):
        name, _, label = key.partition("/")
        if name in given and (not label or label in given[name]):
            marks[key] = _make_mark(key, document, today)
    return marks


def _make_plain(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return sections as read from a file, lists and all, so that equality holds."""
    return dict(msgspec.json.decode(msgspec.json.encode(sections)))


def render_document(document: Mapping[str, Any]) -> str:
    """Return the document as sorted JSON.

    A record that fits in a line stands in one, and so does its change.
    """
    return f"{_render_value(document, 0, whole=False)}\n"


def _render_value(value: Any, depth: int, *, key: str = "", whole: bool = True) -> str:
    """Render ``value`` of ``key`` at ``depth``, if ``whole`` in a line where it fits."""
    flat = json.dumps(value, sort_keys=True, ensure_ascii=False)
    indent = "  " * depth
    if not (isinstance(value, (Mapping, list, tuple)) and value) or (whole and len(indent + key + flat) < _WIDTH):
        return flat
    if isinstance(value, Mapping):
        words = {name: f"{json.dumps(name, ensure_ascii=False)}: " for name in sorted(value)}
        parts = [word + _render_value(value[name], depth + 1, key=word) for name, word in words.items()]
        first, last = "{", "}"
    else:
        parts, first, last = [_render_value(item, depth + 1) for item in value], "[", "]"
    lines = ",\n".join(f"{indent}  {part}" for part in parts)
    return f"{first}\n{lines}\n{indent}{last}"


def _read_document(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"schema": SCHEMA}
    document = read_json(path, dict[str, Any], mend=f"{format_restore(path)}, or delete it")
    if document.get("schema") != SCHEMA:
        raise DecoupleError(
            f"{path}: schema: expected {SCHEMA}, found {document.get('schema')!r}",
            next_step=f"update decouple, or {format_restore(path)}",
        )
    return document


def keep_costliest(stage: StageSection, before: StageSection | None) -> StageSection:
    """Return ``stage`` with the larger ``object_seconds`` of both.

    That is the nearest to a cold build's.

    Building again on a warm compiler cache says little about what the stage costs. A build that compiled all of it says
    it, also where an earlier one took longer, beside other work.
    """
    spent = stage.object_seconds or 0.0
    if before and before.object_seconds and (stage.compiled or 0) < stage.objects:
        spent = max(before.object_seconds, spent)
    return replace(stage, object_seconds=round(spent, 1), seconds=round(stage.seconds, 1))
