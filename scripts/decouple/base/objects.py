"""Read objects by one ``git cat-file --batch`` that runs until it is closed.

So many questions need one process.

Questions go in small batches, each answered before the next: git writes while it reads, and two full pipes wait for
ever.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from decouple.base.git import GitError, GitObject, Repository, make_answer, start_git

_BATCH = 1 << 14
"""Bytes of questions at once: much less than a pipe holds (64 KiB; pipe(7))."""


class ObjectReader:
    """A reader of the objects of one repository, in a process of its own.

    It takes any name that git knows: an id, ``COMMIT^{tree}``, ``TREE:folder``.
    """

    def __init__(self, cwd: Path, env: Mapping[str, str | None] | None = None) -> None:
        self._folder = cwd
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would stop git when it is full
        pipe = subprocess.PIPE
        self._process = start_git(
            ["cat-file", "--batch"], cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=self._errors
        )

    def read_objects(self, names: Sequence[str]) -> list[GitObject | None]:
        """Return what stands under each of ``names``, None where there is nothing.

        No name may have a newline.

        Raises GitError when git ended.
        """
        return [answer for batch in _split_batches(names) for answer in self._read_batch(batch)]

    def _read_batch(self, batch: list[bytes]) -> list[GitObject | None]:
        assert self._process.stdin
        if self._process.stdin.closed:  # git ended at an earlier question, and so says each later one
            raise self._make_error()
        try:
            self._process.stdin.write(b"".join(batch))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._make_error() from None
        return [self._read_object() for _ in batch]

    def _read_object(self) -> GitObject | None:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._make_error()
        if line.endswith((b" missing\n", b" submodule\n", b" ambiguous\n")):
            return None
        identity, kind, size = line.decode().split()
        data = self._process.stdout.read(int(size) + 1)
        if len(data) != int(size) + 1:
            raise self._make_error()
        return GitObject(identity, kind, data[:-1])

    def _make_error(self) -> GitError:
        with contextlib.suppress(BrokenPipeError), self._process:
            pass
        self._errors.seek(0)
        words = self._errors.read().decode("utf-8", "replace")
        return GitError(
            f"git cat-file in {self._folder}",
            make_answer(self._process.returncode, b"", words, self._folder),
            next_step=f"`git -C {shlex.quote(str(self._folder))} fsck` shows what is wrong",
        )

    def close(self) -> None:
        """Close the pipes; git ends when it is asked no more."""
        with self._errors, contextlib.suppress(BrokenPipeError), self._process:
            pass


@contextlib.contextmanager
def keep_object_reader(repository: Repository) -> Iterator[None]:
    """Have one process answer every question about the repository's objects meanwhile.

    For work that has hundreds of them.
    """
    if repository.reader:
        yield
        return
    with contextlib.closing(ObjectReader(repository.root, repository.make_variables())) as repository.reader:
        try:
            yield
        finally:
            repository.reader = None


def read_objects(repository: Repository, names: Sequence[str]) -> list[GitObject | None]:
    """Return what stands under each of ``names``, None where there is nothing.

    Raises GitError.
    """
    if not names:
        return []
    with keep_object_reader(repository):
        assert repository.reader
        return repository.reader.read_objects(names)


def _split_batches(names: Sequence[str]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for name in names:
        line = f"{name}\n".encode("utf-8", "surrogateescape")
        if batch and size + len(line) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch
