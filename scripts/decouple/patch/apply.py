"""Apply a patch in memory, with the rules of ``git apply``.

They are those of git 2.39 and later, without ``--recount`` and ``--3way``. Nothing is written and nothing is fuzzy: a
hunk's context and removed lines must be found exactly. Where they are not at the line the hunk names, the nearest place
wins, the later of two equally near; a hunk that starts at line 1 stays at the start of the file, one without context
behind its last change stays at the end; lines that an earlier hunk left are never matched again. Sections of one patch
see each other as git lets them: a rename or copy reads the file as it was before the patch, any other section reads
what the sections before it made.

What git accepts and this refuses, always with a reason (the differential corpus and the fuzzer count them): binary
changes, submodules, two sections that create one file, a file in the place of a folder, and a hunk whose last old line
lacks its newline where the file's line has one. git compares just the bytes that the patch has there and would glue two
lines of the file together.

Time is linear in the patch and in the files it touches for each hunk: the search for an offset maps every line to one
character and leaves the rest to ``str.find``, which is linear (two-way search) also on hostile input.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, structs

from decouple.base.git import REGULAR, SYMLINK, TREE
from decouple.patch.lines import split_lines
from decouple.patch.parse import FilePatch, Hunk, HunkLine, Patch

_TYPE = 0o170000
_MOST_SYMBOLS = 0x10FFFF - 2


class File:
    """A file: its mode as git has it and its bytes.

    Those of a symbolic link are where it points. The bytes are read when they are asked for.
    """

    def __init__(self, mode: int, data: bytes | Callable[[], bytes]) -> None:
        self.mode = mode
        self._data = data

    @functools.cached_property
    def data(self) -> bytes:
        """Read the content. May raise what the source of the file raises."""
        return self._data if isinstance(self._data, bytes) else self._data()

    def with_mode(self, mode: int) -> File:
        """Return the same content with another mode."""
        return self if mode == self.mode else File(mode, lambda: self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and (self.mode, self.data) == (other.mode, other.data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"File({self.mode:o})"


class Source(Protocol):
    """The files of a tree. Paths are relative, with forward slashes."""

    def mode(self, path: str) -> int | None:
        """Return the mode of a file, symbolic link or submodule as git has it.

        It is ``TREE`` for a directory, None where there is nothing.
        """

    def read(self, path: str) -> bytes:
        """Read the content of a file that ``mode`` found."""


class Tree:
    """A source and what patches made of it so far."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.changed: dict[str, File | None] = {}
        """path -> its file now, None if it is gone."""
        self._found: dict[str, File | None] = {}
        """What the source has, once it was asked: the patches of a series ask for the same files again and again."""

    def get(self, path: str) -> File | None:
        """Return the file at ``path``, None if there is none.

        A directory is a File of mode ``TREE``.
        """
        if path in self.changed:
            return self.changed[path]
        if path not in self._found:
            mode = self._source.mode(path)
            self._found[path] = None if mode is None else File(mode, lambda: self._source.read(path))
        return self._found[path]

    def update(self, changes: Mapping[str, File | None]) -> None:
        """Take over what a patch did."""
        self.changed.update(changes)


class PlacedHunk(Struct, frozen=True):
    """A hunk that applies, and where."""

    hunk: Hunk
    number: int
    """1-based in its file."""
    line: int
    """1-based line of the file, as patched so far, where it starts."""
    offset: int
    """How many lines that is behind the line the hunk names."""
    choices: int = 1
    """At how many places it would have applied; counted only if the offset is not 0."""


class Failure(Struct, frozen=True):
    """The reason why one section does not apply."""

    kind: str
    """``gone`` (no such file), ``exists``, ``type``, ``hunk``, ``path``, ``content``, ``unsupported``."""
    message: str
    hunk: Hunk | None = None
    number: int = 0
    near: int = 0
    """1-based line of the file where most of the hunk's old lines are; 0 if nowhere."""
    found: tuple[bytes, ...] = ()
    """The file's lines there, as many as the hunk has old lines."""


class FileResult(Struct, frozen=True):
    """The outcome of one section."""

    file: FilePatch
    placed: tuple[PlacedHunk, ...] = ()
    failure: Failure | None = None


class PatchResult(Struct, frozen=True):
    """The outcome of one patch."""

    files: tuple[FileResult, ...]
    changes: Mapping[str, File | None]
    """path -> file after the patch, None if deleted; empty unless the whole patch applies."""

    @property
    def applies(self) -> bool:
        """Say whether every section applies; a patch is taken whole or not at all."""
        return all(result.failure is None for result in self.files)

    @property
    def offsets(self) -> tuple[tuple[FilePatch, PlacedHunk], ...]:
        """Return the hunks that were found away from the line they name."""
        return tuple((result.file, placed) for result in self.files for placed in result.placed if placed.offset)


def apply_patch(
    patch: Patch, tree: Tree, *, reverse: bool = False, files: Sequence[FilePatch] | None = None
) -> PatchResult:
    """Compute what ``patch`` (or its reverse) makes of ``tree``.

    The tree is not changed, see :meth:`Tree.update`.

    ``files``: only these sections of it.
    """
    chosen = patch.files if files is None else files
    sections = [(file, reverse_section(file)) for file in reversed(chosen)] if reverse else [(f, f) for f in chosen]
    return _Application(tree, [section for _, section in sections]).run([shown for shown, _ in sections])


def reverse_section(file: FilePatch) -> FilePatch:
    """Return the section that undoes ``file``."""
    flip = {"+": "-", "-": "+", " ": " "}
    hunks = tuple(
        Hunk(
            hunk.new_start,
            hunk.new_count,
            hunk.old_start,
            hunk.old_count,
            tuple(HunkLine(flip[line.kind], line.text) for line in hunk.lines),
            hunk.raw,
            hunk.line,
        )
        for hunk in file.hunks
    )
    swaps_modes = bool(file.new_mode) or file.deletes is not False
    return structs.replace(
        file,
        old_path=file.new_path,
        new_path=file.old_path,
        old_mode=file.new_mode if swaps_modes else file.old_mode,
        new_mode=file.old_mode if swaps_modes else file.new_mode,
        creates=file.deletes,
        deletes=file.creates,
        index=(file.index[1], file.index[0]) if file.index else None,
        hunks=hunks,
    )


@functools.lru_cache(maxsize=1 << 16)
def find_path_fault(path: str) -> str:
    """Return why a path must not be written, or an empty string.

    The rules are git's for index entries, a little stricter.
    """
    if path.startswith("/"):
        return "is absolute"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return f"has the component {part!r}"
        # what case-blind and Windows file systems take for .git, git refuses everywhere
        stem = part.replace(":", "\\").split("\\")[0].rstrip(" .").lower()
        if stem in (".git", "git~1") or ".git" in part.lower().split("\\"):
            return "reaches into .git"
    return ""


class _SectionError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _RemovedPath:
    """A path that an earlier section removed, or that a later one is going to remove."""


_REMOVED, _TO_BE_REMOVED = _RemovedPath(), _RemovedPath()


class _Application:
    """A patch while it is applied.

    ``table`` is what its sections so far made of each path.
    """

    def __init__(self, tree: Tree, sections: list[FilePatch]) -> None:
        self.tree = tree
        self.sections = sections
        self.table: dict[str, File | _RemovedPath] = {}
        self.removals: list[str] = []
        self.writes: dict[str, File] = {}
        self.reached: set[str] = set()  # parents that are no file or link in the tree as it was
        self.sound: set[str] = set()  # parents that are none in what the sections so far made of it, either
        self.links_kept = {file.new_path for file in sections if file.new_mode == SYMLINK}
        for file in sections:
            if file.old_path and (file.new_path is None or file.rename):
                self.table[file.old_path] = _TO_BE_REMOVED

    def run(self, shown: list[FilePatch]) -> PatchResult:
        results = []
        for original, section in zip(shown, self.sections, strict=True):
            placed: list[PlacedHunk] = []
            failure = None
            try:
                self._apply_section(section, placed)
            except _SectionError as refused:
                failure = refused.failure
            results.append(FileResult(original, tuple(placed), failure))
        self._check_nesting(shown, results)
        changes: dict[str, File | None] = {}
        if all(result.failure is None for result in results):
            changes.update(dict.fromkeys(self.removals))
            changes.update(self.writes)
        return PatchResult(tuple(results), changes)

    def _check_nesting(self, shown: list[FilePatch], results: list[FileResult]) -> None:
        """Fail the section that writes a file where another section needs a folder."""
        folders = {parent for path in self.writes for parent in _list_parents(path)}
        for at, (original, section) in enumerate(zip(shown, self.sections, strict=True)):
            if section.new_path in folders and section.new_path in self.writes and results[at].failure is None:
                message = f"{section.new_path} would be a file and a folder"
                results[at] = FileResult(original, results[at].placed, Failure("exists", message))

    def _apply_section(self, file: FilePatch, placed: list[PlacedHunk]) -> None:
        self._check_supported(file)
        old, new, creates, deletes = file.old_path, file.new_path, file.creates, file.deletes
        before = None
        if old is not None:
            before = self._read_preimage(file, old)
            if before is None:  # a traditional diff with an empty old side, and no such file: it is new
                old, creates, deletes = None, True, False
            else:
                creates = bool(creates)
        old_mode = (file.old_mode or (before.mode if before else None)) if old is not None else None
        if before and old_mode is not None and (before.mode ^ old_mode) & _TYPE:
            raise _make_refusal("type", f"{old} is of another type ({before.mode:06o}, the patch says {old_mode:06o})")
        # a mode that only the index line gives does not change the file's own
        new_mode = file.new_mode or (before.mode if before and deletes is not True else old_mode) or REGULAR
        if new is not None and (creates or file.rename or file.copy):
            self._check_free(new)
        if before and old is not None and new is not None and old_mode and (old_mode ^ new_mode) & _TYPE:
            raise _make_refusal("type", f"{new} would change its type from {old_mode:06o} to {new_mode:06o}")
        if not deletes and new is not None:
            self._check_parents(new)
        result = _apply_hunks(before.data if before else b"", file, placed) if file.hunks or deletes else None
        if deletes and result:
            raise _make_refusal("content", f"{old} has lines besides those that its deletion names")
        if deletes:
            assert old is not None
            self.table[old] = _REMOVED
            self.removals.append(old)
            return
        assert new is not None
        if result is not None:
            after = File(new_mode, result)
        else:
            after = before.with_mode(new_mode) if before else File(new_mode, b"")
        if (creates or file.copy or file.rename) and new in self.writes:
            raise _make_refusal("exists", f"two sections of the patch write {new} (git would keep the last)")
        self.table[new] = after
        self.writes[new] = after
        if file.rename and old is not None:
            self.table[old] = _REMOVED
        if not creates and not file.copy and old is not None:
            self.removals.append(old)

    def _check_supported(self, file: FilePatch) -> None:
        if file.binary:
            raise _make_refusal("unsupported", f"{file.path}: a binary change")
        if file.is_submodule:
            raise _make_refusal("unsupported", f"{file.path}: a submodule change")
        if file.rename and file.old_path == file.new_path:
            raise _make_refusal("path", f"{file.path} is renamed to itself")
        for path in file.paths:
            fault = find_path_fault(path)
            if fault:
                raise _make_refusal("path", f"path {path!r} {fault}")

    def _read_preimage(self, file: FilePatch, path: str) -> File | None:
        """Read the file that a section starts from.

        Returns None if a section that may be a creation finds no such file.
        """
        known = None if file.rename or file.copy else self.table.get(path)
        if known is _REMOVED:
            raise _make_refusal("gone", f"{path} was renamed or deleted by an earlier section of the patch")
        if isinstance(known, File):
            return known
        self._check_reachable(path)
        tree_file = self.tree.get(path)
        if tree_file is None and file.creates is not None:
            raise _make_refusal("gone", f"{path} is not in the tree")
        if tree_file is not None and tree_file.mode == TREE:
            raise _make_refusal("type", f"{path} is a directory")
        return tree_file

    def _check_free(self, path: str) -> None:
        if isinstance(self.table.get(path), _RemovedPath):
            return
        file = self.tree.get(path)
        if file is not None:
            reason = "a directory is in the way" if file.mode == TREE else "exists already"
            raise _make_refusal("exists", f"{path}: {reason}" if file.mode == TREE else f"{path} {reason}")

    def _check_reachable(self, path: str) -> None:
        """Refuse to read through a symbolic link or a file."""
        for parent in _list_parents(path):
            if parent in self.reached:
                continue
            file = self.tree.get(parent)
            if file is not None and file.mode != TREE:
                raise _make_refusal("gone", f"{path} is not in the tree: {parent} is no directory")
            self.reached.add(parent)

    def _check_parents(self, path: str) -> None:
        """Refuse to write through a symbolic link or below a file."""
        for parent in _list_parents(path):
            if parent in self.sound:
                continue
            if parent in self.links_kept:
                raise _make_refusal("path", f"{path} is beyond the symbolic link {parent}")
            known = self.table.get(parent)
            if isinstance(known, _RemovedPath):
                continue
            file = known if isinstance(known, File) else self.tree.get(parent)
            if file is not None and file.mode != TREE:
                reason = "beyond the symbolic link" if file.mode == SYMLINK else "below the file"
                raise _make_refusal("path", f"{path} is {reason} {parent}")
            self.sound.add(parent)


def _make_refusal(kind: str, message: str) -> _SectionError:
    return _SectionError(Failure(kind, message))


def _list_parents(path: str) -> tuple[str, ...]:
    return _list_folders(path.rpartition("/")[0])


@functools.lru_cache(maxsize=1 << 14)
def _list_folders(folder: str) -> tuple[str, ...]:
    """List ``folder`` and those that it lies in, the outermost first."""
    parts = folder.split("/") if folder else []
    return tuple("/".join(parts[: count + 1]) for count in range(len(parts)))


class _Image:
    """A file as lines, and the same lines as characters.

    There is one character for each line that a hunk knows, NUL for any other.
    """

    OTHER, PATCHED = "\0", "\1"

    def __init__(self, data: bytes, hunks: tuple[Hunk, ...]) -> None:
        self.lines = split_lines(data)
        self.symbols: dict[bytes, str] = {}
        for hunk in hunks:
            for text in hunk.old_lines:
                if text not in self.symbols:
                    self.symbols[text] = chr(len(self.symbols) + 2)
        if len(self.symbols) > _MOST_SYMBOLS:
            raise _make_refusal("unsupported", "more than a million different lines")
        self.text = "".join(map(self.symbols.get, self.lines, itertools.repeat(self.OTHER)))

    def make_pattern(self, hunk: Hunk) -> str:
        return "".join([self.symbols[line] for line in hunk.old_lines])

    def replace_hunk(self, at: int, hunk: Hunk) -> None:
        behind = at + len(hunk.old_lines)
        self.lines[at:behind] = hunk.new_lines
        self.text = self.text[:at] + self.PATCHED * len(hunk.new_lines) + self.text[behind:]


def _apply_hunks(data: bytes, file: FilePatch, placed: list[PlacedHunk]) -> bytes:
    """Apply the hunks to ``data``.

    What was placed so far is told also if one does not apply.
    """
    image = _Image(data, file.hunks)
    for number, hunk in enumerate(file.hunks, start=1):
        pattern = image.make_pattern(hunk)
        named = hunk.new_start - 1 if hunk.new_start else 0
        at_start, at_end = hunk.old_start <= 1, hunk.trailing == 0
        at = _find_pattern(image.text, pattern, named, at_start=at_start, at_end=at_end)
        if at is None:
            near, lines = _find_closest_lines(image, hunk)
            message = f"{file.path}: hunk {number} does not apply"
            if near and lines == hunk.old_lines:
                bound = "start" if at_start else "end"
                message += f" (its lines are at line {near}, but it belongs to the {bound} of the file)"
            raise _SectionError(Failure("hunk", message, hunk, number, near, lines))
        if at + len(hunk.old_lines) < len(image.lines) and hunk.new_lines and not hunk.new_lines[-1].endswith(b"\n"):
            message = f"{file.path}: hunk {number} ends without newline, but not at the end of the file"
            raise _SectionError(Failure("hunk", message, hunk, number, at + 1, hunk.old_lines))
        choices = 1 if at == named or not pattern else _count_matches(image.text, pattern)
        placed.append(PlacedHunk(hunk, number, at + 1, at - named, choices))
        image.replace_hunk(at, hunk)
    return b"".join(image.lines)


def _find_pattern(text: str, pattern: str, named: int, *, at_start: bool, at_end: bool) -> int | None:
    """Find where ``pattern`` is in ``text``, nearest to ``named``.

    Of two places equally near it is the later.
    """
    size, length = len(text), len(pattern)
    if length > size:
        return None
    if at_start or at_end:
        at = 0 if at_start else size - length
        fits = text.startswith(pattern, at) and (not at_end or at + length == size)
        return at if fits else None
    named = min(named, size)
    if text.startswith(pattern, named):
        return named
    later = text.find(pattern, named + 1)
    low = 0 if later < 0 else max(0, named - (later - named) + 1)
    # searching the reversed text forwards: str.rfind is not linear on hostile input
    window = text[low : min(size, named - 1 + length)][::-1] if named > low else ""
    behind = window.find(pattern[::-1]) if len(window) >= length else -1
    if behind >= 0:
        return low + len(window) - behind - length
    return later if later >= 0 else None


def _count_matches(text: str, pattern: str) -> int:
    """Count the places of ``pattern``, up to 9."""
    count, at = 0, text.find(pattern)
    while at >= 0 and count < 9:
        count, at = count + 1, text.find(pattern, at + 1)
    return count


def _find_closest_lines(image: _Image, hunk: Hunk) -> tuple[int, tuple[bytes, ...]]:
    """Find where most old lines of a hunk that does not apply are, for the message.

    Returns the line (from 1) and the lines there.

    Every line that occurs in the file at most 50 times votes for the starts that it implies; ties go to the nearest.
    """
    places: dict[bytes, list[int]] = {}
    wanted = set(hunk.old_lines)
    for at, line in enumerate(image.lines):
        if line in wanted:
            places.setdefault(line, []).append(at)
    votes: dict[int, int] = {}
    for index, line in enumerate(hunk.old_lines):
        spots = places.get(line, [])
        if len(spots) <= 50:
            for spot in spots:
                votes[spot - index] = votes.get(spot - index, 0) + 1
    if not votes:
        return 0, ()
    start = max(votes, key=lambda at: (votes[at], -abs(at - hunk.new_start + 1), -at))
    begin = max(start, 0)
    return begin + 1, tuple(image.lines[begin : start + len(hunk.old_lines)])
