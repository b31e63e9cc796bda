"""List what was proven of a release, one line per proof.

``ci/status`` records them. A proof is a row of :data:`PROOFS`: the command that records it, and its figures with a
verdict.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from decouple.base.percent import cut_percent
from decouple.release.status import (
    MONOLITH,
    SINGLE_STAGE,
    UNPATCHED,
    AppliesSection,
    KernelsSection,
    ReleaseStatus,
    SeriesSection,
    StageSection,
    SuitesSection,
    VerifySection,
    WheelSection,
)

BUILT = "built"
NOTHING = "not proven"
#: Of decouple.verify.patches: the kinds of a torch that is made of our series, the core or torch_cuda.
_PATCHED = ("patched", "core", "half", "unpatched")
#: Of decouple.verify.full_parity: the kinds of a torch that has none of them.
_WITHOUT_PATCHES = ("debian", "other")
#: Words of a label that decouple.flows.parity writes -> the option that chose such a build.
_PARITY_OPTIONS = {"portable": "--env portable", "official": "--kernels official"}
_VERIFY_PORTABLE = "decouple verify {release} --env portable --python PYTHON"
#: Of decouple.flows.test_cuda: the torches that `test-cuda` has itself, longer names first; any other is a PYTHON's.
_OWN_TORCHES = ("smoke-hip", BUILT, "smoke", "hip", "stock", "monolith")
#: Of the contract's report: an item that other tests check, that no test of the run asked, that PyTorch prevents.
_ITEM_STATES = {"elsewhere": "left to other tests", "missing": "not tried", "upstream gap": "prevented by PyTorch"}
#: Labels of decouple.flows.contract -> the options that chose such a torch: our core alone, with torch_cuda, unpatched.
CORE, STOCK = "core", "stock"
_CONTRACT_OPTIONS = {CORE: "", "both": "--beside-cuda", STOCK: "--core stock"}
#: Kinds of proofs that README's table is made of, as :data:`PROOFS` has them; the last two are labels.
PATCHES, STAGES, PORTABLE = "patches", ("stage 1", "stage 2"), "portable wheels"
PARITY, KERNELS, SUITES = "parity with Debian's monolith", "kernels", "CUDA suites"
CONTRACT, SYSTEMS, OURS, OFFICIAL = "contract of backends", "wheels on a bare system", "our wheels", "official"
#: Best first: decouple.series.evidence.Level, which writes all but the first.
_LEVELS = (
    BUILT, "configured", "applied to the full tree", "applied to the touched files", "Python only", NOTHING,
)  # fmt: skip


class ProofRow(Struct, frozen=True):
    """A line of the table: of one proof, or of one of several that have a label each."""

    name: str
    command: str
    figure: str
    verdict: str = ""
    """A word of :data:`VERDICTS`; "" where nobody has looked yet."""
    date: str = ""
    series: str = ""
    since: str | None = None
    """What changed after the proof, None where it is of today's series."""

    @property
    def short_series(self) -> str:
        """The first eight digits of the digest, or the words that stand for one."""
        return self.series if " " in self.series else self.series[:8]

    @property
    def full_verdict(self) -> str:
        """The verdict, and where it is of an earlier series what changed since."""
        return self.verdict if self.since is None else f"{self.verdict}; {SINCE} {self.since}"


class Figure(Struct, frozen=True):
    """Figures recorded under ``key`` (status.list_proofs), and what they are worth."""

    key: str
    text: str
    verdict: str
    label: str = ""
    of_series: bool = True
    """False of a torch that has none of our patches in it."""
    command: str = ""
    """What records it, where that is not what records its kind."""


class ProofKind(Struct, frozen=True):
    """A kind of proof: the command that records it, and how to read its figures."""

    command: str
    describe: Callable[[ReleaseStatus], Iterable[Figure]]
    absent: str
    """What stands in the table where there is no figure."""


SINCE = "since then"
HOLDS, EXPLAINED, DIFFERS, FAILS, RECORDED = "holds", "explained", "differs", "fails", "recorded"
#: The worst last; docs/proofs.md says what they mean. A part that nobody looked at is no fault, but then not all holds.
VERDICTS = (HOLDS, EXPLAINED, RECORDED, DIFFERS, FAILS)


def list_proof_rows(status: ReleaseStatus) -> list[ProofRow]:
    """List the lines of one release, a line at least for each of :data:`PROOFS`."""
    rows = []
    for name, proof in PROOFS.items():
        figures = list(proof.describe(status))
        rows += [_make_row(status, name, proof, figure) for figure in figures]
        if not figures:
            rows.append(ProofRow(name, proof.command, proof.absent))
    return rows


def _make_row(status: ReleaseStatus, name: str, proof: ProofKind, figure: Figure) -> ProofRow:
    mark = status.recorded.get(figure.key)
    section = _find_section(status, figure.key)
    named = section.series if isinstance(section, (StageSection, WheelSection)) else None
    series = (named or (mark.series if mark else "")) if figure.of_series else ""
    return ProofRow(
        name=f"{name}: {figure.label}" if figure.label else name,
        command=figure.command or proof.command,
        figure=figure.text,
        verdict=figure.verdict,
        date=mark.date if mark else "not known",
        series=series or ("not known" if figure.of_series else "none"),
        since=describe_changes(status, series),
    )


def _find_section(status: ReleaseStatus, key: str) -> Any:
    name, _, label = key.partition("/")
    section = getattr(status, name)
    return section[label] if label else section


def describe_changes(status: ReleaseStatus, series: str) -> str | None:
    """Say which patches changed, came or went after ``series``.

    They are named by their numbers today. Returns None where it is today's series. Changed is what the tree gets by it:
    header, blob ids and line numbers do not count.
    """
    digest = status.series.digest if status.series else ""
    if not digest or not series or series == digest:
        return None
    before, now = status.changes.get(series), status.changes.get(digest)
    if before is None or now is None:
        return "changes that are not known"
    was, there = ({_cut_number(name)[1]: value for name, value in known.items()} for known in (before, now))
    numbers = {slug: number for number, slug in map(_cut_number, [*before, *now])}
    parts = {
        "changed": [slug for slug in there if slug in was and was[slug] != there[slug]],
        "new": [slug for slug in there if slug not in was],
        "gone": [slug for slug in was if slug not in there],
    }
    said = [f"{', '.join(sorted(numbers[slug] for slug in slugs))} {word}" for word, slugs in parts.items() if slugs]
    return "; ".join(said) or "only what patches say of themselves"


def _cut_number(name: str) -> tuple[str, str]:
    """Cut the name of a patch's file: ``0007-a.patch`` into ``0007`` and ``a.patch``."""
    number, _, slug = name.partition("-")
    return number, slug


def find_levels(status: ReleaseStatus) -> dict[str, str]:
    """Map each Decouple-Id to what was proven of it.

    It is "built" where both stages were built from the series that is recorded, in the usual environment or as
    portable wheels. Wheels of which ``decouple verify`` ended as FAILED do not count, nor portable ones that it did not
    check, nor those for upstream's CPU half: no stage 1 of ours is under these.
    """
    digest = status.series.digest if status.series else ""
    built = all(stage and stage.series == digest for stage in (status.stage1, status.stage2))
    seen = [status.verify] if _find_series(status, "verify") == digest else []
    built = built and not _has_fault(seen, _list_comparisons(status, BUILT, digest))
    built = built or any(_is_faultless(status, label, digest) for label in status.portable)
    return {name: BUILT if built and row.level != NOTHING else row.level for name, row in status.proven.items()}


def _is_faultless(status: ReleaseStatus, label: str, series: str) -> bool:
    """Say whether ``decouple verify`` saw nothing wrong in a portable wheel.

    It and its core are of one series, as no others are recorded.
    """
    wheel = status.portable[label]
    code = [*([wheel.kernels] if wheel.kernels else []), *_list_comparisons(status, label, series)]
    ours = wheel.series == series and wheel.verify.core == BUILT
    return ours and bool(wheel.verify.checks) and not _has_fault([wheel.verify], code)


def _has_fault(seen: Iterable[VerifySection], code: Iterable[KernelsSection]) -> bool:
    verdicts = [*(_judge_wheel(verify) for verify in seen), *map(_judge_kernels, code)]
    return any(verdict in (DIFFERS, FAILS) for verdict in verdicts)


def _list_comparisons(status: ReleaseStatus, label: str, series: str) -> list[KernelsSection]:
    """List what ``decouple verify`` compared of a build's machine code.

    Of wheels of ``series``; a portable wheel has its comparison with the official one itself.
    """
    labels = [name for name in (label, f"{label}{MONOLITH}") if name in status.kernels]
    return [status.kernels[name] for name in labels if _find_series(status, f"kernels/{name}") == series]


def _find_series(status: ReleaseStatus, key: str) -> str:
    """Return the series that a section is of.

    Where it does not say it, the one that was last recorded before.
    """
    mark = status.recorded.get(key)
    return _find_section(status, key).series or (mark.series if mark else "")


def _judge_wheel(verify: VerifySection) -> str:
    """Return the worst of the verdicts on names, audit and checks."""
    worth = (_judge_names(verify), _judge_audit(verify), _judge_checks(verify))
    return max(worth, key=VERDICTS.index)


def _describe_patches(status: ReleaseStatus) -> str:
    return str(status.series.patches) if status.series else "not known"


def _describe_proofs(status: ReleaseStatus) -> str:
    """Say how many patches were proven how far, the best proof first."""
    counts = Counter(find_levels(status).values())
    ordered = sorted(counts, key=lambda level: _LEVELS.index(level) if level in _LEVELS else len(_LEVELS))
    text = ", ".join(f"{counts[level]} {level}" for level in ordered) or "not checked"
    return text + _describe_other_tree(status.series)


def _describe_other_tree(series: SeriesSection | None) -> str:
    """Describe a series carried to a tree that is not the release byte for byte."""
    if series is None or series.made_on is None:
        return ""
    percent, measured, _ = (series.likeness or "").partition(" % official text")
    if (series.likeness or "").startswith("as official"):
        return f"; its tree is {str(series.likeness).partition(':')[0]}"
    percent = percent if measured else ""
    return f"; tried on a tree of which {f'{percent} %' if percent else 'an unknown part'} is the official text"


def _describe_applies(found: AppliesSection) -> str:
    """Say whether every patch applies, and at how many an offset was needed."""
    bad, offsets = len(found.failed), len(found.offset)
    return f"{f'{bad} fail' if bad else 'all'}{f' ({offsets} with an offset)' if offsets else ''}"


def _describe_couplings(status: ReleaseStatus) -> str:
    if not status.census:
        return "not counted"
    others = (
        f", {word} {count.after} of {count.before}" for word, count in sorted((status.census.vendors or {}).items())
    )
    return f"{status.census.after} of {status.census.before}{''.join(others)}"


def _list_patches(status: ReleaseStatus) -> Iterator[Figure]:
    if status.series:
        yield Figure("series", _describe_patches(status), RECORDED)


def _list_levels(status: ReleaseStatus) -> Iterator[Figure]:
    if status.proven:
        fails = NOTHING in find_levels(status).values()
        yield Figure("proven", _describe_proofs(status), DIFFERS if fails else HOLDS)


def _list_applies(status: ReleaseStatus) -> Iterator[Figure]:
    for source, found in sorted(status.applies.items()):
        good = HOLDS if found.clean or found.offset else DIFFERS  # of no patch
        yield Figure(f"applies/{source}", _describe_applies(found), FAILS if found.failed else good, source)


def _list_couplings(status: ReleaseStatus) -> Iterator[Figure]:
    if status.census:
        cuda, others = status.census, tuple((status.census.vendors or {}).values())
        before = cuda.before + sum(count.before for count in others)
        after = cuda.after + sum(count.after for count in others)
        yield Figure("census", _describe_couplings(status), HOLDS if before and not after else DIFFERS)


def _list_stage(key: str, stage: StageSection | None) -> Iterator[Figure]:
    if stage:
        size, spent = stage.wheel_bytes / (1 << 20), stage.object_seconds
        cost = f"at least {spent / 60 / stage.cores:.0f} min of compiling on {stage.cores} cores, " if spent else ""
        yield Figure(key, f"{stage.objects} objects, {cost}{size:.0f} MiB", HOLDS)


def _list_parity(status: ReleaseStatus) -> Iterator[Figure]:
    if status.verify.parity:
        yield Figure("verify", _describe_names(status.verify), _judge_names(status.verify))


def _judge_names(verify: VerifySection) -> str:
    """Say whether all names are as they must be; a missing one may have its reason."""
    found = verify.parity
    if found and found.unexplained:
        return DIFFERS
    if not (found and found.total):
        return RECORDED
    return EXPLAINED if found.missing or found.different else HOLDS


def _describe_names(verify: VerifySection) -> str:
    found = verify.parity
    if not (found and found.total):
        return "nothing to compare" if found and found.unexplained else "not checked"
    alike = found.total - found.missing - found.different
    counts = {"extra": found.extra, "unexplained": len(found.unexplained)}
    rest = "".join(f", {count} {what}" for what, count in counts.items() if count)
    return f"{cut_percent(alike, found.total):.2f} % of {found.total}{rest}"


def _list_kernels(status: ReleaseStatus) -> Iterator[Figure]:
    """Yield those with the official wheel, with monoliths, with the unpatched tree.

    The largest with the official wheel comes first. A portable wheel's is in the row of that wheel, too, so here it
    stands only where it is the largest.
    """
    found = {f"kernels/{label}": section for label, section in status.kernels.items()}
    wheels = {f"portable/{label}": wheel.kernels for label, wheel in status.portable.items() if wheel.kernels}
    official = {key: section for key, section in (found | wheels).items() if section.theirs.startswith("official")}
    if official:
        largest = max(official, key=lambda name: official[name].total)
        for key in [largest, *sorted(key for key in official if key in found and key != largest)]:
            text, verdict = _describe_kernels(official[key]), _judge_kernels(official[key])
            label = OFFICIAL if key == largest else f"{OFFICIAL} ({key.partition('/')[2]})"
            yield Figure(key, text, verdict, label, command=_name_comparison(key, "official"))
    for key, section in sorted(found.items()):
        if key.endswith(MONOLITH):
            text = f"{section.same} of {section.total}, {section.unexplained} unexplained"
            yield Figure(
                key,
                text,
                _judge_kernels(section),
                "Debian's monolith",
                command=_name_comparison(key.removesuffix(MONOLITH), "monolith"),
            )
    if sample := status.kernels.get(UNPATCHED):
        text = f"{sample.same} of {sample.total} in {sample.sources} files{_describe_unexplained(sample)}"
        yield Figure(
            f"kernels/{UNPATCHED}",
            text,
            _judge_kernels(sample),
            "unpatched tree",
            command="decouple kernels unpatched {release}",
        )


def _name_comparison(key: str, other: str) -> str:
    """Name the command that compares the machine code of the wheel under ``key``."""
    label = key.partition("/")[2]
    if label == "smoke":
        return "decouple smoke {release} --record"
    if label == BUILT:
        return f"decouple verify {{release}} --kernels {other}"
    return f"{_name_portable(label)} --kernels {other}"


def _name_portable(label: str) -> str:
    """Name the command that checks the portable wheel of a label.

    That is "py3.13-cu12.4", or "cu12.4-official-half".
    """
    if not (found := re.fullmatch(r"(?:py([\d.]+)-)?cu([\d.]+)(-official-half)?", label)):
        return _VERIFY_PORTABLE
    python, cuda, half = found.groups(default="")
    return f"{_VERIFY_PORTABLE}{python}{' --core official' if half else ''} --cuda {cuda}"


def _judge_kernels(kernels: KernelsSection) -> str:
    if kernels.unexplained or not kernels.total:  # a function, or a variable where all functions are the same
        return DIFFERS
    return HOLDS if kernels.same == kernels.total and not kernels.extra else EXPLAINED


def _describe_kernels(found: KernelsSection) -> str:
    """Say how many functions of the official wheel are ours byte for byte."""
    rest = "".join(f", {count} {what}" for what, count in (("missing", found.missing), ("extra", found.extra)) if count)
    part = f" in {found.sources} of {found.of_sources} sources" if found.sources < found.of_sources else ""
    rest += _describe_unexplained(found)
    return f"{cut_percent(found.same, found.total):.2f} % of {found.total}{part} ({', '.join(found.archs)}){rest}"


def _describe_unexplained(found: KernelsSection) -> str:
    """Say how many differ without a reason, functions and variables."""
    return f", {found.unexplained} unexplained" if found.unexplained else ""


def _list_wheel(
    key: str, wheel: WheelSection | None, label: str = "", kept: str = "untouched", command: str = ""
) -> Iterator[Figure]:
    """Yield the comparison of a wheel of bindings over another build's kernels.

    It is compared with that build; or the wheel is of our own kernels.
    """
    if wheel is None:
        return
    verify, code, bad = wheel.verify, wheel.kernels, len(wheel.verify.failed)
    checks = f"{bad} checks FAILED" if bad else "checks ok" if verify.checks else "no checks"
    parts = [_describe_names(verify), f"audit {_describe_audit(verify)}", checks]
    worth = [_judge_wheel(verify)]
    if code:
        parts.append(f"{code.same} of {code.total} functions {kept}{_describe_unexplained(code)}")
        worth.append(_judge_kernels(code))
    yield Figure(key, ", ".join(parts), max(worth, key=VERDICTS.index), label, command=command)


def _list_vendors(status: ReleaseStatus) -> Iterator[Figure]:
    """Yield how much of other vendors' objects equals upstream's own build for them."""
    for label, section in sorted(status.kernels.items()):
        if label.endswith(f"/{SINGLE_STAGE}"):
            text = (
                f"{section.same} of {section.total} functions in {section.sources} files ({', '.join(section.archs)})"
            )
            text += f", {section.unexplained} unexplained"
            vendor = label.removesuffix(f"/{SINGLE_STAGE}")
            yield Figure(
                f"kernels/{label}",
                text,
                _judge_kernels(section),
                f"{vendor} objects",
                command=f"decouple kernels unpatched {{release}} --toolkit {vendor}",
            )
    for name, found in sorted(status.vendors.items()):
        yield Figure(
            f"vendors/{name}",
            _describe_names(found),
            _judge_names(found),
            f"{name} registrations",
            command=f"decouple kernels unpatched {{release}} --toolkit {name}",
        )


def _list_portable(status: ReleaseStatus) -> Iterator[Figure]:
    for label, wheel in sorted(status.portable.items()):
        command = _name_portable(label) + (" --kernels official" if wheel.kernels else "")
        yield from _list_wheel(f"portable/{label}", wheel, label, "the same", command)


def _list_over_official(status: ReleaseStatus) -> Iterator[Figure]:
    wheel = status.over_official
    where = " --env portable" if wheel and "manylinux" in wheel.wheel else ""
    kernels = " --kernels official" if wheel and wheel.kernels else ""
    command = f"decouple verify {{release}}{where} --core official{kernels} --python PYTHON"
    yield from _list_wheel("over_official", wheel, command=command)


def _list_over_installed(status: ReleaseStatus) -> Iterator[Figure]:
    wheel = status.over_installed
    kernels = " --kernels monolith" if wheel and wheel.kernels else ""
    command = f"decouple verify {{release}} --core stock --over monolith{kernels}"
    yield from _list_wheel("over_installed", wheel, command=command)


def _list_suites(status: ReleaseStatus) -> Iterator[Figure]:
    """Yield upstream's CUDA tests by outcome, per torch, and against another build."""
    for run in sort_ours_first(status):
        key = next(key for key, known in status.suites.items() if known is run)
        which = ", ".join(run.tally) if len(run.tally) <= 3 else f"{len(run.tally)} suites"
        text = _describe_outcomes(run) + (f"; {_describe_comparison(run)}" if run.against else "")
        verdict = RECORDED
        if seen := run.against:
            same = seen.tests == seen.outcomes and seen.ledgers == seen.loose
            compared = RECORDED if seen.only_ours or seen.only_theirs else HOLDS if same else EXPLAINED
            verdict = compared if seen.tests and not seen.unexplained else DIFFERS
        name = f"{describe_torch(run)} ({run.device}; {which})"
        yield Figure(f"suites/{key}", text, verdict, name, _is_ours(run), _name_suites(run, status))


def _name_suites(run: SuitesSection, status: ReleaseStatus) -> str:
    """Name the command that makes the line of a run, as far as it is recorded."""
    label, against, ran = run.label or BUILT, run.against, _count_outcomes(run).total()
    torch = next((word for word in _OWN_TORCHES if f"{label}-".startswith(f"{word}-")), "PYTHON")
    words = ["decouple test-cuda {release}", *run.tally, f"--torch {torch} --device {run.device} --label {label}"]
    if against and against.ledgers and run.device == "gpu":
        words.append("--ledger")
    if against:
        words.append(f"--against {against.label}")
    if run.words:
        words.append(f"-k {shlex.quote(run.words)}")
    if run.collected and ran < run.collected:
        words.append(f"--slice {ran}")
        other = status.suites.get(f"{against.label}-{run.device}") if against else None
        if other and run.collected > _count_outcomes(other).total():  # more to choose from than that build had run
            words.append("--every")
    if run.options:
        words.append(run.options)
    return " ".join([*words, "--record"])


def _is_ours(run: SuitesSection) -> bool:
    """Say whether a run's torch has our patches; the official and Debian's have not.

    One whose wheels name a series has, whatever it is called.
    """
    label = run.label
    return bool(run.series) or label.startswith("official-kernels") or not label.startswith(("official", "monolith"))


def _describe_outcomes(suites: SuitesSection) -> str:
    """Count tests by outcome over all suites; say of how many or which, if not of all."""
    counts = _count_outcomes(suites)
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    text += f" ({suites.flaky} passed when tried again)" if suites.flaky else ""
    ran = counts.total()
    some = f"{ran} of {suites.collected} tests: " if suites.collected and ran < suites.collected else ""
    return (f"those of -k {shlex.quote(suites.words)}: " if suites.words else "") + some + text


def _count_outcomes(suites: SuitesSection) -> Counter[str]:
    """Count tests by outcome, without those of none."""
    counts = Counter({name: sum(tally.get(name, 0) for tally in suites.tally.values()) for name in suites.outcomes})
    return +counts


def sort_ours_first(status: ReleaseStatus) -> list[SuitesSection]:
    return sorted(status.suites.values(), key=lambda run: (run.label not in ("", BUILT), run.label))


def describe_torch(suites: SuitesSection) -> str:
    """Name the torch of a run, so that its outcomes are not read as our wheels'."""
    return suites.label if suites.label not in ("", BUILT) else OURS


def _describe_comparison(suites: SuitesSection) -> str:
    against = suites.against
    if not against:
        return ""
    bare = " but for arguments" if against.plain or suites.device == "gpu" else ""
    ledgers = (
        f", {against.loose} of {against.ledgers} ledgers (format {against.format}) the same{bare}"
        if against.ledgers
        else ""
    )
    return f"{against.tests - against.outcomes} of {against.tests} not as {against.label}{ledgers}"


def _list_audits(status: ReleaseStatus) -> Iterator[Figure]:
    if status.verify.audited:
        yield Figure("verify", _describe_audit(status.verify), _judge_audit(status.verify))


def _list_checks(status: ReleaseStatus) -> Iterator[Figure]:
    """Yield how many checks of our core and torch_cuda together passed."""
    if status.verify.checks:
        yield Figure("verify", _describe_checks(status.verify), _judge_checks(status.verify))


def _describe_checks(verify: VerifySection) -> str:
    return f"{verify.checks - len(verify.failed)} of {verify.checks} checks"


def _judge_checks(verify: VerifySection) -> str:
    return FAILS if verify.failed else HOLDS if verify.checks else RECORDED


def _judge_audit(verify: VerifySection) -> str:
    return FAILS if verify.faults else HOLDS if verify.audited else RECORDED


def _describe_audit(verify: VerifySection) -> str:
    if not verify.audited:
        return "not checked"
    return f"{len(verify.faults)} faults" if verify.faults else f"clean ({verify.audited} files)"


def _list_patch_checks(status: ReleaseStatus) -> Iterator[Figure]:
    """Yield how many answers are those that they must be, torch by torch.

    What they must be differs with the patches and without.
    """
    for label, trial in sorted(status.patches.items()):
        good = trial.answers - len(trial.failed)
        torch = label.removesuffix(f"-{trial.device}")
        name = f"{torch} ({trial.kind}; {trial.device})"
        command = f"decouple try patches {{release}} --torch PYTHON --device {trial.device} --label {torch} --record"
        verdict = FAILS if trial.failed else HOLDS if trial.answers else RECORDED
        yield Figure(f"patches/{label}", f"{good} of {trial.answers}", verdict, name, trial.kind in _PATCHED, command)


def _list_systems(status: ReleaseStatus) -> Iterator[Figure]:
    """Yield what finished wheels gave on bare systems, as a user installs them."""
    for name, found in sorted(status.systems.items()):
        words = [
            "decouple try wheels {release}",
            name,
            *(f"--with {project}" for project in found.projects),
            "--record",
        ]
        yield Figure(f"systems/{name}", _describe_checks(found), _judge_checks(found), name, command=" ".join(words))


def _list_whole(status: ReleaseStatus) -> Iterator[Figure]:
    """Yield how many names and files of the official wheel ours has, by kind of torch."""
    for name, found in sorted(status.whole.items()):
        bare = not (found.parity and found.parity.unexplained)
        text = f"{_describe_names(found)}{', 0 unexplained' if bare else ''}"
        options = " ".join(option for word, option in _PARITY_OPTIONS.items() if word in name.split("-"))
        yield Figure(
            f"whole/{name}",
            text,
            _judge_names(found),
            name,
            name not in _WITHOUT_PATCHES,
            f"decouple parity {{release}} {options} --record" if options else "",
        )


def _list_contract(status: ReleaseStatus) -> Iterator[Figure]:
    """Yield the items that the template keeps, torch by torch, our own core first."""
    for label, options in _CONTRACT_OPTIONS.items():
        if not (run := status.contract.get(label)):
            continue
        whole = run.items.get("supported") and not run.items.get("missing")
        verdict = FAILS if run.tests.get("failed") else HOLDS if whole else DIFFERS
        yield Figure(
            f"contract/{label}",
            _describe_contract(run.items),
            verdict,
            f"{label} ({run.torch})" if run.torch else label,
            label != STOCK,
            f"decouple contract {{release}} {options} --upstream" if options else "",
        )


def _describe_contract(items: Mapping[str, int]) -> str:
    rest = ", ".join(
        f"{count} {_ITEM_STATES.get(state, state)}" for state, count in items.items() if state != "supported" and count
    )
    return f"{items.get('supported', 0)} of {sum(items.values())} items hold" + (f" ({rest})" if rest else "")


#: docs/proofs.md: what a proof is called, which command records it, and its figures. A new proof is a row here.
PROOFS: Mapping[str, ProofKind] = {
    PATCHES: ProofKind("decouple record {release}", _list_patches, "not known"),
    "proven": ProofKind("decouple record {release}", _list_levels, "not checked"),
    "apply to": ProofKind("decouple record {release}", _list_applies, "not checked"),
    "couplings left": ProofKind("decouple record {release} --census FILE", _list_couplings, "not counted"),
    STAGES[0]: ProofKind(
        "decouple build {release} --stage 1", lambda status: _list_stage("stage1", status.stage1), "not built"
    ),
    STAGES[1]: ProofKind(
        "decouple build {release} --stage 2", lambda status: _list_stage("stage2", status.stage2), "not built"
    ),
    PARITY: ProofKind("decouple verify {release}", _list_parity, "not checked"),
    "ELF audit": ProofKind("decouple verify {release}", _list_audits, "not checked"),
    "checks of the wheels": ProofKind("decouple verify {release}", _list_checks, "not checked"),
    KERNELS: ProofKind("decouple verify {release} --kernels official", _list_kernels, "not compared"),
    "other vendors' objects against upstream's build": ProofKind(
        "decouple kernels unpatched {release} --toolkit VENDOR", _list_vendors, "not compared"
    ),
    "over the official kernels": ProofKind(
        "decouple verify {release} --core official --kernels official --python PYTHON",
        _list_over_official,
        "not checked",
    ),
    "over Debian's kernels on its CPU torch": ProofKind(
        "decouple verify {release} --core stock --over monolith --kernels monolith",
        _list_over_installed,
        "not checked",
    ),
    PORTABLE: ProofKind(_VERIFY_PORTABLE, _list_portable, "not checked"),
    SUITES: ProofKind("decouple test-cuda {release} --record", _list_suites, "not run"),
    "patches' own checks": ProofKind(
        "decouple try patches {release} --torch PYTHON --record", _list_patch_checks, "not asked"
    ),
    CONTRACT: ProofKind("decouple contract {release} --upstream", _list_contract, "not checked"),
    SYSTEMS: ProofKind("decouple try wheels {release} SYSTEM --record", _list_systems, "not recorded"),
    "all of torch against the official wheel": ProofKind(
        "decouple parity {release} --record", _list_whole, "not recorded"
    ),
}
