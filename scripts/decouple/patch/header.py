"""Read and write patch headers; no byte of the text is lost.

Fields are DEP-3's plus ``Decouple-Id``, ``Verify``, ``Drop-When``, ``Depends``. DEP-3
(https://dep-team.pages.debian.net/deps/dep3/) gives a patch ``Name: value`` fields in RFC 2822 form: a line that starts
with white space continues the field before it, and a lone dot stands for an empty line. Fields may come in more than
one paragraph; any other paragraph is free text. ``From`` (or ``Author``) names who wrote it: ``git am`` refuses a patch
without ``From``. A header that is read and written without a change is the same text.

Here is which fields a header has and what those say that are this project's and DEP-3's. What a mail says of author,
date and title, encoded as it may be, is for ``patch.mail``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from decouple.patch.lines import BOM, split_lines

KNOWN = (
    "From",
    "Author",
    "Date",
    "Subject",
    "Description",
    "Origin",
    "Bug",
    "Forwarded",
    "Applied-Upstream",
    "Reviewed-by",
    "Acked-by",
    "Last-Update",
    "Decouple-Id",
    "Verify",
    "Drop-When",
    "Depends",
    "Moved-Differs",
)
"""The fields this project reads, in the order in which new ones are written."""

#: Fields that make fields of the paragraph they stand in, wherever in it: a mail's, and DEP-3's own.
_CORE = frozenset(("from", "author", "subject", "description", "date"))
_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]*):(?:[ \t]|\r?\n|\Z)")
_MAIL_BEGINS = re.compile(r"From \S+ .*\d\d?:\d\d(:\d\d)? .*(19[7-9]|20)\d\d\r?\n")
_BUG_VENDOR = re.compile(r"bug-[a-z0-9]+\Z")
_LOWER = {name.lower(): name for name in KNOWN}


class Field(Struct, frozen=True):
    """A field as it stands in the file."""

    name: str
    raw: str
    """All of its text: name, colon, value, continuation lines and newlines."""
    line: int
    """1-based line in the patch file; 0 for a field that was not read from one."""

    @property
    def value(self) -> str:
        """Return the unfolded value.

        Continuation lines are joined by newlines, one leading blank is taken off, and ``.`` is an empty line.
        """
        first, *rest = self.raw.split(":", 1)[1].rstrip("\n").split("\n")
        unfolded = [first.strip()]
        for line in rest:
            text = line[1:].rstrip()
            unfolded.append("" if text.strip() == "." else text)
        return "\n".join(unfolded).strip("\n")


class FreeText(Struct, frozen=True):
    """Lines that are no field.

    These are blank lines, free text, an mbox ``From`` line, a ``---`` and what follows.
    """

    raw: str


class Header(Struct, frozen=True):
    """Everything in front of the first diff of a patch. Changes give a new Header."""

    items: tuple[Field | FreeText, ...] = ()

    def to_text(self) -> str:
        """Return the header as text; equal to what was read if nothing was changed."""
        return "".join(item.raw for item in self.items)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields in order."""
        return tuple(item for item in self.items if isinstance(item, Field))

    def find(self, name: str) -> Field | None:
        """Return the first field of that name (case does not matter), or None."""
        wanted = name.lower()
        return next((field for field in self.fields if field.name.lower() == wanted), None)

    def get(self, name: str) -> str | None:
        """Return the unfolded value of the first field of that name, or None."""
        field = self.find(name)
        return field.value if field else None

    def get_all(self, name: str) -> tuple[str, ...]:
        """Return the values of every field of that name, in order."""
        return tuple(field.value for field in self.fields if field.name.lower() == name.lower())

    @property
    def synopsis(self) -> str:
        """Return one line that says what the patch does.

        It is the first line of ``Description``, else of ``Subject``, else "".
        """
        description = self.get("Description")
        if description:
            return description.split("\n", 1)[0].strip()
        subject = " ".join((self.get("Subject") or "").split())  # a mail header: folding means nothing
        return re.sub(r"^(\[[^\]]*\] ?)+", "", subject)

    @property
    def author(self) -> str | None:
        """Return what ``From`` or ``Author`` says."""
        return self.get("From") or self.get("Author")

    @property
    def date(self) -> str | None:
        """Return what ``Date`` or ``Last-Update`` says."""
        return self.get("Date") or self.get("Last-Update")

    @property
    def decouple_id(self) -> str | None:
        """Return the id that ties the bodies of one patch together across releases."""
        return self.get("Decouple-Id")

    @property
    def depends(self) -> frozenset[str]:
        """Return the ids of patches whose lines this one builds on (``Depends: id, id``)."""
        words = re.split(r"[\s,]+", " ".join(self.get_all("Depends")))
        return frozenset(word for word in words if word)

    def with_field(self, name: str, value: str) -> Header:
        """Return the header with the first field ``name`` set to ``value``.

        Newlines are folded. Where there is no such field, a new one stands in its usual place.
        """
        text = fold_field(name, value)
        old = self.find(name)
        if old:
            items = tuple(Field(old.name, text, old.line) if item is old else item for item in self.items)
            return replace(self, items=items)
        return replace(self, items=_insert_field(self.items, Field(name, text, 0)))

    def without_field(self, name: str) -> Header:
        """Return the header without every field of that name."""
        keep = (item for item in self.items if not (isinstance(item, Field) and item.name.lower() == name.lower()))
        return replace(self, items=tuple(keep))


def fold_field(name: str, value: str) -> str:
    """Write ``name: value`` as header text.

    Further lines start with one blank, an empty one becomes `` .``.
    """
    first, *rest = value.strip("\n").split("\n")
    head = f"{name}: {first.strip()}".rstrip() + "\n"
    return head + "".join(f" {line}".rstrip() + "\n" if line.strip() else " .\n" for line in rest)


def is_mail_start(line: str) -> bool:
    """Say whether a mail begins in an mbox with this line.

    The mail before, if any, ends there.
    """
    return bool(_MAIL_BEGINS.match(line))


def parse_header(text: str) -> Header:
    """Parse a header; what is no field becomes FreeText. Anything is accepted."""
    items: list[_OpenItem] = []
    open_field = in_fields = False
    at_start = True  # of a paragraph
    commentary = False
    lines = split_lines(text.removeprefix(BOM))
    if text.startswith(BOM):
        _add_text(items, BOM)
    for number, raw in enumerate(lines, start=1):
        bare = raw.rstrip("\r\n")
        if commentary or bare == "---":
            commentary = True
            _add_text(items, raw)
            continue
        if not bare.strip():
            _add_text(items, raw)
            open_field, in_fields, at_start = False, False, True
            continue
        if open_field and raw[0] in " \t":
            items[-1].lines.append(raw)
            continue
        match = _FIELD.match(raw)
        # a paragraph counts if it starts with a field that is known; then it may have any
        if match and (in_fields or (at_start and _is_field_start(match.group(1), lines, number - 1))):
            items.append(_OpenItem(match.group(1), [raw], number))
            open_field = in_fields = True
            at_start = False
        else:
            # an mbox line ("From <commit> <date>") stands in front of the fields, it does not end their paragraph;
            # Debian's maintainers put their own fields above a whole mail
            at_start = at_start and raw.startswith("From ") and (number == 1 or is_mail_start(raw))
            open_field = in_fields = False
            _add_text(items, raw)
    return Header(tuple(item.make_item() for item in items))


class _OpenItem(Struct):
    """An item while lines are added to it; ``name`` is empty for text."""

    name: str
    lines: list[str]
    line: int = 0

    def make_item(self) -> Field | FreeText:
        raw = "".join(self.lines)
        return Field(self.name, raw, self.line) if self.name else FreeText(raw)


def _is_field_start(name: str, lines: Sequence[str], at: int) -> bool:
    """Say whether line ``at``, ``name: ...``, begins fields.

    ``jit: take an argument`` is the first line of a text.
    """
    if _is_known(name):
        return True
    rest = (lines[index] for index in range(at, len(lines)))
    paragraph = list(itertools.takewhile(lambda line: line.strip() and line.rstrip() != "---", rest))
    names = [match.group(1).lower() for line in paragraph if (match := _FIELD.match(line))]
    folded = sum(line[0] in " \t" for line in paragraph)
    return len(names) + folded == len(paragraph) and not _CORE.isdisjoint(names)


def _is_known(name: str) -> bool:
    return name.lower() in _LOWER or bool(_BUG_VENDOR.match(name.lower()))


def _add_text(items: list[_OpenItem], raw: str) -> None:
    if items and not items[-1].name:
        items[-1].lines.append(raw)
    else:
        items.append(_OpenItem("", [raw]))


def _insert_field(items: tuple[Field | FreeText, ...], new: Field) -> tuple[Field | FreeText, ...]:
    order = {name.lower(): rank for rank, name in enumerate(KNOWN)}
    rank = order.get(new.name.lower(), len(order))
    at = 0
    for index, item in enumerate(items):
        if isinstance(item, Field) and order.get(item.name.lower(), len(order)) <= rank:
            at = index + 1
        elif isinstance(item, FreeText) and index == 0 and item.raw.startswith("From "):
            at = 1
    before = items[:at]
    if before and not before[-1].raw.endswith("\n"):
        before = (*before[:-1], replace(before[-1], raw=before[-1].raw + "\n"))
    separator = () if any(isinstance(item, Field) for item in items) or not items[at:] else (FreeText("\n"),)
    return (*before, new, *separator, *items[at:])
