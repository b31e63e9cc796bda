"""Record what runs of the contract found, and tabulate it.

The table for ``docs/backends.md`` has a record for each PyTorch.

`record_run` takes the folder that ``--contract-report`` named, and writes ``ci/status/contract/2.13.0+cpu.json``; of
another backend than the template ``torch_acme-2.13.0+cpu.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from packaging.version import Version

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import replace_sections, write_atomically
from decouple.base.toml import format_restore
from decouple.device.contract import SIMULATED
from decouple.device.items import PAGE
from decouple.release.status import render_document

FOLDER = Path("ci/status/contract")


class RunRecord(Struct, frozen=True):
    """One run: items by status, tests by outcome; items with a gap or without a test."""

    device: str
    torch: str
    items: Mapping[str, int]
    tests: Mapping[str, int]
    gaps: tuple[int, ...]
    untried: tuple[int, ...] = ()


def read_report(folder: Path) -> RunRecord:
    """Read the run whose ``contract.json`` is in ``folder``.

    Raises UsageError when there is none, and where pytest ended for another reason than failed tests.
    """
    path = folder / "contract.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        tests = {test["test"]: test["outcome"] for item in document["items"] for test in item["tests"]}
        gaps = [item["number"] for item in document["items"] if item["status"] == "upstream gap"]
        untried = [item["number"] for item in document["items"] if item["status"] == "missing" and not item["tests"]]
        items = {status: count for status, count in document["counts"].items() if count}
        code = int(document.get("exit_status", 0))  # reports of an earlier version of the contract have none
        run = RunRecord(
            document["device"], document["torch"], items, dict(Counter(tests.values())), tuple(gaps), tuple(untried)
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"{path}: not a report of the contract ({error})",
            next_step="name the folder that the contract wrote its report to",
        ) from None
    if code and not (code == 1 and run.tests.get("failed")):
        raise UsageError(
            f"{path}: pytest ended that run with exit status {code}, so it is no whole one",
            next_step="read what pytest said, and run the contract again",
        )
    return run


def record_run(project: Path, folder: Path) -> Path:
    """Keep the run of ``folder`` in ``ci/status/contract``.

    It takes the place of an earlier one of that backend on that PyTorch. Raises UsageError as `read_report` does, and
    for a run of a part of the contract.
    """
    run = read_report(folder)
    if run.untried:
        numbers = ", ".join(map(str, run.untried))
        raise UsageError(
            f"{folder}: no test of the run is for items {numbers}", next_step="run the contract without -k"
        )
    backend = "" if run.device == SIMULATED else f"torch_{run.device}-"
    path = project / FOLDER / f"{backend}{run.torch}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render_document(msgspec.to_builtins(run)))
    return path


def read_runs(project: Path) -> list[RunRecord]:
    """Return all runs that were kept, the newest PyTorch first.

    Raises DecoupleError for a file that is not one.
    """
    runs = []
    for path in sorted((project / FOLDER).glob("*.json")):
        try:
            runs.append(msgspec.json.decode(path.read_bytes(), type=RunRecord))
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise DecoupleError(
                f"{path}: {error}", next_step=f"{format_restore(path)}, or record the run again"
            ) from None
    return sorted(runs, key=lambda run: Version(run.torch), reverse=True)


def format_table(runs: Sequence[RunRecord]) -> str:
    """Format the runs as Markdown, a row for each."""
    lines = [
        "| PyTorch | backend | passed | skipped | failed | items supported | gaps of upstream | broken | not tried |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        gaps = f"{len(run.gaps)}: {', '.join(map(str, run.gaps))}" if run.gaps else "0"
        counts = [run.tests.get(outcome, 0) for outcome in ("passed", "skipped", "failed")]
        rest = [run.items.get(status, 0) for status in ("broken", "missing")]
        cells = [run.torch, f"torch_{run.device}", *counts, run.items.get("supported", 0), gaps, *rest]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def insert_table(project: Path, *, write: bool) -> bool:
    """Put the table between the page's markers; return whether it differed.

    Raises DecoupleError without any markers.
    """
    return replace_sections(project / PAGE, {"contract-runs": format_table(read_runs(project))}, write=write)
