"""Read a patch: unified diffs as git, GNU diff, quilt and Subversion write them.

The rules are those of ``git apply`` (git 2.39, documented in git-diff(1) "GENERATING PATCH TEXT WITH -p" and
git-apply(1)), because git is what applies the series: what is read here as a file, a name or a hunk is what git takes
for one. Where git accepts text that can only be an accident (a line without newline in the middle of a hunk, a number
past 2**31), this reader reports it instead. It never decides that a patch applies; ``patch.apply`` and git do.

``scan_patch`` reads everything it can and lists what is wrong; ``parse_patch`` raises at the first problem.
Nothing is lost: ``Patch.to_text()`` is the input, byte for byte.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from decouple.base.errors import DecoupleError
from decouple.base.git import EXECUTABLE, REGULAR, SUBMODULE, SYMLINK
from decouple.patch import header as headers
from decouple.patch.header import Header, is_mail_start
from decouple.patch.lines import split_lines
from decouple.patch.names import (
    decode_path,
    find_common_name,
    is_dev_null,
    is_epoch,
    parse_name,
    parse_traditional_name,
)

_LONGEST_NAME_LINE = 16384  # twice PATH_MAX and its quotes; bounds the search for the middle of "diff --git A B"
_LARGEST = 2**31 - 1
ENCODED = "encoded-mail"
"""The code of the problem that ``mail.decode_mail`` solves."""


class Problem(Struct, frozen=True):
    """Text that makes a patch unreadable.

    ``git apply`` refuses it as well unless the message says otherwise.
    """

    line: int
    code: str
    message: str
    next_step: str = "`decouple lint` lists every fault"


class HunkLine(Struct, frozen=True):
    """A line of a hunk."""

    kind: str
    """``" "`` context, ``"-"`` removed, ``"+"`` added."""
    text: bytes
    """The line itself, with its newline unless ``\\ No newline at end of file`` follows it."""


class Hunk(Struct, frozen=True, dict=True):
    """An ``@@`` block."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[HunkLine, ...]
    raw: bytes
    """The block as it stands in the patch, ``@@`` line and ``\\ No newline`` lines included."""
    line: int
    """1-based line of the ``@@`` in the patch."""

    @functools.cached_property
    def old_lines(self) -> tuple[bytes, ...]:
        """Return what the hunk expects to find: context and removed lines."""
        return tuple(line.text for line in self.lines if line.kind != "+")

    @functools.cached_property
    def new_lines(self) -> tuple[bytes, ...]:
        """Return what the hunk leaves: context and added lines."""
        return tuple(line.text for line in self.lines if line.kind != "-")

    @property
    def leading(self) -> int:
        """Return the number of context lines before the first change."""
        return next((at for at, line in enumerate(self.lines) if line.kind != " "), len(self.lines))

    @property
    def trailing(self) -> int:
        """Return the number of context lines behind the last change."""
        return next((at for at, line in enumerate(reversed(self.lines)) if line.kind != " "), len(self.lines))

    @property
    def has_changes(self) -> bool:
        """Say whether any line is added or removed."""
        return any(line.kind != " " for line in self.lines)


class FilePatch(Struct, frozen=True):
    """The part of a patch on one file. Paths have their prefix stripped."""

    old_path: str | None
    """None if the patch creates the file."""
    new_path: str | None
    """None if the patch deletes the file."""
    old_mode: int | None = None
    new_mode: int | None = None
    """Modes as git names them (0o100644, 0o100755, 0o120000, 0o160000), None where the patch does not say."""
    creates: bool | None = False
    deletes: bool | None = False
    """None: the text does not say (a traditional diff whose old or new side is empty); the tree decides."""
    rename: bool = False
    copy: bool = False
    similarity: int | None = None
    """The percentage of ``similarity index``."""
    index: tuple[str, str] | None = None
    """The two blob ids of the ``index`` line."""
    binary: bool = False
    git: bool = False
    """Whether the section starts with ``diff --git``."""
    hunks: tuple[Hunk, ...] = ()
    preamble: bytes = b""
    """Text in front of the section that is no header of a diff: ``Index:`` lines, or junk between two files."""
    raw_header: bytes = b""
    """From ``diff --git`` or ``---`` to the first hunk."""
    raw_tail: bytes = b""
    """What follows the last hunk and belongs to this file: a binary patch."""
    line: int = 0
    """1-based line of the section in the patch (behind its preamble)."""

    @property
    def path(self) -> str:
        """Return the path the section is about: the new one, or the old one of a deletion."""
        path = self.new_path or self.old_path
        assert path is not None
        return path

    @property
    def paths(self) -> tuple[str, ...]:
        """Return every path it reads or writes, old before new, each once."""
        return tuple(dict.fromkeys(path for path in (self.old_path, self.new_path) if path))

    @property
    def is_submodule(self) -> bool:
        """Say whether either side is a submodule."""
        return SUBMODULE in (self.old_mode, self.new_mode)

    @property
    def has_mode_change(self) -> bool:
        """Say whether it names two different modes."""
        return None not in (self.old_mode, self.new_mode) and self.old_mode != self.new_mode

    def to_text(self) -> bytes:
        """Return the section as it stands in the patch, preamble included."""
        return b"".join((self.preamble, self.raw_header, *(hunk.raw for hunk in self.hunks), self.raw_tail))


class PatchContent(Struct, frozen=True):
    """The parts of a patch, as far as they can be read; `Patch` has the same names."""

    header: Header
    header_bytes: bytes
    files: tuple[FilePatch, ...]
    trailer: bytes
    trailer_line: int
    problems: tuple[Problem, ...]


class Patch(Struct, frozen=True, dict=True):
    """A patch file: its name, its bytes, and its parts, which are read when asked for."""

    name: str
    """What errors call it: its path relative to ``patches/``, or any label."""
    data: bytes
    strip: int = 1
    """How many leading components are taken off the paths."""

    @functools.cached_property
    def sha256(self) -> str:
        """Compute the SHA-256 of the file's bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @functools.cached_property
    def _content(self) -> PatchContent:
        return _Scanner(self.data, self.strip).scan()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what keeps the patch from being read, in order."""
        return self._content.problems

    @property
    def header(self) -> Header:
        """Return the fields in front of the first file section."""
        return self._content.header

    @property
    def identity(self) -> str:
        """Its Decouple-Id; the name of its file where it has none."""
        return self.header.decouple_id or self.name

    @property
    def header_bytes(self) -> bytes:
        """Return everything in front of the first file section.

        It is all of the file where there is no section.
        """
        return self._content.header_bytes

    @property
    def files(self) -> tuple[FilePatch, ...]:
        """Return the file sections, in order; those that can be read."""
        return self._content.files

    @property
    def trailer(self) -> bytes:
        """Return everything behind the last section: a mail signature, junk."""
        return self._content.trailer

    @property
    def trailer_line(self) -> int:
        """Return the 1-based line of the trailer in the patch."""
        return self._content.trailer_line

    def check_readable(self, *, empty: bool = True) -> Patch:
        """Return the patch itself, or raise DecoupleError.

        It is raised with ``name:line`` at the first problem, or if the patch has no section.
        """
        problems = self.problems or (() if empty or self.files else (Problem(1, "empty", "no diff in it"),))
        if problems:
            first = problems[0]
            raise DecoupleError(f"{self.name}:{first.line}: {first.message}", next_step=first.next_step)
        return self

    @property
    def header_text(self) -> str:
        """Return the header as text. Raises as :meth:`check_readable`."""
        return self.check_readable().header_bytes.decode("utf-8", "surrogateescape")

    @property
    def body(self) -> bytes:
        """Return the diffs and whatever follows them. Raises as :meth:`check_readable`."""
        return self.data[len(self.check_readable().header_bytes) :]

    def to_text(self) -> bytes:
        """Put the patch together from what was read.

        These are its bytes again (only without a problem).
        """
        return b"".join((self.header_bytes, *(file.to_text() for file in self.files), self.trailer))

    def to_diff(self) -> bytes:
        """Return the file sections alone, without preambles and trailer."""
        return b"".join(
            b"".join((file.raw_header, *(hunk.raw for hunk in file.hunks), file.raw_tail)) for file in self.files
        )

    @functools.cached_property
    def touched_paths(self) -> tuple[str, ...]:
        """Return every path the patch reads or writes, in order, each once."""
        return tuple(dict.fromkeys(path for file in self.files for path in file.paths))

    @functools.cached_property
    def changed_paths(self) -> frozenset[str]:
        """Return every path the patch may change: not what it only copies from."""
        changed = ((file.new_path, None if file.copy else file.old_path) for file in self.files)
        return frozenset(path for pair in changed for path in pair if path)


def load_patch(path: Path, *, name: str | None = None, strip: int = 1) -> Patch:
    """Load the patch file ``path`` without looking into it.

    Raises DecoupleError if it is missing.
    """
    try:
        return Patch(name or str(path), path.read_bytes(), strip)
    except FileNotFoundError:
        raise DecoupleError(
            f"patch {name or path} is not there",
            next_step="restore it, or take its line out of the series; `decouple lint` checks the series",
        ) from None


def read_patch(path: Path, *, name: str | None = None, strip: int = 1) -> Patch:
    """Read the patch file ``path``.

    Raises DecoupleError if it is missing or :func:`parse_patch` refuses it.
    """
    return load_patch(path, name=name, strip=strip).check_readable(empty=False)


def parse_patch(data: bytes, *, name: str = "patch", strip: int = 1) -> Patch:
    """Parse a patch that ``strip`` leading path components are taken off.

    Raises DecoupleError with ``name:line``.

    A patch without any file section is refused, as git does.
    """
    return Patch(name, data, strip).check_readable(empty=False)


def scan_patch(data: bytes, *, name: str = "patch", strip: int = 1) -> tuple[Patch, tuple[Problem, ...]]:
    """Read everything that can be read and list what is wrong, in order. Never raises."""
    patch = Patch(name, data, strip)
    return patch, patch.problems


class _SectionError(Exception):
    """A section that cannot be read."""

    def __init__(self, line: int, code: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(line, code, message)


class _Section(Struct):
    """The header of a file section while it is read: fields of FilePatch."""

    old_path: str | None = None
    new_path: str | None = None
    old_mode: int | None = None
    new_mode: int | None = None
    creates: bool | None = False
    deletes: bool | None = False
    rename: bool = False
    copy: bool = False
    similarity: int | None = None
    index: tuple[str, str] | None = None


_HUNK = re.compile(rb"@@ -(\d{1,19})(?:,(\d{1,19}))? \+(\d{1,19})(?:,(\d{1,19}))? @@")
_ORPHAN = re.compile(rb"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_MODES = re.compile(rb"^(old|new) mode [ \t]*([0-7]{1,11})[ \t\r\n]", re.MULTILINE)
_PREAMBLE = re.compile(rb"(Index: |={20,}\r?\n|diff |Property changes|RCS file: |retrieving revision |index )")


class _Scanner:
    def __init__(self, data: bytes, strip: int) -> None:
        self.strip = strip
        self.lines = split_lines(data)
        self.problems: list[Problem] = []
        self.files: list[FilePatch] = []
        self.at = 0  # index of the line that is looked at
        self.free = 0  # index of the first line that belongs to no section yet

    def scan(self) -> PatchContent:
        header_bytes: bytes | None = None
        while self.at < len(self.lines):
            begin = self.at
            section = self._read_section_header()
            if section is None:
                self.at = max(self.at, begin + 1)
                continue
            first = self._find_preamble(begin)
            if header_bytes is None:
                header_bytes = b"".join(self.lines[self.free : first])
                self.free = first
            self._read_body(section, begin)
        rest = b"".join(self.lines[self.free :])
        if header_bytes is None:
            header_bytes, rest = rest, b""
        parsed = headers.parse_header(header_bytes.decode("utf-8", "surrogateescape"))
        line = self.free + 1 if rest else 0
        # what the whole is comes first: no diff in an encoded mail means nothing
        problems = (*_find_carriers(parsed, header_bytes, self.files, rest, line), *self.problems)
        return PatchContent(parsed, header_bytes, tuple(self.files), rest, line, problems)

    def _find_preamble(self, begin: int) -> int:
        first = begin
        while first > self.free and _PREAMBLE.match(self.lines[first - 1]):
            first -= 1
        return first

    def _add_problem(self, index: int, code: str, message: str) -> None:
        self.problems.append(Problem(index + 1, code, message))

    # -- the header of a section -------------------------------------------------------------------------------------

    def _read_section_header(self) -> tuple[_Section, bool] | None:
        """Read the header that starts at this line, if one does.

        Leaves ``at`` behind it.
        """
        line = self.lines[self.at]
        try:
            if line.startswith(b"@@ -") and _ORPHAN.match(line):
                self._add_problem(self.at, "orphan-hunk", "a hunk without a file header in front of it")
                return None
            if line.startswith(b"diff --git "):
                return self._read_git_header(), True
            if self._is_traditional_start(self.at) and self._has_prefix(self.at + 2, b"@@ -"):
                section = self._read_traditional_header()
                self.at += 2
                return section, False
        except _SectionError as bad:
            self.problems.append(bad.problem)
            self._skip_section()
        return None

    def _has_prefix(self, index: int, prefix: bytes) -> bool:
        return index < len(self.lines) and self.lines[index].startswith(prefix)

    def _skip_section(self) -> None:
        """Go on at the next line that starts a section (behind the present line)."""
        self.at += 1
        while self.at < len(self.lines) and not self._is_section_start(self.at):
            self.at += 1

    def _is_section_start(self, index: int) -> bool:
        line = self.lines[index]
        return line.startswith(b"diff --git ") or self._is_traditional_start(index)

    def _is_traditional_start(self, index: int) -> bool:
        """Say whether ``---`` with a name stands in front of ``+++``.

        To git a line of five bytes has no name.
        """
        line = self.lines[index]
        return line.startswith(b"--- ") and len(line) > 5 and self._has_prefix(index + 1, b"+++ ")

    def _read_traditional_header(self) -> _Section:
        old, new = self.lines[self.at][4:], self.lines[self.at + 1][4:]
        section = _Section(creates=None, deletes=None)
        if is_dev_null(old):
            section.creates, section.deletes = True, False
            section.new_path = name = parse_traditional_name(new, None, self.strip)
        elif is_dev_null(new):
            section.creates, section.deletes = False, True
            section.old_path = name = parse_traditional_name(old, None, self.strip)
        else:
            name = parse_traditional_name(new, parse_traditional_name(old, None, self.strip), self.strip)
            if is_epoch(old):
                section.creates, section.deletes, section.new_path = True, False, name
            elif is_epoch(new):
                section.creates, section.deletes, section.old_path = False, True, name
            else:
                section.old_path = section.new_path = name
        if not name:
            raise _SectionError(
                self.at + 1, "name", f"no file name is left after stripping {self.strip} path components"
            )
        return section

    def _read_git_header(self) -> _Section:
        begin = self.at
        if len(self.lines[begin]) > _LONGEST_NAME_LINE:
            raise _SectionError(begin + 1, "name", f"the line is longer than {_LONGEST_NAME_LINE} bytes")
        default = find_common_name(self.lines[begin][len(b"diff --git ") :], self.strip)
        section = _Section()
        index = begin + 1
        while index < len(self.lines) and self.lines[index].endswith(b"\n"):
            if not self._read_extended_line(section, index, default):
                break
            if sum((section.creates is True, section.deletes is True, section.rename, section.copy)) > 1:
                raise _SectionError(
                    index + 1, "extended-header", "contradicts an earlier line: one of new, deleted, rename, copy"
                )
            index += 1
        if section.old_path is None and section.new_path is None:
            if default is None:
                raise _SectionError(begin + 1, "name", f"no file name after stripping {self.strip} path components")
            section.old_path = section.new_path = default
        if (section.new_path is None and not section.deletes) or (section.old_path is None and not section.creates):
            raise _SectionError(begin + 1, "name", "one of the two file names is missing")
        if section.creates and section.old_path is not None:
            if section.old_path != section.new_path:
                raise _SectionError(begin + 1, "name", "a new file has an old name")
            section.old_path = None
        if index == begin + 1:
            # git goes on, but keeps the name for whatever section comes next and may even end by an assertion there
            raise _SectionError(begin + 1, "lone-header", "a 'diff --git' line without anything that belongs to it")
        self.at = index
        return section

    def _read_extended_line(self, section: _Section, index: int, default: str | None) -> bool:
        """Take one extended header line; False if it is none."""
        line = self.lines[index]
        number = index + 1
        rename_strip = max(self.strip - 1, 0)
        if line.startswith(b"--- "):
            section.old_path = self._check_name(section.old_path, line[4:], bool(section.creates), number)
        elif line.startswith(b"+++ "):
            section.new_path = self._check_name(section.new_path, line[4:], bool(section.deletes), number)
        elif line.startswith(b"old mode "):
            section.old_mode = _parse_mode(line[9:], number)
        elif line.startswith(b"new mode "):
            section.new_mode = _parse_mode(line[9:], number)
        elif line.startswith(b"deleted file mode "):
            section.deletes, section.old_path = True, default
            section.old_mode = _parse_mode(line[18:], number)
        elif line.startswith(b"new file mode "):
            section.creates, section.new_path = True, default
            section.new_mode = _parse_mode(line[14:], number)
        elif line.startswith((b"copy from ", b"rename from ", b"rename old ")):
            self._read_move_line(section, line)
            section.old_path = parse_name(line.split(b" ", 2)[2], None, rename_strip, stop_at_tab=False)
        elif line.startswith((b"copy to ", b"rename to ", b"rename new ")):
            self._read_move_line(section, line)
            section.new_path = parse_name(line.split(b" ", 2)[2], None, rename_strip, stop_at_tab=False)
        elif line.startswith((b"similarity index ", b"dissimilarity index ")):
            digits = re.match(rb"\D*(\d{1,3})%?\s*\Z", line)
            if digits and line.startswith(b"sim") and int(digits.group(1)) <= 100:
                section.similarity = int(digits.group(1))
        elif line.startswith(b"index "):
            match = re.match(rb"index ([^\s.]{1,64})\.\.([^\s.]{1,64})(?: (.*))?\r?\n", line, re.DOTALL)
            if match:
                section.index = (decode_path(match.group(1)), decode_path(match.group(2)))
                if match.group(3) is not None:
                    section.old_mode = _parse_mode(match.group(3) + b"\n", number)
        else:
            return False
        return True

    @staticmethod
    def _read_move_line(section: _Section, line: bytes) -> None:
        if line.startswith(b"copy"):
            section.copy = True
        else:
            section.rename = True

    def _check_name(self, known: str | None, text: bytes, is_null: bool, number: int) -> str | None:
        """Return the name of a ``---`` or ``+++`` line.

        It must agree with what the lines before said.
        """
        if known is None and not is_null:
            return parse_name(text, None, self.strip, stop_at_tab=True)
        if known is None:
            if not is_dev_null(text):
                raise _SectionError(number, "name", "/dev/null is expected here")
            return None
        if is_null:
            # git: "expected /dev/null": "new file mode" set the new name only, so an old one cannot be known here
            if is_dev_null(text):
                raise _SectionError(number, "name", f"/dev/null, but the file has the name {known}")
            raise _SectionError(number, "name", "/dev/null is expected here")
        if parse_name(text, None, self.strip, stop_at_tab=True) != known:
            raise _SectionError(number, "name", f"another name than {known}, which a line above gives")
        return known

    # -- the hunks of a section --------------------------------------------------------------------------------------

    def _read_body(self, found: tuple[_Section, bool], begin: int) -> None:
        section, is_git = found
        raw_header = b"".join(self.lines[begin : self.at])
        preamble = b"".join(self.lines[self.free : begin])
        hunks: list[Hunk] = []
        broken = False
        while self._has_prefix(self.at, b"@@ -"):
            try:
                hunks.append(self._read_hunk())
            except _SectionError as bad:
                self.problems.append(bad.problem)
                broken = True
                self._skip_hunk()
        tail, binary = (b"", False) if hunks or broken else self._read_binary()
        self._finish_section(section, hunks, begin, raw_header, binary=binary, broken=broken)
        self.files.append(
            FilePatch(
                **asdict(section),
                binary=binary,
                git=is_git,
                hunks=tuple(hunks),
                preamble=preamble,
                raw_header=raw_header,
                raw_tail=tail,
                line=begin + 1,
            )
        )
        self.free = self.at

    def _finish_section(
        self, section: _Section, hunks: list[Hunk], begin: int, header: bytes, *, binary: bool, broken: bool
    ) -> None:
        """Finish a section by what its hunks say about creation and deletion.

        Adds faults that only the whole section shows.
        """
        removes, adds = any(hunk.old_count for hunk in hunks), any(hunk.new_count for hunk in hunks)
        if section.creates is None and (removes or len(hunks) > 1):
            section.creates = False
        if section.deletes is None and (adds or len(hunks) > 1):
            section.deletes = False
        if section.creates and removes:
            self._add_problem(begin, "new-file", f"new file {section.new_path} depends on old lines")
        if section.deletes and adds:
            self._add_problem(begin, "deleted-file", f"deleted file {section.old_path} still has lines")
        says = section.rename or section.copy or section.creates or section.deletes
        modes = None not in (section.old_mode, section.new_mode) and section.old_mode != section.new_mode
        if not hunks and not binary and not broken and not says and not modes and not _has_two_modes(header):
            self._add_problem(begin, "no-change", "a file section that changes nothing")

    def _skip_hunk(self) -> None:
        self.at += 1
        while self.at < len(self.lines):
            if self._is_section_start(self.at) or _HUNK.match(self.lines[self.at]):
                return
            self.at += 1

    def _read_hunk(self) -> Hunk:
        begin = self.at
        match = _HUNK.match(self.lines[begin])
        if not match or not self.lines[begin].endswith(b"\n"):
            raise _SectionError(begin + 1, "hunk-header", "not a hunk header: @@ -LINE,COUNT +LINE,COUNT @@")
        old_start, old_count, new_start, new_count = (1 if part is None else int(part) for part in match.groups())
        if max(old_start, old_count, new_start, new_count) > _LARGEST:
            raise _SectionError(begin + 1, "hunk-header", "a number past 2**31 (git would take it)")
        old, new, lines = old_count, new_count, []
        index = begin + 1
        while old > 0 or new > 0:
            if index >= len(self.lines):
                raise _SectionError(
                    begin + 1,
                    "hunk-count",
                    f"the patch ends {_describe_missing_lines(old, new)} before the count is full",
                )
            line = self.lines[index]
            kind = chr(line[0]) if line[:1] in (b" ", b"-", b"+") else " " if line == b"\n" else ""
            if not kind:
                if line.startswith(b"\\"):
                    raise _SectionError(index + 1, "hunk-line", "'\\ No newline' without a line in front of it")
                if line == b"\r\n":
                    raise _SectionError(index + 1, "hunk-line", "an empty line with CR LF is no context line")
                raise _SectionError(
                    begin + 1,
                    "hunk-count",
                    f"{_describe_missing_lines(old, new)} short of its count at line {index + 1}",
                )
            if not line.endswith(b"\n"):
                raise _SectionError(index + 1, "hunk-count", "the patch ends inside a line of a hunk")
            old -= kind != "+"
            new -= kind != "-"
            if old < 0 or new < 0:
                raise _SectionError(begin + 1, "hunk-count", f"more lines than its count at line {index + 1}")
            text = b"\n" if line == b"\n" else line[1:]
            index += 1
            if self._has_no_newline_mark(index, inside=old > 0 or new > 0):
                if line == b"\n":
                    raise _SectionError(
                        index + 1, "hunk-line", "'\\ No newline' behind an empty line (git would drop the line)"
                    )
                text = text[:-1]
                index += 1
            lines.append(HunkLine(kind, text))
        raw = b"".join(self.lines[begin:index])
        hunk = Hunk(old_start, old_count, new_start, new_count, tuple(lines), raw, begin + 1)
        if not hunk.has_changes:
            raise _SectionError(begin + 1, "hunk-empty", "a hunk that changes nothing")
        for side in (hunk.old_lines, hunk.new_lines):
            if any(not text.endswith(b"\n") for text in side[:-1]):
                raise _SectionError(
                    begin + 1, "hunk-line", "'\\ No newline' in the middle of a side (git would join two lines)"
                )
        self.at = index
        return hunk

    def _has_no_newline_mark(self, index: int, *, inside: bool) -> bool:
        """Say whether line ``index`` says that the line before has no newline.

        git wants 12 bytes (13 behind the hunk).
        """
        if index >= len(self.lines) or not self.lines[index].startswith(b"\\"):
            return False
        line = self.lines[index]
        if not inside and not line.startswith(b"\\ "):
            return False
        shown = len(line) if inside else sum(len(rest) for rest in self.lines[index : index + 13]) - 1
        if not line.startswith(b"\\ ") or shown < 12 or (inside and not line.endswith(b"\n")):
            raise _SectionError(
                index + 1, "hunk-line", "a line that starts with a backslash but is no '\\ No newline' line"
            )
        return True

    def _read_binary(self) -> tuple[bytes, bool]:
        """Read the text of a binary change behind a header without hunks."""
        if self.at >= len(self.lines):
            return b"", False
        line = self.lines[self.at]
        if line == b"GIT binary patch\n":
            begin = self.at
            self.at += 1
            while self.at < len(self.lines) and re.match(rb"(?:literal|delta) \d+\r?\n", self.lines[self.at]):
                self.at += 1
                while self.at < len(self.lines) and re.match(rb"[A-Za-z][!-~]{5,65}\r?\n", self.lines[self.at]):
                    self.at += 1
                if self.at < len(self.lines) and not self.lines[self.at].strip():
                    self.at += 1
            return b"".join(self.lines[begin : self.at]), True
        if line.startswith((b"Binary files ", b"Files ")) and line.rstrip(b"\r\n").endswith(b" differ"):
            self.at += 1
            return line, True
        return b"", False


_SIGNS = {
    b"\x1f\x8b": ("gzip", "`gunzip` it"),
    b"BZh": ("bzip2", "`bunzip2` it"),
    b"\xfd7zXZ\0": ("xz", "`unxz` it"),
    b"(\xb5/\xfd": ("zstd", "`unzstd` it"),
    b"PK\x03\x04": ("a zip archive", "`unzip` it"),
    b"\xff\xfe": ("UTF-16", "`iconv -f UTF-16 -t UTF-8` makes text of it"),
    b"\xfe\xff": ("UTF-16", "`iconv -f UTF-16 -t UTF-8` makes text of it"),
}


def _find_carriers(
    header: Header, text: bytes, files: Sequence[FilePatch], trailer: bytes, trailer_line: int
) -> Iterator[Problem]:
    """Find what carries a patch and is none itself.

    ``git am`` unpacks some of it; ``git apply`` and quilt do not.
    """
    for sign, (name, next_step) in _SIGNS.items():
        if text.startswith(sign):
            yield Problem(1, "carrier", f"{name}, and no patch as it stands", next_step)
            return
    head = [field for field in header.fields if field.name.lower().startswith("content-t")]
    for field in head:
        value = field.value.strip().lower()
        if field.name.lower() == "content-transfer-encoding" and value in ("quoted-printable", "base64", "x-uuencode"):
            message = f"a mail whose text is encoded ({value}): quilt, git apply and git am would make different files"
            yield Problem(field.line, ENCODED, message, _DECODE)
        if field.name.lower() == "content-type" and value.startswith("multipart/"):
            yield Problem(field.line, ENCODED, f"a mail of several parts ({value.split(';')[0]})", _DECODE)
    for file in files:
        if b"\x1b[" in file.raw_header:
            message = "the colours of a terminal in the diff's header"
            yield Problem(file.line, "carrier", message, "write the diff with `git diff --no-color`")
            break
    if b"\0" in text:
        line = text.count(b"\n", 0, text.index(b"\0")) + 1
        yield Problem(line, "carrier", "a NUL byte in the header, which no commit can have", "take it out")
    places = [(1, text), *((file.line - file.preamble.count(b"\n"), file.preamble) for file in files[1:])]
    begun = False  # Debian's maintainers put their fields above a whole mail: that is one still
    for start, block in (*places, (trailer_line, trailer)):
        for number, row in enumerate(split_lines(block), start=start):
            if not (row.startswith(b"From ") and is_mail_start(decode_path(row))):
                continue
            if begun or block is not text:
                yield Problem(number, "carrier", "a second mail begins here: a patch is one", _SPLIT)
            begun = True


#: The mails of a mailbox as files; each is a patch then.
_SPLIT = "`git mailsplit -oFOLDER FILE` writes each mail to a file of its own: import those"
_DECODE = "`decouple import` decodes it: import it under another name, and delete this one"


def _describe_missing_lines(old: int, new: int) -> str:
    return f"{max(old, new)} line{'s' if max(old, new) != 1 else ''}"


def _has_two_modes(header: bytes) -> bool:
    """Say whether a section's lines ``old mode`` and ``new mode`` differ.

    git takes 100144 and 100755, one mode to it.
    """
    written = dict(_MODES.findall(header))
    return len({int(digits, 8) for digits in written.values()}) == 2


def _parse_mode(text: bytes, number: int) -> int:
    """Parse an octal mode.

    Of a regular file git knows only whether it may be executed, whatever else a tool wrote.
    """
    match = re.match(rb"[ \t]*([0-7]{1,11})[ \t\r\n]", text)
    if not match:
        raise _SectionError(number, "mode", "not an octal file mode")
    mode = int(match.group(1), 8)
    if mode & ~0o777 == REGULAR & ~0o777:
        return EXECUTABLE if mode & 0o100 else REGULAR
    if mode not in (REGULAR, EXECUTABLE, SYMLINK, SUBMODULE):
        raise _SectionError(number, "mode", f"{mode:06o} is none of git's modes 100644, 100755, 120000, 160000")
    return mode
