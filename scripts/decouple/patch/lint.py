"""Check one patch by the rules: its header, its text, its sections and its hunks.

No rule stops at the first fault.
"""

from __future__ import annotations

import datetime
import io
import logging
import re
from collections.abc import Iterator

import patch_ng

from decouple.patch import mail
from decouple.patch import parse as patches
from decouple.patch.apply import find_path_fault
from decouple.patch.faults import CODES, Fault
from decouple.patch.header import Header
from decouple.patch.lines import BOM
from decouple.patch.parse import FilePatch, Hunk, Patch

CODES.update(
    {
        "no-author": "no From (or From without an address): git am refuses the patch",
        "no-purpose": "neither Description nor Subject says what the patch does",
        "missing-field": "a required header field is not there",
        "empty-field": "a header field without a value",
        "repeated-field": "a required header field that stands twice: the first alone counts",
        "bad-date": "Last-Update is not a day, YYYY-MM-DD, or Date is nothing that git takes for a date",
        "keep-cr": "a change in a file whose lines end in CR LF: git am takes it with --keep-cr only",
        "bad-id": "Decouple-Id is not in kebab-case",
        "junk": "text between or behind the diffs",
        "not-git": "a section that does not start with diff --git: modes and renames get lost",
        "leaves-tree": "a path that is absolute, has '..' in it or reaches into .git",
        "binary": "a binary change",
        "submodule": "a submodule change",
        "abbreviated-index": "an index line with shortened blob ids",
        "missing-index": "a section with hunks but without an index line",
        "hunk-order": "a hunk that starts before the one in front of it ends",
        "context": "more or fewer than three lines of context",
        "fuzz-prone": "a hunk that nothing distinctive holds in its place",
        "second-reader": "patch-ng reads something else in the patch than we do",
    }
)
#: Header fields that each patch needs, and why (docs/patches.md); Origin and Forwarded stand in for each other.
REQUIRED = {
    "Last-Update": "the day of the last change, YYYY-MM-DD",
    "Decouple-Id": "the id that ties its bodies together across releases",
    "Verify": "the command or upstream test that fails without it and passes with it",
    "Drop-When": "what upstream must do for it to go",
}
CONTEXT = 3

_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_ADDRESS = re.compile(r"[^<>()@\s]+@[^<>()@\s]+")
_FULL_ID = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\Z")
_OTHER_MODE = re.compile(
    rb"^(?:(?:old |new |new file |deleted file )mode|index \S+) (100(?!644|755)[0-7]{3})", re.MULTILINE
)
_ANCHOR = re.compile(rb"(?:[A-Za-z0-9][^A-Za-z0-9]*){4}")

logging.getLogger("patch_ng").addHandler(logging.NullHandler())
logging.getLogger("patch_ng").propagate = False


def lint_patch(data: bytes, file: str, *, strip: int = 1) -> tuple[Patch, list[Fault]]:
    """Read a patch and list its faults; ``file`` is what they call it."""
    patch, problems = patches.scan_patch(data, name=file, strip=strip)
    faults = [Fault(file, problem.line, problem.code, problem.message) for problem in problems]
    if not patch.files and not problems:
        faults.append(Fault(file, 1, "empty", "no diff in it"))
    if data and not data.endswith(b"\n"):
        faults.append(Fault(file, data.count(b"\n") + 1, "no-newline", "the last line has no newline"))
    faults += _lint_header(patch, file)
    faults += _lint_extra_text(patch, file)
    for section in patch.files:
        faults += _lint_section(section, file)
    if not problems:
        faults += _compare_readers(data, patch, file, strip)
    return patch, faults


# -- header ----------------------------------------------------------------------------------------------------------


def _lint_header(patch: Patch, file: str) -> Iterator[Fault]:
    header = patch.header
    try:
        patch.header_bytes.decode("utf-8")
    except UnicodeDecodeError as error:
        line = patch.header_bytes.count(b"\n", 0, error.start) + 1
        yield Fault(file, line, "not-utf8", "the header is not UTF-8")
    if patch.header_bytes.startswith(BOM.encode()):
        yield Fault(
            file, 1, "byte-order-mark", "save it as UTF-8 without a byte order mark: sed -i '1s/^\\xef\\xbb\\xbf//'"
        )
    for number, line_bytes in enumerate(patch.header_bytes.split(b"\n"), start=1):
        if line_bytes.endswith(b"\r"):
            yield Fault(file, number, "crlf", "a header line ends in CR LF")
            break
    author = header.find("From")
    if not author or not _ADDRESS.search(author.value):
        yield Fault(file, author.line if author else 1, "no-author", "write From: Name <address>; git am needs it")
    if not header.synopsis:
        yield Fault(file, 1, "no-purpose", "say in Description (or Subject) what the patch does and why")
    for name, meaning in REQUIRED.items():
        fields = [field for field in header.fields if field.name.lower() == name.lower()]
        if not fields:
            yield Fault(file, 1, "missing-field", f"{name}: {meaning}")
        for field in fields[1:]:
            yield Fault(file, field.line, "repeated-field", f"{name} stands on line {fields[0].line}, too; keep one")
    if not header.find("Origin") and not header.find("Forwarded"):
        yield Fault(file, 1, "missing-field", "Origin or Forwarded: where it comes from, or who upstream has seen it")
    for field in header.fields:
        if not field.value.strip():
            yield Fault(file, field.line, "empty-field", f"{field.name} has no value")
    yield from _lint_values(header, file)


def _lint_values(header: Header, file: str) -> Iterator[Fault]:
    date = header.find("Last-Update")
    if date and date.value.strip() and not _is_date(date.value):
        yield Fault(file, date.line, "bad-date", f"Last-Update {date.value!r} is not a date, YYYY-MM-DD")
    sent = header.find("Date")
    if sent and sent.value.strip() and not mail.is_date(sent.value.strip()):
        message = f"Date {sent.value!r} is nothing that git takes for a date; write it as `git log --date=rfc` does"
        yield Fault(file, sent.line, "bad-date", message)
    identity = header.find("Decouple-Id")
    if identity and identity.value.strip() and not _KEBAB.match(identity.value):
        yield Fault(file, identity.line, "bad-id", f"Decouple-Id {identity.value!r} is not kebab-case (a-z, 0-9, '-')")


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


# -- text ------------------------------------------------------------------------------------------------------------


def _lint_extra_text(patch: Patch, file: str) -> Iterator[Fault]:
    for section in patch.files[1:]:
        if section.preamble.strip():
            line = section.line - section.preamble.count(b"\n")
            yield Fault(
                file, line, "junk", f"text in front of the diff of {section.path}: {_format_excerpt(section.preamble)}"
            )
    if patch.trailer.strip():
        description = "a mail signature" if patch.trailer.startswith(b"-- \n") else _format_excerpt(patch.trailer)
        yield Fault(file, patch.trailer_line, "junk", f"text behind the last diff: {description}")
    elif patch.trailer:
        yield Fault(file, patch.trailer_line, "junk", "blank lines behind the last diff")


def _format_excerpt(text: bytes) -> str:
    line = text.strip().split(b"\n", 1)[0][:60]
    return repr(line.decode("utf-8", "backslashreplace"))


# -- sections --------------------------------------------------------------------------------------------------------


def _lint_section(section: FilePatch, file: str) -> Iterator[Fault]:
    for path in section.paths:
        fault = find_path_fault(path)
        if fault:
            yield Fault(file, section.line, "leaves-tree", f"path {path!r} {fault}")
    if len(section.paths) == 2 and not section.rename and not section.copy:
        message = f"{section.old_path} becomes {section.new_path} without a rename line; git apply moves the file"
        yield Fault(file, section.line, "name", message)
    if not section.git:
        yield Fault(file, section.line, "not-git", f"{section.path}: write it with git (`decouple refresh` does)")
    if section.binary:
        yield Fault(file, section.line, "binary", f"{section.path}: generate the file, or fetch it with a hash")
    if section.is_submodule:
        yield Fault(file, section.line, "submodule", f"{section.path}: the source manifest pins submodules")
    if section.index and not all(_FULL_ID.match(identity) for identity in section.index):
        line = section.line + section.raw_header[: section.raw_header.find(b"\nindex ") + 1].count(b"\n")
        yield Fault(file, line, "abbreviated-index", f"{section.path}: {'..'.join(section.index)}; use --full-index")
    if section.git and section.hunks and not section.index:
        yield Fault(file, section.line, "missing-index", f"{section.path}: no index line")
    if match := _OTHER_MODE.search(section.raw_header):
        message = f"{section.path}: git writes 100644 or 100755, and takes {match[1].decode()} for one of them"
        yield Fault(file, section.line, "mode", message)
    if b"\r\n" in section.raw_header:
        yield Fault(file, section.line, "crlf", f"{section.path}: the lines of the diff's header end in CR LF")
    yield from _lint_line_ends(section, file)
    if not section.creates and not section.deletes:
        yield from _lint_hunks(section, file)


def _lint_line_ends(section: FilePatch, file: str) -> Iterator[Fault]:
    """Find CR LF that only some lines have.

    CR LF is right in a file that has it throughout, so a hunk is judged by its own lines.
    """
    for hunk in section.hunks:
        ends = [line.text.endswith(b"\r\n") for line in hunk.lines if line.text.endswith(b"\n")]
        old = [line.text.endswith(b"\r\n") for line in hunk.lines if line.kind != "+" and line.text.endswith(b"\n")]
        if any(ends) and not (all(ends) and (all(old) and old)):
            index = next(at for at, line in enumerate(hunk.lines) if line.text.endswith(b"\r\n"))
            place = "in a new file" if not old else "among lines that end in LF"
            yield Fault(file, _find_line(hunk, index), "crlf", f"{section.path}: CR LF {place}")
        elif any(ends):
            message = f"{section.path} has lines that end in CR LF: only `git am --keep-cr` takes the patch"
            yield Fault(file, hunk.line, "keep-cr", message)
            return


def _find_line(hunk: Hunk, index: int) -> int:
    """Return the line in the patch of a hunk's line.

    Each missing newline takes one more.
    """
    return hunk.line + 1 + index + sum(not line.text.endswith(b"\n") for line in hunk.lines[:index])


def _lint_hunks(section: FilePatch, file: str) -> Iterator[Fault]:
    behind = 0
    for number, hunk in enumerate(section.hunks):
        name = f"{section.path}: hunk {number + 1}"
        if hunk.old_start < behind:
            yield Fault(file, hunk.line, "hunk-order", f"{name} starts at line {hunk.old_start}, before line {behind}")
        behind = hunk.old_start + hunk.old_count
        last = number == len(section.hunks) - 1
        wrong = list(_lint_context(hunk, last=last))
        if wrong:
            yield Fault(file, hunk.line, "context", f"{name} has {' and '.join(wrong)}")
        fixed = hunk.old_start <= 1 or hunk.trailing == 0
        if not fixed and not any(_ANCHOR.search(line) for line in hunk.old_lines):
            yield Fault(file, hunk.line, "fuzz-prone", f"{name}: only blank lines and brackets hold it in its place")


def _lint_context(hunk: Hunk, *, last: bool) -> Iterator[str]:
    """Say what differs from three lines of context.

    Fewer are right at the start and at the end of a file.
    """
    at_start = hunk.old_start - 1 <= hunk.leading or hunk.old_count == 0
    if hunk.leading > CONTEXT or (hunk.leading < CONTEXT and not at_start):
        yield f"{hunk.leading} lines of context in front of its changes"
    if hunk.trailing > CONTEXT or (hunk.trailing < CONTEXT and not last):
        yield f"{hunk.trailing} lines of context behind its changes"
    runs = re.findall(" +", "".join(line.kind for line in hunk.lines).strip(" "))
    if any(len(run) > 2 * CONTEXT for run in runs):
        yield f"{max(map(len, runs))} lines between two changes, which are two hunks"


# -- the second reader -----------------------------------------------------------------------------------------------


def _compare_readers(data: bytes, patch: Patch, file: str, strip: int) -> Iterator[Fault]:
    """Compare with patch-ng.

    It reads; it never decides that a patch applies (it says True for renames that it did not do).
    """
    if strip != 1 or not patch.files or any(map(_is_misread, patch.files)):
        return
    try:
        patch_set = patch_ng.PatchSet(io.BytesIO(data))
    except Exception as error:  # it has none of its own: "rename from" in the last line is a TypeError in 1.19.1
        yield Fault(file, 1, "second-reader", f"patch-ng fails on it: {type(error).__name__}: {error}")
        return
    if patch_set.errors:
        yield Fault(file, 1, "second-reader", f"patch-ng finds {patch_set.errors} errors in it")
        return
    ours = [(section.path, len(section.hunks)) for section in patch.files]
    theirs = [(_read_path(item), len(item.hunks)) for item in patch_set.items]
    # patch-ng knows a section only by its --- and +++ lines or a rename
    ours = [(path, hunks) for path, hunks in ours if hunks or (path, hunks) in theirs]
    for (path, hunks), other in zip(ours, [*theirs, *[("nothing", 0)] * len(ours)], strict=False):
        if (path, hunks) != other:
            message = f"{path} with {hunks} hunks, but patch-ng reads {other[0]} with {other[1]}"
            yield Fault(file, 1, "second-reader", message)
            return


def _is_misread(section: FilePatch) -> bool:
    """Say whether patch-ng is known to read a correct section wrongly.

    Those are names in C quotes, and a move with another mode.
    """
    quoted = re.search(rb'^(?:diff --git|---|\+\+\+|rename from|rename to) (?:.* )?"', section.raw_header, re.MULTILINE)
    moved = section.rename or section.copy
    return not section.git or section.binary or bool(quoted) or (moved and section.has_mode_change)


def _read_path(item: patch_ng.Patch) -> str:
    name: bytes = item.source if item.target == b"/dev/null" else item.target
    return name.decode("utf-8", "surrogateescape")
