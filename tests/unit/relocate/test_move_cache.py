"""The moves of a tree are worked out once; what is kept of them is used only where nothing changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from decouple.inventory import rules
from decouple.relocate import move_cache
from decouple.relocate.plan import Move

MOVES = (Move("c10/cuda/a.h", "third_device/a.h", ("c10",)), Move("b", "third_device/b", ()))
RULES = rules.load_rules()


TREE, OTHER = "a" * 40, "b" * 40


def test_the_moves_of_a_tree_are_kept(tmp_path: Path) -> None:
    assert move_cache.find_moves(tmp_path, TREE, RULES) is None
    move_cache.keep_moves(tmp_path, TREE, RULES, MOVES)
    assert move_cache.find_moves(tmp_path, TREE, RULES) == MOVES


def test_moves_with_names_that_are_not_utf_8_are_not_kept(tmp_path: Path) -> None:
    move_cache.keep_moves(tmp_path, TREE, RULES, (Move("caf\udce9.h", "third_device/caf\udce9.h", ()),))
    assert move_cache.find_moves(tmp_path, TREE, RULES) is None


def test_another_tree_and_other_rules_have_their_own(tmp_path: Path) -> None:
    move_cache.keep_moves(tmp_path, TREE, RULES, MOVES)
    other = structs.replace(RULES, root="elsewhere")
    assert move_cache.find_moves(tmp_path, OTHER, RULES) is None
    assert move_cache.find_moves(tmp_path, TREE, other) is None
    move_cache.keep_moves(tmp_path, TREE, other, MOVES[:1])
    assert move_cache.find_moves(tmp_path, TREE, other) == MOVES[:1]
    assert len(list((tmp_path / "moves" / TREE).iterdir())) == 1, "those of other rules go"


def test_other_code_makes_them_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_cache.keep_moves(tmp_path, TREE, RULES, MOVES)
    monkeypatch.setattr("decouple.relocate.move_cache._PACKAGES", ("inventory", "relocate"))
    assert move_cache.find_moves(tmp_path, TREE, RULES) is None


@pytest.mark.parametrize("change", ["damaged", "another target", "empty"])
def test_what_is_not_as_it_was_kept_is_not_used(tmp_path: Path, change: str) -> None:
    move_cache.keep_moves(tmp_path, TREE, RULES, MOVES)
    (file,) = tmp_path.glob("moves/*/*.json")
    data = file.read_bytes()
    file.write_bytes({"damaged": data[:-9], "another target": data.replace(b"a.h", b"b.h"), "empty": b""}[change])
    assert move_cache.find_moves(tmp_path, TREE, RULES) is None
    move_cache.keep_moves(tmp_path, TREE, RULES, MOVES)
    assert move_cache.find_moves(tmp_path, TREE, RULES) == MOVES


def test_a_cache_that_cannot_be_written_costs_time_alone(tmp_path: Path) -> None:
    (tmp_path / "moves").write_text("in the way")
    move_cache.keep_moves(tmp_path, TREE, RULES, MOVES)
    assert move_cache.find_moves(tmp_path, TREE, RULES) is None


def test_another_process_finds_them(tmp_path: Path) -> None:
    """Sets have another order in each process."""
    move_cache.keep_moves(tmp_path, TREE, RULES, MOVES)
    program = (
        "import pathlib, sys; from decouple.inventory import rules; from decouple.relocate import move_cache; "
        "sys.exit(move_cache.find_moves(pathlib.Path(sys.argv[1]), sys.argv[2], rules.load_rules()) is None)"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), TREE], env={**os.environ, "PYTHONHASHSEED": seed}, check=True
        )
