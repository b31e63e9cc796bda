"""Reading TOML: what is right becomes a frozen value, what is wrong is one line with file, key and remedy."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from decouple.base import toml
from decouple.base.errors import DecoupleError


@dataclass(frozen=True)
class Tree:
    name: str
    age: int = 1
    leaf: re.Pattern[str] = re.compile("")

    def __post_init__(self) -> None:
        if self.age < 0:
            raise ValueError(f"nothing is {self.age} years old")


@dataclass(frozen=True)
class Wood:
    tree: tuple[Tree, ...]
    owner: Mapping[str, str]


GOOD = """
schema = 1
[[tree]]
name = "oak"
[[tree]]
name = "ash"
age = 12
leaf = "a.h"
[owner]
north = "Ann"
"""


def read(tmp_path: Path, text: str) -> Wood:
    path = tmp_path / "wood.toml"
    path.write_text(text)
    return toml.read_toml(path, Wood, mend="plant it again")


def test_a_file_becomes_a_value(tmp_path: Path) -> None:
    wood = read(tmp_path, GOOD)
    assert wood == Wood((Tree("oak"), Tree("ash", 12, re.compile("a.h"))), {"north": "Ann"})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("age = 12", 'age = "12"', "$.tree[1].age: Expected `int`, got `str`"),
        ("age = 12", "age = -12", "$.tree[1]: nothing is -12 years old"),
        ('name = "oak"', "", "$.tree[0]: Object missing required field `name`"),
        ("age = 12", "aeg = 12", "$.tree[1].aeg: no such key (did you mean age?)"),
        ("age = 12", "height = 3", "$.tree[1].height: no such key (known keys: age, leaf, name)"),
        ('"a.h"', '"a("', "$.tree[1].leaf: pattern 'a(': missing )"),
        ('"Ann"', "7", "$.owner[...]: Expected `str`, got `int`"),
        ("schema = 1", "schema = 2", "schema: expected 1 (this program reads no other), found 2"),
        ("schema = 1", "schema = ", "not TOML: Invalid value (at line 2"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(DecoupleError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert caught.value.what.startswith(f"{tmp_path / 'wood.toml'}: ")
    assert said in caught.value.what and "\n" not in caught.value.what
    assert caught.value.next_step == "plant it again"


@pytest.mark.parametrize("text", ["schema = " + "9" * 5000, "a = " + "[" * 100_000], ids=["digits", "depth"])
def test_what_pythons_reader_gives_up_on_is_one_line_too(text: str) -> None:
    with pytest.raises(DecoupleError, match=r"wood\.toml: not TOML: ") as raised:
        toml.parse_toml(text, Wood, Path("wood.toml"), mend="write it anew")
    assert "\n" not in str(raised.value)


def test_a_string_of_any_characters_that_is_written_reads_back() -> None:
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), *range(0x1F600, 0x1F700)]))
    assert tomllib.loads(f"key = {toml.format_string(text)}\n") == {"key": text}


def test_a_damaged_table_of_ours_is_restored_by_the_command_that_is_told(tmp_path: Path) -> None:
    """From any folder: decouple finds its checkout from anywhere, too."""
    table = tmp_path / "a folder" / "-facts.toml"
    table.parent.mkdir()
    table.write_text(GOOD)
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", "-C", str(table.parent), *command], check=True)
    table.write_text("schema = ")
    with pytest.raises(DecoupleError) as said:
        toml.read_own_table(table, Wood)
    subprocess.run(shlex.split(said.value.next_step or ""), cwd="/", check=True)
    assert table.read_text() == GOOD
