"""Tests that cannot pass when simulated, by name or failure: known_failures.toml."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from simcuda import tables

HERE = Path(__file__).parent
KINDS = frozenset({"compiler", "library", "network", "race", "slow", "values", "waits"})
NOT_RUN = ("slow", "waits")
"""Tests of these kinds are skipped: they would take minutes each, or never end."""


@dataclass(frozen=True)
class KnownFailure:
    """Tests, by the end of the file's path and by name, with the reason.

    The name is a pattern of a shell where it has a star. With ``said`` only where that is part of what the test failed
    with.
    """

    file: str
    test: str
    kind: str
    reason: str
    said: str = ""


def load_known_failures(path: Path = HERE / "known_failures.toml") -> tuple[KnownFailure, ...]:
    """Read all of them."""
    return tuple(KnownFailure(**entry) for entry in tables.read_table(path)["known"])


def find_reason(node: str, known: tuple[KnownFailure, ...], said: str = "") -> str | None:
    """Return why the test of a pytest id cannot pass, or None; ``said``: its failure."""
    file, _, rest = node.partition("::")
    name = rest.rpartition("::")[2].partition("[")[0]
    for row in known:
        if file.endswith(row.file) and fnmatchcase(name, row.test) and row.said in said:
            return f"{row.kind}: {row.reason}"
    return None
