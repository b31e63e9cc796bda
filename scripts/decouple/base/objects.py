"""One ``git cat-file --batch`` that answers until it is closed: a process for many questions, not one for each.

Questions go in small lots, each answered before the next: git writes while it reads, and two full pipes wait forever.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from decouple.base.git import GitError, GitObject, Repository, answered, start

_LOT = 1 << 14
"""Bytes of questions at once: much less than a pipe holds (64 KiB; pipe(7))."""


class Objects:
    """The objects of one repository, by any name that git knows: an id, ``COMMIT^{tree}``, ``TREE:folder``."""

    def __init__(self, cwd: Path, env: Mapping[str, str | None] | None = None) -> None:
        self._where = cwd
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would stop git when it is full
        pipe = subprocess.PIPE
        self._process = start(["cat-file", "--batch"], cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=self._said)

    def ask(self, names: Sequence[str]) -> list[GitObject | None]:
        """What stands under each of ``names``, None where there is nothing. No name may have a newline.

        Raises GitError when git ended.
        """
        return [answer for lot in _lots(names) for answer in self._asked(lot)]

    def _asked(self, lot: list[bytes]) -> list[GitObject | None]:
        assert self._process.stdin
        if self._process.stdin.closed:  # git ended at an earlier question, and so says each later one
            raise self._ended()
        try:
            self._process.stdin.write(b"".join(lot))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return [self._answer() for _ in lot]

    def _answer(self) -> GitObject | None:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        if line.endswith((b" missing\n", b" submodule\n", b" ambiguous\n")):
            return None
        identity, kind, size = line.decode().split()
        data = self._process.stdout.read(int(size) + 1)
        if len(data) != int(size) + 1:
            raise self._ended()
        return GitObject(identity, kind, data[:-1])

    def _ended(self) -> GitError:
        with contextlib.suppress(BrokenPipeError), self._process:
            pass
        self._said.seek(0)
        words = self._said.read().decode("utf-8", "replace")
        return GitError(
            f"git cat-file in {self._where}",
            answered(self._process.returncode, b"", words, self._where),
            next_step=f"`git -C {self._where} fsck` shows what is wrong",
        )

    def close(self) -> None:
        """Let git go; it ends when it is asked no more."""
        with self._said, contextlib.suppress(BrokenPipeError), self._process:
            pass


@contextlib.contextmanager
def asked_often(repository: Repository) -> Iterator[None]:
    """While this lasts, one process answers every question about its objects: for work that has hundreds of them."""
    if repository.reader:
        yield
        return
    with contextlib.closing(Objects(repository.root, repository.place())) as repository.reader:
        try:
            yield
        finally:
            repository.reader = None


def objects(repository: Repository, names: Sequence[str]) -> list[GitObject | None]:
    """What stands under each of ``names``, None where there is nothing. Raises GitError."""
    if not names:
        return []
    with asked_often(repository):
        assert repository.reader
        return repository.reader.ask(names)


def _lots(names: Sequence[str]) -> Iterator[list[bytes]]:
    lot: list[bytes] = []
    size = 0
    for name in names:
        line = f"{name}\n".encode("utf-8", "surrogateescape")
        if lot and size + len(line) > _LOT:
            yield lot
            lot, size = [], 0
        lot.append(line)
        size += len(line)
    if lot:
        yield lot
