"""`series --top` and `--applied` without the engine: the same answer, and none where only the engine can tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.stack.engine import Stack
from decouple.stack.state_file import read_applied_names
from tests.support.series import World


@pytest.fixture
def pushed(world: World) -> World:
    with Stack.open(world.places) as stack:
        stack.push(2, overlay=False)
    return world


def test_it_says_what_the_engine_says(pushed: World, tmp_path: Path) -> None:
    with Stack.open(pushed.places) as stack:
        names = list(stack.applied)
    assert read_applied_names(pushed.project, ["2.6"], tmp_path) == names
    assert (
        read_applied_names(pushed.project, [], pushed.source / "torch") == names
    )  # the release is where the user stands


@pytest.mark.parametrize("words", [["2.7"], ["2.6.toml"], ["2.6", "more"], [], ["push"]])
def test_words_that_need_an_answer_in_words_are_the_engines(pushed: World, tmp_path: Path, words: list[str]) -> None:
    assert read_applied_names(pushed.project, words, tmp_path) is None


def test_a_command_under_way_and_a_state_of_another_version_are_the_engines(pushed: World) -> None:
    own = pushed.source / ".git/decouple"
    (own / "journal.json").write_text("{}")
    assert read_applied_names(pushed.project, ["2.6"], pushed.project) is None
    (own / "journal.json").unlink()
    state = json.loads((own / "state.json").read_text())
    (own / "state.json").write_text(json.dumps(state | {"version": 2}))
    assert read_applied_names(pushed.project, ["2.6"], pushed.project) is None


def test_the_verbs_print_it(pushed: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(pushed.project))
    assert main(["series", "2.6", "--top"]) == 0
    assert main(["series", "2.6", "--applied"]) == 0
    assert capsys.readouterr().out.split() == [
        "2.6/0002-hooks.patch",
        "2.6/0001-relocate.patch",
        "2.6/0002-hooks.patch",
    ]
