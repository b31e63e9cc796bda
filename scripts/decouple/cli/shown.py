"""Escape control characters and hide passwords in text that reaches the terminal.

File names, server answers, git's and pip's words, patches and metadata all come from elsewhere and may hold escape
sequences (which rewrite what a person sees), halves of surrogate pairs (which no stream takes) or an address with a
password. Standard output and error pass through here once; `unwrap_stream` is for what we draw ourselves.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

TYPE_CHECKING = False  # as typing has it; importing typing would take longer than all else here
if TYPE_CHECKING:
    from typing import IO, Any, TextIO

    from _typeshed import ReadableBuffer

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and newline
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # what turns or breaks lines without being seen
    "\ud800-\udfff]"  # bytes of file names that are no UTF-8, and halves of pairs
)
_SECRET = re.compile(r"(?<=://)[^/?#\s'\"<>@]*(?:@[^/?#\s'\"<>@]*)*@")


def escape_text(text: str) -> str:
    r"""Write what is not seen as itself in ``text`` as Python does (``\x1b``)."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def hide_secrets(text: str) -> str:
    """Return ``text`` with what stands before the ``@`` of an address replaced.

    A password, or a token in its place.
    """
    return _SECRET.sub("***@", text) if "@" in text else text


class _EscapingStream:
    """A text stream that escapes; all but writing is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.bare = stream

    def write(self, text: str) -> int:
        self.bare.write(escape_text(hide_secrets(text)))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """Return the stream for bytes as they are (a patch), escaped on a terminal."""
        return _EscapingBytes(self) if self.bare.isatty() else self.bare.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


class _EscapingBytes:
    """The ``buffer`` of a terminal."""

    def __init__(self, shown: _EscapingStream) -> None:
        self._shown = shown

    def write(self, data: ReadableBuffer) -> int:
        whole = bytes(data)
        self._shown.write(whole.decode("utf-8", "surrogateescape"))
        return len(whole)

    def flush(self) -> None:
        self._shown.flush()


@contextlib.contextmanager
def escape_streams() -> Iterator[None]:
    """Let output and error streams escape what is not ours or not in their encoding."""
    before = sys.stdout, sys.stderr
    made = [stream if isinstance(stream, _EscapingStream) else _EscapingStream(stream) for stream in before]
    errors = [_escape_unencodable(one.bare) for one in made]
    sys.stdout, sys.stderr = made
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for one, was in zip(made, errors, strict=True):
            if was is not None:
                one.bare.reconfigure(errors=was)  # type: ignore[attr-defined]


def _escape_unencodable(stream: TextIO) -> str | None:
    r"""Let a stream write ``\u2192`` for what its encoding lacks.

    Returns what it did before, None where it cannot.
    """
    reconfigure, was = getattr(stream, "reconfigure", None), getattr(stream, "errors", None)
    if reconfigure is None or was == "backslashreplace":
        return None
    reconfigure(errors="backslashreplace")
    return was


def open_closed_streams() -> None:
    """Let closed standard streams drop what is written, and be empty when read.

    A shell's ``1>&-``, cron and systemd close them. A file that is opened next would have their number, and what a
    program that we start prints would be written into that file.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - until the end


def unwrap_stream(stream: TextIO) -> IO[str]:
    """Return the stream itself, for colours and bars that we draw.

    What they show of others' text goes through `escape_text`.
    """
    return stream.bare if isinstance(stream, _EscapingStream) else stream
