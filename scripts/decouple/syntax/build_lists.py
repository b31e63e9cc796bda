"""Read the source lists that upstream's build files hold.

They are in ``build_variables.bzl`` and the CMake files. Both are read, never run: the first is Python syntax of which
only list displays, ``+``, ``sorted`` and names matter, the second a sequence of commands of which ``set``,
``list(APPEND)``, ``file(GLOB)`` and PyTorch's own ``append_filelist`` matter. Conditionals are ignored: a list holds
what any configuration would put there.
"""

from __future__ import annotations

import ast
import bisect
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.python_text import parse_python
from decouple.base.untrusted_input import read_bounded
from decouple.syntax.globs import find_match

_MOST = 16 << 20  # bytes of one build file; upstream's longest has 0.1 MiB


def _read_text(path: Path) -> str:
    """Read a build file. Raises DecoupleError for a pipe, OSError."""
    return read_bounded(path, _MOST).decode("utf-8", "replace")


def read_bzl(path: Path) -> dict[str, list[str]]:
    """Read every list of strings that a ``.bzl`` file assigns at top level.

    A list that needs more than the subset (a comprehension over a parameter, say) is left out.
    Raises DecoupleError when the file does not parse, OSError when it cannot be read.
    """
    try:
        module = parse_python(_read_text(path), str(path))
    except SyntaxError as error:
        raise DecoupleError(
            f"{path}:{error.lineno}: not readable as a list of sources ({error.msg})",
            next_step="look at what upstream changed in this file and teach decouple.syntax.build_lists the form",
        ) from error
    lists: dict[str, list[str]] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value = _evaluate_list(statement.value, lists)
            if value is not None:
                lists[statement.targets[0].id] = value
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            more = _evaluate_list(statement.value, lists)
            if more is not None:
                lists[statement.target.id] = [*lists.get(statement.target.id, ()), *more]
    return lists


def _evaluate_list(node: ast.expr, lists: Mapping[str, list[str]]) -> list[str] | None:
    if isinstance(node, ast.List):
        if all(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in node.elts):
            return [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        return None
    if isinstance(node, ast.Name):
        return lists.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _evaluate_list(node.left, lists), _evaluate_list(node.right, lists)
        return None if left is None or right is None else [*left, *right]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sorted" and node.args:
        value = _evaluate_list(node.args[0], lists)
        return None if value is None else sorted(value)
    return None


class CMakeCommand(Struct, frozen=True):
    """A command: its name in lower case, its arguments, the lines it spans (from 1)."""

    name: str
    arguments: tuple[str, ...]
    line: int
    end_line: int


_BRACKET = re.compile(r"#?\[(?P<eq>=*)\[")
#: Possessive, so that what was read is not tried again: a word of 15 MB took gigabytes.
_CMAKE = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<open>\()|(?P<close>\))|(?P<quoted>"(?:[^"\\]++|\\.)*+")"""
    r"""|(?P<word>(?:[^\s()"\#\\]++|\\.|(?<=\S)"(?:[^"\\]++|\\.)*+")++)|(?P<space>\s+)""",
    re.DOTALL | re.VERBOSE,
)


def _split_cmake(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each token; what is none is left out."""
    at, unclosed = 0, set[str]()
    while at < len(text):
        opening = _BRACKET.match(text, at)
        if opening and opening["eq"] not in unclosed:
            end = text.find(closing := f"]{opening['eq']}]", opening.end())
            if end >= 0:
                yield ("comment" if opening[0].startswith("#") else "quoted"), text[at : end + len(closing)]
                at = end + len(closing)
                continue
            unclosed.add(opening["eq"])  # nowhere below either: else each opening would be searched for to the end
        token = _CMAKE.match(text, at)
        if token and token.lastgroup:
            yield token.lastgroup, token[0]
        at = token.end() if token else at + 1


def read_cmake(text: str) -> Iterator[CMakeCommand]:
    """Yield the commands of a CMake file in order.

    Nested parentheses stay as words of their own.
    """
    name = ""
    arguments: list[str] = []
    depth = start = 0
    line = 1
    for kind, part in _split_cmake(text):
        if kind == "open":
            depth += 1
            if depth == 1:
                arguments = []
            else:
                arguments.append("(")
        elif kind == "close":
            depth -= 1
            if depth == 0 and name:
                yield CMakeCommand(name.lower(), tuple(arguments), start, line + part.count("\n"))
                name = ""
            elif depth > 0:
                arguments.append(")")
            depth = max(depth, 0)
        elif kind == "word" and depth == 0:
            name, start = part, line
        elif kind == "word":
            arguments.append(part)
        elif kind == "quoted" and depth:
            arguments.append(part[1:-1] if part.startswith('"') else part)
        line += part.count("\n")


_WILD = re.compile(r"[*?\[{]").search
_REFERENCE = re.compile(r"\$\{(\w+)\}")


class CMakeLists:
    """The list variables of some CMake files, as sets of files of the tree.

    A variable keeps everything that any ``set`` or ``list(APPEND)`` gives it, in whichever branch; names are global
    over the files, which is how upstream uses them (``PARENT_SCOPE``).
    """

    # What upstream's own variables stand for, relative to the tree.
    ROOTS: Mapping[str, str] = {
        "TORCH_SRC_DIR": "torch",
        "TORCH_ROOT": ".",
        "Torch_SOURCE_DIR": ".",
        "PROJECT_SOURCE_DIR": ".",
    }

    def __init__(
        self, tree: Path, cmake_files: Iterable[str], files: Iterable[str], bzl: Mapping[str, list[str]]
    ) -> None:
        self._files = sorted(files)
        self._present = frozenset(self._files)
        self._bzl = bzl
        self._values: dict[str, set[str]] = {}
        for name in cmake_files:
            folder = posixpath.dirname(name)
            for command in read_cmake(_read_text(tree / name)):
                self._run_command(command, folder)

    def get(self, variable: str) -> frozenset[str]:
        """Return the files that ``variable`` can hold; empty when it is never set."""
        return frozenset(self._values.get(variable, ()))

    def list_variables(self) -> list[str]:
        """List the names of all variables that hold files."""
        return sorted(name for name, value in self._values.items() if value)

    def _run_command(self, command: CMakeCommand, folder: str) -> None:
        words = command.arguments
        if command.name == "file" and len(words) > 2 and words[0] in ("GLOB", "GLOB_RECURSE"):
            patterns = [self._resolve_path(word, folder) for word in words[2:]]
            if words[0] == "GLOB_RECURSE":
                patterns = [posixpath.join(posixpath.dirname(p), "**", posixpath.basename(p)) for p in patterns]
            for pattern in patterns:
                self._add_files(
                    words[1], (path for path in self._list_candidates(pattern) if find_match(path, (pattern,)))
                )
        elif command.name == "set" and len(words) > 1:
            self._add_files(words[0], self._expand_words(words[1:], folder))
        elif command.name == "list" and len(words) > 2 and words[0] == "APPEND":
            self._add_files(words[1], self._expand_words(words[2:], folder))
        elif command.name == "append_filelist" and len(words) == 2:
            self._add_files(words[1], (path for path in self._bzl.get(words[0], ()) if path in self._present))

    def _list_candidates(self, pattern: str) -> Iterator[str]:
        """Yield the files that can match ``pattern`` by its part before a wildcard."""
        wild = _WILD(pattern)
        fixed = pattern[: wild.start()] if wild else pattern
        begin = bisect.bisect_left(self._files, fixed)
        while begin < len(self._files) and self._files[begin].startswith(fixed):
            yield self._files[begin]
            begin += 1

    def _add_files(self, variable: str, paths: Iterable[str]) -> None:
        self._values.setdefault(variable, set()).update(paths)

    def _expand_words(self, words: Iterable[str], folder: str) -> Iterator[str]:
        for word in words:
            whole = _REFERENCE.fullmatch(word)
            if whole:
                yield from self._values.get(whole[1], ())
                continue
            path = self._resolve_path(word, folder)
            if path in self._present:
                yield path

    def _resolve_path(self, word: str, folder: str) -> str:
        """Return what a CMake file in ``folder`` means by ``word``, relative to the tree."""
        text = word.replace("${CMAKE_CURRENT_SOURCE_DIR}", folder)
        text = _REFERENCE.sub(lambda match: self.ROOTS.get(match[1], match[0]), text)
        is_relative = text == word or "${CMAKE_CURRENT_SOURCE_DIR}" in word
        base = folder if is_relative and not text.startswith(folder + "/") else "."
        return posixpath.normpath(posixpath.join(base, text))
