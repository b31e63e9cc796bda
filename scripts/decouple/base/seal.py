"""Seal what this tool keeps in a cache, with a key that is in no cache.

The seal proves that it is ours.

A cache may be shared between people or come from a build server. Where what it holds cannot be compared with what it
was made of without making it again, it is believed only with the seal of this very user (HMAC, RFC 2104).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from decouple.base.errors import UsageError
from decouple.base.paths import find_home

_SIZE = 32
"""Bytes of the key and of a seal: those of SHA-256."""


def add_seal(name: str, data: bytes) -> bytes | None:
    """Put a seal for the name that it is kept under before ``data``.

    Returns None where this user can have no key.
    """
    key = _read_key(make=True)
    return _compute_seal(key, name, data) + data if key else None


def remove_seal(name: str, data: bytes) -> bytes | None:
    """Take the seal off what :func:`add_seal` returned.

    Returns None unless this user sealed it, for this name, and nobody changed it.
    """
    key = _read_key(make=False)
    if key is None or not hmac.compare_digest(data[:_SIZE], _compute_seal(key, name, data[_SIZE:])):
        return None
    return data[_SIZE:]


def _compute_seal(key: bytes, name: str, data: bytes) -> bytes:
    seal = hmac.new(key, f"{name}\0".encode("utf-8", "surrogateescape"), hashlib.sha256)
    seal.update(data)
    return seal.digest()


def read_owner_id(*, make: bool = False) -> str | None:
    """Read what tells this user's seals from those of others: 16 hex digits.

    Returns None without a key; ``make`` makes one.
    """
    key = _read_key(make=make)
    return _compute_seal(key, "owner", b"").hex()[:16] if key else None


def locate_key() -> Path:
    """Return where the key is: ``decouple/seal.key`` in the XDG state directory.

    Raises UsageError where nothing says where a home is: a key that lies in the current folder may be anybody's.
    """
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else find_home() / ".local/state") / "decouple" / "seal.key"


def _read_key(*, make: bool) -> bytes | None:
    """Read the key; None where there is none, or others could have read or written it."""
    try:
        path = locate_key()
        if make:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileExistsError):
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                with os.fdopen(handle, "wb") as out:
                    out.write(secrets.token_bytes(_SIZE))
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as source:
            info = os.fstat(handle)
            private = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o077
            key = source.read(_SIZE + 1) if private else b""
    except (OSError, UsageError):  # no home
        return None
    return key if len(key) == _SIZE else None
