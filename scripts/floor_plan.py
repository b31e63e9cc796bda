"""Draw the plan in docs/architecture.md from the imports of the code.

The plan has the packages of ``scripts/decouple``, by the levels of :data:`LEVELS`.

python scripts/floor_plan.py [--check]
"""

from __future__ import annotations

import argparse
import ast
import graphlib
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from decouple.base.files import replace_sections
from decouple.base.paths import find_project

PACKAGE = Path(__file__).parent / "decouple"
PAGE = "docs/architecture.md"
WIDTH = 118

LEVELS = (
    {"base"},
    {"release", "syntax", "patch"},
    {"upstream", "inventory"},
    {"stack", "series", "recipes", "relocate", "census", "prebuilt", "build", "verify", "index", "device", "suites"},
    {"rebase"},
    {"flows"},
    {"cli"},
    {"__main__"},
)
"""From the lowest up. `syntax` reads text, `inventory` says what the text of one tree means for CUDA."""


def list_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of all imports of ``path``, nested and typing too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}:{node.lineno}: a relative import"
            if node.module == "decouple":
                yield from ((node.lineno, f"decouple.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module


def make_graph(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Map each module of ``package`` to those of its modules that it imports.

    Modules are known by their dotted names. What runs in a build root is left out.
    """
    paths = {
        ".".join(("decouple", *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
        if "inside" not in path.relative_to(package).parts
    }
    found = {}
    for module, path in paths.items():
        named = {name if name in paths else name.rpartition(".")[0] for name in _list_names(path)}
        found[module] = named & (paths.keys() - {module})
    return found


def _list_names(path: Path) -> Iterator[str]:
    """Yield the dotted names that ``path`` imports.

    ``from a import b`` is ``a.b``: b may be a module.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_cycle(modules: Mapping[str, set[str]]) -> list[str]:
    """Return a ring of modules, the first again at the end; empty without a ring."""
    try:
        graphlib.TopologicalSorter(modules).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def draw_plan(package: Path = PACKAGE) -> str:
    """Return the drawing: a line between levels, the highest on top.

    It has each package, what it is for, and the packages that it uses.
    """
    uses: dict[str, set[str]] = {}
    for module, imported in make_graph(package).items():
        name = _find_package(module)
        uses.setdefault(name, set()).update({_find_package(one) for one in imported} - {name, "decouple"})
    lines = []
    for number, names in reversed(list(enumerate(LEVELS[:-1]))):
        below = [one for level in reversed(LEVELS[1:number]) for one in sorted(level)]
        for name in sorted(names):
            rows = textwrap.wrap(
                _read_purpose(package / name) + _describe_uses(below, uses.get(name, set())), WIDTH - 11
            )
            lines += [f"{label:<10} {row}" for label, row in zip([name, *[""] * len(rows)], rows, strict=False)]
        lines.append("-" * WIDTH)
    return "```text\n" + "\n".join(lines[:-1]) + "\n```\n"


def _describe_uses(below: list[str], used: set[str]) -> str:
    """Say which of the packages below; "all but" where it is nearly that."""
    left = [one for one in below if one not in used]
    if len(below) > 2 and len(left) < 2:
        return " -> all" + "".join(f" but {one}" for one in left)
    found = ", ".join(one for one in below if one in used)
    return f" -> {found}" if found else ""


def _find_package(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def _read_purpose(package: Path) -> str:
    """Return the first sentence of the package's own docstring."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def main() -> int:
    """Write the drawing into the page; ``--check`` only says whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    changed = replace_sections(find_project() / PAGE, {"plan": draw_plan()}, write=not check)
    print(f"{PAGE}:", ("out of date: python scripts/floor_plan.py" if check else "drawn") if changed else "up to date")
    return int(changed and check)


if __name__ == "__main__":
    sys.exit(main())
