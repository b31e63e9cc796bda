"""Python sources: every reach for a CUDA binding through ``torch._C``, found in the syntax tree."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from decouple.census.finding import Raw
from decouple.census.taxonomy import Taxonomy
from decouple.source.globs import matches

SUFFIXES = (".py",)
MODULE = "torch._C"


_MEMBER = re.compile(rb"_C(?:[\s\\]|#[^\n]*\n)*\.[\s\\]*(\w+)")
# The forms in which the name need not stand right behind "_C.": those files are parsed whatever they name.
_INDIRECT = re.compile(
    rb"from\s+torch\._C[\w.]*\s+import|(?:get|has|set)attr\(\s*(?:torch\.)?_C\b"
    rb"|_C\s+as\s+\w|=\s*torch\._C\s*(?:$|#)",
    re.MULTILINE,
)


def may_reach(data: bytes, taxonomy: Taxonomy) -> bool:
    """Whether a Python file can reach a binding at all: much cheaper than parsing, and never wrong when it says no.

    Most Python of a PyTorch tree names ``torch._C`` and CUDA somewhere; few files bring the two together.
    """
    if b"_C" not in data:
        return False
    members = {found.decode("ascii", "replace") for found in _MEMBER.findall(data)}
    return any(taxonomy.bindings.match(name) for name in members) or _INDIRECT.search(data) is not None


def scan(path: str, text: str, taxonomy: Taxonomy) -> list[Raw]:
    """One finding per binding, form and file. A file that is no Python (a template) has none.

    Forms: ``torch._C.name`` also through any import alias; ``from torch._C import name``; ``import torch._C.name``;
    ``getattr``, ``hasattr`` and ``setattr`` of torch._C with a constant name; a string that is a dotted path below
    torch._C (dynamo's trace rules are such strings, resolved at run time).
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # upstream's escapes are not ours to report
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    nodes = _nodes(tree)
    found: dict[tuple[str, str], list[int]] = {}
    for name, form, line in _reaches(nodes, _aliases(nodes), _docstrings(nodes)):
        if taxonomy.bindings.match(name):
            found.setdefault((name, form), []).append(line)
    out = []
    for (name, form), lines in found.items():
        flag = matches(name, taxonomy.in_cpu_build) is not None
        detail = f"{form}; {'a CPU build has it, too' if flag else 'only a CUDA build has it'}"
        out.append(Raw("python", name, path, min(lines), min(lines), 1, len(lines), False, detail))
    return out


def _nodes(tree: ast.Module) -> list[ast.AST]:
    """Every node once, in no useful order. ``ast.walk`` takes several times as long, and this is most of the work."""
    out: list[ast.AST] = []
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        out.append(node)
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                if not isinstance(value, ast.expr_context):
                    stack.append(value)
            elif isinstance(value, list):
                stack.extend(item for item in value if isinstance(item, ast.AST))
    return out


def _aliases(nodes: list[ast.AST]) -> dict[str, str]:
    """Names of this file that mean ``torch``, ``torch._C`` or a module below, in any scope."""
    known = {"torch": "torch"}
    for node in nodes:
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.asname and (item.name == "torch" or item.name.startswith(MODULE)):
                    known[item.asname] = item.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for item in node.names:
                whole = f"{node.module}.{item.name}"
                if whole == MODULE or whole.startswith(MODULE + "."):
                    known[item.asname or item.name] = whole
    for node in nodes:  # C = torch._C
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            dotted = _dotted(node.value, known)
            if dotted == MODULE:
                known[node.targets[0].id] = MODULE
    return known


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """``torch._C.x`` as text, with aliases resolved; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return None
    return ".".join([aliases[node.id], *reversed(parts)])


def _docstrings(nodes: list[ast.AST]) -> set[int]:
    """The ids of nodes that are documentation, not code."""
    out: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            out.add(id(node.value))
    return out


def _reaches(nodes: list[ast.AST], aliases: dict[str, str], documentation: set[int]) -> Iterator[tuple[str, str, int]]:
    for node in nodes:
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node, aliases)
            if dotted and dotted.startswith(MODULE + ".") and dotted.count(".") == 2:
                yield dotted.rpartition(".")[2], "attribute", node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module == MODULE:
            for item in node.names:
                yield item.name, "from-import", node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith(MODULE + "."):
            yield (node.module or "").split(".")[2], "from-import", node.lineno
        elif isinstance(node, ast.Import):
            for item in node.names:
                if item.name.startswith(MODULE + "."):
                    yield item.name.split(".")[2], "import", node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2:
            name = node.args[1]
            if node.func.id not in ("getattr", "hasattr", "setattr") or not isinstance(name, ast.Constant):
                continue
            if isinstance(name.value, str) and _dotted(node.args[0], aliases) == MODULE:
                yield name.value, "getattr", node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            text = node.value
            if text.startswith(MODULE + ".") and text.replace(".", "").isidentifier():
                yield text.split(".")[2], "string", node.lineno
