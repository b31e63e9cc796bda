"""What two installations brought to disk, file by file; where the split moved one, it is the same file."""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.verify.whole.compared import Changed, Compared

_FILE = Path(__file__).with_name("whole.toml")


class MovedFile(Struct, frozen=True):
    """One entry ``[[moved]]``: a path of ours, and where the official wheel has that file (``\\1``: a group)."""

    ours: re.Pattern[str]
    theirs: str


class Content(Struct, frozen=True):
    """One entry ``[[content]]``: a section of files by their paths, and whether what is in them counts."""

    section: str
    paths: re.Pattern[str]
    same: bool = True


class Namespace(Struct, frozen=True):
    """One entry ``[[namespace]]``: a section of symbols by their mangled names."""

    section: str
    symbols: re.Pattern[str]


class WholeRules(Struct, frozen=True):
    """``whole.toml``, which explains its keys."""

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
def rules() -> WholeRules:
    """The parsed rules."""
    return toml.read(_FILE, WholeRules, mend=f"git checkout {_FILE}")


def below(folders: Iterable[Path]) -> dict[str, Path]:
    """Every file of these folders, by its name from the folder's own name on; no caches, no links to folders.

    What pip writes of an installation is left out, and so is the version in the name of a dist-info folder.
    """
    found: dict[str, Path] = {}
    for top in folders:
        name = re.sub(r"-[^-]*\.(dist|egg)-info$", ".dist-info", top.name)
        for folder, inner, files in os.walk(top):
            inner[:] = sorted(one for one in inner if one != "__pycache__")
            at = Path(folder)
            for file in files:
                path = (Path(name) / at.relative_to(top) / file).as_posix()
                if not rules().left_out.fullmatch(path) and (at / file).exists():  # a link of a root may lead nowhere
                    found[path] = at / file
    return found


def compare_files(ours: Mapping[str, Path], theirs: Mapping[str, Path]) -> list[Compared]:
    """A section for each kind of file. Of a file with the same name the content counts too, where the rules say so."""
    mine = dict(ours)
    for path in ours:
        if path not in theirs and (place := _official(path)) != path:
            mine.setdefault(place, mine.pop(path))
    found = []
    left = mine.keys() | theirs.keys()
    for kind in rules().content:
        here = {path for path in left if kind.paths.fullmatch(path)}
        left -= here
        common = here & mine.keys() & theirs.keys()
        differ = sorted(path for path in common if kind.same and not _same(mine[path], theirs[path]))
        found.append(
            Compared(
                kind.section,
                len(common) - len(differ),
                tuple(sorted(here - mine.keys())),
                tuple(sorted(here - theirs.keys())),
                tuple(Changed(path, _size(theirs[path]), _size(mine[path])) for path in differ),
            )
        )
    return found


def _official(path: str) -> str:
    for one in rules().moved:
        if match := one.ours.fullmatch(path):
            return match.expand(one.theirs)
    return path


def _same(one: Path, other: Path) -> bool:
    """Hard links to one file need not be read."""
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)


def _size(path: Path) -> str:
    return f"{path.stat().st_size} bytes"
