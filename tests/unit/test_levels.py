"""Imports run downwards only (docs/architecture.md): a package knows the packages below it, none beside or above it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from floor_plan import LEVELS, PACKAGE, find_cycle, list_imports, make_graph

ONLY_CLI = {"argparse", "rich"}
"""What parses arguments and writes to a terminal."""


def faults(package: Path) -> list[str]:
    """Every import of ``package`` that does not run downwards, one line each."""
    rank = {name: number for number, names in enumerate(LEVELS) for name in names}
    found = []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        own = relative.parts[0].removesuffix(".py")
        if own == "__init__" or "inside" in relative.parts:
            continue  # `inside` holds scripts that run in a build root, without this package
        if own not in rank:
            found.append(f"{relative}: package {own} has no level")
            continue
        for line, name in list_imports(path):
            top, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if top in ONLY_CLI and own != "cli":
                found.append(f"{relative}:{line}: {top} belongs to cli")
            if top == "decouple" and other not in ("", "__version__", own) and rank.get(other, 99) >= rank[own]:
                found.append(f"{relative}:{line}: {own} imports {name}")
    return found


def test_every_import_runs_downwards() -> None:
    assert faults(PACKAGE) == []


@pytest.mark.parametrize(
    ("package", "line", "told"),
    [
        ("census", "from decouple.relocate.plan import make_plan", "census imports decouple.relocate.plan"),
        ("series", "from decouple import build", "series imports decouple.build"),
        ("base", "def f():\n    import decouple.cli", "base imports decouple.cli"),
        ("verify", "from rich.table import Table", "rich belongs to cli"),
        ("novelty", "import json", "package novelty has no level"),
    ],
)
def test_one_that_does_not_is_named(tmp_path: Path, package: str, line: str, told: str) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "planted.py").write_text(line + "\n")
    (fault,) = faults(tmp_path)
    assert fault.startswith(f"{package}/planted.py:") and fault.endswith(told)


def test_no_two_modules_import_each_other() -> None:
    """In whatever package: a ring of imports is one module in several files."""
    assert find_cycle(make_graph()) == []


def test_a_ring_is_named(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/build.py").write_text("def f():\n    from decouple.flows import verify\n")
    (tmp_path / "flows/verify.py").write_text("from decouple.flows.build import f\n")
    assert set(find_cycle(make_graph(tmp_path))) == {"decouple.flows.build", "decouple.flows.verify"}


#: Needs the standard library alone, as tests/unit/release/test_installed_wheels.py holds.
RUNS_ANYWHERE = "decouple.release.installed_wheels"


def test_scripts_that_run_inside_a_build_root_import_nothing_of_this_package() -> None:
    inside = [path for path in PACKAGE.rglob("*.py") if "inside" in path.relative_to(PACKAGE).parts]
    assert inside
    named = {(str(path), name) for path in inside for _, name in list_imports(path) if name.startswith("decouple")}
    assert [row for row in named if not row[1].startswith(RUNS_ANYWHERE)] == []


def namesakes(package: Path) -> dict[str, list[str]]:
    """Public classes of one name -> the modules that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(package)))
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_two_public_classes_share_a_name() -> None:
    """A name in an error, a log or a search says one thing."""
    assert namesakes(PACKAGE) == {}


def test_a_shared_name_is_told_with_its_modules(tmp_path: Path) -> None:
    for name in ("series", "verify"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lint.py").write_text("class Report: ...\nclass _Own: ...\n")
    assert namesakes(tmp_path) == {"Report": ["series/lint.py", "verify/lint.py"]}


def test_git_is_started_in_one_place() -> None:
    """So that there is one notion of a clean environment; ``base/git.py`` has it."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "base" / "git.py" and "inside" not in path.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.List) and node.elts and getattr(node.elts[0], "value", None) == "git"
    ]
    assert found == []


def test_only_cli_prints() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not {"cli", "inside"} & set(path.relative_to(PACKAGE).parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert found == []
