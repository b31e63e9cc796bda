"""Measure a build: wall time, and objects compiled or taken from the cache."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.untrusted_input import read_json
from decouple.build.environment import Environment, read_output


class Effort(Struct, frozen=True):
    """Hold wall ``seconds``, ``compiled`` and ``cached`` objects.

    Interrupted runs are included; the objects are None without a ccache.
    """

    seconds: float
    compiled: int | None = None
    cached: int | None = None

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.seconds + other.seconds,
            None if self.compiled is None or other.compiled is None else self.compiled + other.compiled,
            None if self.cached is None or other.cached is None else self.cached + other.cached,
        )


class _EffortRecord(Effort, frozen=True):
    digest: str = ""


class Counters(Struct, frozen=True):
    """ccache's counters at one moment."""

    hits: int
    misses: int


def read_counters(environment: Environment, variables: dict[str, str]) -> Counters | None:
    """Read what ccache has counted so far; None where there is none.

    Others who use the same cache are counted too.
    """
    output = read_output(environment, ["ccache", "--print-stats"], variables)
    if output is None:
        return None
    numbers = {name: int(value) for name, _, value in (line.partition("\t") for line in output.splitlines())}
    return Counters(
        numbers.get("direct_cache_hit", 0) + numbers.get("preprocessed_cache_hit", 0), numbers.get("cache_miss", 0)
    )


def measure_effort(seconds: float, before: Counters | None, after: Counters | None) -> Effort:
    """Measure the effort between two readings."""
    if before is None or after is None:
        return Effort(seconds)
    return Effort(seconds, compiled=after.misses - before.misses, cached=after.hits - before.hits)


def accumulate_effort(path: Path, digest: str, effort: Effort) -> Effort:
    """Return ``effort`` with that of ``path``'s interrupted runs on the same inputs."""
    with contextlib.suppress(OSError, DecoupleError):  # none yet, or of another version of this file
        recorded = read_json(path, _EffortRecord, mend="")
        if recorded.digest == digest:
            effort = Effort(recorded.seconds, recorded.compiled, recorded.cached) + effort
    write_atomically(path, json.dumps({"digest": digest, **asdict(effort)}) + "\n")
    return effort
