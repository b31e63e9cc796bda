"""Divide tests among processes: those of a class share one.

A sticky error or a failed capture affects the tests that come after it in the same process.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence

from msgspec import Struct


class Shard(Struct, frozen=True):
    """Tests of one file that run one after another in one process.

    ``name`` distinguishes shards in logs.
    """

    suite: str
    file: str
    name: str
    ids: tuple[str, ...]


def cut_shards(suite: str, file: str, ids: Sequence[str], most: int) -> list[Shard]:
    """Return shards of at most ``most`` tests, in the order of ``ids``.

    Small classes that follow each other share a process; a class is divided only where it alone has more than ``most``.
    """
    groups: list[list[str]] = [[]]
    for _, members in itertools.groupby(ids, key=find_class):
        tests = list(members)
        if groups[-1] and len(groups[-1]) + len(tests) > most:
            groups.append([])
        for start in range(0, len(tests), most):
            if start:
                groups.append([])
            groups[-1] += tests[start : start + most]
    name = file.removesuffix(".py").replace("/", ".")
    return [
        Shard(suite, file, f"{name}-{number}", tuple(group))
        for number, group in enumerate((group for group in groups if group), start=1)
    ]


def find_class(test: str) -> str:
    """Return the file and class of a test's id.

    >>> find_class("test_cuda.py::TestCuda::test_x[a]")
    'test_cuda.py::TestCuda'
    """
    return test.partition("[")[0].rpartition("::")[0]


def choose_slice(ids: Iterable[str], count: int, seed: str, files: int = 0) -> set[str]:
    """Choose ``count`` of the tests by ``seed`` (a commit's hash).

    The choice is the same for the same seed. With ``files`` the tests are of at most that many files, chosen by the
    seed too, each with the same share where it has as many tests: a file costs the start of torch and its collection,
    however few of its tests are run.
    """

    def rank_name(name: str) -> bytes:
        return hashlib.sha256(f"{seed} {name}".encode()).digest()

    by_file: dict[str, list[str]] = {}
    for test in sorted(ids, key=rank_name):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    if not files:
        return set(sorted(itertools.chain.from_iterable(by_file.values()), key=rank_name)[:count])
    chosen_files = sorted(by_file, key=rank_name)[:files]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*(by_file[name] for name in chosen_files)))
    return set(itertools.islice(filter(None, turns), count))
