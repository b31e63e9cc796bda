"""Measure names, docstrings and weight of a checkout: issue 39's figures, as JSON.

    python scripts/measure_names.py [FOLDER]

``code`` is ``scripts/decouple``, ``tests`` all Python below ``tests``, ``data`` the text files of the package and of
``ci/status``. Lines are all lines; docstrings are those of functions, with ruff's D401 as the judge.
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
        "lines of code": count_lines(sources),
        "lines of tests": count_lines(sorted((root / "tests").rglob("*.py"))),
        "lines of data": count_lines(data),
        "options (add_argument with a --name)": sum(
            len(re.findall(r'add_argument\(\s*(?:"-\w", )?"--', path.read_text(encoding="utf-8")))
            for path in (package / "cli").rglob("*.py")
        ),
        "pages": len(list((root / "docs").glob("*.md"))),
        "direct dependencies of the base install": len(project["dependencies"]),
    }


if __name__ == "__main__":
    print(json.dumps(measure_names(Path(sys.argv[1] if len(sys.argv) > 1 else ".")), indent=1))
