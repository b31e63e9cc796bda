"""Read from the contract's tests what proves each item.

The result is the table of ``docs/backends.md``.

``items.toml`` of the contract says what PyTorch expects and where upstream says so. A test says which items it checks
by its marker ``contract_item(N)``, and which gap of upstream it may meet by ``gap("key")``; neither needs torch to be
read. Items that other tests of this project check (a generator, a scaffold) name those under ``tests``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.base.files import replace_sections

PACKAGE = Path("third_device/contract/third_device_contract")
PAGE = Path("docs/backends.md")

_MANY = 8
"""Of how many tests of one file an item's row says the number in place of their names."""


class ContractItem(Struct, frozen=True):
    """One item of the contract.

    It has where upstream says it, the tests that prove it (``path::function``), what upstream lacks for it.
    """

    number: int
    group: str
    title: str
    where: str
    tests: tuple[str, ...]
    gaps: tuple[str, ...]


class ContractTest(Struct, frozen=True):
    """A test as its source has it: ``items`` it is marked with, gaps it may end with."""

    name: str
    items: tuple[int, ...]
    gaps: tuple[str, ...]


class _Gap(Struct, frozen=True):
    """What upstream lacks for a part of an item."""

    key: str
    lacks: str
    where: str


class _ItemEntry(Struct, frozen=True):
    """An item as the file has it; ``elsewhere``: who checks it if these tests cannot."""

    id: int
    group: str
    title: str
    where: str
    tests: tuple[str, ...] = ()
    elsewhere: str = ""


class _ItemsFile(Struct, frozen=True):
    gap: tuple[_Gap, ...]
    item: tuple[_ItemEntry, ...]


def read_items(project: Path) -> list[ContractItem]:
    """Read the contract's items in order, each with its tests.

    Raises DecoupleError when an item has no test, a test an unknown item or gap, or a named test does not exist.
    """
    facts = project / PACKAGE / "items.toml"
    data = toml.read_toml(facts, _ItemsFile, mend="see the comment at its top", schema=None)
    lacks = {gap.key: f"{gap.lacks} (`{gap.where}`)" for gap in data.gap}
    found = [test for path in sorted(facts.parent.glob("test_*.py")) for test in read_tests(path)]
    known = {entry.id for entry in data.item}
    for test in found:
        strange = [*(set(test.items) - known), *(set(test.gaps) - set(lacks))]
        if strange:
            raise DecoupleError(f"{test.name}: {facts.name} has no {strange[0]}", next_step=f"add it to {facts}")
    items = []
    for entry in sorted(data.item, key=lambda entry: entry.id):
        own = [test for test in found if entry.id in test.items]
        for name in entry.tests:
            if not _has_function(project, name):
                raise DecoupleError(f"{facts}: item {entry.id}: no test {name}", next_step="name one that exists")
        if not own and not entry.tests:
            raise DecoupleError(f"{facts}: item {entry.id} has no test", next_step="mark one with contract_item")
        gaps = tuple(dict.fromkeys(lacks[key] for test in own for key in test.gaps))
        tests = (*(test.name for test in own), *entry.tests)
        items.append(ContractItem(entry.id, entry.group, entry.title, entry.where, tests, gaps))
    return items


def read_tests(path: Path) -> Iterator[ContractTest]:
    """Return the tests of one file that are marked with an item."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        marks = [mark for mark in node.decorator_list if isinstance(mark, ast.Call)]
        numbers = tuple(_read_constant(mark) for mark in marks if ast.unparse(mark.func).endswith(".contract_item"))
        calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and ast.unparse(call.func) == "gap"]
        if numbers:
            keys = tuple(str(_read_constant(call)) for call in calls)
            yield ContractTest(f"{path.name}::{node.name}", tuple(int(str(number)) for number in numbers), keys)


def _read_constant(call: ast.Call) -> object:
    return ast.literal_eval(call.args[0])


def _has_function(project: Path, name: str) -> bool:
    """Return whether ``path::function`` is a function of that file."""
    path, _, function = name.partition("::")
    file = project / path
    return file.is_file() and any(
        isinstance(node, ast.FunctionDef) and node.name == function
        for node in ast.parse(file.read_text(encoding="utf-8")).body
    )


def format_table(items: list[ContractItem]) -> str:
    """Format the items as Markdown, a table for each group."""
    lines: list[str] = []
    for group in dict.fromkeys(item.group for item in items):
        lines += [f"### {group}", "", "| | PyTorch expects | upstream says so in | proof |", "|---|---|---|---|"]
        for item in items:
            if item.group == group:
                proof = "<br>".join(_name_tests(item.tests))
                lacking = "".join(f"<br>**upstream lacks:** {_format_cell(gap)}" for gap in item.gaps)
                lines.append(f"| {item.number} | {_format_cell(item.title)} | `{item.where}` | {proof}{lacking} |")
        lines.append("")
    return "\n".join(lines)


def _name_tests(tests: tuple[str, ...]) -> Iterator[str]:
    """Name the tests, or the file alone where many are of one file."""
    files = [test.partition("::")[0] for test in tests]
    for file in dict.fromkeys(files):
        if files.count(file) > _MANY:
            yield f"`{file}`: {files.count(file)} tests"
        else:
            yield from (f"`{test}`" for test, of in zip(tests, files, strict=True) if of == file)


def _format_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")


def insert_table(page: Path, text: str, *, write: bool) -> bool:
    """Put the tables between the page's markers; return whether they differed.

    Raises DecoupleError without any markers.
    """
    return replace_sections(page, {"items": text}, write=write)
