"""What runs of the contract found, kept and shown by the tool."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_project
from decouple.device import runs


def report(folder: Path, torch: str, statuses: list[str], device: str = "sim") -> Path:
    """A report of items with these statuses, a test for each but those that are "untried"."""
    outcomes = {"supported": "passed", "upstream gap": "skipped", "broken": "failed", "missing": "skipped"}
    items = [
        {
            "number": n,
            "status": "missing" if status == "untried" else status,
            "tests": [{"test": f"t{n}", "outcome": outcomes[status]}] if status in outcomes else [],
        }
        for n, status in enumerate(statuses, 1)
    ]
    counts = {status: statuses.count(status) for status in outcomes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "contract.json").write_text(
        json.dumps({"device": device, "torch": torch, "counts": counts, "items": items})
    )
    return folder


def test_runs_are_kept_for_each_pytorch_and_shown_newest_first(tmp_path: Path) -> None:
    for torch in ("2.6.0+debian", "2.15.0+cu132", "2.13.0+cpu"):
        runs.record_run(tmp_path, report(tmp_path / "report", torch, ["supported", "upstream gap", "missing"]))
    runs.record_run(tmp_path, report(tmp_path / "report", "2.13.0+cpu", ["supported", "supported", "broken"]))
    found = runs.read_runs(tmp_path)
    assert [run.torch for run in found] == ["2.15.0+cu132", "2.13.0+cpu", "2.6.0+debian"]
    newest, replaced, _ = runs.format_table(found).splitlines()[2:]
    assert newest == "| 2.15.0+cu132 | torch_sim | 1 | 2 | 0 | 1 | 1: 2 | 0 | 1 |"
    assert replaced == "| 2.13.0+cpu | torch_sim | 2 | 0 | 1 | 2 | 0 | 1 | 0 |"


def test_a_vendor_s_run_is_a_row_beside_the_template_s(tmp_path: Path) -> None:
    for device, last in (("sim", "supported"), ("acme", "supported"), ("acme", "broken")):
        runs.record_run(tmp_path, report(tmp_path / "report", "2.13.0+cpu", ["supported", last], device))
    rows = runs.format_table(runs.read_runs(tmp_path)).splitlines()[2:]
    assert sorted(row.split(" | ")[1:5] for row in rows) == [
        ["torch_acme", "1", "0", "1"],
        ["torch_sim", "2", "0", "0"],
    ]


def test_a_run_of_a_part_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="items 3"):
        runs.record_run(tmp_path, report(tmp_path / "report", "2.6.0", ["supported", "missing", "untried"]))
    with pytest.raises(UsageError, match="not a report"):
        runs.record_run(tmp_path, tmp_path)
    (tmp_path / runs.FOLDER).mkdir(parents=True)
    (tmp_path / runs.FOLDER / "2.6.0.json").write_text("{}")
    with pytest.raises(DecoupleError, match=r"2\.6\.0\.json"):
        runs.read_runs(tmp_path)


def test_a_run_that_pytest_broke_off_is_not_kept(tmp_path: Path) -> None:
    """Ctrl-C leaves a report in which each item may have a test that passed."""
    path = report(tmp_path / "report", "2.6.0", ["supported", "broken"]) / "contract.json"
    for code, kept in ((1, True), (2, False), (3, False)):
        path.write_text(json.dumps({**json.loads(path.read_text()), "exit_status": code}))
        with contextlib.nullcontext() if kept else pytest.raises(UsageError, match=f"exit status {code}"):
            runs.record_run(tmp_path, path.parent)


def test_the_page_shows_what_was_kept() -> None:
    assert not runs.insert_table(find_project(), write=False), "run `decouple contract --table`"
