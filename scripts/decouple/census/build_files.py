"""Build files: branches and lines that know of CUDA, in CMake, Starlark and setup.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from decouple.census.finding import Raw
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
    """Whether ``path`` is one by name."""
    name = path.rpartition("/")[2]
    return (
        name == "CMakeLists.txt"
        or name.endswith((".cmake", ".cmake.in", ".bzl", ".BUILD"))
        or name in _STARLARK
        or path in ("setup.py", "tools/build_pytorch_libs.py")
        or path.startswith("tools/setup_helpers/")
    )


def is_of_every_build(path: str) -> bool:
    """Whether every build of PyTorch reads ``path``; of a component, only where something adds it."""
    if path.startswith(_COMPONENTS):
        return False
    return path.rpartition("/")[2] == "CMakeLists.txt" or path == "cmake/Dependencies.cmake"


def scan(path: str, text: str, taxonomy: Taxonomy) -> list[Raw]:
    """One finding per branch whose condition names CUDA, and one per CUDA variable or target outside such a branch."""
    name = path.rpartition("/")[2]
    if name == "CMakeLists.txt" or name.endswith((".cmake", ".cmake.in")):
        return list(_cmake(path, text, taxonomy))
    return list(_python_syntax(path, text, taxonomy))


def _cmake(path: str, text: str, taxonomy: Taxonomy) -> Iterator[Raw]:
    # (condition, line, whether CUDA decides it) of each open if; a branch ends at its sibling or at endif
    stack: list[list[tuple[str, int, bool]]] = []
    loose: dict[str, list[int]] = {}
    depth = last = 0
    for command in read_cmake(text):
        last = command.end_line
        if command.name == "if":
            stack.append([_condition(command, taxonomy)])
        elif command.name in ("elseif", "else") and stack:
            stack[-1].append(_condition(command, taxonomy))
        elif command.name == "endif" and stack:
            yield from _branch(path, stack.pop(), command.end_line)
        elif command.name in ("function", "macro", "endfunction", "endmacro"):
            depth += 1 if command.name in ("function", "macro") else -1
        elif not (stack or depth) and command.name in _BINDING and (asked := _needs(command, taxonomy)):
            detail = f"{UNCONDITIONAL}: {command.name} in every build"
            yield Raw("build", _short(asked), path, command.line, command.end_line, 1, 1, True, detail)
        elif not any(decided for group in stack for _, _, decided in group):
            for word in command.arguments:
                if taxonomy.build_variables.search(word):
                    loose.setdefault(_short(word), []).append(command.line)
    while stack:
        yield from _branch(path, stack.pop(), last)
    for symbol, lines in loose.items():
        yield Raw("build", symbol, path, lines[0], lines[0], 1, len(lines), False, "outside any CUDA branch")


def _needs(command: CMakeCommand, taxonomy: Taxonomy) -> str:
    """The argument that brings CUDA into the build; empty for a command that does not."""
    words = command.arguments
    if command.name == "target_link_libraries":
        words = words[1:]
    if command.name in ("add_subdirectory", "find_package"):
        words = words[:1]
    below = (_BELOW.sub("", word) for word in words)
    plain = (word for word in below if "$" not in word)  # what a variable holds is decided elsewhere
    return next((word for word in plain if taxonomy.build_variables.search(word)), "")


def _condition(command: CMakeCommand, taxonomy: Taxonomy) -> tuple[str, int, bool]:
    text = " ".join(command.arguments) if command.name != "else" else ""
    return text, command.line, taxonomy.build_variables.search(text) is not None


def _branch(path: str, group: list[tuple[str, int, bool]], end: int) -> Iterator[Raw]:
    asked = [text for text, _, decided in group if decided]
    if not asked:
        return
    begin = group[0][1]
    ends = [line for _, line, _ in group[1:]] + [end]
    inside = sum(stop - line - 1 for (_, line, decided), stop in zip(group, ends, strict=True) if decided)
    yield Raw("build", _short(" | ".join(asked)), path, begin, end, max(inside, 0), 1, False, "branch")


def _short(text: str, limit: int = 80) -> str:
    """One line of at most ``limit`` characters, so that a symbol stays readable."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _python_syntax(path: str, text: str, taxonomy: Taxonomy) -> Iterator[Raw]:
    """setup.py and Starlark: both parse as Python; what does not is read line by line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        yield from _lines(path, text, taxonomy)
        return
    nodes = list(ast.walk(tree))
    covered: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp):
            asked = _names(node.test, taxonomy)
            if not asked or node.lineno in covered:
                continue
            end = node.end_lineno or node.lineno
            body = node.body if isinstance(node.body, list) else [node.body]
            inside = (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1
            covered.update(range(node.lineno, end + 1))
            yield Raw("build", _short(" | ".join(asked)), path, node.lineno, end, inside, 1, False, "branch")
    loose: dict[str, list[int]] = {}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if line in covered or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        for name in _own_names(node, taxonomy):
            loose.setdefault(name, []).append(line)
    documentation = _documentation(nodes)
    for symbol, lines in loose.items():
        where = [line for line in lines if line not in documentation]
        if where:
            yield Raw("build", symbol, path, where[0], where[0], 1, len(where), False, "outside any CUDA branch")


def _documentation(nodes: list[ast.AST]) -> set[int]:
    out: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return out


def _own_names(node: ast.AST, taxonomy: Taxonomy) -> Iterator[str]:
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
        yield _short(text)


def _names(node: ast.AST, taxonomy: Taxonomy) -> list[str]:
    return list(dict.fromkeys(name for child in ast.walk(node) for name in _own_names(child, taxonomy)))


_COMMENT = re.compile(r"#[^\n]*")


def _lines(path: str, text: str, taxonomy: Taxonomy) -> Iterator[Raw]:
    loose: dict[str, list[int]] = {}
    for number, line in enumerate(_COMMENT.sub("", text).splitlines(), 1):
        for word in re.findall(r"[\w./:-]+", line):
            if taxonomy.build_variables.search(word):
                loose.setdefault(_short(word), []).append(number)
    for symbol, lines in loose.items():
        yield Raw("build", symbol, path, lines[0], lines[0], 1, len(lines), False, "line")
