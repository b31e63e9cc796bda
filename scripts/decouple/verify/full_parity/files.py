"""Compare two installations' files; one that the split moved is the same file."""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.verify.full_parity.comparison import ChangedName, SectionComparison

_FILE = Path(__file__).with_name("files.toml")


class MovedFile(Struct, frozen=True):
    r"""One entry ``[[moved]]``: a path of ours, and that file's official path.

    ``\1``: a group.
    """

    ours: re.Pattern[str]
    theirs: str


class Content(Struct, frozen=True):
    """One entry ``[[content]]``: a section of files by their paths.

    ``same`` is whether what is in them counts.
    """

    section: str
    paths: re.Pattern[str]
    same: bool = True


class Namespace(Struct, frozen=True):
    """One entry ``[[namespace]]``: a section of symbols by their mangled names."""

    section: str
    symbols: re.Pattern[str]


class WholeRules(Struct, frozen=True):
    """``files.toml``, which explains its keys."""

    packages: tuple[str, ...]
    backends: str
    environment: tuple[str, ...]
    metadata: tuple[str, ...]
    libraries: re.Pattern[str]
    left_out: re.Pattern[str]
    moved: tuple[MovedFile, ...]
    content: tuple[Content, ...]
    namespace: tuple[Namespace, ...]


@cache
def load_rules() -> WholeRules:
    """Read ``files.toml``."""
    return toml.read_own_table(_FILE, WholeRules)


def list_files(folders: Iterable[Path]) -> dict[str, Path]:
    """Map every file of these folders by its name from the folder's own name on.

    No caches, no links to folders. What pip writes of an installation is left out, and so is the version in the name of
    a dist-info folder.
    """
    found: dict[str, Path] = {}
    for top in folders:
        name = re.sub(r"-[^-]*\.(dist|egg)-info$", ".dist-info", top.name)
        for folder, inner, files in os.walk(top):
            inner[:] = sorted(folder for folder in inner if folder != "__pycache__")
            at = Path(folder)
            for file in files:
                path = (Path(name) / at.relative_to(top) / file).as_posix()
                if (
                    not load_rules().left_out.fullmatch(path) and (at / file).exists()
                ):  # a link of a root may lead nowhere
                    found[path] = at / file
    return found


def compare_files(ours: Mapping[str, Path], theirs: Mapping[str, Path]) -> list[SectionComparison]:
    """Compare two sets of files, one section for each kind of file.

    Of a file with the same name the content counts too, where the rules say so.
    """
    mine = dict(ours)
    for path in ours:
        if path not in theirs and (place := _find_official_path(path)) != path:
            mine.setdefault(place, mine.pop(path))
    found = []
    left = mine.keys() | theirs.keys()
    for kind in load_rules().content:
        here = {path for path in left if kind.paths.fullmatch(path)}
        left -= here
        common = here & mine.keys() & theirs.keys()
        differ = sorted(path for path in common if kind.same and not _is_same_file(mine[path], theirs[path]))
        found.append(
            SectionComparison(
                kind.section,
                len(common) - len(differ),
                tuple(sorted(here - mine.keys())),
                tuple(sorted(here - theirs.keys())),
                tuple(ChangedName(path, _describe_size(theirs[path]), _describe_size(mine[path])) for path in differ),
            )
        )
    return found


def _find_official_path(path: str) -> str:
    for rule in load_rules().moved:
        if match := rule.ours.fullmatch(path):
            return match.expand(rule.theirs)
    return path


def _is_same_file(one: Path, other: Path) -> bool:
    """Return whether two files are the same. Hard links to one file need not be read."""
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)


def _describe_size(path: Path) -> str:
    return f"{path.stat().st_size} bytes"
