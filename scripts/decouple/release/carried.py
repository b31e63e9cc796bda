"""Describe how a series fits a release that has none of its own: docs/rebase.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from decouple.release.status import CarriedTrialSection, ReleaseStatus

CHECKS = ("lint", "stage2-sources", "couplings")
"""What the verdict on a carried series asks (decouple.flows.verdict)."""

#: Of decouple.rebase.verdicts.Verdict: the relocation, of which a wheel shows Python files; nothing known; a stop.
_REGENERATED, _NOT_SEEN, _STOPS = "regenerated", "not seen", ("ambiguous", "conflict", "target gone")


def describe_carried(status: ReleaseStatus) -> dict[str, str]:
    """Say by column of :data:`CARRIED` how far a series was seen; else nothing."""
    if not (status.exact or status.trials or status.headers):
        return {}
    return {name: cell(status) for name, cell in CARRIED.items()}


def list_refused(statuses: Mapping[str, ReleaseStatus]) -> list[str]:
    """List the units that a compiler refused: each with its error and the releases."""
    releases: dict[str, list[str]] = {}
    for release, status in statuses.items():
        for unit, error in status.headers.refused.items() if status.headers else ():
            releases.setdefault(f"`{unit}`: {_shorten_error(error)}", []).append(release)
    return [f"{said} (on {', '.join(found)})" for said, found in sorted(releases.items())]


def _describe_exact(status: ReleaseStatus) -> str:
    """Say what the official wheel proved; a patch counts only where all is shown."""
    found = status.exact
    if found is None:
        return "not asked"
    counts = Counter(found.patches)
    partly, unseen = counts.pop(_REGENERATED, 0), counts.pop(_NOT_SEEN, 0)
    stops = sum(counts.pop(what, 0) for what in _STOPS)
    said = f"{sum(counts.values())} of {sum(found.patches.values())} patches"
    said += f" ({', '.join(f'{counts[what]} {what}' for what in sorted(counts))})" if counts else ""
    said += ", the relocation's Python files" if partly else ""
    return f"{said}; {f'stops: {stops}; ' if stops else ''}not seen: {unseen}"


def _describe_trials(status: ReleaseStatus) -> str:
    """Write a line per tree: stops, seconds, verdict, and likeness to the release."""
    lines = []
    for name, found in sorted(status.trials.items()):
        stops = f"stops: {', '.join(found.stops)}" if found.stops else "0 stops"
        verdict = "" if found.stops else f", {_describe_faults(found)}"
        parts = len(found.unasked) - len(_list_unanswered(found))
        asked = f", {parts} not asked" if parts else ""
        likeness = f"; {found.likeness.partition(':')[0]}" if found.likeness else ""
        lines.append(
            f"{name}: {sum(found.patches.values())} patches, {stops} in {found.seconds:.0f} s{verdict}{asked}{likeness}"
        )
    return "<br>".join(lines) or "not tried"


def _describe_faults(trial: CarriedTrialSection) -> str:
    """Say what the checks found; "clean" where each was asked and found nothing."""
    bad = [f"{what} {count}" for what, count in trial.faults.items() if count]
    bad += [f"{check} not asked" for check in _list_unanswered(trial)]
    vendors = f" ({', '.join(trial.vendors)})" if trial.vendors else ""
    return f"{', '.join(bad) or 'clean'}{vendors}"


def _list_unanswered(trial: CarriedTrialSection) -> list[str]:
    """List the checks that gave no answer, not those of which a part was unasked."""
    return [] if trial.stops else [check for check in CHECKS if check not in trial.faults]


def _describe_compiled(status: ReleaseStatus) -> str:
    """Say how many of stage 2's own units a compiler took."""
    found = status.headers
    if found is None:
        return "nothing"
    compiler = f"{found.compiler.partition(' ')[0]} {found.compiler.rpartition(' ')[2]}"
    said = f"{found.units - len(found.refused)} of {found.units} units"
    return f"{said} ({compiler}, C++{found.standard}, CUDA {found.cuda})"


def _shorten_error(error: str) -> str:
    """Shorten a compiler's line to what it says; of an absent header, to its name."""
    said = error.rpartition("error: ")[2]
    header = said.removesuffix(": No such file or directory")
    return said if header == said else f"no {header}"


def _describe_unseen(status: ReleaseStatus) -> str:
    """Say what no command here could look at, by what was recorded of the others."""
    said = []
    if status.exact:
        said.append(f"{status.exact.files - status.exact.shown} of {status.exact.files} edited files")
    if not (status.stage1 or status.stage2 or status.portable or status.over_official):
        said.append("a stage built")
    return "; ".join(said) or "-"


#: docs/rebase.md: of a release without a series of its own, what is known of another's there.
CARRIED: Mapping[str, Callable[[ReleaseStatus], str]] = {
    "on its exact text": _describe_exact,
    "on a tree made for trial": _describe_trials,
    "what a compiler saw": _describe_compiled,
    "what nobody saw": _describe_unseen,
}
