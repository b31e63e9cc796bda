"""The suites as data, and the files that they mean in one source tree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import DecoupleError, UsageError

_FILE = Path(__file__).with_name("suites.toml")


class Suite(Struct, frozen=True):
    """Test files of upstream and how they are run.

    ``files`` are names or patterns below ``test/``, ``select`` is pytest's ``-k``, ``process`` the largest number of
    tests in one process, ``seconds`` the longest that one test may take, ``devices`` how many the suite needs.
    """

    name: str
    files: tuple[str, ...]
    select: str
    process: int
    seconds: float
    devices: int = 1

    def found(self, tests: Path) -> list[str]:
        """The files that there are, relative to ``tests``, sorted. Raises DecoupleError when there is none."""
        names = {
            str(path.relative_to(tests)) for pattern in self.files for path in tests.glob(pattern) if path.is_file()
        }
        if not names:
            raise DecoupleError(
                f"suite {self.name}: {tests} has none of {', '.join(self.files)}",
                next_step="is this upstream's test/ of that release? --tests DIR names another",
            )
        return sorted(names)


class _File(Struct, frozen=True):
    environment: dict[str, str]
    simulated: dict[str, str]
    suite: tuple[Suite, ...]


@cache
def _file() -> _File:
    return toml.read(_FILE, _File, mend="git checkout it")


def variables(device: str) -> dict[str, str]:
    """The environment variables that the suites are run with on a kind of device."""
    return {**_file().environment, **(_file().simulated if device == "simulated" else {})}


def load() -> tuple[Suite, ...]:
    """Every suite, in order."""
    return _file().suite


def chosen(names: Sequence[str]) -> tuple[Suite, ...]:
    """The suites of these names, all when none is named. Raises UsageError naming those that there are."""
    every = load()
    known = {suite.name: suite for suite in every}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"no suite {', '.join(unknown)}", next_step=f"choose from {', '.join(known)}")
    return tuple(known[name] for name in names) if names else every
