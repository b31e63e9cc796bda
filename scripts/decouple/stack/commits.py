"""Patches as commits and back: the header becomes author, date and message; ``git fast-import`` writes the chain.

Commits are deterministic: author and date come from the header, the committer is a constant with the author's date, so
one series on one base always gives the same commit ids, on every machine. The message is the header laid out as a git
message, plus one trailer ``Decouple-Patch: NAME`` that keeps a commit's identity through ``commit --amend`` and
``rebase -i``.

    Title                      <- first line of Subject or Description

    the rest of Description, free text of the header

    Decouple-Id: ...           <- the other fields, as trailers
    Decouple-Patch: 2.6/0001-title.patch
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import Repository, fast_import_path
from decouple.patch import header as headers
from decouple.stack.trees import TreeEntry

PATCH_TRAILER = "Decouple-Patch"
OVERLAY_TRAILER = "Decouple-Overlay"
TITLES = ("subject", "description")
_META = ("from", "author", "date")
NOBODY = ("decouple", "decouple@localhost")
COMMITTER = "decouple <decouple@localhost>"
#: Date of commits whose header has none: 2025-01-29, the day of the first release this project patches.
DATE = "1738108800 +0000"

_NAMES = "JanFebMarAprMayJunJulAugSepOctNovDec"  # calendar.month_abbr speaks the user's language
_MONTHS = {_NAMES[at : at + 3]: at // 3 + 1 for at in range(0, 36, 3)}
_RFC2822 = re.compile(r"(?:\w{3},?\s+)?(\d{1,2})\s+(\w{3})\s+(\d{4})\s+(\d\d):(\d\d)(?::(\d\d))?\s*([+-]\d{4})?")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)\Z")
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
        """First line of the message."""
        return self.message.split("\n", 1)[0]

    def trailer(self, name: str) -> str | None:
        """The value of the last trailer ``name``, or None."""
        found = re.findall(rf"^{re.escape(name)}:[ \t]*(.*)$", self.message, re.MULTILINE)
        return found[-1].strip() if found else None

    def same_text(self, other: CommitText) -> bool:
        """Whether both say the same once git has tidied the message, as it does when a person amends a commit."""
        return (self.author, self.date) == (other.author, other.date) and any(
            _tidy(self.message, comments=comments) == _tidy(other.message, comments=comments)
            for comments in (True, False)
        )


def from_header(text: str, name: str) -> CommitText:
    """The commit text for a patch called ``name`` with header ``text``."""
    header = headers.parse(text)
    title_field = next((f for f in header.fields if f.name.lower() in TITLES), None)
    body = ""
    if title_field:
        title, _, body = title_field.value.partition("\n")
    else:
        title = name.rsplit("/", 1)[-1]
    title = re.sub(r"\A\[PATCH[^\]]*\]\s*", "", title.strip()) or name
    free = "".join(item.raw for item in header.items if isinstance(item, headers.Text))
    free = re.sub(r"\AFrom [0-9a-f]{40} .*\n", "", free)
    free = _before_separator(free)
    trailers = "".join(f.raw for f in header.fields if f is not title_field and f.name.lower() not in _META)
    parts = [title, body.strip("\n"), free.strip("\n").rstrip(), _trailing(trailers) + f"{PATCH_TRAILER}: {name}"]
    message = "\n\n".join(part for part in parts if part) + "\n"
    return CommitText(_author(header), _date(header), message)


def to_header(commit: CommitText, old: str | None = None) -> str:
    """The patch header for a commit: ``old`` with what the commit says differently, or a fresh one.

    A header stays as it was laid out; only fields whose value changed are rewritten. Raises DecoupleError when the
    message holds a line that a patch reader would take for the start of a diff.
    """
    title, body, trailers = split_message(commit.message)
    for line in body.split("\n"):
        if line == "---" or line.startswith(("diff --git ", "Index: ")):
            raise DecoupleError(
                f"the message of commit {title!r} has the line {line!r}, where a reader would see the patch begin",
                next_step="indent that line (`git commit --amend`, or `git rebase -i` for an older commit)",
            )
    if old is None:
        parts = [body, "".join(headers.fold(name, value) for name, value in trailers).rstrip("\n")]
        text = "".join(f"\n{part}\n" for part in parts if part)
        return f"From: {commit.author}\nDate: {rfc2822(commit.date)}\nSubject: {title}\n{text}---\n"
    header = headers.parse(old)
    before = from_header(old, commit.trailer(PATCH_TRAILER) or "x")
    if before.author != commit.author:
        name = "Author" if header.find("Author") and not header.find("From") else "From"
        header = header.with_field(name, commit.author)
    if before.date != commit.date:
        header = header.with_field("Date", rfc2822(commit.date))
    old_title, old_body, old_trailers = split_message(before.message)
    if (title, body) != (old_title, old_body):
        field = next((f.name for f in header.fields if f.name.lower() in TITLES), "Subject")
        header = _retitled(header, field, title, body)
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
                    header = _appended(header, name, value)
    text = header.text()
    if text == old:
        return text
    if text and not text.endswith("\n"):
        text += "\n"
    return text if re.search(r"^---$", text, re.MULTILINE) else text + "---\n"


def without_diffstat(text: str) -> str:
    """A header without the diffstat that ``git format-patch`` puts below ``---``: it is wrong once the diff changed."""
    head, separator, tail = _split_separator(text)
    if not separator:
        return text
    kept = "".join(line for line in tail.splitlines(keepends=True) if not _DIFFSTAT.match(line))
    return head + separator + (kept if kept.strip() else "")


def split_message(message: str) -> tuple[str, str, list[tuple[str, str]]]:
    """A git message as title, body and trailers (without those of the stack)."""
    text = _tidy(message, comments=True)
    title, _, rest = text.partition("\n")
    paragraphs = rest.strip("\n").split("\n\n") if rest.strip() else []
    trailers: list[tuple[str, str]] = []
    if paragraphs and all(_TRAILER.match(line) or line[:1] in " \t" for line in paragraphs[-1].split("\n")):
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


def rfc2822(date: str) -> str:
    """git's raw date as RFC 2822, which git am and DEP-3 readers take."""
    import datetime

    seconds, zone = date.split(" ")
    minutes = int(zone[:1] + "1") * (int(zone[1:3]) * 60 + int(zone[3:5]))
    moment = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone(datetime.timedelta(minutes=minutes)))
    month = list(_MONTHS)[moment.month - 1]
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    return f"{day}, {moment.day} {month} {moment.year} {moment:%H:%M:%S} {zone}"


def raw_date(value: str) -> str:
    """RFC 2822 or YYYY-MM-DD as git's raw date; :data:`DATE` for anything else."""
    if match := _DAY.match(value.strip()):
        year, month, day = (int(part) for part in match.groups())
        return f"{calendar.timegm((year, month, day, 0, 0, 0))} +0000"
    match = _RFC2822.match(value.strip())
    if not match or match.group(2) not in _MONTHS:
        return DATE
    zone = match.group(7) or "+0000"
    offset = int(zone[0] + "60") * (int(zone[1:3]) * 60 + int(zone[3:5]))
    when = (int(match.group(3)), _MONTHS[match.group(2)], int(match.group(1)))
    seconds = calendar.timegm((*when, int(match.group(4)), int(match.group(5)), int(match.group(6) or 0)))
    return f"{max(seconds - offset, 0)} {zone}"


SCRATCH = CommitText(COMMITTER, "0 +0000", "scratch\n")
"""Of a commit that is only there for its tree."""


class NewCommit(Struct, frozen=True):
    """A commit to write: its text and what it changes against its parent (None: deleted; bytes: a new blob)."""

    text: CommitText
    changes: Mapping[str, TreeEntry | tuple[int, bytes] | None]
    committer: str = COMMITTER
    parent: str | None = None
    """Only where it is not the commit before it in the list."""


def write_chain(repository: Repository, base: str, commits: Sequence[NewCommit]) -> list[str]:
    """Write ``commits`` on top of ``base`` in one ``git fast-import``; returns their ids.

    Only the trees on the way to a changed path are read and written. The ref ``refs/decouple/next`` keeps the result
    from being collected until the work tree has moved. Raises DecoupleError.
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
        stream += [b"D %s\n" % _path(path) for path in removed]
        for path, entry in sorted((p, e) for p, e in commit.changes.items() if e is not None):
            if isinstance(entry, TreeEntry):
                stream.append(b"M %o %s %s\n" % (entry.mode, entry.id.encode(), _path(path)))
            elif entry is not None:
                mode, data = entry
                stream.append(b"M %o inline %s\ndata %d\n%s\n" % (mode, _path(path), len(data), data))
        stream.append(b"\n")
    stream += [b"get-mark :%d\n" % number for number in range(1, len(commits) + 1)]
    stream.append(b"done\n")
    out = repository.run("fast-import", "--quiet", "--force", "--date-format=raw", stdin=b"".join(stream))
    return out.decode().split()


def read_chain(repository: Repository, base: str, tip: str) -> list[tuple[str, str, CommitText]]:
    """``(commit, tree, text)`` of every commit after ``base`` up to ``tip``, oldest first.

    Raises DecoupleError if ``tip`` does not descend from ``base`` in a straight line.
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
            f"commit {tip[:12]} does not descend from the series' base {base[:12]}",
            next_step="`git checkout` the branch that the series was applied to",
        )
    return chain


def valid_author(value: str) -> str:
    """``value`` as ``Name <address>`` that git takes; :data:`NOBODY` where a part is missing."""
    match = re.match(r"\s*([^<>\n]*?)\s*<([^<>\n]*)>", value)
    name, address = match.groups() if match else (value.strip().strip("<>"), "")
    name = name.strip('"').strip() or NOBODY[0]
    return f"{name} <{address.strip() or NOBODY[1]}>".replace("\n", " ")


def _author(header: headers.Header) -> str:
    return valid_author((header.author or "").split("\n")[0])


def _date(header: headers.Header) -> str:
    value = header.get("Date") or header.get("Last-Update")
    return raw_date(value.split("\n")[0]) if value else DATE


def _trailing(trailers: str) -> str:
    text = trailers.replace("\r\n", "\n")
    return text if not text or text.endswith("\n") else text + "\n"


def _tidy(message: str, *, comments: bool) -> str:
    """What ``git stripspace`` makes of a message; with ``comments`` lines that start with # go too."""
    lines: list[str] = []
    for line in message.split("\n"):
        if comments and line.startswith("#"):
            continue
        line = line.rstrip()
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip("\n")


def _split_separator(text: str) -> tuple[str, str, str]:
    match = re.search(r"^---[ \t]*\r?\n", text, re.MULTILINE)
    return (text[: match.start()], match.group(), text[match.end() :]) if match else (text, "", "")


def _before_separator(text: str) -> str:
    return _split_separator(text if text.endswith("\n") else text + "\n")[0]


def _retitled(header: headers.Header, field: str, title: str, body: str) -> headers.Header:
    """``header`` with a new title and long description; free text that the body came from is dropped."""
    kept: list[headers.Field | headers.Text] = []
    for item in header.items:
        if isinstance(item, headers.Text):
            head, separator, tail = _split_separator(item.raw)
            envelope = re.match(r"From [0-9a-f]{40} .*\n", head)
            raw = (envelope.group() if envelope else "") + ("\n" if separator else "") + separator + tail
            if raw:
                kept.append(headers.Text(raw))
        else:
            kept.append(item)
    if field.lower() == "subject":
        header = headers.Header(tuple(kept)).with_field("Subject", title)
        if body:
            items = list(header.items)
            at = next((i for i, it in enumerate(items) if isinstance(it, headers.Text) and "---" in it.raw), len(items))
            items.insert(at, headers.Text(f"\n{body}\n"))
            header = headers.Header(tuple(items))
        return header
    return headers.Header(tuple(kept)).with_field(field, f"{title}\n{body}" if body else title)


def _appended(header: headers.Header, name: str, value: str) -> headers.Header:
    at = max(i for i, item in enumerate(header.items) if isinstance(item, headers.Field) and item.name == name)
    new = headers.Field(name, headers.fold(name, value), 0)
    return headers.Header((*header.items[: at + 1], new, *header.items[at + 1 :]))


def _path(path: str) -> bytes:
    return fast_import_path(path.encode("utf-8", "surrogateescape"))
