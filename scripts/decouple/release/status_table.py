"""Render what ``ci/status`` says as Markdown.

The tables are README's summary, every proof, every patch, every suite. A row of the first table of docs/proofs.md is
one of :data:`decouple.release.proofs.PROOFS`, rows of README's table that belong together one of :data:`SUMMARY`, and
a column of docs/rebase.md's one of :data:`decouple.release.carried.CARRIED`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from decouple.base.checkout import make_version_key
from decouple.release import carried, proofs
from decouple.release.status import ReleaseStatus


def summarize_releases(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return README's table: rows for each release, newest first, made of its proofs.

    Neighbours of which the same is known share their rows. What stands in the row above is not said again.
    """
    rows = {release: proofs.list_proof_rows(status) for release, status in statuses.items()}
    return _format_table(("release", "what", "result"), _list_summary_rows(rows))


def _list_summary_rows(listed: Mapping[str, Sequence[proofs.ProofRow]]) -> Iterator[tuple[str, str, str]]:
    for releases, told in _group_releases(listed):
        for what, results in zip(SUMMARY, told, strict=True):
            for result in results:
                yield releases, what, result
                releases = what = ""


def _format_table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [titles, *rows]
    text = [f"| {' | '.join(cells)} |\n" for cells in lines]
    return "".join([text[0], f"|{'---|' * len(titles)}\n", *text[1:]])


def tabulate_proofs(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of docs/proofs.md.

    It has a line per proof, release after release, newest first.
    """
    rows = [
        (
            name, row.name, f"`{row.command.format(release=name)}`", row.date, row.short_series, row.figure,
            row.full_verdict,
        )
        for name in _sort_newest_first(statuses)
        for row in proofs.list_proof_rows(statuses[name])
    ]  # fmt: skip
    return _format_table(("release", "proof", "command", "date", "series", "figure", "verdict"), rows)


def _group_releases(listed: Mapping[str, Sequence[proofs.ProofRow]]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each release with what each of :data:`SUMMARY` tells of it.

    Releases come newest first, then series with names of their own. Neighbours of which the same is told are one:
    ``2.7 to 2.15``.
    """

    def summarize_release(release: str) -> tuple[str, list[list[str]]]:
        released, _, name = make_version_key(release)
        return "" if released else name, [summarize(listed[release]) for summarize in SUMMARY.values()]

    for (_, told), same in itertools.groupby(_sort_newest_first(listed), summarize_release):
        releases = list(same)
        yield releases[0] if len(releases) == 1 else f"{releases[-1]} to {releases[0]}", told


def render_patch_matrix(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the Markdown table of what was proven.

    It has a row per patch (by Decouple-Id), one for all where the same was proven of each, and a column per release,
    oldest first.
    """
    releases = list(reversed(_sort_newest_first(statuses)))
    levels = {release: proofs.find_levels(statuses[release]) for release in releases}
    first: dict[str, str] = {}
    for release in releases:
        for identity, row in statuses[release].proven.items():
            first.setdefault(identity, row.patch)
    rows = [
        [identity, *(levels[release].get(identity, "not in the series") for release in releases)]
        for identity in sorted(first, key=lambda name: first[name].rsplit("/", 1)[-1])
    ]
    if len(rows) > 1 and len({tuple(cells) for _, *cells in rows}) == 1:
        rows = [[f"each of {len(rows)}", *rows[0][1:]]]
    return _format_table(["patch", *releases], rows)


def render_suites(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of upstream's CUDA suites, newest release first.

    It has a row per torch, one for those whose suites all ended alike.
    """
    runs = [
        (release, run) for release in _sort_newest_first(statuses) for run in proofs.sort_ours_first(statuses[release])
    ]
    outcomes = list(dict.fromkeys(name for _, run in runs for name in run.outcomes))
    alike: dict[tuple[str, str], list[str]] = {}
    for release, run in runs:
        counted = [
            f"{suite} {'/'.join(str(tally.get(name, 0)) for name in outcomes)}"
            for suite, tally in sorted(run.tally.items())
        ]
        alike.setdefault((release, ", ".join(counted)), []).append(f"{proofs.describe_torch(run)} ({run.device})")
    rows = [(release, ", ".join(torches), counted) for (release, counted), torches in alike.items()]
    return _format_table(("release", "torch", f"of each suite: {'/'.join(outcomes)}"), rows)


def tabulate_carried(statuses: Mapping[str, ReleaseStatus]) -> str:
    """Return the table of docs/rebase.md, then the units that its compilers refused."""
    ordered = {release: statuses[release] for release in reversed(_sort_newest_first(statuses))}
    told = {release: carried.describe_carried(status) for release, status in ordered.items()}
    table = _format_table(
        ["release", *carried.CARRIED], ([release, *said.values()] for release, said in told.items() if said)
    )
    refused = [f"* {line}\n" for line in carried.list_refused(ordered)]
    return table + "".join(["\nWhat the compiler refused:\n\n", *refused] if refused else [])


def _sort_newest_first(statuses: Mapping[str, Any]) -> list[str]:
    return sorted(statuses, key=make_version_key, reverse=True)


def _summarize_patches(rows: Sequence[proofs.ProofRow]) -> list[str]:
    return [row.figure for row in rows if row.name == proofs.PATCHES]


def _summarize_builds(rows: Sequence[proofs.ProofRow]) -> list[str]:
    """Name the systems that both stages were built for, each with what changed since."""
    stages = [row for row in rows if row.name in proofs.STAGES and row.verdict]
    built = [_say_since("both stages on Debian 13", stages)] if len(stages) == len(proofs.STAGES) else []
    for row in _select_rows(rows, proofs.PORTABLE):
        label = _cut_label(row).replace("-cu", " with CUDA ").replace("py", "Python ")
        built.append(_say_since(f"portable wheels: {label}", [row]))
    return built or ["no"]


def _summarize_tests(rows: Sequence[proofs.ProofRow]) -> list[str]:
    """Say how upstream's CUDA tests, the contract and bare systems ended.

    The tests ran on our wheels, the contract on our core with a simulated backend.
    """
    suites = [row for row in _select_rows(rows, proofs.SUITES) if _cut_label(row).startswith(f"{proofs.OURS} (")]
    contract = [row for row in _select_rows(rows, proofs.CONTRACT) if _cut_label(row).split(" ")[0] == proofs.CORE]
    parts = [(f"upstream's suites, {_cut_label(row).removeprefix(proofs.OURS).strip(' ()')}: ", row) for row in suites]
    parts += [("contract of backends on our core: ", row) for row in contract]
    return [*_list_figures(parts), *_summarize_systems(_select_rows(rows, proofs.SYSTEMS))] or ["no"]


def _summarize_systems(rows: Sequence[proofs.ProofRow]) -> Iterator[str]:
    """Say how the wheels did on bare systems; those that did alike are told together."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        alike.setdefault(_say_since(row.figure, [row]), []).append(_cut_label(row))
    return (f"wheels on {', '.join(systems)}: {result}" for result, systems in alike.items())


def _summarize_differences(rows: Sequence[proofs.ProofRow]) -> list[str]:
    """Say what users would notice against the single-stage build.

    Of the comparisons of machine code the largest, and each in which something has no reason.
    """
    names = _select_rows(rows, proofs.PARITY)
    code = [
        row
        for row in _select_rows(rows, proofs.KERNELS)
        if _cut_label(row) == proofs.OFFICIAL
        or (_cut_label(row).startswith(f"{proofs.OFFICIAL} (") and row.verdict == proofs.DIFFERS)
    ]
    return _list_figures([*(("names ", row) for row in names), *(("machine code ", row) for row in code)]) or ["no"]


def _summarize_age(rows: Sequence[proofs.ProofRow]) -> list[str]:
    """Say which of the proofs are of another series than the one that is here."""
    known = [row for row in rows if row.verdict]
    old = [row for row in known if row.since is not None]
    if not any(row.series not in ("", "none") for row in known):
        return []
    if not old:
        return ["all of this series"]
    kinds = ", ".join(dict.fromkeys(row.name.partition(":")[0] for row in old))
    return [f"{len(old)} of {len(known)} proofs are older than today's patches: {kinds}"]


def _select_rows(rows: Sequence[proofs.ProofRow], kind: str) -> list[proofs.ProofRow]:
    """Select the proofs of a kind, which have a verdict."""
    return [row for row in rows if row.name.partition(":")[0] == kind and row.verdict]


def _cut_label(row: proofs.ProofRow) -> str:
    return row.name.partition(": ")[2]


def _list_figures(parts: Sequence[tuple[str, proofs.ProofRow]]) -> list[str]:
    """List figures, each with what it is of before and what changed since behind it."""
    return [_say_since(f"{what}{row.figure}", [row]) for what, row in parts]


def _say_since(text: str, rows: Sequence[proofs.ProofRow]) -> str:
    """Add what changed after the oldest of the proofs that ``text`` is made of."""
    old = min((row for row in rows if row.since is not None), key=lambda row: row.date, default=None)
    return f"{text} ({proofs.SINCE} {old.since})" if old else text


#: README's table behind the release: what rows are of, and what the proofs give for them, a row each.
SUMMARY: Mapping[str, Callable[[Sequence[proofs.ProofRow]], list[str]]] = {
    "patches": _summarize_patches,
    "builds": _summarize_builds,
    "tested": _summarize_tests,
    "compared with the single-stage build": _summarize_differences,
    "how old": _summarize_age,
}
