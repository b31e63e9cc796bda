"""``decouple census`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decouple.cli import main
from tests.unit.census import planted


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("series", "patches"):
        (tmp_path / "project" / name).mkdir(parents=True)
    (tmp_path / "project/series/2.6").write_text("")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("COLUMNS", "200")
    return planted.tree(tmp_path / "pytorch")


def test_a_pristine_tree_alone(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tree.parent / f"census.{name}" for name in ("json", "html")}
    arguments = ["census", "2.6", "--tree", str(tree), "--json", str(files["json"]), "--html", str(files["html"])]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "compile time: 3 before, the series is not applied" in told
    assert json.loads(files["json"].read_text())["summary"]["key_number"] == {"before": 3, "after": None}
    assert "planted_macro.cpp" in files["html"].read_text()


def test_what_is_left_after_the_series_fails(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(tree)]) == 1
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(tree), "--couplings"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "torch/csrc/planted_include.cpp:1: include cuda_runtime.h: unguarded" in lines


def test_after_needs_an_applied_tree(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", "2.6", "--tree", str(tree), "--after"]) == 2
    assert "decouple apply 2.6" in capsys.readouterr().err
