"""Measure names, docstrings and weight of a checkout: issue 39's figures, as JSON.

    python scripts/measure_names.py [FOLDER]

``code`` is ``scripts/decouple``, ``tests`` all Python below ``tests``, ``data`` the text files of the package and of
``ci/status``. Bare lines are those without blank ones, comments and docstrings; docstrings are those of functions, with
ruff's D401 as the judge.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

_DATA = (".toml", ".txt", ".json", ".tsv", ".csv")
_PARTICIPLE = re.compile(r"_?[A-Z][a-z]+(ed|en)$|_?(Told|Given|Left|Kept|Made|Also|Instead|Without|Found)$")


def count_lines(paths: list[Path]) -> int:
    """Return the number of lines of these files; what is no text counts nothing."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def count_bare_lines(path: Path) -> int:
    """Return the number of lines of a module that are code."""
    text = path.read_text(encoding="utf-8")
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            left_out.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return sum(number not in left_out and bool(line) and line[0] != "#" for number, line in lines)


def count_matches(tests: list[Path]) -> int:
    """Return how many ``match=`` the tests give to ``pytest.raises`` and its like."""
    nodes = (node for path in tests for node in ast.walk(ast.parse(path.read_bytes())))
    return sum(isinstance(node, ast.keyword) and node.arg == "match" for node in nodes)


def count_verbs(menu: Path) -> int:
    """Return the number of rows of ``VERBS``."""
    for node in ast.parse(menu.read_bytes()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "VERBS" and isinstance(node.value, ast.Dict):
            return len(node.value.keys)
    return 0


def measure_names(root: Path) -> dict[str, Any]:
    """Return the figures of the checkout at ``root``. Raises OSError, SyntaxError."""
    package = root / "scripts/decouple"
    sources = sorted(package.rglob("*.py"))
    functions: list[str] = []
    classes: list[str] = []
    variables: Counter[str] = Counter()
    noun_phrases = docstrings = 0
    for path in sources:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef):
                functions.append(node.name)
                if text := ast.get_docstring(node):
                    docstrings += 1
                    noun_phrases += bool(
                        re.match(r"(The|A|An|What|Whether|Each|Every|One|All|Those|How|Where)\b", text)
                    )
            elif isinstance(node, ast.ClassDef):
                classes.append(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                variables[node.id] += 1
    plain = [name for name in functions if not name.startswith("__")]
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--isolated", "--select", "D401"]
    judged = subprocess.run(
        [*ruff, "--output-format", "json", str(package)], capture_output=True, text=True, check=False
    )
    tests = sorted((root / "tests").rglob("*.py"))
    pages = sorted((root / "docs").glob("*.md"))
    data = [path for top in (package, root / "ci/status") for path in top.rglob("*") if path.suffix in _DATA]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "functions": len(plain),
        "mean length of a function's name": round(sum(len(name.strip("_")) for name in plain) / len(plain), 1),
        "functions of one word": sum("_" not in name.strip("_") for name in plain),
        "classes": len(classes),
        "classes that are participles or adverbs": sum(bool(_PARTICIPLE.match(name)) for name in classes),
        "definitions of read": functions.count("read"),
        "definitions of opened": functions.count("opened"),
        "bindings of the variable one": variables["one"],
        "docstrings of functions": docstrings,
        "docstrings that are noun phrases": noun_phrases,
        "docstrings that ruff's D401 refuses": len(json.loads(judged.stdout)),
        "modules": len(sources),
        "lines of code": count_lines(sources),
        "lines of code, bare": sum(map(count_bare_lines, sources)),
        "lines of tests": count_lines(tests),
        "lines of tests, bare": sum(map(count_bare_lines, tests)),
        "match= of tests": count_matches(tests),
        "lines of data": count_lines(data),
        "options (add_argument with a --name)": sum(
            len(re.findall(r'add_argument\(\s*(?:"-\w", )?"--', path.read_text(encoding="utf-8")))
            for path in (package / "cli").rglob("*.py")
        ),
        "verbs": count_verbs(package / "cli/menu.py"),
        "pages": len(pages),
        "words of the pages": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
        "direct dependencies of the base install": len(project["dependencies"]),
    }


if __name__ == "__main__":
    print(json.dumps(measure_names(Path(sys.argv[1] if len(sys.argv) > 1 else ".")), indent=1))
