"""Store a shared compiler cache's objects in a Redis or a shared folder.

Neither is trusted: `remote_cache` signs what it puts there and checks what it takes.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from decouple.base.files import NO_SPACE, write_atomically

_PATIENCE = 10.0  # seconds for one answer


class StoreFullError(Exception):
    """The store has no room for the object."""


class StoreUnavailableError(Exception):
    """The store cannot be asked now; the message is its reason."""


class ObjectStore(Protocol):
    """Bytes by name. Its methods raise StoreFullError or StoreUnavailableError."""

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes of that name, None when there are none."""

    def exists(self, key: bytes) -> bool:
        """Return whether there are any."""

    def set(self, key: bytes, value: bytes) -> None:
        """Keep them."""

    def delete(self, key: bytes) -> None:
        """Forget them."""


class RedisStore:
    """In a Redis: ``url`` as redis-py takes it."""

    def __init__(self, url: str) -> None:
        import redis  # 0.2 s that only a build with such a cache spends

        self._errors = redis.exceptions
        self._client = redis.Redis.from_url(url, socket_timeout=_PATIENCE, socket_connect_timeout=_PATIENCE)

    def get(self, key: bytes) -> bytes | None:
        """See `ObjectStore`."""
        value = self._ask_redis(lambda: self._client.get(key))
        return value if isinstance(value, bytes) else None

    def exists(self, key: bytes) -> bool:
        """See `ObjectStore`."""
        return bool(self._ask_redis(lambda: self._client.exists(key)))

    def set(self, key: bytes, value: bytes) -> None:
        """See `ObjectStore`."""
        self._ask_redis(lambda: self._client.set(key, value))

    def delete(self, key: bytes) -> None:
        """See `ObjectStore`."""
        self._ask_redis(lambda: self._client.delete(key))

    def _ask_redis(self, question: Callable[[], object]) -> object:
        try:
            return question()
        except self._errors.OutOfMemoryError as error:
            raise StoreFullError(str(error)) from None
        except (self._errors.RedisError, OSError) as error:
            raise StoreUnavailableError(str(error)) from None


class FolderStore:
    """Store each object whole or not at all, in a file named by its name's SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: bytes) -> bytes | None:
        """See `ObjectStore`."""
        with _translate_errors(), contextlib.suppress(FileNotFoundError):
            return self._locate_file(key).read_bytes()
        return None

    def exists(self, key: bytes) -> bool:
        """See `ObjectStore`."""
        with _translate_errors():
            return self._locate_file(key).exists()

    def set(self, key: bytes, value: bytes) -> None:
        """See `ObjectStore`."""
        with _translate_errors():
            write_atomically(self._locate_file(key), value)

    def delete(self, key: bytes) -> None:
        """See `ObjectStore`."""
        with _translate_errors():
            self._locate_file(key).unlink(missing_ok=True)

    def _locate_file(self, key: bytes) -> Path:
        name = hashlib.sha256(key).hexdigest()
        return self._folder / name[:2] / name[2:]


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StoreFullError(str(error)) from None
        raise StoreUnavailableError(str(error)) from None
