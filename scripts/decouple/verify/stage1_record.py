"""Read what the build itself recorded of stage 1's units.

It says for which units that is still true. The record (``.ninja_deps``) is as good as the object it is of. Whether that
object is what the tree and the commands of now would give is ninja's own question, so ninja answers it: a dry run
(``ninja -n``) of exactly the objects in question names those that it would compile again, because a file that they
opened, their command or their record changed. Nothing is written; but a dry run beside a running ninja may meet half a
record and cut it off, so a build that runs is a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from msgspec import Struct

from decouple.base import program_output
from decouple.base.errors import DecoupleError
from decouple.base.files import hold_lock
from decouple.verify.ninja_deps import DependencyLog, normalise_path

_BATCH = 500  # objects per call: far below any limit on the length of a command line
_OUTPUT = re.compile(r" -o (\S+)")
_REGENERATE = "--regenerate-during-build"  # CMake's own command line for a build.ninja that is out of date


class BuildRecord(Struct, frozen=True):
    """The log, and the outputs for which it does not count any more."""

    log: DependencyLog
    outdated: frozenset[PurePosixPath]

    def opened(self, output: PurePosixPath) -> tuple[PurePosixPath, ...] | None:
        """Return what the compiler opened to make ``output``.

        None when that is not known of the tree as it is now.
        """
        return None if output in self.outdated else self.log.opened(output)


def read_record(
    folder: Path, directory: PurePosixPath, outputs: Sequence[PurePosixPath], *, enter: Sequence[str] = ()
) -> BuildRecord:
    """Read the record of the build directory ``folder``.

    The build sees it as ``directory``. ``enter`` is put in front of the command, so that ninja runs where the build
    ran. Raises DecoupleError when there is no readable record or ninja fails.
    """
    log = DependencyLog.read(folder / ".ninja_deps", directory)
    known = [output for output in outputs if log.opened(output) is not None]
    outdated: set[PurePosixPath] = set()
    for at in range(0, len(known), _BATCH):
        names = [str(output.relative_to(directory)) for output in known[at : at + _BATCH]]
        words = [*enter, "ninja", "-C", str(directory), "-n", "-v", *names]
        done = program_output.run_program(words)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"exit status {done.returncode}"]
            raise DecoupleError(
                f"ninja: {said[-1]}", next_step="decouple build RELEASE --stage 1, or give --preprocess"
            )
        if _REGENERATE in done.stdout:
            return BuildRecord(log, frozenset(known))
        outdated.update(normalise_path(directory, name) for name in _OUTPUT.findall(done.stdout))
    return BuildRecord(log, frozenset(outdated))


@contextmanager
def hold_build_lock(lock: Path) -> Iterator[None]:
    """Hold the lock that a build of the stage takes.

    Raises DecoupleError if a build holds it.
    """

    def refuse_running_build() -> None:
        raise DecoupleError(
            f"{lock}: a build is running, and what it records is not complete",
            next_step="wait until it ends, or give --preprocess",
        )

    with hold_lock(lock, refuse_running_build):
        yield
