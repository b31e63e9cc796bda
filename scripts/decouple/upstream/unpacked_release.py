"""Describe an unpacked tree in the cache, and where every byte of it came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from decouple.base.errors import DecoupleError
from decouple.base.path_names import is_relative_path
from decouple.base.untrusted_input import JSON_BOUND, parse_json, read_bounded
from decouple.upstream import tree_record

RECORD = tree_record.PROVENANCE
"""Name of the record that lies beside an unpacked tree."""


class VerifiedFile(Struct, frozen=True):
    """Hold a file, ``verified`` by "manifest", "manifest and .dsc", "first use", ..."""

    name: str
    url: str
    size: int
    sha256: str
    verified: str


class UnpackedRelease(Struct, frozen=True):
    """An unpacked release.

    ``kind`` is "source" (can be built) or "python" (Python files, headers and other text of a wheel only).
    ``path`` is the tree; ``debian`` is Debian's own folder beside it, if the provider has one.
    ``identity`` names these very bytes and is the key of everything derived from them; None for a folder that others
    may change at any time. ``why`` says how ``auto`` came to this provider; ``notes`` is what a user should know.
    """

    provider: str
    kind: str
    path: Path
    identity: str | None
    files: tuple[VerifiedFile, ...] = ()
    why: str = ""
    notes: tuple[str, ...] = ()
    debian: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the values for records and for ``--json``; paths as text."""
        record: dict[str, Any] = to_builtins(self, enc_hook=str)
        return record


def write_record(folder: Path, fetched: UnpackedRelease) -> None:
    """Put ``provenance.json`` into ``folder``, with paths relative to it."""
    record = fetched.to_json()
    record["path"] = str(fetched.path.relative_to(folder))
    record["debian"] = str(fetched.debian.relative_to(folder)) if fetched.debian else None
    (folder / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_record(folder: Path) -> UnpackedRelease | None:
    """Read what :func:`write_record` wrote into ``folder``; None when there is none.

    Raises DecoupleError when it is damaged: it is written with the tree, so a power cut that hurt it hurt the tree too.
    """
    try:
        record = parse_json(read_bounded(folder / RECORD, JSON_BOUND))
        record["path"] = folder / _check_sibling_name(record["path"])
        record["debian"] = folder / _check_sibling_name(record["debian"]) if record["debian"] else None
        return convert(record, UnpackedRelease)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DecoupleError(
            f"{folder / RECORD}: damaged ({error!r})", next_step=f"remove {folder} and run the same command again"
        ) from None


def _check_sibling_name(name: object) -> str:
    if not isinstance(name, str) or not is_relative_path(name):
        raise ValueError(f"{name!r} is no folder beside it")
    return name
