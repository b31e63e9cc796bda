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


#: The module's own name, and what stands right behind it. It begins with a literal, to which `re` jumps.
_REACH = re.compile(rb"_C(?<!\w_C)(?![\w\x80-\xff])(?P<path>(?:\.[\w\x80-\xff]++)*+)")
#: What may stand between a name and a dot: blanks, ends of brackets and comments. Not without end, for each name of a
#: file asks; what goes on longer (a blank or a # comes then) counts as a dot.
_BETWEEN = rb"(?:[\s\\)]++|\#[^\r\n]{0,200}+(?![^\r\n]))"
_DOT = _BETWEEN + rb"{0,20}+[.\#\s\\)]"
#: Behind a path that is not all: more of it, also of one in brackets or of a string in pieces; another name for it.
_GOES_ON = re.compile(rb"[\"'\\]|" + _DOT + rb"|" + _BETWEEN + rb"{1,20}+(?:import|as)\b")
#: Names imported from it, one line of them or brackets without a comment.
_IMPORTED = re.compile(
    rb"[ \t]++import[ \t]*+(?:\((?P<inside>[\w\s,]*+)\)[ \t]*+|(?P<line>\w[\w \t,]*+))(?=[\r\n;#]|\Z)"
)
#: A line up to the module's name, and the rest of it, where it imports the module under its own name.
_BARE_IMPORT = re.compile(rb"[ \t]*+(?:from[ \t]++torch[ \t]++)?+import[ \t]++[\w., \t]*+\Z")
_LINE_END = re.compile(rb"[ \t]*+(?:[\r\n;#]|\Z)")
#: A name of which a member is asked for.
_OPENED = re.compile(rb"(?<![\w.\x80-\xff])[\w\x80-\xff]++(?=" + _DOT + rb")")
_WORD = re.compile(rb"[\w\x80-\xff]+")
#: Letters that a string's escapes put in front of a word.
_ESCAPE = re.compile(rb"\\[abfnrtv]")
#: Program text in a string: ``torch._C.a.b`` and ``from torch._C[.a] import b [as c]``.
_EMITTED = re.compile(
    r"""from\s+torch\._C(?!\w)[\w.]*\s+import\s+(?P<imported>\([^)]*\)|[^\n;]*)|\btorch\._C\.(?P<names>[\w.]+)"""
)
_NAMES = re.compile(r"\w+")


def may_access_binding(data: bytes, taxonomy: Taxonomy) -> bool:
    """Return whether a Python file can access a binding at all.

    Much cheaper than parsing, and never wrong when it says no, unless a string spells the path to a binding in pieces.
    Most Python of a PyTorch tree names ``torch._C`` and CUDA somewhere; few files bring the two together. Where what is
    reached may stand elsewhere in the file, any word of it may be the binding.
    """
    if b"_C" not in data:
        return False
    elsewhere, names = False, set[bytes]()
    for found in _REACH.finditer(data):
        words = _WORD.findall(found["path"])
        imported = _IMPORTED.match(data, found.end())
        if imported:
            listed = _WORD.findall(imported["inside"] or imported["line"] or b"")
            words += listed
            names.update(listed)
        elif words:
            elsewhere = elsewhere or _GOES_ON.match(data, found.end()) is not None
        else:
            elsewhere = elsewhere or not _is_bare_import(data, found.start(), found.end())
        if any(map(taxonomy.is_binding, words)):
            return True
    if names and not elsewhere:  # under another name, or of a module or class what is reached stands behind its name
        elsewhere = b"as" in names or not names.isdisjoint(_OPENED.findall(data))
    return elsewhere and any(map(taxonomy.is_binding, _WORD.findall(_ESCAPE.sub(b" ", data))))


def _is_bare_import(data: bytes, start: int, end: int) -> bool:
    """Say whether what stands there only imports the module under its own name."""
    line = data.rfind(b"\n", 0, start) + 1
    line = max(data.rfind(b"\r", line, start) + 1, line)
    return _LINE_END.match(data, end) is not None and _BARE_IMPORT.match(data[line:start]) is not None


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
