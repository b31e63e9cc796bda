"""What ``ci/status`` says, as Markdown: README's summary, every proof, every patch, every suite.

A row of the first table of docs/proofs.md is one of :data:`COLUMNS`, a column of README's table one of :data:`SUMMARY`,
and of docs/rebase.md's one of :data:`CARRIED`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from decouple.base.checkout import version_key
from decouple.release.status import (
    MONOLITH,
    UNPATCHED,
    ReleaseStatus,
    SeriesSection,
    StageSection,
    SuitesSection,
    VerifySection,
    WheelSection,
)

BUILT = "built"
NOTHING = "not proven"
#: Of decouple.rebase.verdicts.Verdict: the relocation, of which a wheel shows Python files; nothing known; a stop.
_REGENERATED, _NOT_SEEN, _STOPS = "regenerated", "not seen", ("ambiguous", "conflict", "target gone")
#: Best first: decouple.series.evidence.Level, which writes all but the first.
_LEVELS = (
    BUILT, "configured", "applied to the full tree", "applied to the touched files", "Python only", NOTHING,
)  # fmt: skip


def summarize(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return README's table: a row per release, newest first; neighbours of which the same is known share one."""
    lines = [f"| release | {' | '.join(SUMMARY)} |", f"|---{'|---' * len(SUMMARY)}|"]
    lines += [f"| {' | '.join([named, *cells])} |" for named, cells in _grouped(statuses, SUMMARY)]
    return "\n".join(lines) + "\n"


def tabulate_proofs(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of docs/proofs.md: a row per proof, a column per release, newest first."""
    columns = list(_grouped(statuses, COLUMNS))
    lines = [f"| proof | {' | '.join(named for named, _ in columns)} |", f"|---{'|---' * len(columns)}|"]
    for number, proof in enumerate(COLUMNS):
        lines.append(f"| {' | '.join([proof, *(cells[number] for _, cells in columns)])} |")
    return "\n".join(lines) + "\n"


def _grouped(
    statuses: Mapping[str, ReleaseStatus], columns: Mapping[str, Callable[[ReleaseStatus], str]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Releases, newest first, then series with names of their own, each with its cells; ``2.7 to 2.15`` for neighbours
    whose cells are equal."""

    def row(release: str) -> tuple[str, tuple[str, ...]]:
        released, _, name = version_key(release)
        return "" if released else name, tuple(cell(statuses[release]) for cell in columns.values())

    for (_, cells), same in itertools.groupby(_newest_first(statuses), row):
        releases = list(same)
        yield releases[0] if len(releases) == 1 else f"{releases[-1]} to {releases[0]}", cells


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


def suites(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of upstream's CUDA suites: a row per release and torch, newest release first."""
    runs = [(release, run) for release in _newest_first(statuses) for run in _ours_first(statuses[release])]
    outcomes = list(dict.fromkeys(name for _, run in runs for name in run.outcomes))
    lines = [f"| release | torch | of each suite: {'/'.join(outcomes)} |", "|---|---|---|"]
    for release, run in runs:
        counted = [
            f"{suite} {'/'.join(str(tally.get(name, 0)) for name in outcomes)}"
            for suite, tally in sorted(run.tally.items())
        ]
        lines.append(f"| {release} | {_whose(run)} ({run.device}) | {', '.join(counted)} |")
    return "\n".join(lines) + "\n"


def tabulate_carried(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of docs/rebase.md: a line for each release to which another's series was carried."""
    told = {release: describe_carried(statuses[release]) for release in reversed(_newest_first(statuses))}
    lines = [f"| release | {' | '.join(CARRIED)} |", f"|---{'|---' * len(CARRIED)}|"]
    lines += [f"| {release} | {' | '.join(said.values())} |" for release, said in told.items() if said]
    return "\n".join(lines) + "\n"


def describe_carried(status: ReleaseStatus) -> dict[str, str]:
    """Say column by column of :data:`CARRIED` how far a carried series was seen; nothing where nobody looked."""
    if not (status.exact or status.trials or status.headers):
        return {}
    return {name: cell(status) for name, cell in CARRIED.items()}


def _exact(status: ReleaseStatus) -> str:
    """What the official wheel's own text proved: a patch counts only where the wheel shows all of it."""
    found = status.exact
    if found is None:
        return "not asked"
    counts = Counter(found.patches.values())
    partly, unseen = counts.pop(_REGENERATED, 0), counts.pop(_NOT_SEEN, 0)
    stops = sum(counts.pop(what, 0) for what in _STOPS)
    said = f"{sum(counts.values())} of {len(found.patches)} patches"
    said += f" ({', '.join(f'{counts[what]} {what}' for what in sorted(counts))})" if counts else ""
    said += "; of the relocation the Python files" if partly else ""
    return f"{said}; {f'stops: {stops}; ' if stops else ''}not seen: {unseen}"


def _trials(status: ReleaseStatus) -> str:
    """A line per tree: stops, seconds, verdict, and how near the tree is to the release."""
    lines = []
    for name, found in sorted(status.trials.items()):
        stops = f"stops: {', '.join(found.stops)}" if found.stops else "0 stops"
        bad = [f"{what} {count}" for what, count in found.faults.items() if count]
        fine = "lint, lists of stage 2 and couplings clean"
        verdict = "" if found.stops else f", {', '.join(bad) or fine}"
        asked = f", {len(found.unasked)} not asked" if found.unasked else ""
        likeness = f"; {found.likeness.partition(':')[0]}" if found.likeness else ""
        lines.append(
            f"{name}: {len(found.patches)} patches, {stops} in {found.seconds:.0f} s{verdict}{asked}{likeness}"
        )
    return "<br>".join(lines) or "not tried"


def _compiled(status: ReleaseStatus) -> str:
    """Of stage 2's own units those that a compiler took, and why it did not take the others."""
    found = status.headers
    if found is None:
        return "nothing"
    refused = [f"{unit}: {error.rpartition('error: ')[2]}" for unit, error in sorted(found.units.items()) if error]
    said = f"{len(found.units) - len(refused)} of {len(found.units)} own units of stage 2 against the wheel's headers"
    compiler = f"{found.compiler.partition(' ')[0]} {found.compiler.rpartition(' ')[2]}"
    said += f" ({compiler}, C++{found.standard}, CUDA {found.cuda}), syntax alone"
    return said + (f"; not {'; '.join(refused)}" if refused else "")


def _unseen(status: ReleaseStatus) -> str:
    """What no command here could look at, by what was recorded of the others."""
    said = []
    if status.exact:
        said.append(
            f"{status.exact.files - status.exact.shown} of the {status.exact.files} files that the series edits, "
            "as this release has them"
        )
    if not (status.stage1 or status.stage2 or status.portable or status.over_official):
        said.append("either stage compiled, linked or imported")
    return "; ".join(said) or "-"


def levels(status: ReleaseStatus) -> dict[str, str]:
    """Decouple-Id -> what was proven: "built" where both stages were built from the series that is recorded, in the
    usual environment or as portable wheels in which ``decouple verify`` found no fault."""
    digest = status.series.digest if status.series else ""
    built = all(stage and stage.series == digest for stage in (status.stage1, status.stage2))
    built = built or any(_faultless(one, digest) for one in status.portable.values())
    return {name: BUILT if built and row.level != NOTHING else row.level for name, row in status.proven.items()}


def _faultless(portable: WheelSection, series: str) -> bool:
    """One of whose checks is that torch_cuda was compiled against the core that is beside it."""
    seen = portable.verify
    fine = all(one.ok for one in seen.checks) and not any(one.faults for one in seen.audit)
    return portable.series == series and bool(seen.checks) and fine


def _newest_first(statuses: Mapping[str, Any]) -> list[str]:
    return sorted(statuses, key=version_key, reverse=True)


def _patches(status: ReleaseStatus) -> str:
    series = status.series
    if series is None:
        return "not known"
    return str(series.patches)


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
    if (series.likeness or "").startswith("as official"):
        return f"; its tree is {str(series.likeness).partition(':')[0]}"
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
    if not status.census:
        return "not counted"
    others = (f", {word} {one.after} of {one.before}" for word, one in sorted((status.census.vendors or {}).items()))
    return f"{status.census.after} of {status.census.before}{''.join(others)}"


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
    """Upstream's CUDA tests by outcome, torch by torch, and against another build."""
    return "<br>".join(map(_suite_run, _ours_first(status))) or "not run"


def _suite_run(suites: SuitesSection) -> str:
    which = ", ".join(suites.tally) if len(suites.tally) <= 3 else f"{len(suites.tally)} suites"
    against = _against(suites)
    return f"{_whose(suites)} ({suites.device}; {which}): {_outcomes(suites)}" + (f"; {against}" if against else "")


def _outcomes(suites: SuitesSection) -> str:
    """Tests by outcome, over all suites of the run."""
    counts = Counter[str]()
    for one in suites.tally.values():
        counts.update(one)
    return ", ".join(f"{counts[name]} {name}" for name in suites.outcomes if counts[name])


def _ours_first(status: ReleaseStatus) -> list[SuitesSection]:
    return sorted(status.suites.values(), key=lambda one: (one.label not in ("", BUILT), one.label))


def _whose(suites: SuitesSection) -> str:
    """Nobody is to take another torch's outcomes for those of our wheels."""
    return suites.label if suites.label not in ("", BUILT) else "our wheels"


def _against(suites: SuitesSection) -> str:
    against = suites.against
    if not against:
        return ""
    ledgers = f", {against.loose} of {against.ledgers} ledgers the same" if against.ledgers else ""
    return f"{against.tests - against.outcomes} of {against.tests} not as {against.label}{ledgers}"


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


def _builds(status: ReleaseStatus) -> str:
    """For which systems both stages were built."""
    said = ["both stages on Debian 13"] if status.stage1 and status.stage2 else []
    if status.portable:
        labels = ", ".join(label.replace("-cu", " with CUDA ").replace("py", "Python ") for label in status.portable)
        said.append(f"portable wheels: {labels}")
    return "; ".join(said) or "no"


def _tested(status: ReleaseStatus) -> str:
    """Upstream's CUDA tests on our wheels and the contract on a simulated backend."""
    ours = [run for run in status.suites.values() if run.label in ("", BUILT)]
    said = [f"upstream's `{'`, `'.join(run.tally)}` suite, {run.device} device: {_outcomes(run)}" for run in ours]
    if status.contract:
        said.append(f"contract of backends: {_contract(status)}")
    return "; ".join(said) or "no"


def _compared(status: ReleaseStatus) -> str:
    """What a user would notice against the single-stage build, in one line."""
    said = [f"names {_names(status.verify)}"] if status.verify.parity else []
    kernels = _kernels(status).partition("<br>")[0]
    said += [f"machine code {kernels}"] if kernels != "not compared" else []
    return "; ".join(said) or "no"


def _age(status: ReleaseStatus) -> str:
    """Which of the figures were taken with another series than the one that is here."""
    digest = status.series.digest if status.series else ""
    made: dict[str, StageSection | WheelSection | None] = {
        "stage 1": status.stage1, "stage 2": status.stage2, "over official kernels": status.over_official,
        "over Debian's kernels": status.over_installed, **status.portable,
    }  # fmt: skip
    there = {name: one for name, one in made.items() if one}
    old = [name for name, one in there.items() if one.series != digest]
    if not there:
        return ""
    return f"of an earlier series: {', '.join(old)}" if digest and old else "all of this series"


#: docs/rebase.md: of a release without a series of its own, what is known of another's there.
CARRIED: Mapping[str, Callable[[ReleaseStatus], str]] = {
    "on its exact text": _exact,
    "on a tree made for trial": _trials,
    "what a compiler saw": _compiled,
    "what nobody saw": _unseen,
}
#: README's table behind the release: what a column is called, and what stands in it.
SUMMARY: Mapping[str, Callable[[ReleaseStatus], str]] = {
    "patches": _patches,
    "builds": _builds,
    "tested": _tested,
    "compared with the single-stage build": _compared,
    "how old": _age,
}
#: docs/proofs.md: what a row is called, and what stands in it. A new proof is a row here.
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
