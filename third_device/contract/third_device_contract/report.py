"""Draw the report card of what holds, lacks or is broken: terminal, JSON, page."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef, import-not-found]

SUPPORTED, BROKEN, MISSING, GAP, ELSEWHERE = "supported", "broken", "missing", "upstream gap", "elsewhere"
_SIGNS = {SUPPORTED: "ok", BROKEN: "BROKEN", MISSING: "missing", GAP: "gap", ELSEWHERE: "elsewhere"}
_GAP = "upstream lacks: "  # what the reason of a test that met a gap begins with
_ELSEWHERE = "elsewhere: "  # and of one that others run; it counts where nothing of its item passed here
_OPTIONAL = "optional: "  # and of one that runs where it is asked for, or of what a backend may lack; the others tell


@dataclasses.dataclass(frozen=True)
class Item:
    """One item of the contract."""

    number: int
    group: str
    title: str
    where: str
    elsewhere: str = ""  # who checks it, if not these tests


@dataclasses.dataclass
class Result:
    """A test's outcome (passed, failed, skipped), the reason, and its own ``note``."""

    test: str
    outcome: str
    reason: str
    note: str = ""


@dataclasses.dataclass
class Outcomes:
    """What the tests of a run said, by item."""

    items: dict[int, Item]
    seen: dict[int, list[Result]] = dataclasses.field(default_factory=dict)

    def add(self, number: int, test: str, outcome: str, reason: str, note: str = "") -> None:
        """Note one test's outcome."""
        self.seen.setdefault(number, []).append(Result(test, outcome, reason, note))

    def status(self, number: int) -> tuple[str, str]:
        """Return an item's status and the reason for it."""
        seen = self.seen.get(number, [])
        results = [result for result in seen if not result.reason.startswith(_OPTIONAL)] or seen
        skipped = [result.reason for result in results if result.outcome == "skipped"]
        for reasons, status in (
            ([result.reason for result in results if result.outcome == "failed"], BROKEN),
            ([reason for reason in skipped if not reason.startswith((_GAP, _ELSEWHERE))], MISSING),
            ([reason for reason in skipped if reason.startswith(_GAP)], GAP),
            (skipped if len(skipped) == len(results) else [], ELSEWHERE),
        ):
            if reasons:
                return status, "; ".join(dict.fromkeys(reasons))
        if results:
            return SUPPORTED, "; ".join(result.note for result in results if result.note)
        elsewhere = self.items[number].elsewhere
        return (ELSEWHERE, elsewhere) if elsewhere else (MISSING, "no test of this run covers it")

    def rows(self) -> Iterator[tuple[Item, str, str]]:
        """Every item with its status and reason, in the contract's order."""
        for number in sorted(self.items):
            yield self.items[number], *self.status(number)


def load_items() -> dict[int, Item]:
    """Load the contract as data, by number."""
    text = resources.files("third_device_contract").joinpath("items.toml").read_text(encoding="utf-8")
    found = [
        Item(entry["id"], entry["group"], entry["title"], entry["where"], entry.get("elsewhere", ""))
        for entry in tomllib.loads(text)["item"]
    ]
    return {item.number: item for item in found}


def load_gaps() -> dict[str, str]:
    """Load what upstream lacks, by key, as the reason of a test that meets it."""
    text = resources.files("third_device_contract").joinpath("items.toml").read_text(encoding="utf-8")
    return {entry["key"]: f"{_GAP}{entry['lacks']}; {entry['where']}" for entry in tomllib.loads(text)["gap"]}


def as_lines(outcomes: Outcomes) -> Iterator[str]:
    """Yield the lines of the card for a terminal."""
    group = ""
    for item, status, reason in sorted(outcomes.rows(), key=lambda row: (_order(row[0].group), row[0].number)):
        if item.group != group:
            group = item.group
            yield group
        note = f"  ({reason})" if reason else ""
        yield f"  {item.number:>2} {_SIGNS[status]:<9} {item.title}{note}"
    counts = _counts(outcomes)
    yield ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def _order(group: str) -> int:
    groups = ("Registration and loading", "Runtime", "Memory", "Operators", "Data", "Ecosystem")
    return groups.index(group) if group in groups else len(groups)


def _counts(outcomes: Outcomes) -> dict[str, int]:
    statuses = [status for _, status, _ in outcomes.rows()]
    return {status: statuses.count(status) for status in _SIGNS}


def write(outcomes: Outcomes, device: str, folder: Path, exit_status: int = 0) -> list[Path]:
    """Write ``contract.json`` and ``contract.html`` into ``folder``.

    ``exit_status`` is pytest's: one that was interrupted has tried a part. Returns both paths. Raises OSError.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "device": device,
        "torch": torch.__version__,
        "exit_status": exit_status,
        "counts": _counts(outcomes),
        "items": [
            {
                **dataclasses.asdict(item),
                "status": status,
                "reason": reason,
                "tests": [dataclasses.asdict(result) for result in outcomes.seen.get(item.number, [])],
            }
            for item, status, reason in outcomes.rows()
        ],
    }
    paths = [folder / "contract.json", folder / "contract.html"]
    paths[0].write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    paths[1].write_text(_page(outcomes, device, torch.__version__), encoding="utf-8")
    return paths


def _page(outcomes: Outcomes, device: str, torch_version: str) -> str:
    colours = {SUPPORTED: "#1a7f37", BROKEN: "#cf222e", MISSING: "#9a6700", GAP: "#8250df", ELSEWHERE: "#57606a"}
    rows = "\n".join(
        f"<tr><td>{item.number}<td>{html.escape(item.group)}<td>{html.escape(item.title)}"
        f'<td style="color:{colours[status]}">{status}<td>{html.escape(reason)}'
        f"<td><code>{html.escape(item.where)}</code>"
        for item, status, reason in outcomes.rows()
    )
    counts = ", ".join(f"{count} {status}" for status, count in _counts(outcomes).items() if count)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Contract: {html.escape(device)}</title>
<style>
body{{font:14px/1.5 system-ui,sans-serif;margin:2rem}} table{{border-collapse:collapse}}
td,th{{border-bottom:1px solid #d0d7de;padding:.3rem .6rem;text-align:left;vertical-align:top}}
</style>
<h1>{html.escape(device)} on torch {html.escape(torch_version)}</h1>
<p>{counts}</p>
<table><tr><th>#<th>Group<th>PyTorch expects<th>Status<th>Why<th>Upstream
{rows}
</table></html>
"""
