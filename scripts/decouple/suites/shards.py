"""Which tests share a process: those of a class, since a sticky error or a failed capture spoils what comes after."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence

from msgspec import Struct


class Shard(Struct, frozen=True):
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
    for _, members in itertools.groupby(ids, key=class_of):
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


def slice_of(ids: Iterable[str], count: int, seed: str, files: int = 0) -> set[str]:
    """``count`` of the tests, chosen by ``seed`` (a commit's hash): the same for the same seed, others for another.

    With ``files`` they are of at most that many files, chosen by the seed too, each with the same share where it has as
    many tests: a file costs the start of torch and its collection, however few of its tests are run.
    """

    def rank(name: str) -> bytes:
        return hashlib.sha256(f"{seed} {name}".encode()).digest()

    by_file: dict[str, list[str]] = {}
    for test in sorted(ids, key=rank):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    if not files:
        return set(sorted(itertools.chain.from_iterable(by_file.values()), key=rank)[:count])
    named = sorted(by_file, key=rank)[:files]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*(by_file[name] for name in named)))
    return set(itertools.islice(filter(None, turns), count))
