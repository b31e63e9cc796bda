"""Read and write series files in quilt's syntax.

One patch per line, relative to ``patches/``, in the order they apply. ``#`` starts a comment (at the start of a line,
or after white space behind a name), blank lines are ignored, and ``-pN`` behind a name says how many leading path
components to strip (quilt(1), "series file"). Reading and writing back an untouched file gives the same bytes: every
line is kept as it was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.path_names import is_relative_path
from decouple.patch import parse as patches
from decouple.patch.lines import BOM, split_lines

LINT = "`decouple lint` lists every fault"
_STRIP = re.compile(r"-p(\d{1,2})\Z")
_COMMENT = re.compile(r"(?:^|\s)#.*\Z")
#: How a series says which tree it was carried to, and how near that is to the official text.
MADE_ON = "# made on tree "
_MADE_ON = re.compile(MADE_ON + r"([0-9a-f]{40}): (\S.*)\Z")


class SeriesEntry(Struct, frozen=True):
    """A patch of a series."""

    name: str
    """Path of the patch, relative to ``patches/``, with forward slashes."""
    strip: int = 1
    """Leading path components to strip, as ``patch -p`` counts them."""
    line: int = 0
    """1-based line in the series file; 0 for an entry that was not read from one."""

    def load_patch(self, folder: Path) -> patches.Patch:
        """Load the patch below ``folder`` without looking into it.

        Raises DecoupleError if the file is not there.
        """
        return patches.load_patch(folder / self.name, name=self.name, strip=self.strip)

    def to_text(self) -> str:
        """Return the entry as a line of a series file, without its newline."""
        return self.name if self.strip == 1 else f"{self.name} -p{self.strip}"


class SeriesProblem(Struct, frozen=True):
    """A fault of one line of a series file."""

    line: int
    code: str
    """``series-syntax``, ``series-path`` or ``listed-twice``."""
    message: str


class _Line(Struct, frozen=True):
    raw: str
    entry: SeriesEntry | None = None


class SeriesFile(Struct, frozen=True):
    """A series: its entries in order, and every other line where it stood.

    Changes give a new SeriesFile.
    """

    lines: tuple[_Line, ...] = ()

    @property
    def entries(self) -> tuple[SeriesEntry, ...]:
        """Return the patches in the order they apply."""
        return tuple(line.entry for line in self.lines if line.entry)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the patches' paths relative to ``patches/``, in order."""
        return tuple(entry.name for entry in self.entries)

    @property
    def made_on(self) -> tuple[str | None, str | None]:
        """Return the id of the upstream tree that it was carried to; else None.

        The second value says how near that tree is to the official text.
        """
        matches = (_MADE_ON.match(line.raw.rstrip()) for line in self.lines)
        return next(((match[1], match[2]) for match in matches if match), (None, None))

    def to_text(self) -> str:
        """Return the file's content; equal to what was read if nothing was changed."""
        return "".join(line.raw for line in self.lines)

    def write(self, path: Path) -> None:
        """Replace ``path`` atomically. Raises OSError."""
        write_atomically(path, self.to_text())

    def insert(self, name: str, *, after: str | None = None, strip: int = 1) -> SeriesFile:
        """Return the series with ``name`` put right behind the patch ``after``.

        When that is None, it stands in front of all patches.

        Comments above the first patch stay on top of the file. Raises DecoupleError if ``name`` is there already,
        is not a path inside ``patches/``, or ``after`` is not in the series.
        """
        fault = _find_path_fault(name)
        if fault:
            raise DecoupleError(f"patch name {name!r} {fault}", next_step="give a path below patches/")
        if name in self.names:
            raise DecoupleError(f"patch {name} is in the series already", next_step="choose another name")
        if after is None:
            at = next((index for index, line in enumerate(self.lines) if line.entry), len(self.lines))
        else:
            at = self._find_index(after) + 1
        lines = _end_lines(self.lines)
        entry = SeriesEntry(name, strip)
        lines.insert(at, _Line(entry.to_text() + "\n", entry))
        return _number_lines(lines)

    def append(self, name: str, *, strip: int = 1) -> SeriesFile:
        """Return the series with ``name`` behind the last patch. Raises as :meth:`insert`."""
        return self.insert(name, after=self.names[-1] if self.names else None, strip=strip)

    def remove(self, name: str) -> SeriesFile:
        """Return the series without the line of ``name``; comments stay.

        Raises DecoupleError if it is not in the series.
        """
        at = self._find_index(name)
        return _number_lines([*self.lines[:at], *self.lines[at + 1 :]])

    def rename(self, old: str, new: str) -> SeriesFile:
        """Return the series with ``old`` called ``new`` in the same place.

        Its options and comment are kept. Raises as insert and remove.
        """
        at = self._find_index(old)
        fault = _find_path_fault(new)
        if fault:
            raise DecoupleError(f"patch name {new!r} {fault}", next_step="give a path below patches/")
        if new in self.names:
            raise DecoupleError(f"patch {new} is in the series already", next_step="choose another name")
        line = self.lines[at]
        assert line.entry
        changed = _Line(line.raw.replace(old, new, 1), SeriesEntry(new, line.entry.strip, line.entry.line))
        return _number_lines([*self.lines[:at], changed, *self.lines[at + 1 :]])

    def reorder(self, names: Iterable[str]) -> SeriesFile:
        """Return the same patches in the order ``names``.

        Each slot keeps the comment lines around it.

        Raises DecoupleError if ``names`` is not a permutation of the series.
        """
        wanted = list(names)
        if sorted(wanted) != sorted(self.names):
            raise DecoupleError("the new order names other patches than the series does", next_step="list each once")
        lines = _end_lines(self.lines)
        by_name = {line.entry.name: line for line in lines if line.entry}
        following = iter(wanted)
        return _number_lines([by_name[next(following)] if line.entry else line for line in lines])

    def _find_index(self, name: str) -> int:
        for index, line in enumerate(self.lines):
            if line.entry and line.entry.name == name:
                return index
        raise DecoupleError(f"patch {name} is not in the series", next_step="`decouple series` lists what is")


def scan_series(text: str) -> tuple[SeriesFile, tuple[SeriesProblem, ...]]:
    """Read a series and list everything wrong with it.

    A line with a fault is kept but is no entry.

    A name listed twice is an entry once.
    """
    lines: list[_Line] = []
    problems: list[SeriesProblem] = []
    seen: dict[str, int] = {}
    for number, raw in enumerate(split_lines(text), start=1):
        entry, bare = None, raw.rstrip("\r\n")
        if number == 1 and bare.startswith(BOM):
            problems.append(SeriesProblem(1, "byte-order-mark", "a byte order mark: save it as UTF-8 without one"))
            bare = bare.removeprefix(BOM)
        words = _COMMENT.sub("", bare).split()
        if words:
            entry, code, message = _parse_entry(words, number)
            if entry and entry.name in seen:
                code, message = "listed-twice", f"{entry.name} is listed already in line {seen[entry.name]}"
                entry = None
            if raw.endswith("\r\n"):
                problems.append(SeriesProblem(number, "crlf", "the line ends in CR LF"))
            if not entry:
                problems.append(SeriesProblem(number, code, message))
            else:
                seen[entry.name] = number
        lines.append(_Line(raw, entry))
    return SeriesFile(tuple(lines)), tuple(problems)


def parse_series(text: str, *, name: str = "series", mend: str = LINT) -> SeriesFile:
    """Parse a series; errors call it ``name`` and tell ``mend``.

    Raises DecoupleError at the first fault.
    """
    series, problems = scan_series(text)
    if problems:
        first = problems[0]
        raise DecoupleError(f"{name}:{first.line}: {first.message}", next_step=mend)
    return series


def read_series(path: Path, *, mend: str = "") -> SeriesFile:
    """Read the series file ``path``.

    ``mend`` is the next step to tell where that is not this project's usual one.

    Raises DecoupleError if it is missing, not UTF-8, or has a fault.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise DecoupleError(f"no series file {path}", next_step=mend or "name a release that series/ has") from None
    except UnicodeDecodeError as error:
        raise DecoupleError(f"{path}: not UTF-8 at byte {error.start}", next_step=mend or "save it as UTF-8") from None
    return parse_series(text, name=str(path), mend=mend or LINT)


def _parse_entry(words: list[str], number: int) -> tuple[SeriesEntry | None, str, str]:
    name, *options = words
    fault = _find_path_fault(name)
    if fault:
        return None, "series-path", f"patch name {name!r} {fault}"
    strip = 1
    for option in options:
        match = _STRIP.match(option)
        if not match:
            return None, "series-syntax", f"option {option!r} of {name} is not -pN"
        strip = int(match.group(1))
    return SeriesEntry(name, strip, number), "", ""


def _find_path_fault(name: str) -> str:
    """Return what is wrong with a patch's path, or an empty string."""
    if not name or any(character.isspace() or character in "#\0\\" for character in name):
        return "is empty or has white space, '#', a backslash or NUL in it"
    if name.startswith("-"):
        return "starts with '-'"
    if not is_relative_path(name):
        return "is not a plain path below patches/"
    return ""


def _end_lines(lines: Iterable[_Line]) -> list[_Line]:
    """Return the lines with a newline at the end of the last, too."""
    return [_Line(line.raw if line.raw.endswith("\n") else line.raw + "\n", line.entry) for line in lines]


def _number_lines(lines: list[_Line]) -> SeriesFile:
    return SeriesFile(
        tuple(
            _Line(line.raw, SeriesEntry(line.entry.name, line.entry.strip, number) if line.entry else None)
            for number, line in enumerate((line for line in lines if line.raw), start=1)
        )
    )
