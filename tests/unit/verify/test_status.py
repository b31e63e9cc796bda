"""Status files are written section by section, and README shows what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.verify import status

STAGE = {"wheel": "torch.whl", "wheel_bytes": 100 << 20, "seconds": 7260, "objects": 1528, "cores": 2}


def test_sections_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = status.path_of(tmp_path, "2.6")
    status.update(path, "stage1", STAGE)
    status.update(path, "verify", {"audit": []})
    status.update(path, "stage1", {**STAGE, "objects": 1})
    document = json.loads(path.read_text())
    assert document["stage1"]["objects"] == 1
    assert set(document) == {"schema", "stage1", "verify"}


def test_the_table_says_what_the_files_say() -> None:
    parity = [{"total": 10, "missing": ["a"], "extra": [], "different": []}]
    audit = [{"files": 24, "faults": []}]
    text = status.table({"2.6": {"stage1": STAGE, "verify": {"parity": parity, "audit": audit}}, "2.10": {}})
    rows = text.splitlines()[2:]
    assert rows[0].startswith("| 2.10 | not known | not checked | not counted | not built | not built | not checked |")
    assert "1528 objects, 121 min on 2 cores, 100 MiB" in rows[1]
    assert "90.00 % of 10" in rows[1]
    assert "clean (24 files)" in rows[1]


def test_the_table_says_where_the_patches_apply_and_what_is_left() -> None:
    applies = {
        "sources": {"pristine": "a tree", "debian": "another"},
        "patches": {"1": {"pristine": "clean", "debian": "offset"}, "2": {"pristine": "conflict", "debian": "clean"}},
    }
    text = status.table({"2.6": {"applies": applies, "census": {"before": 58, "after": 3}}})
    assert "| pristine: 1 fail, debian: all (1 with an offset) | 3 of 58 |" in text


def test_the_table_goes_between_the_markers_and_nowhere_else(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{status.BEGIN}\nold\n{status.END}\nafter\n")
    assert status.insert_table(readme, "new\n")
    assert readme.read_text() == f"before\n{status.BEGIN}\nnew\n{status.END}\nafter\n"
    assert not status.insert_table(readme, "new\n")
    readme.write_text("no markers\n")
    with pytest.raises(DecoupleError, match="no <!-- status:begin"):
        status.insert_table(readme, "new\n")


def test_a_file_of_another_schema_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "2.6.json"
    path.write_text('{"schema": 99}\n')
    with pytest.raises(DecoupleError, match="schema: expected 1, found 99"):
        status.update(path, "stage1", STAGE)
    assert path.read_text() == '{"schema": 99}\n'
