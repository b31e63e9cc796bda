"""Run CMake without a PyTorch source tree.

It is for backends that are built against a PyTorch that is only installed. The few things that `upstream` takes from
``tools.setup_helpers.cmake``, by the same names.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import WrappedCMakeError
from .parameters import FALSE, TRUE

_ENTRY = re.compile(r"^([^#/\s:][^:]*):([A-Z]+)=(.*)$")


class CMake:
    """CMake for one build directory, as found on the PATH of ``environ``.

    Raises WrappedCMakeError without one.
    """

    def __init__(self, build_dir: Path, environ: Mapping[str, str]) -> None:
        self.build_dir = build_dir
        path = environ.get("PATH")
        found = shutil.which("cmake", path=path)
        if found is None:
            raise WrappedCMakeError("cmake is not on the PATH", "install it, e.g. pip install cmake")
        self.command = found
        self.has_ninja = shutil.which("ninja", path=path) is not None

    def arguments(self, definitions: Mapping[str, str]) -> list[str]:
        """``-D`` for every definition, in the order of their names."""
        return [f"-D{name}={value}" for name, value in sorted(definitions.items())]

    def cache(self) -> dict[str, Any]:
        """Read the variables of ``CMakeCache.txt``, those of type BOOL as such.

        Raises OSError before a configure.
        """
        return read_cache(self.build_dir)


def read_cache(build_dir: Path) -> dict[str, Any]:
    """Read all variables of ``CMakeCache.txt``, those of type BOOL as such.

    Raises OSError before a configure.
    """
    found: dict[str, Any] = {}
    for line in (build_dir / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        entry = _ENTRY.match(line)
        if entry:
            name, kind, value = entry.groups()
            found[name] = _parse_boolean(value) if kind == "BOOL" else value
    return found


def _parse_boolean(value: str) -> bool | str:
    """Return what CMake means by a BOOL; text that is neither stays text."""
    if value.upper() in TRUE:
        return True
    return False if value.upper() in FALSE or value.upper().endswith("NOTFOUND") or not value else value
