"""Scan a vendor's branches and lines in CMake, Starlark and setup.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from decouple.base.python_text import parse_python
from decouple.census.finding import RawFinding
from decouple.census.taxonomy import Taxonomy
from decouple.syntax.build_lists import CMakeCommand, read_cmake

_STARLARK = ("BUILD", "BUILD.bazel", "BUILD.oss", "BUCK", "BUCK.oss", "WORKSPACE")


UNCONDITIONAL = "unconditional"
"""How the detail starts of what every build does, whatever USE_CUDA says."""
_COMPONENTS = ("third_party/", "debian/")
"""Where others' projects lie: upstream's submodules, and those that Debian packs beside (its kineto)."""
_BELOW = re.compile(r"^\$\{\w+\}/")
_BINDING = frozenset({"add_subdirectory", "enable_language", "find_package", "project", "target_link_libraries"})


def is_build_file(path: str) -> bool:
    """Return whether ``path`` is a build file by name."""
    name = path.rpartition("/")[2]
    return (
        name == "CMakeLists.txt"
        or name.endswith((".cmake", ".cmake.in", ".bzl", ".BUILD"))
        or name in _STARLARK
        or path in ("setup.py", "tools/build_pytorch_libs.py")
        or path.startswith("tools/setup_helpers/")
    )


def is_in_every_build(path: str) -> bool:
    """Return whether every build of PyTorch reads ``path``.

    The files of a component are read only where something adds it.
    """
    if path.startswith(_COMPONENTS):
        return False
    return path.rpartition("/")[2] == "CMakeLists.txt" or path == "cmake/Dependencies.cmake"


def scan_build_file(path: str, text: str, taxonomy: Taxonomy) -> list[RawFinding]:
    """Find the branches and lines of a build file that name the vendor.

    One finding per branch whose condition names it, and one per variable or target of it outside such a branch.
    """
    name = path.rpartition("/")[2]
    if name == "CMakeLists.txt" or name.endswith((".cmake", ".cmake.in")):
        return list(_scan_cmake(path, text, taxonomy))
    return list(_scan_python_syntax(path, text, taxonomy))


def _scan_cmake(path: str, text: str, taxonomy: Taxonomy) -> Iterator[RawFinding]:
    # (condition, line, whether the vendor decides it) of each open if; a branch ends at its sibling or at endif
    stack: list[list[tuple[str, int, bool]]] = []
    loose: dict[str, list[int]] = {}
    depth = last_line = 0
    for command in read_cmake(text):
        last_line = command.end_line
        if command.name == "if":
            stack.append([_parse_condition(command, taxonomy)])
        elif command.name in ("elseif", "else") and stack:
            stack[-1].append(_parse_condition(command, taxonomy))
        elif command.name == "endif" and stack:
            yield from _report_branch(path, stack.pop(), command.end_line)
        elif command.name in ("function", "macro", "endfunction", "endmacro"):
            depth += 1 if command.name in ("function", "macro") else -1
        elif not (stack or depth) and command.name in _BINDING and (argument := _find_cuda_argument(command, taxonomy)):
            detail = f"{UNCONDITIONAL}: {command.name} in every build"
            yield RawFinding("build", _shorten_line(argument), path, command.line, command.end_line, 1, 1, True, detail)
        elif not any(decided for group in stack for _, _, decided in group):
            for word in command.arguments:
                if taxonomy.build_variables.search(word):
                    loose.setdefault(_shorten_line(word), []).append(command.line)
    while stack:
        yield from _report_branch(path, stack.pop(), last_line)
    for symbol, lines in loose.items():
        detail = f"outside any {taxonomy.title} branch"
        yield RawFinding("build", symbol, path, lines[0], lines[0], 1, len(lines), False, detail)


def _find_cuda_argument(command: CMakeCommand, taxonomy: Taxonomy) -> str:
    """Return the argument that brings the vendor into the build.

    Empty for a command that does not.
    """
    words = command.arguments
    if command.name == "target_link_libraries":
        words = words[1:]
    if command.name in ("add_subdirectory", "find_package"):
        words = words[:1]
    relative = (_BELOW.sub("", word) for word in words)
    literal = (word for word in relative if "$" not in word)  # what a variable holds is decided elsewhere
    return next((word for word in literal if taxonomy.build_variables.search(word)), "")


def _parse_condition(command: CMakeCommand, taxonomy: Taxonomy) -> tuple[str, int, bool]:
    text = " ".join(command.arguments) if command.name != "else" else ""
    return text, command.line, taxonomy.build_variables.search(text) is not None


def _report_branch(path: str, group: list[tuple[str, int, bool]], end: int) -> Iterator[RawFinding]:
    conditions = [text for text, _, decided in group if decided]
    if not conditions:
        return
    begin = group[0][1]
    ends = [line for _, line, _ in group[1:]] + [end]
    line_count = sum(end_line - line - 1 for (_, line, decided), end_line in zip(group, ends, strict=True) if decided)
    yield RawFinding(
        "build", _shorten_line(" | ".join(conditions)), path, begin, end, max(line_count, 0), 1, False, "branch"
    )


def _shorten_line(text: str) -> str:
    """Shorten to one line of at most 80 characters, so that it stays readable."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"


def _scan_python_syntax(path: str, text: str, taxonomy: Taxonomy) -> Iterator[RawFinding]:
    """Scan setup.py or Starlark: both parse as Python.

    What does not parse is read line by line.
    """
    try:
        tree = parse_python(text)
    except SyntaxError:
        yield from _scan_lines(path, text, taxonomy)
        return
    nodes = list(ast.walk(tree))
    covered: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp):
            names = dict.fromkeys(name for child in ast.walk(node.test) for name in _find_own_names(child, taxonomy))
            if not names or node.lineno in covered:
                continue
            end = node.end_lineno or node.lineno
            body = node.body if isinstance(node.body, list) else [node.body]
            line_count = (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1
            covered.update(range(node.lineno, end + 1))
            yield RawFinding(
                "build", _shorten_line(" | ".join(names)), path, node.lineno, end, line_count, 1, False, "branch"
            )
    loose: dict[str, list[int]] = {}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if line in covered or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        for name in _find_own_names(node, taxonomy):
            loose.setdefault(name, []).append(line)
    documentation = _find_documentation(nodes)
    for symbol, lines in loose.items():
        code_lines = [line for line in lines if line not in documentation]
        if code_lines:
            yield RawFinding(
                "build",
                symbol,
                path,
                code_lines[0],
                code_lines[0],
                1,
                len(code_lines),
                False,
                f"outside any {taxonomy.title} branch",
            )


def _find_documentation(nodes: list[ast.AST]) -> set[int]:
    lines: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _find_own_names(node: ast.AST, taxonomy: Taxonomy) -> Iterator[str]:
    if isinstance(node, ast.Name):
        text = node.id
    elif isinstance(node, ast.Attribute):
        text = node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    elif isinstance(node, ast.keyword) and node.arg:
        text = node.arg
    else:
        return
    if taxonomy.build_variables.search(text):
        yield _shorten_line(text)


_COMMENT = re.compile(r"#[^\n]*")


def _scan_lines(path: str, text: str, taxonomy: Taxonomy) -> Iterator[RawFinding]:
    loose: dict[str, list[int]] = {}
    for number, line in enumerate(_COMMENT.sub("", text).splitlines(), 1):
        for word in re.findall(r"[\w./:-]+", line):
            if taxonomy.build_variables.search(word):
                loose.setdefault(_shorten_line(word), []).append(number)
    for symbol, lines in loose.items():
        yield RawFinding("build", symbol, path, lines[0], lines[0], 1, len(lines), False, "line")
