"""What lint can say: a line of a file, a code for scripts, a message for people."""

from __future__ import annotations

from msgspec import Struct

CODES: dict[str, str] = {
    # series files
    "series-syntax": "a line of a series file that is no patch name with -pN",
    "series-path": "a patch name that is not a plain path below patches/",
    "listed-twice": "a patch named twice in one series",
    # text
    "carrier": "what carries a patch and is none: a mailbox of several mails, an archive, UTF-16, colours",
    "encoded-mail": "a mail in quoted-printable or base64, or of several parts",
    "byte-order-mark": "a byte order mark in front: git am takes such a patch for none, quilt such a name for another",
    "not-utf8": "bytes that are not UTF-8 in a header or series file",
    "crlf": "CR LF where LF belongs",
    "no-newline": "the file does not end in a newline",
    # sections
    "empty": "a patch without any diff",
    "lone-header": "a diff --git line without anything that belongs to it",
    "name": "a file name that is missing, or two lines of one section that disagree",
    "extended-header": "a section that is two of new, deleted, rename and copy",
    "mode": "a file mode that git does not write",
    "new-file": "a new file that depends on old lines",
    "deleted-file": "a deleted file that still has lines",
    "no-change": "a section that changes nothing",
    # hunks
    "orphan-hunk": "a hunk without a file header",
    "hunk-header": "a malformed @@ line",
    "hunk-count": "a hunk that does not have the lines its @@ line counts",
    "hunk-line": "a line that cannot stand in a hunk",
    "hunk-empty": "a hunk that changes nothing",
}
"""Every code and what it stands for: what reading finds; the rules of ``patch/lint`` and ``series/lint`` add theirs."""


class Fault(Struct, frozen=True, order=True):
    """A fault of a file. Sorted by file and line."""

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
