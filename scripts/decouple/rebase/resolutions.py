"""Conflict memory: how a person settled a conflict, kept in the repository and used again only on an exact match.

One file per pair of releases, ``series/resolutions/<from>-<to>.json``. A resolution is found by the SHA-256 of the
patch, both tags, and the blob id of every file that it changes as it stood before; one other byte and it is not used.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.outside import JSON_BOUND, parse_json, read_bounded

_VERSION = 1


@dataclass(frozen=True)
class Key:
    """What a resolution was made for."""

    patch: str
    """SHA-256 of the patch file in the old series."""
    old_tag: str
    new_tag: str
    preimage: Mapping[str, str]
    """path -> blob id before the patch ("" where there was no file), for every path that the resolution changes."""


@dataclass(frozen=True)
class Resolution:
    """A settled conflict: the name of the patch then, and the diff that took the place of its old text."""

    key: Key
    name: str
    diff: bytes


def path_for(project: Path, old: str, new: str) -> Path:
    """Where the resolutions between two releases are kept."""
    return Checkout(project).resolutions / f"{old}-{new}.json"


def load(path: Path) -> list[Resolution]:
    """All resolutions in a file; none when it does not exist. Raises DecoupleError naming what is wrong."""
    if not path.exists():
        return []
    try:
        document = parse_json(read_bounded(path, JSON_BOUND))
        if document["version"] != _VERSION:
            raise DecoupleError(
                f"{path}: version {document['version']!r}, expected {_VERSION}", next_step="update decouple"
            )
        return [
            Resolution(Key(**item["key"]), item["name"], base64.b64decode(item["diff"]))
            for item in document["resolutions"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DecoupleError(f"{path}: not a resolutions file: {error!r}", next_step="restore it from git") from error


def find(known: list[Resolution], patch: str, old_tag: str, new_tag: str) -> list[Resolution]:
    """Those made for this very patch between these tags; whether the preimage matches too is the caller's to see."""
    return [r for r in known if (r.key.patch, r.key.old_tag, r.key.new_tag) == (patch, old_tag, new_tag)]


def remember(path: Path, resolution: Resolution) -> None:
    """Add one, in place of an older one with the same key."""
    kept = [known for known in load(path) if known.key != resolution.key]
    rows = [
        {"name": item.name, "key": vars(item.key) | {"preimage": dict(sorted(item.key.preimage.items()))},
         "diff": base64.b64encode(item.diff).decode()}
        for item in sorted([*kept, resolution], key=lambda item: (item.name, item.key.patch))
    ]  # fmt: skip
    write_atomically(path, json.dumps({"version": _VERSION, "resolutions": rows}, indent=1, sort_keys=True) + "\n")
