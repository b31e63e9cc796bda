"""Tell whether a test file changed, or a module of ``test/`` that it imports."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import\b[ \t]*(\([^)]*|[^\n]*)|import[ \t]+([^\n]*))", re.MULTILINE
)
_NAME = re.compile(r"[\w.]+")


def hash_test_files(tests: Path, files: Iterable[str]) -> dict[str, str]:
    """Return file below ``tests`` -> SHA-256 of its text, that of its modules.

    A blank stands between the two. Its modules are those below ``tests`` that it imports, anywhere in it, and what they
    import themselves: the tests of ``test_jit.py`` stand in ``jit/``. Raises OSError.
    """
    read: dict[str, tuple[str, frozenset[str]]] = {}

    def hash_file(file: str) -> str:
        reached, waiting = {file}, [file]
        while waiting:
            name = waiting.pop()
            if name not in read:
                raw = (tests / name).read_bytes()
                imported = frozenset(_list_imported(tests, PurePosixPath(name), raw.decode(errors="replace")))
                read[name] = hashlib.sha256(raw).hexdigest(), imported
            waiting += read[name][1] - reached
            reached |= read[name][1]
        modules = "".join(f"{name} {read[name][0]}\n" for name in sorted(reached - {file}))
        return f"{read[file][0]} {hashlib.sha256(modules.encode()).hexdigest()}"

    return {file: hash_file(file) for file in files}


def _list_imported(tests: Path, file: PurePosixPath, text: str) -> Iterator[str]:
    """Yield the files below ``tests`` of all that ``text`` may import.

    One too many does no harm.
    """
    for dots, package, names, modules in _IMPORT.findall(text):
        # of an import without dots, both are on pytest's path of modules
        places = [*file.parents][len(dots) - 1 : len(dots)] if dots else [PurePosixPath(), file.parent]
        wanted = [package, *(f"{package}.{name}" for name in _NAME.findall(names))] if names else _NAME.findall(modules)
        for place in places:
            for parts in (name.strip(".").split(".") for name in wanted):
                for length in range(1, len(parts) + 1):
                    module = place.joinpath(*parts[:length])
                    yield from (path for path in (f"{module}.py", f"{module}/__init__.py") if (tests / path).is_file())
