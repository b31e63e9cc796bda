"""Measure how near a tree is to a release.

It is the share of its files that have the bytes that the official wheel shows. A wheel has the release's Python files
and public headers as they are. What the build generated is in no source tree, so a file that the tree lacks says
nothing; a file that both have and that differs says that it is not the release.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import Manifest
from decouple.upstream.fetch import fetch_source
from decouple.upstream.providers.wheel import find_wheel

ALL = "as official in all"
"""How the line begins where nothing differs that the wheel shows; of other files it shows nothing."""


class Likeness(Struct, frozen=True):
    """Count files that a tree and the text of ``wheel`` share, and those that differ."""

    wheel: str
    same: int
    different: tuple[str, ...]

    @property
    def is_official(self) -> bool:
        """Return whether nothing that the wheel shows differs."""
        return not self.different and self.same > 0

    @property
    def percent(self) -> float:
        """Return how many of the common files have the wheel's bytes, in percent.

        Cut, so that 100.0 means all.
        """
        total = self.same + len(self.different)
        return int(1000 * self.same / total) / 10 if total else 0.0

    def format_line(self) -> str:
        """Return in one line what was compared, which is never a C++ source.

        As a series file and the status say it.
        """
        total = self.same + len(self.different)
        if self.is_official:
            return f"{ALL} {total} files that {self.wheel} shows: headers and Python, no C++ source was compared"
        return f"{self.percent} % official text: {self.same} of {total} files as in {self.wheel}"


def measure_likeness(tree: Path, text: Path, wheel: str) -> Likeness:
    """Compare ``tree`` with ``text``, the laid-out text of the official ``wheel``."""
    same, different = 0, []
    for path in sorted(text.rglob("*")):
        name = path.relative_to(text)
        mine = tree / name
        if path.is_symlink() or not path.is_file() or not mine.is_file():
            continue
        if mine.stat().st_size == path.stat().st_size and mine.read_bytes() == path.read_bytes():
            same += 1
        else:
            different.append(name.as_posix())
    return Likeness(wheel, same, tuple(different))


def compare_with_wheel(
    tree: Path, manifest: Manifest, *, offline: bool = False, progress: Progress = SILENT
) -> Likeness | None:
    """Compare ``tree`` with the official wheel of ``manifest``.

    Only text of it is read, by range and once. None where there is no such wheel, or none that can be reached.
    """
    wheel = find_wheel(manifest)
    if wheel is None:
        return None
    try:
        text = fetch_source(manifest, "wheel", offline=offline, progress=progress).path
    except DecoupleError:
        return None
    return measure_likeness(tree, text, wheel.name)
