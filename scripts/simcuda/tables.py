"""Read this package's tables, TOML, which Python reads itself from 3.11 on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):  # noqa: UP036 - torch 2.6 still runs on 3.9
    import tomllib
else:
    import tomli as tomllib


def read_table(path: Path) -> dict[str, Any]:
    """Read the whole file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))
