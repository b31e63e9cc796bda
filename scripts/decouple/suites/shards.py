"""Which tests share a process: those of a class, since a sticky error or a failed capture spoils what comes after."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Shard:
    """Tests of one file that run one after another in one process; ``name`` tells shards apart in logs."""

    suite: str
    file: str
    name: str
    ids: tuple[str, ...]


def cut(suite: str, file: str, ids: Sequence[str], most: int) -> list[Shard]:
    """Shards of at most ``most`` tests, in the order of ``ids``.

    Small classes that follow each other share a process; a class is cut only where it alone has more than ``most``.
    """
    found: list[list[str]] = [[]]
    for _, members in groupby(ids, key=class_of):
        rest = list(members)
        if found[-1] and len(found[-1]) + len(rest) > most:
            found.append([])
        for at in range(0, len(rest), most):
            if at:
                found.append([])
            found[-1] += rest[at : at + most]
    name = file.removesuffix(".py").replace("/", ".")
    return [
        Shard(suite, file, f"{name}-{number}", tuple(part))
        for number, part in enumerate((part for part in found if part), start=1)
    ]


def class_of(test: str) -> str:
    """File and class of a test's id.

    >>> class_of("test_cuda.py::TestCuda::test_x[a]")
    'test_cuda.py::TestCuda'
    """
    return test.partition("[")[0].rpartition("::")[0]


def slice_of(ids: Iterable[str], count: int, seed: str) -> set[str]:
    """``count`` of the tests, chosen by ``seed`` (a commit's hash): the same for the same seed, others for another."""
    ranked = sorted(ids, key=lambda test: hashlib.sha256(f"{seed} {test}".encode()).digest())
    return set(ranked[:count])
