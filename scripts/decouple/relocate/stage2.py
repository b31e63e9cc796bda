"""Check whether stage 2 compiles every translation unit that moves.

The texts alone are asked, before anybody compiles. The lists are those of stage 2's ``Sources.cmake`` and of its
toolkit's description, read as CMake reads them: patterns and names are upstream's paths, so they are held against the
pristine tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.syntax.build_lists import read_bzl, read_cmake
from decouple.syntax.globs import find_match

UNITS = (".cpp", ".cu", ".cc", ".c")
_SUBMODULES = "third_party"
_DATA = Path(__file__).with_name("stage2.toml")


class LeftUnits(Struct, frozen=True):
    """Units that stage 2 does not compile, and why."""

    paths: list[str]
    reason: str


class Stage2Sources(Struct, frozen=True):
    """The data of ``stage2.toml``."""

    sources: list[str]
    """The first sets variables that the others use."""
    either: list[list[str]]
    left: list[LeftUnits]
    later: list[str] = []
    """Patterns for what only a later release has; in another they find nothing."""


class ListsReport(Struct, frozen=True):
    """The result of stage 2's lists on one tree.

    Each fault is a line with what to do about it.
    """

    units: int
    """Translation units that move."""
    compiled: int
    left: tuple[tuple[str, str], ...]
    """(path, reason) of those that stage 2 leaves out."""
    faults: tuple[str, ...]
    unasked: tuple[str, ...] = ()
    """Submodules that this tree has not: of the patterns that lead into them nothing is known."""


def load_sources() -> Stage2Sources:
    """Load the data. Raises DecoupleError naming file and key."""
    return toml.read_own_table(_DATA, Stage2Sources)


def check_lists(tree: Path, moved: Iterable[str], project: Path, data: Stage2Sources | None = None) -> ListsReport:
    """Compare stage 2's lists with the pristine ``tree`` and what of it moves.

    Raises DecoupleError, OSError.
    """
    data = data or load_sources()
    lists = _ListReader(tree, project, data)
    units = sorted(path for path in moved if path.endswith(UNITS))
    reasons = {path: left.reason for left in data.left for path in units if find_match(path, left.paths)}
    out = [path for path in units if path not in lists.found]
    faults = [*lists.faults, *_list_lost_units(out, reasons, data)]
    left = tuple((path, reasons[path]) for path in out if path in reasons)
    return ListsReport(len(units), len(units) - len(out), left, tuple(faults), tuple(sorted(lists.absent)))


def _list_lost_units(out: Sequence[str], reasons: dict[str, str], data: Stage2Sources) -> Iterator[str]:
    """Yield one line for each folder and suffix whose units nothing compiles."""
    groups: dict[str, list[str]] = {}
    for path in out:
        if path not in reasons:
            groups.setdefault(f"{path.rpartition('/')[0]}/*{Path(path).suffix}", []).append(path)
    for pattern, paths in groups.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        yield (
            f'{paths[0]}{more}: moves, and stage 2 compiles it by no list; add "{pattern}" to a torch_cuda_glob() of '
            f"{data.sources[0]}, or a [[left]] with the reason to scripts/decouple/relocate/stage2.toml"
        )


class _ListReader:
    """The files that lists find in a tree, and what they name in vain."""

    def __init__(self, tree: Path, project: Path, data: Stage2Sources) -> None:
        self.tree = tree
        self.where = ""
        self.later = data.later
        self.either = {pattern: row for row in data.either for pattern in row}
        self.found: set[str] = set()
        self.faults: list[str] = []
        self.absent: set[str] = set()
        """Folders of submodules that nobody filled."""
        self._bzl = read_bzl(tree / "build_variables.bzl")
        self._readers = {
            "torch_cuda_glob": self._add_glob,
            "torch_cuda_filelist": self._add_list,
            "torch_cuda_resolve": self._add_file,
        }
        variables: dict[str, str] = {}
        for self.where in data.sources:
            self._read_lists((project / self.where).read_text(encoding="utf-8"), variables)

    def _read_lists(self, text: str, variables: dict[str, str]) -> None:
        for command in read_cmake(text):
            words = [_resolve_variables(word, variables) for word in command.arguments]
            if command.name == "set" and len(words) == 2:
                variables[words[0]] = words[1]
            elif command.name in self._readers:
                for word in words[1:]:
                    if "${" not in word:  # a loop's variable: its words stand elsewhere
                        self._readers[command.name](word, command.line)

    def _add_glob(self, pattern: str, line: int) -> None:
        matches = self._match_files(pattern)
        self.found |= matches
        others = self.either.get(pattern, [pattern])
        if matches or pattern in self.later or any(self._match_files(other) for other in others):
            return
        absent = {folder for other in others if (folder := self._find_absent_submodule(other))}
        self.absent |= absent
        if not absent:
            self.faults.append(
                f"{self.where}:{line}: {pattern} finds nothing in this tree; find where upstream put these files, add "
                "that pattern beside this one, and the row to `either` of scripts/decouple/relocate/stage2.toml"
            )

    def _find_absent_submodule(self, pattern: str) -> str:
        """Return the submodule that ``pattern`` leads into and that is absent.

        The tree then has nothing of it. Else it is "".
        """
        parts = pattern.split("/")
        folder = "/".join(parts[:2])
        if parts[0] != _SUBMODULES or len(parts) < 3:
            return ""
        submodule = self.tree / folder
        return "" if submodule.is_dir() and any(submodule.iterdir()) else folder

    def _match_files(self, pattern: str) -> set[str]:
        return {path.relative_to(self.tree).as_posix() for path in self.tree.glob(pattern)}

    def _add_list(self, name: str, line: int) -> None:
        if name not in self._bzl:
            self.faults.append(
                f"{self.where}:{line}: build_variables.bzl has no list {name}; see what upstream calls it now"
            )
            return
        for path in self._bzl[name]:
            self._add_file(path, line)

    def _add_file(self, path: str, line: int) -> None:
        self.found.add(path)
        if not (self.tree / path).exists():
            self.faults.append(f"{self.where}:{line}: {path} is not in this tree; see where upstream put it")


def _resolve_variables(word: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        word = word.replace(f"${{{name}}}", value)
    return word
