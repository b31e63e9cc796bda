"""Prints lists of ``build_variables.bzl`` as a CMake list of upstream paths.

``python -m torch_cuda_build.source_lists FILE NAME...``: that file is Starlark of the Python-compatible kind, and
upstream's own CMake evaluates it in the same way, so the two builds cannot disagree about what a list holds.
"""

from __future__ import annotations

import sys
from pathlib import Path


def read_lists(path: Path, names: list[str]) -> list[str]:
    """Return the concatenation of the lists *names*.

    Raises KeyError naming a list that this release does not have.
    """
    scope: dict[str, object] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    found: list[str] = []
    for name in names:
        value = scope[name]
        if not isinstance(value, list):
            raise KeyError(name)
        found += [str(item) for item in value]
    return found


if __name__ == "__main__":
    sys.stdout.write(";".join(read_lists(Path(sys.argv[1]), sys.argv[2:])))
