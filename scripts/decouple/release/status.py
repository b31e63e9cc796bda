"""``ci/status/<release>.json``: what was built and verified. Only this module writes it; README shows it as a table."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decouple.base.errors import DecoupleError
from decouple.base.files import locked, replace_between, write_atomically

SCHEMA = 1
STAGES = ("stage1", "stage2")
BUILT = "built"
NOTHING = "not proven"
#: Best first: decouple.series.evidence.Level, which writes all but the first.
_LEVELS = (
    BUILT, "configured", "applied to the full tree", "applied to the touched files", "Python only", NOTHING,
)  # fmt: skip
BEGIN, END = "<!-- status:begin -->", "<!-- status:end -->"


def path_of(project: Path, release: str) -> Path:
    """The status file of one release."""
    return project / "ci" / "status" / f"{release}.json"


def read(path: Path) -> dict[str, Any]:
    """The document, an empty one when there is no file. Raises DecoupleError when it is not ours."""
    if not path.exists():
        return {"schema": SCHEMA}
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DecoupleError(f"{path}: not JSON: {error}", next_step="git checkout it, or delete it") from error
    if found.get("schema") != SCHEMA:
        raise DecoupleError(
            f"{path}: schema: expected {SCHEMA}, found {found.get('schema')!r}",
            next_step="update decouple, or git checkout it",
        )
    return found


def update(path: Path, section: str, content: Mapping[str, Any]) -> None:
    """Replace one section ("stage1", "stage2", "verify", "contract"); the others stay as they are."""
    with locked(path.with_name(f".{path.name}.lock")):
        document = read(path)
        document[section] = dict(content)
        write_atomically(path, _text(document))


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def effort(taken: Mapping[str, Any]) -> dict[str, Any]:
    """Wall seconds, objects compiled and objects from the compiler's cache, as they stand in the file."""
    return {**taken, "seconds": round(taken["seconds"], 1)}


def with_costliest(path: Path, section: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """``content`` of a stage, its ``object_seconds`` being the largest recorded: the nearest to a cold build's.

    Building again on a warm compiler cache says little about what the stage costs.
    """
    before = read(path).get(section, {}).get("object_seconds", 0.0)
    return {**content, "object_seconds": round(max(before, content["object_seconds"]), 1)}


def table(statuses: Mapping[str, Mapping[str, Any]]) -> str:
    """README's Markdown table: newest release first; neighbours of which the status files say the same share a row."""
    lines = [
        "| release | patches | proven | apply to | couplings left | stage 1 | stage 2 | parity with the monolith "
        "| kernels identical to the official | CUDA suites | ELF audit | contract of backends |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cells, same in itertools.groupby(_newest_first(statuses), lambda release: _cells(statuses[release])):
        releases = list(same)
        named = releases[0] if len(releases) == 1 else f"{releases[-1]} to {releases[0]}"
        lines.append(f"| {' | '.join([named, *cells])} |")
    return "\n".join(lines) + "\n"


def _cells(status: Mapping[str, Any]) -> tuple[str, ...]:
    """What stands behind the release in a row of the table."""
    verify = status.get("verify", {})
    return (
        _patches(status.get("series", {})),
        _proven(status),
        _applies(status.get("applies")),
        _couplings(status.get("census")),
        _stage(status.get("stage1")),
        _stage(status.get("stage2")),
        _parity(verify),
        _kernels(verify),
        _suites(status.get("suites")),
        _audit(verify),
        _contract(status.get("contract")),
    )


def matrix(statuses: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown table of what was proven: a row per patch (by Decouple-Id), a column per release, oldest first."""
    releases = list(reversed(_newest_first(statuses)))
    found = {release: levels(statuses[release]) for release in releases}
    first: dict[str, str] = {}
    for release in releases:
        for identity, row in statuses[release].get("proven", {}).items():
            first.setdefault(identity, str(row["patch"]))
    lines = [f"| patch | {' | '.join(releases)} |", f"|---{'|---' * len(releases)}|"]
    for identity in sorted(first, key=lambda name: first[name].rsplit("/", 1)[-1]):
        cells = [found[release].get(identity, "not in the series") for release in releases]
        lines.append(f"| {identity} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def levels(status: Mapping[str, Any]) -> dict[str, str]:
    """Decouple-Id -> what was proven: "built" where both stages were built from the series that is recorded."""
    digest = status.get("series", {}).get("digest")
    built = all(status.get(stage) and status[stage].get("series") == digest for stage in STAGES)
    rows: Mapping[str, Mapping[str, str]] = status.get("proven", {})
    return {identity: BUILT if built and row["level"] != NOTHING else row["level"] for identity, row in rows.items()}


def _newest_first(statuses: Mapping[str, Any]) -> list[str]:
    return sorted(statuses, key=lambda name: [int(part) for part in name.split(".")], reverse=True)


def _patches(series: Mapping[str, Any]) -> str:
    if "patches" not in series:
        return "not known"
    lacking = series.get("not_carried", 0)
    return f"{series['patches']} of {series['patches'] + lacking}" if lacking else str(series["patches"])


def _proven(status: Mapping[str, Any]) -> str:
    """How many patches were proven how far, the best proof first."""
    counts = Counter(levels(status).values())
    ordered = sorted(counts, key=lambda level: _LEVELS.index(level) if level in _LEVELS else len(_LEVELS))
    return ", ".join(f"{counts[level]} {level}" for level in ordered) or "not checked"


def insert_table(page: Path, text: str, *, write: bool = True) -> bool:
    """Put the table between the page's markers; returns whether it differed. Raises DecoupleError without any."""
    return replace_between(page, BEGIN, END, text, write=write)


def _applies(applies: Mapping[str, Any] | None) -> str:
    """On which trees every patch applies, and at how many an offset was needed."""
    if not applies:
        return "not checked"
    cells = []
    for source in applies["sources"]:
        found = [patch.get(source) for patch in applies["patches"].values()]
        offsets = found.count("offset")
        bad = len(found) - found.count("clean") - offsets
        cells.append(f"{source}: {f'{bad} fail' if bad else 'all'}{f' ({offsets} with an offset)' if offsets else ''}")
    return ", ".join(cells)


def _couplings(census: Mapping[str, Any] | None) -> str:
    return f"{census['after']} of {census['before']}" if census else "not counted"


def _stage(stage: Mapping[str, Any] | None) -> str:
    if not stage:
        return "not built"
    size = stage["wheel_bytes"] / (1 << 20)
    spent = stage.get("object_seconds")  # the first builds did not record it
    cost = f"at least {spent / 60 / stage['cores']:.0f} min of compiling on {stage['cores']} cores, " if spent else ""
    return f"{stage['objects']} objects, {cost}{size:.0f} MiB"


def _parity(verify: Mapping[str, Any]) -> str:
    found = verify.get("parity")
    if not found:
        return "not checked"
    total = sum(one["total"] for one in found)
    short = sum(len(one["missing"]) + len(one["different"]) for one in found)
    extra = sum(len(one["extra"]) for one in found)
    return f"{100 * (total - short) / total:.2f} % of {total}" + (f", {extra} extra" if extra else "")


def _kernels(verify: Mapping[str, Any]) -> str:
    """How many functions of the official wheel are ours byte for byte, where the two were compared."""
    found = verify.get("kernels")
    if not found or not str(found["theirs"]).startswith("official"):
        return "not compared"
    rest = ", ".join(f"{found[what]} {what}" for what in ("missing", "extra") if found[what])
    percent = 100 * found["same"] / found["total"]  # cut, not rounded: 100.00 only when all are
    share = f"{int(100 * percent) / 100:.2f} % of {found['total']} ({', '.join(found['archs'])})"
    return share + (f", {rest}" if rest else "")


def _suites(suites: Mapping[str, Any] | None) -> str:
    """Upstream's CUDA tests by outcome, on which device, and how many ended otherwise than on the other build."""
    if not suites:
        return "not run"
    counts = Counter[str]()
    for one in suites["tally"].values():
        counts.update(one)
    said = ", ".join(f"{counts[name]} {name}" for name in suites["outcomes"] if counts[name])
    cell = f"{said} ({suites['device']})"
    if against := suites.get("against"):
        cell += f"; {against['tests'] - against['outcomes']} of {against['tests']} not as {against['label']}"
    return cell


def _audit(verify: Mapping[str, Any]) -> str:
    found = verify.get("audit")
    if not found:
        return "not checked"
    faults = sum(len(one["faults"]) for one in found)
    # every rule looks at the libraries anew, the last ones at those of both wheels
    return f"{faults} faults" if faults else f"clean ({max(one['files'] for one in found)} files)"


def _contract(contract: Mapping[str, Any] | None) -> str:
    """The items that torch_sim keeps on this release, where most of them could be asked."""
    if not contract:
        return "not checked"
    best = max((run["items"] for run in contract.values()), key=lambda items: int(items.get("supported", 0)))
    rest = ", ".join(f"{count} {status}" for status, count in best.items() if status != "supported" and count)
    return f"{best['supported']} of {sum(best.values())}" + (f" ({rest})" if rest else "")
