"""What a program asked for is alone on standard output; what else is said is on standard error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decouple.cli import main
from tests.support.files import write_files
from tests.unit.census import planted
from tests.unit.rebase.test_session import Project, conflict_in_b
from tests.unit.rebase.test_session import project as project
from tests.unit.relocate.trees import FILES


def test_a_check_with_the_series_of_another_release(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.upstream("1.1", {"a": "another\n"})
    assert main(["check", "1.1", "--source", f"local:{project.sources['1.1']}", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)[0]["status"] == "conflict"
    assert "judged is the one of 1.0" in said.err


def test_a_rebase_that_writes_a_series(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.upstream("1.1", {name: (project.sources["1.0"] / name).read_text() for name in "abc"})
    assert project.begin("--format=json") == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)["patches"]) == 3
    assert "decouple lint 1.1" in said.err


def test_a_rebase_that_stops(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    conflict_in_b(project)
    assert project.begin("--format=json") == 1
    said = capsys.readouterr()
    assert [row["verdict"] for row in json.loads(said.out)["patches"]][1] == "conflict"
    assert "stopped at 1.0/0002-second.patch" in said.err


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One whose series has no patch."""
    for name in ("series", "patches"):
        (tmp_path / "checkout" / name).mkdir(parents=True)
    (tmp_path / "checkout/series/2.6").write_text("")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path / "checkout"))
    return tmp_path / "checkout"


def test_the_uses_of_a_vendors_names(checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path / "pytorch", FILES)
    names = tmp_path / "acme.toml"
    names.write_text('[prefix]\ncuda = "acme"\n')
    words = ["stages", "reuse", "2.6", "--tree", str(tmp_path / "pytorch"), "--json", "--names", str(names)]
    assert main([*words, "--header", str(tmp_path / "acme.h")]) in (0, 1)
    said = capsys.readouterr()
    assert json.loads(said.out)["schema"] == 1
    assert f"written: {tmp_path / 'acme.h'}" in said.err


def test_couplings_are_one_a_line(checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = planted.tree(tmp_path / "pytorch")
    write_files(tree, {"torch/headeronly/cuda/A.h": ""})
    assert main(["census", "2.6", "--tree", str(tree), "--couplings"]) == 0
    said = capsys.readouterr()
    assert all(line.split(":")[1].isdigit() for line in said.out.splitlines())
    assert "no rule places 1 CUDA files" in said.err
