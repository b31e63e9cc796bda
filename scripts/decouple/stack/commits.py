"""Convert patches to commits and back.

The header becomes author, date and message; ``git fast-import`` writes the chain. Commits are deterministic: author and
date come from the header, the committer is a constant with the author's date, so one series on one base always gives
the same commit ids, on every machine. The message is the header laid out as a git message, plus one trailer
``Decouple-Patch: NAME`` that keeps a commit's identity through ``commit --amend`` and ``rebase -i``.

    Title                      <- first line of Subject or Description

    the rest of Description, free text of the header

    Decouple-Id: ...           <- the other fields, as trailers
    Decouple-Patch: 2.6/0001-title.patch
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import Repository, format_git, quote_import_path
from decouple.patch import header as headers
from decouple.patch import mail as mails
from decouple.patch.lines import BOM
from decouple.patch.mail import TITLES, TRANSPORT, WHO_AND_WHEN, strip_message
from decouple.stack.trees import TreeEntry

PATCH_TRAILER = "Decouple-Patch"
OVERLAY_TRAILER = "Decouple-Overlay"
COMMITTER = "decouple <decouple@localhost>"
#: As mail spells them; those of ``calendar`` and ``strftime`` speak the user's language.
_DAYS, _MONTHS = "MonTueWedThuFriSatSun", "JanFebMarAprMayJunJulAugSepOctNovDec"

_TRAILER = re.compile(r"[A-Za-z][A-Za-z0-9-]*:(?:\s|\Z)")
_DIFFSTAT = re.compile(
    r" \S.* \|\s+(?:\d+|Bin)|  ?\d+ files? changed|  ?(?:create|delete) mode |  ?(?:rename|copy|rewrite|mode change) "
)


class CommitText(Struct, frozen=True):
    """What a commit says besides its tree and parent."""

    author: str
    """``Name <address>``."""
    date: str
    """git's raw format: seconds since 1970 and zone, "1738108800 +0000"."""
    message: str

    @property
    def title(self) -> str:
        """Return the first line of the message."""
        return self.message.split("\n", 1)[0]

    def find_trailer(self, name: str) -> str | None:
        """Return the value of the last trailer ``name``, or None."""
        values = re.findall(rf"^{re.escape(name)}:[ \t]*(.*)$", self.message, re.MULTILINE)
        return values[-1].strip() if values else None

    def has_same_text(self, other: CommitText) -> bool:
        """Return whether both say the same once git has tidied the message.

        git does so when a person amends a commit.
        """
        return (self.author, self.date) == (other.author, other.date) and any(
            strip_message(self.message, comments=comments) == strip_message(other.message, comments=comments)
            for comments in (True, False)
        )


def parse_commit_text(text: str, name: str) -> CommitText:
    """Read the commit text out of the ``header`` of a patch.

    Fields of ours that stand in the mail's own header, and all those of DEP-3, become trailers. Raises DecoupleError
    for a header in an unknown character set.
    """
    try:
        mail = mails.read_mail(text)
    except DecoupleError as error:
        raise DecoupleError(f"{name}: {error.what}", next_step=error.next_step) from None
    message = mail.message or name.rsplit("/", 1)[-1]
    fields = "".join(field.raw for field in _find_extra_fields(text, mail.form))
    trailers = _end_trailers(fields) + f"{PATCH_TRAILER}: {name}"
    _, gap, last = message.rpartition("\n\n")
    return CommitText(
        mail.author, mail.date, message + ("\n" if gap and _is_trailers(last) else "\n\n") + trailers + "\n"
    )


def _find_extra_fields(text: str, form: str) -> list[headers.Field]:
    """Return the header fields that ``git am`` has no use for.

    A commit keeps them as trailers.
    """
    header = headers.parse_header(text)
    if form == "mail":
        known = {name.lower() for name in headers.KNOWN} - {*WHO_AND_WHEN, "subject"}
        return [field for field in _parse_mail_fields(header) if field.name.lower() in known]
    if form != "fields":
        return []
    title = next((field for field in header.fields if field.name.lower() in TITLES and field.value), None)
    named = [field for field in header.fields if field is not title and field.name.lower() not in WHO_AND_WHEN]
    return [field for field in named if not TRANSPORT.match(field.name.lower()) and field.value]


def _parse_mail_fields(header: headers.Header) -> list[headers.Field]:
    """Return the fields of a mail's own header.

    Those in front of its first empty line.
    """
    fields = []
    for item in header.items:
        if isinstance(item, headers.Field):
            fields.append(item)
        elif "\n" in item.raw.removeprefix(BOM) and not item.raw.startswith("From "):
            break
    return fields


def format_header(commit: CommitText, old: str | None = None) -> str:
    """Write the patch header for a commit.

    ``old`` with what the commit says differently, or a fresh one. A header stays as it was laid out; only what changed
    is written anew, and read again: where it would not say what the commit says (an encoding that the old header
    declares, say), all of it is written anew. Raises DecoupleError when the message holds a line that a patch reader
    would take for the start of a diff.
    """
    title, body, _ = split_message(commit.message)
    for line in body.split("\n"):
        if mails.is_message_end(line) or headers.is_mail_start(f"{line}\n"):
            raise DecoupleError(
                f"the message of commit {title!r} has the line {line!r}, where a reader would see the patch begin",
                next_step="indent that line (in the applied tree `git commit --amend`, or `git rebase -i` for an older "
                "commit)",
            )
    if old is None:
        return _format_mail(commit)
    name = commit.find_trailer(PATCH_TRAILER) or "x"
    before = parse_commit_text(old, name)
    if _split_text(before) == _split_text(commit):
        return old
    form = mails.detect_form(old)
    if "\r" not in old and form in ("mail", "fields"):
        text = _edit_mail(old, commit, before) if form == "mail" else _edit_fields(old, commit, before)
        if _split_text(parse_commit_text(text, name)) == _split_text(commit):
            return text
    known, other = headers.parse_header(old), form in ("hg", "stgit")
    return _format_mail(
        commit,
        author=other or bool(known.author) or commit.author != before.author,
        date=other or bool(known.date) or commit.date != before.date,
        tail=_split_separator(old)[2],
    )


def _split_text(commit: CommitText) -> tuple[str, str, object]:
    return commit.author, commit.date, split_message(commit.message)


def _format_mail(commit: CommitText, *, author: bool = True, date: bool = True, tail: str = "") -> str:
    """Write a mail header in this project's form; ``tail`` goes below its ``---``."""
    title, body, trailers = split_message(commit.message)
    parts = [body, "".join(headers.fold_field(name, value) for name, value in trailers).rstrip("\n")]
    text = "".join(f"\n{part}\n" for part in parts if part)
    who = f"From: {mails.format_from(commit.author)}\n" if author else ""
    when = f"Date: {format_mail_date(commit.date)}\n" if date else ""
    return f"{who}{when}Subject: {title}\n{text}---\n{tail}"


def _edit_mail(old: str, commit: CommitText, before: CommitText) -> str:
    """Set the fields of a mail's header that the commit says differently.

    And its text, if that is another.
    """
    parts = mails.split_mail(old)
    title, body, trailers = split_message(commit.message)
    old_title, old_body, old_trailers = split_message(before.message)
    wanted = {"From": (commit.author, before.author), "Date": (commit.date, before.date), "Subject": (title, old_title)}
    if (title, body, trailers) != (old_title, old_body, old_trailers) or any(a != b for a, b in wanted.values()):
        parts = parts.without_inner_fields(wanted)
    for name, (new, was) in wanted.items():
        if new != was or name in parts.taken_out:
            value = mails.format_from(new) if name == "From" else format_mail_date(new) if name == "Date" else new
            parts = parts.with_field(name, value)
    beside = {field.name.lower() for field in _find_extra_fields(old, "mail")}
    for name in dict.fromkeys(name for name, _ in (*old_trailers, *trailers) if name.lower() in beside):
        values, old_values = ([value for other, value in some if other == name] for some in (trailers, old_trailers))
        if values != old_values:
            parts = parts.with_field(name, *values)
    inner = [(name, value) for name, value in trailers if name.lower() not in beside]
    old_inner = [(name, value) for name, value in old_trailers if name.lower() not in beside]
    if (body, inner) != (old_body, old_inner):
        text = "".join(headers.fold_field(name, value) for name, value in inner).rstrip("\n")
        parts = parts.with_body("\n\n".join(part for part in (body, text) if part))
    return parts.to_text()


def _edit_fields(old: str, commit: CommitText, before: CommitText) -> str:
    """Set the DEP-3 fields that the commit says differently.

    Free text goes if the commit has another.
    """
    header = headers.parse_header(old)
    title, body, trailers = split_message(commit.message)
    if before.author != commit.author:
        name = "Author" if header.find("Author") and not header.find("From") else "From"
        header = header.with_field(name, mails.format_from(commit.author))
    if before.date != commit.date:
        header = header.with_field("Date", format_mail_date(commit.date))
    old_title, old_body, old_trailers = split_message(before.message)
    if (title, body) != (old_title, old_body):
        field = next((f.name for f in header.fields if f.name.lower() in TITLES), "Subject")
        header = _set_title(header, field, title, body)
    if trailers != old_trailers:
        gone = {name for name, _ in old_trailers} - {name for name, _ in trailers}
        for name in sorted(gone):
            header = header.without_field(name)
        for name in dict.fromkeys(name for name, _ in trailers):
            values = [value for other, value in trailers if other == name]
            if values != [value for other, value in old_trailers if other == name]:
                header = header.without_field(name) if len(values) > 1 else header
                header = header.with_field(name, values[0])
                for value in values[1:]:
                    header = _append_field(header, name, value)
    text = header.to_text()
    if text and not text.endswith("\n"):
        text += "\n"
    return text if re.search(r"^---$", text, re.MULTILINE) else text + "---\n"


def remove_diffstat(text: str) -> str:
    """Remove the diffstat that ``git format-patch`` puts below ``---``.

    It is wrong once the diff changed.
    """
    head, separator, tail = _split_separator(text)
    if not separator:
        return text
    kept = "".join(line for line in tail.splitlines(keepends=True) if not _DIFFSTAT.match(line))
    return head + separator + (kept if kept.strip() else "")


def split_message(message: str) -> tuple[str, str, list[tuple[str, str]]]:
    """Split a git message into title, body and trailers (without the stack's own)."""
    text = strip_message(message)
    title, _, rest = text.partition("\n")
    paragraphs = rest.strip("\n").split("\n\n") if rest.strip() else []
    trailers: list[tuple[str, str]] = []
    if paragraphs and _is_trailers(paragraphs[-1]):
        for line in paragraphs.pop().split("\n"):
            if line[:1] in " \t" and trailers:
                name, value = trailers[-1]
                inner = line[1:]
                trailers[-1] = (name, value + "\n" + ("" if inner.strip() == "." else inner))
            else:
                name, _, value = line.partition(":")
                trailers.append((name, value.strip()))
    own = (PATCH_TRAILER, OVERLAY_TRAILER)
    return title, "\n\n".join(paragraphs), [(name, value) for name, value in trailers if name not in own]


def format_mail_date(date: str) -> str:
    """Write git's raw date as RFC 2822, which git am and DEP-3 readers take.

    ``@SECONDS ZONE`` where a calendar ends.
    """
    seconds, zone = date.split(" ")
    minutes = int(zone[:1] + "1") * (int(zone[1:3]) * 60 + int(zone[3:5]))
    try:
        moment = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone(datetime.timedelta(minutes=minutes)))
    except (OverflowError, ValueError, OSError):
        return f"@{date}"
    if not 1970 <= moment.year < 2100:  # git takes no date behind 2099 but in this way
        return f"@{date}"
    day, month = (names[at : at + 3] for names, at in ((_DAYS, moment.weekday() * 3), (_MONTHS, moment.month * 3 - 3)))
    return f"{day}, {moment.day} {month} {moment.year} {moment:%H:%M:%S} {zone}"


SCRATCH = CommitText(COMMITTER, "0 +0000", "scratch\n")
"""Of a commit that is only there for its tree."""


class NewCommit(Struct, frozen=True):
    """A commit to write: its text and what it changes against its parent.

    None: deleted; bytes: a new blob.
    """

    text: CommitText
    changes: Mapping[str, TreeEntry | tuple[int, bytes] | None]
    committer: str = COMMITTER
    parent: str | None = None
    """Only where it is not the commit before it in the list."""


def write_chain(repository: Repository, base: str, commits: Sequence[NewCommit]) -> list[str]:
    """Write ``commits`` on top of ``base`` in one ``git fast-import``.

    Returns their ids. Only the trees on the way to a changed path are read and written. The ref ``refs/decouple/next``
    keeps the result from being collected until the work tree has moved. Raises DecoupleError.
    """
    if not commits:
        return []
    stream: list[bytes] = [b"feature done\n"]
    for number, commit in enumerate(commits, start=1):
        message = commit.text.message.encode("utf-8", "surrogateescape")
        author = commit.text.author.encode("utf-8", "surrogateescape")
        date = commit.text.date.encode()
        parent = commit.parent or (f":{number - 1}" if number > 1 else base)
        stream += [
            b"commit refs/decouple/next\nmark :%d\n" % number,
            b"author %s %s\ncommitter %s %s\n" % (author, date, commit.committer.encode(), date),
            b"data %d\n%s\nfrom %s\n" % (len(message), message, parent.encode()),
        ]
        removed = sorted(path for path, entry in commit.changes.items() if entry is None)
        stream += [b"D %s\n" % _quote_path(path) for path in removed]
        for path, entry in sorted((p, e) for p, e in commit.changes.items() if e is not None):
            if isinstance(entry, TreeEntry):
                stream.append(b"M %o %s %s\n" % (entry.mode, entry.id.encode(), _quote_path(path)))
            elif entry is not None:
                mode, data = entry
                stream.append(b"M %o inline %s\ndata %d\n%s\n" % (mode, _quote_path(path), len(data), data))
        stream.append(b"\n")
    stream += [b"get-mark :%d\n" % number for number in range(1, len(commits) + 1)]
    stream.append(b"done\n")
    out = repository.run("fast-import", "--quiet", "--force", "--date-format=raw", stdin=b"".join(stream))
    return out.decode().split()


def read_chain(repository: Repository, base: str, tip: str) -> list[tuple[str, str, CommitText]]:
    """Return ``(commit, tree, text)`` of each commit after ``base`` up to ``tip``.

    Oldest first. Raises DecoupleError if ``tip`` does not descend from ``base`` in a straight line.
    """
    if base == tip:
        return []
    raw = repository.run(
        "log", "--reverse", "--topo-order", "--date=raw", "--no-show-signature", "--encoding=UTF-8",
        "--format=%H%x00%T%x00%P%x00%an <%ae>%x00%ad%x00%B%x00%x01", f"{base}..{tip}", "--",
    )  # fmt: skip
    chain = []
    expected = base
    for record in raw.decode("utf-8", "surrogateescape").split("\x00\x01")[:-1]:
        commit, tree, parents, author, date, message = record.lstrip("\n").split("\x00")
        if parents != expected:
            raise DecoupleError(
                f"the tree's history is not a straight line from {base[:12]}: {commit[:12]} has the parents {parents}",
                next_step="rebase onto the series' base; a merge cannot become a patch",
            )
        expected = commit
        chain.append((commit, tree, CommitText(author, date, message.rstrip("\n") + "\n")))
    if expected != tip:
        raise DecoupleError(
            f"{repository.root}: commit {tip[:12]} does not descend from the series' base {base[:12]}",
            next_step=f"`{format_git(repository.root, 'checkout', 'BRANCH')}`, which the series was applied to",
        )
    return chain


def _is_trailers(paragraph: str) -> bool:
    first, *rest = paragraph.split("\n")
    return bool(_TRAILER.match(first)) and all(_TRAILER.match(line) or line[:1] in (" ", "\t") for line in rest)


def _end_trailers(trailers: str) -> str:
    text = trailers.replace("\r\n", "\n")
    return text if not text or text.endswith("\n") else text + "\n"


def _split_separator(text: str) -> tuple[str, str, str]:
    match = re.search(r"^---[ \t]*\r?\n", text, re.MULTILINE)
    return (text[: match.start()], match.group(), text[match.end() :]) if match else (text, "", "")


def _set_title(header: headers.Header, field: str, title: str, body: str) -> headers.Header:
    """Set title and long description of ``header``.

    Free text that the body came from is dropped.
    """
    kept: list[headers.Field | headers.FreeText] = []
    for item in header.items:
        if isinstance(item, headers.FreeText):
            head, separator, tail = _split_separator(item.raw)
            envelope = re.match(r"From [0-9a-f]{40} .*\n", head)
            raw = (envelope.group() if envelope else "") + ("\n" if separator else "") + separator + tail
            if raw:
                kept.append(headers.FreeText(raw))
        else:
            kept.append(item)
    if field.lower() == "subject":
        header = headers.Header(tuple(kept)).with_field("Subject", title)
        if body:
            items = list(header.items)
            at = next(
                (i for i, it in enumerate(items) if isinstance(it, headers.FreeText) and "---" in it.raw), len(items)
            )
            items.insert(at, headers.FreeText(f"\n{body}\n"))
            header = headers.Header(tuple(items))
        return header
    return headers.Header(tuple(kept)).with_field(field, f"{title}\n{body}" if body else title)


def _append_field(header: headers.Header, name: str, value: str) -> headers.Header:
    at = max(i for i, item in enumerate(header.items) if isinstance(item, headers.Field) and item.name == name)
    new = headers.Field(name, headers.fold_field(name, value), 0)
    return headers.Header((*header.items[: at + 1], new, *header.items[at + 1 :]))


def _quote_path(path: str) -> bytes:
    return quote_import_path(path.encode("utf-8", "surrogateescape"))
