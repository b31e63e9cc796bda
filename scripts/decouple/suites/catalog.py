"""Load the test suites, and find their files in a source tree."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import DecoupleError, UsageError

_FILE = Path(__file__).with_name("suites.toml")


class Suite(Struct, frozen=True):
    """Test files of upstream, with how they are run.

    ``files`` are names or patterns below ``test/``, ``select`` is pytest's ``-k``, ``process`` the largest number of
    tests in one process, ``seconds`` the time limit of one test, ``devices`` how many the suite needs.
    """

    name: str
    files: tuple[str, ...]
    select: str
    process: int
    seconds: float
    devices: int = 1

    def has_file(self, file: str) -> bool:
        """Return whether a file below ``test/`` belongs to the suite."""
        return any(fnmatchcase(file, name) and file.count("/") == name.count("/") for name in self.files)

    def select_words(self, words: str = "") -> str:
        """Return what pytest's ``-k`` is given: the suite's selection, and further words."""
        return " and ".join(f"({part})" for part in (self.select, words) if part)

    def find_words(self, selection: str) -> str:
        """Return the further words of what `select_words` made, all of another selection."""
        words = selection.removeprefix(self.select_words()).removeprefix(" and ")[1:-1]
        return words if self.select_words(words) == selection else selection

    def find_files(self, tests: Path) -> list[str]:
        """Return the files that exist, relative to ``tests``, sorted.

        Raises DecoupleError when there is none.
        """
        names = {
            str(path.relative_to(tests)) for pattern in self.files for path in tests.glob(pattern) if path.is_file()
        }
        if not names:
            raise DecoupleError(
                f"suite {self.name}: {tests} has none of {', '.join(self.files)}",
                next_step="is this upstream's test/ of that release? --tests DIR names another",
            )
        return sorted(names)


class _SuiteTable(Struct, frozen=True):
    environment: dict[str, str]
    simulated: dict[str, str]
    vendors: dict[str, dict[str, str]]
    suite: tuple[Suite, ...]


@cache
def _load_table() -> _SuiteTable:
    return toml.read_own_table(_FILE, _SuiteTable)


def select_variables(device: str, toolkit: str = "") -> dict[str, str]:
    """Return the environment variables of a test run on a kind of device.

    ``toolkit`` is another vendor's that made the torch.
    """
    table = _load_table()
    return {
        **table.environment,
        **(table.simulated if device == "simulated" else {}),
        **table.vendors.get(toolkit, {}),
    }


def load_suites() -> tuple[Suite, ...]:
    """Return every suite, in order."""
    return _load_table().suite


def select_suites(names: Sequence[str]) -> tuple[Suite, ...]:
    """Return the suites of these names, each once, and all when none is named.

    Raises UsageError with the known names when one is unknown.
    """
    suites = load_suites()
    known = {suite.name: suite for suite in suites}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"no suite {', '.join(unknown)}", next_step=f"choose from {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names)) if names else suites
