"""Scan Python sources for a vendor's bindings.

They are accessed through ``torch._C``. They are found in the syntax tree.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

from decouple.base.python_text import parse_python
from decouple.census.finding import RawFinding
from decouple.census.taxonomy import Taxonomy
from decouple.syntax.globs import find_match

SUFFIXES = (".py",)
MODULE = "torch._C"


# What may stand behind "_C" in a place that matters.
_REACH = re.compile(
    rb"""_C(?!\w)(?:(?:[\s\\]|\#[^\n]*\n)*\.[\s\\]*(?P<member>\w+(?:\.\w+)*)"""
    rb"""|\s*,\s*[rub]?["'](?P<by_name>\w+)["']"""
    rb"""|\s+import\s*(?P<imported>\([^)]*\)|(?:[^\n\\]++|\\\r?\n|\\.)*+)"""
    rb"""|(?P<alias>\s+as\s+\w)|(?P<end>[ \t]*(?:$|[#;\r])))""",
    re.MULTILINE,
)
#: Program text in a string: ``torch._C.a.b`` and ``from torch._C[.a] import b [as c]``.
_EMITTED = re.compile(
    r"""from\s+torch\._C[\w.]*\s+import\s+(?P<imported>\([^)]*\)|[^\n;]*)|\btorch\._C\.(?P<names>[\w.]+)"""
)
_NAMES = re.compile(r"\w+")
_ASSIGNED = re.compile(rb"=\s*(?:torch\.)?\Z")
#: Behind ``torch._C.module``: the module under another name, or what is imported from it.
_BEHIND = re.compile(rb"\s+(?:(?P<alias>as)\s|import\s*(?P<imported>\([^)]*\)|(?:[^\n\\]++|\\\r?\n|\\.)*+))")
_WORD = re.compile(rb"\w+")


def may_access_binding(data: bytes, taxonomy: Taxonomy) -> bool:
    """Return whether a Python file can access a binding at all.

    Much cheaper than parsing, and never wrong when it says no. Most Python of a PyTorch tree names ``torch._C`` and
    CUDA somewhere; few files bring the two together.
    """
    if b"_C" not in data:
        return False
    for found in _REACH.finditer(data):
        kind = found.lastgroup
        if kind in ("member", "by_name"):
            words = found[kind].split(b".")
            if any(map(taxonomy.is_binding, words)):
                return True
            behind = _BEHIND.match(data, found.end()) if kind == "member" else None
            if behind and (behind["alias"] or any(map(taxonomy.is_binding, _WORD.findall(behind["imported"])))):
                return True
        elif kind == "imported":
            words = _WORD.findall(found[kind])
            if any(map(taxonomy.is_binding, words)):
                return True
            # of a module below, what is reached stands behind its name
            used = (match[1] for word in words for match in re.finditer(rb"\b%s\s*\.\s*(\w+)" % word, data))
            if any(map(taxonomy.is_binding, used)):
                return True
        elif kind == "alias" or _ASSIGNED.search(data, max(0, found.start() - 40), found.start()):
            return True  # the module under another name: what is reached need not stand near "_C"
    return False


def scan_python(path: str, text: str, taxonomy: Taxonomy) -> list[RawFinding]:
    """Return one finding per binding, form and file.

    A file that is no Python (a template) has none.

    Forms: ``torch._C.name`` also through any import alias; ``from torch._C import name``; ``import torch._C.name``;
    ``getattr``, ``hasattr`` and ``setattr`` of torch._C with a constant name; a string that is a dotted path below
    torch._C (dynamo's trace rules are such strings, resolved at run time); a string, plain or f-string, that is the
    text of a program. Names in modules below torch._C (``torch._C._distributed_c10d.X``) count as its own.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # upstream's escapes are not ours to report
            tree = parse_python(text)
    except SyntaxError:
        return []
    nodes = _NodesByType(tree)
    lines_by_access: dict[tuple[str, str], list[int]] = {}
    for name, form, line in _find_accesses(nodes, _find_aliases(nodes)):
        if taxonomy.bindings.match(name):
            lines_by_access.setdefault((name, form), []).append(line)
    findings = []
    for (name, form), lines in lines_by_access.items():
        in_cpu_build = find_match(name, taxonomy.in_cpu_build) is not None
        detail = f"{form}; {'a CPU build has it, too' if in_cpu_build else f'only a {taxonomy.title} build has it'}"
        findings.append(RawFinding("python", name, path, min(lines), min(lines), 1, len(lines), False, detail))
    return findings


class _NodesByType:
    """The nodes of a syntax tree that the scanner needs, by their type.

    ``ast.walk`` takes several times as long, and this is most of the work: here a node is asked only for what its type
    can hold, and what is no node has no fields.
    """

    _fields: ClassVar[dict[type, tuple[str, ...]]] = {ast.Constant: (), ast.Name: ()}

    def __init__(self, tree: ast.Module) -> None:
        self.attributes: list[ast.Attribute] = []
        self.imports: list[ast.Import] = []
        self.from_imports: list[ast.ImportFrom] = []
        self.calls: list[ast.Call] = []
        self.constants: list[ast.Constant] = []
        self.expressions: list[ast.Expr] = []
        self.assignments: list[ast.Assign] = []
        lists_by_type: dict[type, list[Any]] = {
            ast.Attribute: self.attributes,
            ast.Import: self.imports,
            ast.ImportFrom: self.from_imports,
            ast.Call: self.calls,
            ast.Constant: self.constants,
            ast.Expr: self.expressions,
            ast.Assign: self.assignments,
        }
        fields_by_type = self._fields
        stack: list[Any] = [tree]
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind in lists_by_type:
                lists_by_type[kind].append(node)
            fields = fields_by_type.get(kind)
            if fields is None:  # a word or a number has none either
                fields = fields_by_type[kind] = tuple(name for name in getattr(kind, "_fields", ()) if name != "ctx")
            for name in fields:
                value = getattr(node, name, None)
                if type(value) is list:
                    stack += value
                elif value is not None:
                    stack.append(value)


def _find_aliases(nodes: _NodesByType) -> dict[str, str]:
    """Return the names of this file that mean ``torch`` or ``torch._C``.

    A module below torch._C counts too; of any scope.
    """
    aliases = {"torch": "torch"}
    for plain in nodes.imports:
        for item in plain.names:
            if item.asname and (item.name == "torch" or item.name.startswith(MODULE)):
                aliases[item.asname] = item.name
    for from_import in nodes.from_imports:
        if from_import.module and not from_import.level:
            for item in from_import.names:
                path = f"{from_import.module}.{item.name}"
                if path == MODULE or path.startswith(MODULE + "."):
                    aliases[item.asname or item.name] = path
    for node in nodes.assignments:  # C = torch._C
        if (
            len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
            and _resolve_path(node.value, aliases) == MODULE
        ):
            aliases[node.targets[0].id] = MODULE
    return aliases


def _resolve_path(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """Return ``torch._C.x`` as text, with aliases resolved; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return None
    return ".".join([aliases[node.id], *reversed(parts)])


def _find_accesses(nodes: _NodesByType, aliases: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    """Return each (name, form, line) by which a member of torch._C is accessed."""
    for attribute in nodes.attributes:
        dotted = _resolve_path(attribute, aliases)
        if dotted and dotted.startswith(MODULE + "."):  # of torch._C.a.b both are asked for, each by its own node
            yield dotted.rpartition(".")[2], "attribute", attribute.lineno
    for from_import in nodes.from_imports:
        module = from_import.module or ""
        if from_import.level:
            continue
        if module == MODULE:
            for item in from_import.names:
                yield item.name, "from-import", from_import.lineno
        elif module.startswith(MODULE + "."):
            for part in (*module.split(".")[2:], *(item.name for item in from_import.names)):
                yield part, "from-import", from_import.lineno
    for plain in nodes.imports:
        for item in plain.names:
            if item.name.startswith(MODULE + "."):
                for part in item.name.split(".")[2:]:
                    yield part, "import", plain.lineno
    for call in nodes.calls:
        if not isinstance(call.func, ast.Name) or call.func.id not in ("getattr", "hasattr", "setattr"):
            continue
        name = call.args[1] if len(call.args) >= 2 else None
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            continue
        if _resolve_path(call.args[0], aliases) == MODULE:
            yield name.value, "getattr", call.lineno
    documentation = {id(node.value) for node in nodes.expressions}
    for constant in nodes.constants:
        text = constant.value
        if not isinstance(text, str) or MODULE not in text or id(constant) in documentation:
            continue
        if text.startswith(MODULE + ".") and text.replace(".", "").isidentifier():
            for part in text.split(".")[2:]:
                yield part, "string", constant.lineno
            continue
        for match in _EMITTED.finditer(text):  # the text of a program, as inductor's code generators write it
            for part in _NAMES.findall(match["names"] or match["imported"]):
                yield part, "emitted text", constant.lineno
