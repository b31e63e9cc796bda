"""What ``ci/status`` says, as Markdown: README's summary, every proof, every patch, every suite.

A row of the first table of docs/proofs.md is one of :data:`COLUMNS`, a column of README's table one of :data:`SUMMARY`,
and of docs/rebase.md's one of :data:`CARRIED`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from decouple.base.checkout import make_version_key
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
    """Return README's table: a row per release, newest first.

    Neighbours of which the same is known share a row.
    """
    lines = [f"| release | {' | '.join(SUMMARY)} |", f"|---{'|---' * len(SUMMARY)}|"]
    lines += [f"| {' | '.join([named, *cells])} |" for named, cells in _group_rows(statuses, SUMMARY)]
    return "\n".join(lines) + "\n"


def tabulate_proofs(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of docs/proofs.md: a row per proof, a column per release, newest first."""
    columns = list(_group_rows(statuses, COLUMNS))
    lines = [f"| proof | {' | '.join(named for named, _ in columns)} |", f"|---{'|---' * len(columns)}|"]
    for number, proof in enumerate(COLUMNS):
        lines.append(f"| {' | '.join([proof, *(cells[number] for _, cells in columns)])} |")
    return "\n".join(lines) + "\n"


def _group_rows(
    statuses: Mapping[str, ReleaseStatus], columns: Mapping[str, Callable[[ReleaseStatus], str]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each release with its cells.

    Releases come newest first, then series with names of their own. Neighbours whose cells are equal share one row:
    ``2.7 to 2.15``.
    """

    def row(release: str) -> tuple[str, tuple[str, ...]]:
        released, _, name = make_version_key(release)
        return "" if released else name, tuple(cell(statuses[release]) for cell in columns.values())

    for (_, cells), same in itertools.groupby(_sort_newest_first(statuses), row):
        releases = list(same)
        yield releases[0] if len(releases) == 1 else f"{releases[-1]} to {releases[0]}", cells


def render_patch_matrix(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the Markdown table of what was proven.

    It has a row per patch (by Decouple-Id) and a column per release, oldest first.
    """
    releases = list(reversed(_sort_newest_first(statuses)))
    levels = {release: find_levels(statuses[release]) for release in releases}
    first: dict[str, str] = {}
    for release in releases:
        for identity, row in statuses[release].proven.items():
            first.setdefault(identity, row.patch)
    lines = [f"| patch | {' | '.join(releases)} |", f"|---{'|---' * len(releases)}|"]
    for identity in sorted(first, key=lambda name: first[name].rsplit("/", 1)[-1]):
        cells = [levels[release].get(identity, "not in the series") for release in releases]
        lines.append(f"| {identity} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def render_suites(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of upstream's CUDA suites: a row per release and torch, newest release first."""
    runs = [(release, run) for release in _sort_newest_first(statuses) for run in _sort_ours_first(statuses[release])]
    outcomes = list(dict.fromkeys(name for _, run in runs for name in run.outcomes))
    lines = [f"| release | torch | of each suite: {'/'.join(outcomes)} |", "|---|---|---|"]
    for release, run in runs:
        counted = [
            f"{suite} {'/'.join(str(tally.get(name, 0)) for name in outcomes)}"
            for suite, tally in sorted(run.tally.items())
        ]
        lines.append(f"| {release} | {_describe_torch(run)} ({run.device}) | {', '.join(counted)} |")
    return "\n".join(lines) + "\n"


def tabulate_carried(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of docs/rebase.md: a line for each release to which another's series was carried."""
    told = {release: describe_carried(statuses[release]) for release in reversed(_sort_newest_first(statuses))}
    lines = [f"| release | {' | '.join(CARRIED)} |", f"|---{'|---' * len(CARRIED)}|"]
    lines += [f"| {release} | {' | '.join(said.values())} |" for release, said in told.items() if said]
    return "\n".join(lines) + "\n"


def describe_carried(status: ReleaseStatus) -> dict[str, str]:
    """Say column by column of :data:`CARRIED` how far a carried series was seen; nothing where nobody looked."""
    if not (status.exact or status.trials or status.headers):
        return {}
    return {name: cell(status) for name, cell in CARRIED.items()}


def _describe_exact(status: ReleaseStatus) -> str:
    """Say what the official wheel's own text proved: a patch counts only where the wheel shows all of it."""
    found = status.exact
    if found is None:
        return "not asked"
    counts = Counter(found.patches)
    partly, unseen = counts.pop(_REGENERATED, 0), counts.pop(_NOT_SEEN, 0)
    stops = sum(counts.pop(what, 0) for what in _STOPS)
    said = f"{sum(counts.values())} of {sum(found.patches.values())} patches"
    said += f" ({', '.join(f'{counts[what]} {what}' for what in sorted(counts))})" if counts else ""
    said += "; of the relocation the Python files" if partly else ""
    return f"{said}; {f'stops: {stops}; ' if stops else ''}not seen: {unseen}"


def _describe_trials(status: ReleaseStatus) -> str:
    """Write a line per tree: stops, seconds, verdict, and how near the tree is to the release."""
    lines = []
    for name, found in sorted(status.trials.items()):
        stops = f"stops: {', '.join(found.stops)}" if found.stops else "0 stops"
        bad = [f"{what} {count}" for what, count in found.faults.items() if count]
        fine = "lint, lists of stage 2 and couplings clean"
        verdict = "" if found.stops else f", {', '.join(bad) or fine}"
        asked = f", {len(found.unasked)} not asked" if found.unasked else ""
        likeness = f"; {found.likeness.partition(':')[0]}" if found.likeness else ""
        lines.append(
            f"{name}: {sum(found.patches.values())} patches, {stops} in {found.seconds:.0f} s{verdict}{asked}{likeness}"
        )
    return "<br>".join(lines) or "not tried"


def _describe_compiled(status: ReleaseStatus) -> str:
    """Of stage 2's own units those that a compiler took, and why it did not take the others."""
    found = status.headers
    if found is None:
        return "nothing"
    refused = [f"{unit}: {error.rpartition('error: ')[2]}" for unit, error in sorted(found.refused.items())]
    said = f"{found.units - len(refused)} of {found.units} own units of stage 2 against the wheel's headers"
    compiler = f"{found.compiler.partition(' ')[0]} {found.compiler.rpartition(' ')[2]}"
    said += f" ({compiler}, C++{found.standard}, CUDA {found.cuda}), syntax alone"
    return said + (f"; not {'; '.join(refused)}" if refused else "")


def _describe_unseen(status: ReleaseStatus) -> str:
    """Say what no command here could look at, by what was recorded of the others."""
    said = []
    if status.exact:
        said.append(
            f"{status.exact.files - status.exact.shown} of the {status.exact.files} files that the series edits, "
            "as this release has them"
        )
    if not (status.stage1 or status.stage2 or status.portable or status.over_official):
        said.append("either stage compiled, linked or imported")
    return "; ".join(said) or "-"


def find_levels(status: ReleaseStatus) -> dict[str, str]:
    """Map each Decouple-Id to what was proven of it.

    It is "built" where both stages were built from the series that is recorded, in the usual environment or as
    portable wheels in which ``decouple verify`` found no fault.
    """
    digest = status.series.digest if status.series else ""
    built = all(stage and stage.series == digest for stage in (status.stage1, status.stage2))
    built = built or any(_is_faultless(wheel, digest) for wheel in status.portable.values())
    return {name: BUILT if built and row.level != NOTHING else row.level for name, row in status.proven.items()}


def _is_faultless(portable: WheelSection, series: str) -> bool:
    """Say whether no check of a portable wheel failed.

    One of them is that torch_cuda was compiled against the core that is beside it.
    """
    verify = portable.verify
    return portable.series == series and bool(verify.checks) and not (verify.failed or verify.faults)


def _sort_newest_first(statuses: Mapping[str, Any]) -> list[str]:
    return sorted(statuses, key=make_version_key, reverse=True)


def _describe_patches(status: ReleaseStatus) -> str:
    series = status.series
    if series is None:
        return "not known"
    return str(series.patches)


def _describe_proofs(status: ReleaseStatus) -> str:
    """Say how many patches were proven how far, the best proof first."""
    counts = Counter(find_levels(status).values())
    ordered = sorted(counts, key=lambda level: _LEVELS.index(level) if level in _LEVELS else len(_LEVELS))
    text = ", ".join(f"{counts[level]} {level}" for level in ordered) or "not checked"
    return text + _describe_other_tree(status.series)


def _describe_other_tree(series: SeriesSection | None) -> str:
    """Describe a series that was carried to a tree that is not the release byte for byte."""
    if series is None or series.made_on is None:
        return ""
    percent, measured, _ = (series.likeness or "").partition(" % official text")
    if (series.likeness or "").startswith("as official"):
        return f"; its tree is {str(series.likeness).partition(':')[0]}"
    percent = percent if measured else ""
    return f"; tried on a tree of which {f'{percent} %' if percent else 'an unknown part'} is the official text"


def _describe_applies(status: ReleaseStatus) -> str:
    """Say on which trees every patch applies, and at how many an offset was needed."""
    if not status.applies:
        return "not checked"
    cells = []
    for source, found in sorted(status.applies.items()):
        bad, offsets = len(found.failed), len(found.offset)
        cells.append(f"{source}: {f'{bad} fail' if bad else 'all'}{f' ({offsets} with an offset)' if offsets else ''}")
    return ", ".join(cells)


def _describe_couplings(status: ReleaseStatus) -> str:
    if not status.census:
        return "not counted"
    others = (f", {word} {one.after} of {one.before}" for word, one in sorted((status.census.vendors or {}).items()))
    return f"{status.census.after} of {status.census.before}{''.join(others)}"


def _describe_earlier_series(status: ReleaseStatus, *stages: StageSection | WheelSection | None) -> str:
    """Describe wheels that another series made than the one that is recorded now."""
    digest = status.series.digest if status.series else ""
    old = digest and any(stage and stage.series != digest for stage in stages)
    return ", of an earlier series" if old else ""


def _describe_stage(status: ReleaseStatus, stage: StageSection | None) -> str:
    if not stage:
        return "not built"
    size, spent = stage.wheel_bytes / (1 << 20), stage.object_seconds
    cost = f"at least {spent / 60 / stage.cores:.0f} min of compiling on {stage.cores} cores, " if spent else ""
    return f"{stage.objects} objects, {cost}{size:.0f} MiB{_describe_earlier_series(status, stage)}"


def _describe_parity(status: ReleaseStatus) -> str:
    names = _describe_names(status.verify)
    return names + _describe_earlier_series(status, status.stage1, status.stage2) if status.verify.parity else names


def _describe_names(verify: VerifySection) -> str:
    found = verify.parity
    if not found:
        return "not checked"
    alike = found.total - found.missing - found.different
    return f"{100 * alike / found.total:.2f} % of {found.total}" + (f", {found.extra} extra" if found.extra else "")


def _describe_kernels(status: ReleaseStatus) -> str:
    """Say how many functions of the official wheel are ours byte for byte.

    The figure is that of the largest part that was compared.
    """
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
        f"<br>Debian's monolith: {one.same} of {one.total}, {one.unexplained} unexplained"
        for label, one in sorted(status.kernels.items())
        if label.endswith(MONOLITH)
    )
    if sample := status.kernels.get(UNPATCHED):
        cell += f"<br>unpatched tree: {sample.same} of {sample.total} in {sample.sources} files"
    return cell


def _describe_suites(status: ReleaseStatus) -> str:
    """Describe upstream's CUDA tests by outcome, torch by torch, and against another build."""
    return "<br>".join(map(_describe_suite_run, _sort_ours_first(status))) or "not run"


def _describe_suite_run(suites: SuitesSection) -> str:
    which = ", ".join(suites.tally) if len(suites.tally) <= 3 else f"{len(suites.tally)} suites"
    against = _describe_comparison(suites)
    return f"{_describe_torch(suites)} ({suites.device}; {which}): {_describe_outcomes(suites)}" + (
        f"; {against}" if against else ""
    )


def _describe_outcomes(suites: SuitesSection) -> str:
    """Count tests by outcome, over all suites of the run."""
    counts = Counter[str]()
    for outcomes in suites.tally.values():
        counts.update(outcomes)
    return ", ".join(f"{counts[name]} {name}" for name in suites.outcomes if counts[name])


def _sort_ours_first(status: ReleaseStatus) -> list[SuitesSection]:
    return sorted(status.suites.values(), key=lambda run: (run.label not in ("", BUILT), run.label))


def _describe_torch(suites: SuitesSection) -> str:
    """Name the torch of a run, so that nobody takes its outcomes for those of our wheels."""
    return suites.label if suites.label not in ("", BUILT) else "our wheels"


def _describe_comparison(suites: SuitesSection) -> str:
    against = suites.against
    if not against:
        return ""
    ledgers = f", {against.loose} of {against.ledgers} ledgers the same" if against.ledgers else ""
    return f"{against.tests - against.outcomes} of {against.tests} not as {against.label}{ledgers}"


def _describe_bindings_wheel(status: ReleaseStatus, wheel: WheelSection | None, kept: str = "untouched") -> str:
    """Compare our bindings over another build's kernels with that build.

    Or our own kernels with it.
    """
    if wheel is None:
        return "not checked"
    bad = len(wheel.verify.failed)
    parts = [
        _describe_names(wheel.verify),
        f"audit {_describe_audit(wheel.verify)}",
        f"{bad} checks FAILED" if bad else "checks ok",
    ]
    if wheel.kernels:
        parts.append(f"{wheel.kernels.same} of {wheel.kernels.total} functions {kept}")
    return ", ".join(parts) + _describe_earlier_series(status, wheel)


def _describe_portable(status: ReleaseStatus) -> str:
    """Write a line per Python and CUDA."""
    lines = [
        f"{label}: {_describe_bindings_wheel(status, wheel, 'the same')}"
        for label, wheel in sorted(status.portable.items())
    ]
    return "<br>".join(lines) or "not checked"


def _describe_audits(status: ReleaseStatus) -> str:
    text = _describe_audit(status.verify)
    return text + _describe_earlier_series(status, status.stage1, status.stage2) if status.verify.audited else text


def _describe_audit(verify: VerifySection) -> str:
    if not verify.audited:
        return "not checked"
    return f"{len(verify.faults)} faults" if verify.faults else f"clean ({verify.audited} files)"


def _describe_patch_checks(status: ReleaseStatus) -> str:
    """Say how many answers are those that they must be, torch by torch.

    What they must be differs with the patches and without.
    """
    parts = []
    for label, trial in sorted(status.patches.items()):
        good, device = trial.answers - len(trial.failed), f"-{trial.device}"
        parts.append(f"{label.removesuffix(device)} ({trial.kind}; {trial.device}): {good} of {trial.answers}")
    return "<br>".join(parts) or "not asked"


def _describe_contract(status: ReleaseStatus) -> str:
    """Count the items that torch_sim keeps on this release, where most could be asked."""
    if not status.contract:
        return "not checked"
    best = max((run.items for run in status.contract.values()), key=lambda items: items.get("supported", 0))
    rest = ", ".join(f"{count} {state}" for state, count in best.items() if state != "supported" and count)
    return f"{best['supported']} of {sum(best.values())}" + (f" ({rest})" if rest else "")


def _describe_builds(status: ReleaseStatus) -> str:
    """Name the systems that both stages were built for."""
    parts = ["both stages on Debian 13"] if status.stage1 and status.stage2 else []
    if status.portable:
        labels = ", ".join(label.replace("-cu", " with CUDA ").replace("py", "Python ") for label in status.portable)
        parts.append(f"portable wheels: {labels}")
    return "; ".join(parts) or "no"


def _describe_tests(status: ReleaseStatus) -> str:
    """Describe upstream's CUDA tests on our wheels and the contract on a simulated backend."""
    ours = [run for run in status.suites.values() if run.label in ("", BUILT)]
    parts = [
        f"upstream's `{'`, `'.join(run.tally)}` suite, {run.device} device: {_describe_outcomes(run)}" for run in ours
    ]
    if status.contract:
        parts.append(f"contract of backends: {_describe_contract(status)}")
    return "; ".join(parts) or "no"


def _describe_differences(status: ReleaseStatus) -> str:
    """Say in one line what a user would notice against the single-stage build."""
    parts = [f"names {_describe_names(status.verify)}"] if status.verify.parity else []
    kernels = _describe_kernels(status).partition("<br>")[0]
    parts += [f"machine code {kernels}"] if kernels != "not compared" else []
    return "; ".join(parts) or "no"


def _describe_age(status: ReleaseStatus) -> str:
    """Say which of the figures were taken with another series than the one that is here."""
    digest = status.series.digest if status.series else ""
    all_sections: dict[str, StageSection | WheelSection | None] = {
        "stage 1": status.stage1, "stage 2": status.stage2, "over official kernels": status.over_official,
        "over Debian's kernels": status.over_installed, **status.portable,
    }  # fmt: skip
    sections = {name: section for name, section in all_sections.items() if section}
    old = [name for name, section in sections.items() if section.series != digest]
    if not sections:
        return ""
    return f"of an earlier series: {', '.join(old)}" if digest and old else "all of this series"


#: docs/rebase.md: of a release without a series of its own, what is known of another's there.
CARRIED: Mapping[str, Callable[[ReleaseStatus], str]] = {
    "on its exact text": _describe_exact,
    "on a tree made for trial": _describe_trials,
    "what a compiler saw": _describe_compiled,
    "what nobody saw": _describe_unseen,
}
#: README's table behind the release: what a column is called, and what stands in it.
SUMMARY: Mapping[str, Callable[[ReleaseStatus], str]] = {
    "patches": _describe_patches,
    "builds": _describe_builds,
    "tested": _describe_tests,
    "compared with the single-stage build": _describe_differences,
    "how old": _describe_age,
}
#: docs/proofs.md: what a row is called, and what stands in it. A new proof is a row here.
COLUMNS: Mapping[str, Callable[[ReleaseStatus], str]] = {
    "patches": _describe_patches,
    "proven": _describe_proofs,
    "apply to": _describe_applies,
    "couplings left": _describe_couplings,
    "stage 1": lambda status: _describe_stage(status, status.stage1),
    "stage 2": lambda status: _describe_stage(status, status.stage2),
    "parity with Debian's monolith": _describe_parity,
    "kernels identical to the official": _describe_kernels,
    "over the official kernels": lambda status: _describe_bindings_wheel(status, status.over_official),
    "over Debian's kernels on its CPU torch": lambda status: _describe_bindings_wheel(status, status.over_installed),
    "portable wheels against the official": _describe_portable,
    "CUDA suites": _describe_suites,
    "patches' own checks": _describe_patch_checks,
    "ELF audit": _describe_audits,
    "contract of backends": _describe_contract,
}
