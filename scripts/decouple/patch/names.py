"""Read the names in a patch as git reads them.

That covers C quotes, stripped components, time stamps behind names, "diff --git A B".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TIMESTAMP = re.compile(
    rb"(?:\t|(?<! ) +)(?:\d\d)?\d\d-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?)?(?: [-+]\d{4}| [-+]\d\d:\d\d)?\Z"
)
_EPOCH = re.compile(
    rb"(1969-12-31|1970-01-01) ([0-2][0-9]):([0-5][0-9]):00(?:\.0+)? ([-+])([0-2][0-9]):?([0-5][0-9])\Z"
)
_ESCAPE = re.compile(rb'\\([abfnrtv"\\]|[0-3][0-7][0-7])')
_ESCAPED = {b"a": 7, b"b": 8, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11, b'"': 34, b"\\": 92}


def decode_path(raw: bytes) -> str:
    """Decode a path, which is bytes.

    What is not UTF-8 survives as surrogates, as in ``os.fsdecode``.
    """
    return raw.decode("utf-8", "surrogateescape")


def is_dev_null(text: bytes) -> bool:
    """Say whether a name is ``/dev/null``: the side of a diff that has no file."""
    return text.startswith(b"/dev/null") and text[9:10] in (b" ", b"\t", b"\n", b"\r")


def is_epoch(text: bytes) -> bool:
    """Say whether the time behind the last tab is 1970-01-01 00:00:00 UTC.

    That is GNU diff's mark of a missing file.
    """
    _, tab, stamp = text.rstrip(b"\n").rpartition(b"\t")
    match = _EPOCH.match(stamp) if tab else None
    if not match:
        return False
    day, hour, minute, sign, zone_hour, zone_minute = match.groups()
    zone = int(zone_hour) * 60 + int(zone_minute)
    utc = int(hour) * 60 + int(minute) - (-zone if sign == b"-" else zone)
    return utc == (24 * 60 if day == b"1969-12-31" else 0)


def parse_traditional_name(text: bytes, default: str | None, strip: int) -> str | None:
    """Parse the name in a ``---`` or ``+++`` line of a diff without git's header.

    A time stamp may stand behind it.
    """
    quoted = _parse_quoted_name(text, strip)
    if quoted is not None:
        return quoted
    bare = text.rstrip(b"\n")
    stamp = _TIMESTAMP.search(bare)
    if stamp:
        return _strip_name(bare[: stamp.start()], default, strip)
    return parse_name(text, default, strip, stop_at_tab=True)


def parse_name(text: bytes, default: str | None, strip: int, *, stop_at_tab: bool) -> str | None:
    """Parse the name at the start of ``text``, quoted or not.

    Returns ``default`` where stripping leaves nothing.
    """
    quoted = _parse_quoted_name(text, strip)
    if quoted is not None:
        return quoted
    return _strip_name(re.split(rb"[\t\r\n]" if stop_at_tab else rb"[\r\n]", text, maxsplit=1)[0], default, strip)


def _strip_name(raw: bytes, default: str | None, strip: int) -> str | None:
    parts = raw.split(b"/", strip)
    if len(parts) <= strip or not parts[strip]:
        return default
    name = parts[strip]
    if default is not None:
        # "file.orig" against "file": the shorter one is the name
        short = default.encode("utf-8", "surrogateescape")
        if len(short) < len(name) and name.startswith(short):
            return default
    return decode_path(re.sub(rb"/+", b"/", name))


def _parse_quoted_name(text: bytes, strip: int) -> str | None:
    name = _unquote_name(text)
    if name is None:
        return None
    parts = name[0].split(b"/", strip)
    return decode_path(re.sub(rb"/+", b"/", parts[strip])) if len(parts) > strip else None


def _unquote_name(text: bytes) -> tuple[bytes, int] | None:
    """Return a name in C quotes at the start of ``text``, and the index behind it.

    It is None where there is none.
    """
    if not text.startswith(b'"'):
        return None
    out = bytearray()
    at = 1
    while at < len(text):
        if text[at] == 0x22:
            return (bytes(out), at + 1) if 0 not in out else None
        if text[at] == 0x5C:
            match = _ESCAPE.match(text, at)
            if not match:
                return None
            code = match.group(1)
            out.append(_ESCAPED[code] if code in _ESCAPED else int(code, 8))
            at = match.end()
        else:
            out.append(text[at])
            at += 1
    return None


def _strip_prefix(name: bytes, strip: int) -> bytes | None:
    """Return ``name`` without its first ``strip`` components.

    Returns None if it is absolute or too short.
    """
    if name.startswith(b"/"):
        return None
    parts = name.split(b"/", strip)
    return parts[strip] if len(parts) > strip else None


def find_common_name(text: bytes, strip: int) -> str | None:
    """Find the one name on a ``diff --git A B`` line whose two sides agree.

    They are compared once stripped. Returns None if they differ.

    Names with blanks make the middle ambiguous; git takes the one split at which both sides are the same.
    """
    bare = text[:-1] if text.endswith(b"\n") else text
    first = _unquote_name(bare)
    if first is not None:
        name = _strip_prefix(first[0], strip)
        second = _unquote_name(bare[first[1] :].lstrip(b" \t\r"))
        if name is None or second is None or _strip_prefix(second[0], strip) != name:
            return None
        return decode_path(name)
    if bare.startswith(b'"'):
        return None
    start = _strip_prefix(bare, strip)
    if start is None:
        return None
    quote = start.find(b'"')
    if quote >= 0:
        second = _unquote_name(start[quote:])
        name = _strip_prefix(second[0], strip) if second else None
        if name and start.startswith(name) and start[len(name) : len(name) + 1] in (b" ", b"\t"):
            return decode_path(name)
        return None
    for blank in _find_blanks(start):
        # both sides are equal, so behind the blank stands exactly the first side and its prefix
        rest = start[blank + 1 :]
        if len(rest) >= blank and rest.endswith(start[:blank]) and _strip_prefix(rest, strip) == start[:blank]:
            return decode_path(start[:blank])
    return None


def _find_blanks(text: bytes) -> Iterator[int]:
    for match in re.finditer(rb"[ \t]", text):
        yield match.start()
