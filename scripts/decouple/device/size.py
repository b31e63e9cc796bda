"""Count lines of code, on the same terms for every backend.

Blank lines, comments and docstrings do not count. C, C++ and CUDA by their comments, Python by its tokens, YAML, TOML
and CMake by ``#``. Other files are not code.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import split_names, try_git
from decouple.base.python_text import parse_python
from decouple.syntax.preprocessor import blank_comments

_C = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".hh", ".inl", ".mm"}
_HASH = {".yaml", ".yml", ".toml", ".cmake"}
_LEFT_OUT = {"build", "__pycache__", ".git"}


class DeviceFile(Struct, frozen=True):
    """One file."""

    path: str
    language: str
    lines: int


def measure_files(place: Path) -> list[DeviceFile]:
    """Return every source file of ``place``.

    A file, a folder (git's files where it is in a repository).

    Raises DecoupleError when there is nothing to count, OSError.
    """
    if not place.exists():
        raise DecoupleError(f"{place}: there is no such file or folder", next_step="name a backend, or its files")
    files = [place] if place.is_file() else sorted(_list_files(place))
    sizes = []
    for path in files:
        language = _detect_language(path)
        if language is not None:
            text = path.read_text(encoding="utf-8", errors="replace")
            relative = path.name if place.is_file() else path.relative_to(place).as_posix()
            sizes.append(DeviceFile(relative, language, count_code_lines(text, language)))
    if not sizes:
        raise DecoupleError(f"{place}: no source file there", next_step="give the folder of a backend, or its files")
    return sizes


def _list_files(folder: Path) -> Iterator[Path]:
    listed = try_git("ls-files", "-co", "--exclude-standard", "-z", cwd=folder)
    if listed.status == 0 and listed.out:
        yield from (folder / name for name in split_names(listed.out) if (folder / name).is_file())
        return
    for path in folder.rglob("*"):
        if path.is_file() and not _LEFT_OUT & set(path.relative_to(folder).parts):
            yield path


def _detect_language(path: Path) -> str | None:
    if path.suffix in _C:
        return "C++"
    if path.suffix in (".py", ".pyi"):
        return "Python"
    if path.suffix in _HASH or path.name == "CMakeLists.txt":
        return "data"
    return None


def count_code_lines(text: str, language: str) -> int:
    """Return lines of ``text`` that hold code.

    Python that does not parse counts by its ``#`` only.
    """
    if language == "C++":
        return sum(1 for line in blank_comments(text).splitlines() if line.strip())
    if language == "Python":
        try:
            return _count_python_lines(text)
        except (SyntaxError, tokenize.TokenError, ValueError):
            pass
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def _count_python_lines(text: str) -> int:
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parse_python(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            first = node.body[0]
            lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)
