"""The tables of classes: a function that other headers put between two others is found by name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decouple.verify import virtual_functions

CLASS = """
struct Hooks {{
  virtual ~Hooks() = default;
  virtual int count() const {{ return 0; }}
  {middle}
  virtual void wait() const {{}}
  {last}
}};
struct Other {{ virtual void only(); }};
"""
ADDED = "virtual bool added() const { return false; }"


def read_tables(folder: Path, middle: str = "", last: str = "") -> virtual_functions.Tables:
    """What the compiler prints of the class with these functions more."""
    (folder / "probe.cpp").write_text(CLASS.format(middle=middle, last=last))
    command = ["c++", "-std=c++17", "-fsyntax-only", "-fdump-lang-class=tables", "probe.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return virtual_functions.parse_tables((folder / "tables").read_text())


@pytest.mark.tools("c++")
def test_a_function_in_the_middle_moves_those_behind_it(tmp_path: Path) -> None:
    core, moved = read_tables(tmp_path), read_tables(tmp_path, middle=ADDED)
    assert core["Hooks"][-2:] == ("Hooks::count", "Hooks::wait") and core["Other"][-1] == "Other::only"
    assert virtual_functions.list_moved(core, moved) == [
        "Hooks: at 40 the core has Hooks::wait, the backend Hooks::added"
    ]


@pytest.mark.tools("c++")
def test_a_function_behind_all_moves_none_and_one_that_is_gone_does(tmp_path: Path) -> None:
    core, longer = read_tables(tmp_path), read_tables(tmp_path, last=ADDED)
    assert virtual_functions.list_moved(core, core) == virtual_functions.list_moved(core, longer) == []
    assert virtual_functions.list_moved(longer, core) == ["Hooks: at 48 the core has Hooks::added, the backend nothing"]
