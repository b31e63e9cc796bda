"""Tests that cannot pass on the simulated device: ``known.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from simcuda import tables

HERE = Path(__file__).parent
KINDS = frozenset({"compiler", "network", "race", "slow", "values"})


@dataclass(frozen=True)
class Known:
    """Tests, by file and name (a pattern of a shell where it has a star), with the reason."""

    file: str
    test: str
    kind: str
    reason: str


def load(path: Path = HERE / "known.toml") -> tuple[Known, ...]:
    """All of them."""
    return tuple(Known(**entry) for entry in tables.read(path)["known"])


def reason(node: str, known: tuple[Known, ...]) -> str | None:
    """Why the test of that pytest id cannot pass, or None."""
    file, _, rest = node.partition("::")
    name = rest.rpartition("::")[2].partition("[")[0]
    return next((f"{k.kind}: {k.reason}" for k in known if file.endswith(k.file) and fnmatchcase(name, k.test)), None)
