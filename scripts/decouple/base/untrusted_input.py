"""Check what comes from outside before it is used.

Checked are file names, digests, regular files of bounded size, JSON of bounded depth.

Every name and digest that a server, an archive or a manifest gives passes here before a path is made of it, and every
reader of such files has a bound, so that a small download cannot become a large memory.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any, TypeVar

from decouple.base.errors import DecoupleError

NAME_BOUND = 255
"""Bytes of a file name, as Linux's file systems have it (NAME_MAX)."""
FILE_BOUND = 8 << 30
"""Bytes of a file that is fetched or opened: above the largest wheel (TheRock's torch has 5.8 GiB)."""
DEPTH_BOUND = 200
"""Folders above one another in an archive; those of PyTorch 2.6 are 12. Much of Python calls itself for each."""
JSON_BOUND = 64 << 20
"""Bytes of a JSON document; the largest that is read is a project's page, about 6 MiB on PyPI."""

T = TypeVar("T")

_SHA256 = re.compile(r"[0-9a-f]{64}")
_COUNT = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f/\\\ud800-\udfff]+")


def is_sha256(text: object) -> bool:
    """Say whether ``text`` is 64 lower-case hex digits."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def is_count(text: object) -> bool:
    """Say whether ``text`` is a number that ``int`` takes at once.

    It has ASCII digits alone, no more than 64 bits need.

    ``str.isdigit`` is no such test: it accepts "²", and 5,000 digits, and ``int`` raises ValueError for both.
    """
    return isinstance(text, str) and _COUNT.fullmatch(text) is not None


def is_basename(text: object) -> bool:
    """Say whether ``text`` names one file in a folder, whatever the folder.

    It has no separator, no control character and no leading dot, and is short enough for a file system.
    """
    return (
        isinstance(text, str)
        and _NAME.fullmatch(text) is not None
        and not text.startswith(".")
        and len(text.encode()) <= NAME_BOUND
    )


def read_bounded(path: Path, bound: int) -> bytes:
    """Read a regular file of at most ``bound`` bytes.

    A FIFO, socket or device is refused without being waited for.

    Raises DecoupleError for those and for more than ``bound`` bytes, OSError as ``open`` does.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO without a writer would block
    with os.fdopen(handle, "rb") as source:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise DecoupleError(f"{path}: not a regular file", next_step="put the file itself there")
        data = source.read(bound + 1)
    if len(data) > bound:
        raise DecoupleError(
            f"{path}: more than {bound} bytes, which is all that it should have", next_step="is this the right file?"
        )
    return data


def read_json(path: Path, kind: type[T], *, mend: str, bound: int = JSON_BOUND) -> T:
    """Read a file of ours as a ``kind``.

    That is a ``Struct``, which need not name all that is there, or a type of Python's.

    ``mend`` is the next step to tell. Raises DecoupleError for a file that holds anything else, OSError.
    """
    import msgspec  # here: not every verb reads such a file

    try:
        return msgspec.convert(parse_json(read_bounded(path, bound)), kind)
    except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
        raise DecoupleError(f"{path}: damaged: {str(error)[:200]}", next_step=mend) from None


def encode_path_text(text: str) -> str:
    """Encode a path's text as JSON can hold it.

    Where it is not UTF-8 (surrogates stand for its bytes), the result has its bytes in hex.

    A NUL, which no path has, is before them. :func:`decode_path_text` is the way back.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"\0{os.fsencode(text).hex()}"
    return text


def decode_path_text(text: str) -> str:
    """Undo :func:`encode_path_text`. Raises ValueError for what that does not return."""
    return os.fsdecode(bytes.fromhex(text[1:])) if text.startswith("\0") else text


def escape_surrogates(document: str) -> str:
    """Write the surrogates of a JSON document as JSON escapes.

    They stand for the bytes of names that are no UTF-8.
    """
    return document.encode("utf-8", "backslashreplace").decode()


def parse_json(data: bytes | str) -> Any:
    """Parse ``data`` as JSON.

    Raises ValueError also for what is nested too deeply, for numbers of too many digits, and for a half of a
    surrogate pair, which no file and no terminal can be given.
    """
    try:
        document = json.loads(data)
        if (b"\\ud" if isinstance(data, bytes) else "\\ud") in data.lower():  # type: ignore[operator]
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return document
