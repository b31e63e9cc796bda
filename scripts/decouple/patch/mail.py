"""Read who wrote a patch, when, and what it says.

It is read by git's own ``mailinfo``, as ``git am`` reads it. Mail is written in too many ways for a reader of our own:
folded fields, RFC 2047 words, other character sets, a sender who passes on what another wrote (``From`` as the first
line of the text). Python's ``email`` knows the first three and not what ``git am`` makes of them: that takes ``[PATCH
1/2]`` and ``Re:`` off a title, guesses a character set that is not named, and ends the text at ``---``. So git reads
every header here. What is no mail to ``git am`` (DEP-3 fields, Mercurial's and StGit's headers, plain text) becomes one
first.

Lint and check do not come here, but for a date that only git can read: which fields a header has, and what our own
say, ``patch.header`` reads without git, thousands in a second. git takes two to four milliseconds for a header;
each is asked for once. Names and dates that can be read in one way only (git strips marks off the ends of a name, and
takes many dates) do not need the second call.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import git
from decouple.base.errors import DecoupleError
from decouple.patch import header as headers
from decouple.patch.header import Field, FreeText, Header
from decouple.patch.lines import BOM, split_lines

NOBODY = ("decouple", "decouple@localhost")
#: Date of commits whose header has none: 2025-01-29, the day of the first release this project patches.
DATE = "1738108800 +0000"
TITLES = ("subject", "description")
WHO_AND_WHEN = ("from", "author", "date")
#: Fields that say how a mail travelled and nothing of the patch.
TRANSPORT = re.compile(
    r"(mime-version|content-[a-z-]+|message-id|in-reply-to|references|to|cc|bcc|reply-to|sender|received|return-path"
    r"|delivered-to|user-agent|list-[a-z-]+|x-[a-z0-9-]+|dkim-signature|authentication-results|envelope-to)\Z"
)

_LAST_SECOND = 253402300799  # of the year 9999
_WHOLE_DATE = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), )?\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
    r"(?:19[7-9]\d|20\d\d) \d\d:\d\d:\d\d (?:\+|-(?!0000))(?:0\d|1[0-4])[0-5]\d\Z"
)
_PATCH = "---"
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z")
_MARKS = r"\x00-\x20.,:;<>\"\\'"
_WHOLE_NAME = re.compile(rf"[^{_MARKS}](?:[^<>\n\0]*[^{_MARKS}])?\Z")
_MAIL_FIELD = re.compile(r"[!-9;-~]+:")
_BREAK = re.compile(r"diff -|Index: |---(?:\s*\Z| \S)")


class Mail(Struct, frozen=True):
    """The author, date and message in front of a diff."""

    author: str
    """``Name <address>``."""
    date: str
    """git's raw format: seconds since 1970 and zone, "1738108800 +0000"."""
    message: str
    """Title and text as ``git am`` commits them, without a newline at the end; "" if there is neither."""
    form: str
    """How it was written: "mail", "hg", "stgit", "fields" (DEP-3) or "text"."""

    @property
    def title(self) -> str:
        """Return the first line of the message."""
        return self.message.split("\n", 1)[0]


class MailText(Struct, frozen=True):
    """The text of a mail in parts.

    One part can be written anew, and the others keep every byte.
    """

    envelope: str
    """The line with which it begins in an mbox, or nothing."""
    fields: tuple[Field, ...]
    """Its own header, without the empty line behind it."""
    body: str
    """From that empty line up to the end of the message."""
    tail: str
    """``---`` and what follows."""
    taken_out: tuple[str, ...] = ()
    """Fields that stood in the body."""

    def to_text(self) -> str:
        """Return the whole text."""
        tail = self.tail or "---\n"
        return "".join([self.envelope, *(field.raw for field in self.fields), self.body, tail])

    def with_field(self, name: str, *values: str) -> MailText:
        """Return the mail with ``values`` in fields ``name``; a new one stands last."""
        same = [at for at, field in enumerate(self.fields) if field.name.lower() == name.lower()]
        at = same[0] if same else len(self.fields)
        new = tuple(Field(name, headers.fold_field(name, value), 0) for value in values)
        rest = [field for index, field in enumerate(self.fields) if index not in same]
        return replace(self, fields=(*rest[:at], *new, *rest[at:]))

    def with_body(self, message: str) -> MailText:
        """Return the mail with another text; as many empty lines stand behind it as did."""
        stripped_body = self.body.rstrip("\n")
        behind = max(len(self.body) - len(stripped_body), 1) if stripped_body else 1
        return replace(self, body=f"\n{message}" + "\n" * behind if message else "\n")

    def without_inner_fields(self, names: Collection[str]) -> MailText:
        """Return the mail without the fields ``names`` with which the body begins.

        Those are what ``git am`` takes before the mail's own.
        """
        lines = split_lines(self.body)
        at = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
        begin, taken = at, []
        while at < len(lines) and (match := re.match(r">?([A-Za-z]+):", lines[at])) and match[1].title() in names:
            taken.append(match[1].title())
            at += 1
            while at < len(lines) and lines[at][0] in " \t":
                at += 1
        if not taken:
            return self
        while at < len(lines) and not lines[at].strip():
            at += 1
        return replace(self, body="".join([*lines[:begin], *lines[at:]]), taken_out=tuple(taken))


def split_mail(text: str) -> MailText:
    """Split a mail into its parts (:func:`detect_form` says that it is one)."""
    lines = split_lines(text.removeprefix(BOM).lstrip("\n"))
    envelope = lines.pop(0) if lines and lines[0].startswith("From ") else ""
    raws: list[str] = []
    at = 0
    while at < len(lines):
        if raws and lines[at][0] in " \t":
            raws[-1] += lines[at]
        elif _MAIL_FIELD.match(lines[at]):
            raws.append(lines[at])
        else:
            break
        at += 1
    end = next((index for index in range(at, len(lines)) if is_message_end(lines[index])), len(lines))
    fields = tuple(Field(raw.partition(":")[0], raw, 0) for raw in raws)
    return MailText(envelope, fields, "".join(lines[at:end]), "".join(lines[end:]))


def format_from(author: str) -> str:
    """Write ``Name <address>`` as the value of ``From``.

    A name with marks that mean something there is in quotes.
    """
    name, _, address = author.rpartition(" <")
    if not re.search(r"[()\[\]:;@\\,.\"]", name):
        return author
    marked = re.sub(r'(["\\])', r"\\\1", name)
    return f'"{marked}" <{address}'


@functools.lru_cache(maxsize=1 << 14)
def read_mail(text: str) -> Mail:
    """Read a patch's header, undecodable bytes as surrogates.

    Raises DecoupleError for an unknown character set.
    """
    text = text.removeprefix(BOM).replace("\r\n", "\n")
    header, form, day = headers.parse_header(text), detect_form(text), ""
    if form in ("mail", "hg", "stgit"):
        mail = _convert_hg(text) if form == "hg" else _convert_stgit(text) if form == "stgit" else text
        fields = _run_mailinfo(mail, inbody=form == "mail")
        text, date = fields[""], fields.get("Date")
    else:
        title, text = _split_title(header)
        fields = _run_mailinfo(_convert_fields(header, title), inbody=False)
        date = fields.get("Date")
        if date is None and header.find("Last-Update"):
            day = _read_day(header)
    name, address = fields.get("Author", ""), fields.get("Email", "")
    if not name and not address:
        name = (header.author or "").split("\n", 1)[0]  # a name without an address: git am has no use for it
    who, when = format_identity(name, address, date)
    message = strip_message(f"{fields.get('Subject', '')}\n\n{text}")
    return Mail(_replace_undecodable(who), when or day or DATE, _replace_undecodable(message), form)


def decode_mail(data: bytes) -> bytes:
    """Decode an encoded mail to the plain one that says the same.

    It may be quoted-printable, base64, in several parts, or in other characters.

    Fields that a maintainer put above it stay there. Raises DecoupleError where git cannot read it.
    """
    lines = split_lines(data.replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape"))
    at = next((index for index, line in enumerate(lines) if headers.is_mail_start(line)), 0)
    mail_fields = _run_mailinfo("".join(lines[at:]), inbody=True)
    author = f"{mail_fields.get('Author', NOBODY[0])} <{mail_fields.get('Email', NOBODY[1])}>"
    fields = (("From", format_from(author)), ("Date", mail_fields.get("Date")), ("Subject", mail_fields.get("Subject")))
    head = "".join(f"{name}: {value}\n" for name, value in fields if value)
    text = mail_fields[""].strip("\n")
    mail = f"{head}\n{text}\n" if text else f"{head}\n"
    above = "".join(lines[: at + 1]) if at else ""  # with the line that says that a mail begins
    whole = above + mail + mail_fields[_PATCH].removesuffix("diff -\n")
    return whole.encode("utf-8", "surrogateescape")


def detect_form(text: str) -> str:
    """Return how a header is written.

    The first three of :attr:`Mail.form` are those that ``git am`` takes.
    """
    lines = [line.rstrip("\r\n") for line in split_lines(text.removeprefix(BOM).lstrip("\n"))]
    first, second, third = (*lines, "", "", "")[:3]
    header = headers.parse_header(text)
    described = header.find("Description") and not header.find("Subject")
    head = [line.split(":", 1)[0].lower() for line in itertools.takewhile(str.strip, lines)]
    if first.startswith("# HG changeset patch"):
        return "hg"
    if not described and first.startswith(("From ", "From: ")):
        return "mail"
    if first and not second and third.startswith(("From:", "Author:", "Date:")):
        return "stgit"
    if not described and not {"from", "subject"}.isdisjoint(head) and _is_mail(lines):
        return "mail"
    return "fields" if any(not isinstance(item, FreeText) for item in header.items) else "text"


def is_message_end(line: str) -> bool:
    """Say whether ``git am`` sees the end of the message in this line of it."""
    return bool(_BREAK.match(line))


def format_identity(name: str, address: str, date: str | None) -> tuple[str, str]:
    """Write ``Name <address>`` as git does, and the date in git's raw format.

    The date is "" for what git takes for no date.

    What is missing of the author is that of :data:`NOBODY`. Dates without a zone are in UTC.
    """
    name, address = name.replace("\0", ""), address.replace("\0", "")
    if not address:
        address = NOBODY[1]
    whole = bool(_WHOLE_NAME.match(name) and _WHOLE_NAME.match(address))
    when = _read_whole_date(date or "")
    if whole and (when or not date):
        return f"{name} <{address}>", when
    for who in (name, name.strip("<>") or NOBODY[0], NOBODY[0]):
        for moment in (date, None) if date and not when else (None,):
            env = {"GIT_AUTHOR_NAME": who, "GIT_AUTHOR_EMAIL": address, "TZ": "UTC"}
            env["GIT_AUTHOR_DATE"] = moment.replace("\0", "") if moment else DATE
            answer = git.try_git("var", "GIT_AUTHOR_IDENT", cwd=Path("/"), env=env)
            if answer.status == 0:
                written = answer.out.decode("utf-8", "surrogateescape").rstrip("\n")
                author, seconds, zone = written.rsplit(" ", 2)
                if int(seconds) >= 1 << 63:  # git's time before 1970, which it shows as this
                    seconds, zone = "0", "+0000"
                known = moment and int(seconds) <= _LAST_SECOND and len(zone) == len("+0000")
                return author, f"{seconds} {zone}" if known else when
    return f"{NOBODY[0]} <{NOBODY[1]}>", when


def is_date(text: str) -> bool:
    """Say whether git takes ``text`` for a date."""
    return bool(_read_whole_date(text) or format_identity(*NOBODY, text)[1])


def _replace_undecodable(text: str) -> str:
    """Return ``text`` with each undecodable byte taken for Latin-1.

    Git does so when it commits what is not UTF-8.
    """
    return re.sub("[\udc80-\udcff]", lambda match: chr(ord(match[0]) - 0xDC00), text)


def strip_message(message: str, *, comments: bool = False) -> str:
    """Return what ``git stripspace`` makes of a message.

    With ``comments``, lines that start with # go too.
    """
    lines: list[str] = []
    for line in message.split("\n"):
        if comments and line.startswith("#"):
            continue
        line = line.rstrip(" \t\r\v\f")  # git's white space, not Unicode's
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip("\n")


def _is_mail(lines: list[str]) -> bool:
    """Say whether ``git am`` takes text that does not begin with From for a mail.

    It does so for fields alone up to an empty line.
    """
    for line in lines:
        if not line:
            return True
        if line[0] not in " \t" and not _MAIL_FIELD.match(line):
            return False
    return False  # the diff follows


def _run_mailinfo(mail: str, *, inbody: bool) -> dict[str, str]:
    """Return what git says of a mail, by its words: Author, Email, Subject, Date.

    The text of the mail is under "", the rest under _PATCH.
    """
    if not mail.strip():
        return {"": "", _PATCH: ""}
    with _open_memory_file("text") as text, _open_memory_file("patch") as patch:
        ending = "" if mail.endswith("\n") else "\n"
        answer = git.try_git(
            "mailinfo",
            "-u",  # into UTF-8, whatever the configuration says
            "-b",  # [PATCH] goes, [ROCm] stays
            "--no-scissors",
            *(() if inbody else ("--no-inbody-headers",)),
            f"/dev/fd/{text.fileno()}",
            f"/dev/fd/{patch.fileno()}",
            cwd=Path("/"),
            # to git a field at the very end of a text is none: what follows a header is a diff
            stdin=f"{mail}{ending}diff -\n".encode("utf-8", "surrogateescape"),
            held=(text.fileno(), patch.fileno()),
        )
        if answer.status:
            words = next((line for line in answer.err.splitlines() if line.startswith(("error: ", "fatal: "))), "")
            raise DecoupleError(
                f"the mail header cannot be read: {words.partition(': ')[2] or 'git mailinfo refuses it'}",
                next_step="write the header of the patch in UTF-8, without encoded words",
            )
        written = (("", text.read()), (_PATCH, patch.read()))
    fields = {key: data.decode("utf-8", "surrogateescape") for key, data in written}
    for line in answer.out.decode("utf-8", "surrogateescape").split("\n"):
        name, colon, value = line.partition(": ")
        if colon:
            fields.setdefault(name, value)
    return fields


def _open_memory_file(name: str) -> BinaryIO:
    """Open a file on no disk, for git to write and for us to read."""
    return os.fdopen(os.memfd_create(f"decouple-{name}"), "rb")


def _convert_hg(text: str) -> str:
    """Convert Mercurial's export to the mail that ``git am`` makes of it.

    It has ``# User``, ``# Date``, and a text.
    """
    fields, lines = [], split_lines(text.lstrip("\n"))
    at = 0
    for at, line in enumerate(lines):  # noqa: B007 - where it ends is what is asked
        if line.startswith("# User "):
            fields.append(f"From: {line[7:].strip()}\n")
        elif date := re.match(r"# Date (\d+) (-?\d+)\s*\Z", line):
            minutes = -int(date.group(2)) // 60  # seconds west of Greenwich
            fields.append(f"Date: @{date.group(1)} {'-' if minutes < 0 else '+'}{_format_zone(abs(minutes))}\n")
        elif not line.startswith("# "):
            break
    return "".join([*fields, "\n", *lines[at:]])


def _format_zone(minutes: int) -> str:
    return f"{minutes // 60:02}{minutes % 60:02}"


def _convert_stgit(text: str) -> str:
    """Convert StGit's export to the mail that ``git am`` makes of it.

    It has the title, then an author, a date, and the text.
    """
    first, *lines = split_lines(text.lstrip("\n"))
    fields = [f"Subject: {first}"]
    while lines and (not lines[0].strip() or re.match(r"(From|Author|Date):", lines[0])):
        line = lines.pop(0)
        if line.strip():
            fields.append(re.sub(r"\AAuthor:", "From:", line))
    return "".join([*fields, "\n", *lines])


def _split_title(header: Header) -> tuple[str, str]:
    """Return the title of what is no mail, and the text below it.

    That is DEP-3's Description, or free text, up to ``---``.
    """
    field = next(
        (candidate for candidate in header.fields if candidate.name.lower() in TITLES and candidate.value), None
    )
    free = strip_message(read_free_text(header))
    if field is None:
        title, _, body = free.partition("\n")
        return title, body.strip("\n")
    if field.name.lower() == "subject":  # a fold means nothing in a field of a mail
        return " ".join(field.value.split()), free
    title, _, body = field.value.partition("\n")
    return title, "\n\n".join(part for part in (body.strip("\n"), free) if part)


def read_free_text(header: Header) -> str:
    """Return the text of a header that is no field, up to its ``---``.

    The line of an mbox is left out.
    """
    text = "".join(item.raw for item in header.items if isinstance(item, FreeText)).removeprefix(BOM)
    kept = []
    for number, line in enumerate(split_lines(text)):
        if line.rstrip() == "---":
            break
        if not (headers.is_mail_start(line) or (not number and line.startswith("From "))):
            kept.append(line)
    return "".join(kept)


def _convert_fields(header: Header, title: str) -> str:
    """Write the author, date and title of DEP-3 fields as a mail's.

    Of more than one author it is the first.
    """
    author = (header.author or "").split("\n", 1)[0]
    author = re.sub(r"(<[^<>]*>)\s*,.*", r"\1", author)
    date = (header.get("Date") or "").split("\n", 1)[0]
    lines = [f"{name}: {value}\n" for name, value in (("From", author), ("Date", date), ("Subject", title)) if value]
    return "".join([*lines, "\n"])


def _read_day(header: Header) -> str:
    """Return ``Last-Update`` in git's raw format.

    It is "" for what is no day as DEP-3 writes it.
    """
    value = (header.get("Last-Update") or "").strip()
    try:
        day = datetime.datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=datetime.UTC) if _DAY.match(value) else None
    except ValueError:
        return ""
    return f"{int(day.timestamp())} +0000" if day and day.timestamp() >= 0 else ""


def _read_whole_date(text: str) -> str:
    """Return a date that reads one way only in git's raw format; "" for another."""
    if not _WHOLE_DATE.match(text):
        return ""
    from email.utils import parsedate_to_datetime  # here: a verb that reads no date does not wait for it

    try:
        seconds = int(parsedate_to_datetime(text).timestamp())
    except ValueError:
        return ""
    return f"{seconds} {text[-5:]}" if seconds >= 0 else ""
