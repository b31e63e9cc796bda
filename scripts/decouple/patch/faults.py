"""What lint can say: one line of a file, a code that scripts can match, and a message for people."""

from __future__ import annotations

from dataclasses import dataclass

CODES: dict[str, str] = {
    # series files
    "series-syntax": "a line of a series file that is no patch name with -pN",
    "series-path": "a patch name that is not a plain path below patches/",
    "listed-twice": "a patch named twice in one series",
    "missing-patch": "a series names a patch that is not on disk",
    "unused-patch": "a file below patches/ that no series names",
    "strip-level": "a -pN other than -p1: git am knows only -p1",
    "patch-name": "a patch file that is not called NNNN-short-name.patch, or numbers out of order",
    # headers
    "no-author": "no From (or From without an address): git am refuses the patch",
    "no-purpose": "neither Description nor Subject says what the patch does",
    "missing-field": "a required header field is not there",
    "empty-field": "a header field without a value",
    "bad-date": "Last-Update is not a date, YYYY-MM-DD",
    "bad-id": "Decouple-Id is not in kebab-case",
    "duplicate-id": "two patches of one series have the same Decouple-Id",
    "unknown-depends": "Depends names an id that no earlier patch of the series has",
    # text
    "not-utf8": "bytes that are not UTF-8 in a header or series file",
    "crlf": "CR LF where LF belongs",
    "junk": "text between or behind the diffs",
    "no-newline": "the file does not end in a newline",
    # sections
    "empty": "a patch without any diff",
    "not-git": "a section that does not start with diff --git: modes and renames get lost",
    "lone-header": "a diff --git line without anything that belongs to it",
    "name": "a file name that is missing, or two lines of one section that disagree",
    "extended-header": "a section that is two of new, deleted, rename and copy",
    "mode": "a file mode that git does not write",
    "new-file": "a new file that depends on old lines",
    "deleted-file": "a deleted file that still has lines",
    "no-change": "a section that changes nothing",
    "leaves-tree": "a path that is absolute, has '..' in it or reaches into .git",
    "binary": "a binary change",
    "submodule": "a submodule change",
    "abbreviated-index": "an index line with shortened blob ids",
    "missing-index": "a section with hunks but without an index line",
    "moved-text": "a line that a patch takes out with text that it moves, and that the copy lacks",
    # hunks
    "orphan-hunk": "a hunk without a file header",
    "hunk-header": "a malformed @@ line",
    "hunk-count": "a hunk that does not have the lines its @@ line counts",
    "hunk-line": "a line that cannot stand in a hunk",
    "hunk-empty": "a hunk that changes nothing",
    "hunk-order": "a hunk that starts before the one in front of it ends",
    "context": "more or fewer than three lines of context",
    "fuzz-prone": "a hunk that nothing distinctive holds in its place",
    "overlap": "a hunk that contains lines an earlier patch changed, without Depends on it",
    "second-reader": "patch-ng reads something else in the patch than we do",
}
"""Every code and what it stands for."""


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong. Sorted by file and line."""

    file: str
    """Path relative to the checkout, with forward slashes."""
    line: int
    """1-based; 1 where the fault is about the whole file."""
    code: str
    """A key of ``CODES``."""
    message: str

    def __post_init__(self) -> None:
        assert self.code in CODES, self.code

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code} {self.message}"
