"""Share a compiler cache of several machines through one proxy for the build.

A build has no network. What it sees of a shared cache is a Unix socket, on which the proxy answers the four Redis
commands that ccache uses for its objects and nothing else, and passes them on to the one store that the address names:
a Redis, or a folder that all machines see. The address, with the password in it, stays outside. A store that is down,
slow or full is a cache without objects: they are compiled here, and `CacheProxy.format_report` says so at the end.

Who compiles on several machines needs it (docs/build.md, and the jobs of ci/matrix.toml that share a folder). ccache's
own remote storage, set alone, would need a network in the build, show it the password, and believe whoever writes.

Whoever can write to such a cache decides what is linked. With a secret (`KEY` in the environment, the same on all
machines) every object carries a MAC over its name and bytes: what nobody with the secret put there under that very name
is not handed to the build. RESP, the protocol: https://redis.io/docs/latest/develop/reference/protocol-spec/
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import UsageError
from decouple.build.environment import Environment, RootEnvironment
from decouple.build.remote_stores import FolderStore, ObjectStore, RedisStore, StoreFullError, StoreUnavailableError
from decouple.build.sandbox import BindMount

KEY = "DECOUPLE_CACHE_KEY"
"""The variable with the secret."""
URL = "DECOUPLE_CACHE_URL"
"""The variable with the address, where no option names one."""
VARIABLES = ("CCACHE_REMOTE_STORAGE", "CCACHE_RESHARE")
"""What a build is told of it: how its objects come, not which, so no wheel depends on them."""
_INSIDE = "/decouple/cache-proxy"
_SOCKET = "cache.sock"
_SCHEMES = ("redis", "rediss", "unix")
_EXAMPLES = "--cache redis://HOST:6379/0, or --cache file:FOLDER"
_BOUND = 512 << 20  # bytes of a value; Redis allows no more
_REST = 20.0  # seconds in which a store that did not answer is not asked again
Answer = TypeVar("Answer")


@dataclass
class CacheCounts:
    """Count objects ``taken`` and ``put``, failures, and the first reason in words."""

    taken: int = 0
    put: int = 0
    forged: int = 0
    failed: int = 0
    reason: str = ""
    full: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, name: str, reason: str = "") -> None:
        """Count one more of ``name``."""
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)
            self.reason = self.reason or reason


class SharedObjects:
    """Store objects behind the proxy without ever raising.

    What cannot be had is not there, and is counted.
    """

    def __init__(self, store: ObjectStore, secret: bytes, tally: CacheCounts) -> None:
        self._store, self._secret, self._tally = store, secret, tally
        # another secret is another cache, so that two never spoil each other's objects
        self._prefix = (
            b"decouple:" + hashlib.sha256(b"name" + secret).hexdigest()[:16].encode() + b":" if secret else b""
        )
        self._asleep_until = 0.0

    def get(self, key: bytes) -> bytes | None:
        """Return the object, None when there is none that may be used."""
        value = self._ask_store(lambda: self._store.get(self._prefix + key), None)
        if value is None:
            return None
        if self._secret:
            mac, value = value[:32], value[32:]
            if not hmac.compare_digest(mac, self._compute_mac(key, value)):
                self._tally.count("forged")
                return None
        self._tally.count("taken")
        return value

    def exists(self, key: bytes) -> bool:
        """Return whether there is one of that name."""
        return self._ask_store(lambda: self._store.exists(self._prefix + key), False)

    def set(self, key: bytes, value: bytes) -> None:
        """Keep it, if the store can."""
        signed = self._compute_mac(key, value) + value if self._secret else value

        def keep_value() -> bool:
            self._store.set(self._prefix + key, signed)
            return True

        if self._ask_store(keep_value, False):
            self._tally.count("put")

    def delete(self, key: bytes) -> None:
        """Forget it."""
        self._ask_store(lambda: self._store.delete(self._prefix + key), None)

    def _compute_mac(self, key: bytes, value: bytes) -> bytes:
        return hmac.digest(self._secret, len(key).to_bytes(4, "big") + key + value, "sha256")

    def _ask_store(self, question: Callable[[], Answer], otherwise: Answer) -> Answer:
        if time.monotonic() < self._asleep_until:
            self._tally.count("failed")
            return otherwise
        try:
            return question()
        except StoreFullError:
            self._tally.count("full")
        except StoreUnavailableError as error:
            self._asleep_until = time.monotonic() + _REST
            self._tally.count("failed", str(error))
        return otherwise


class CacheProxy(Struct, frozen=True):
    """Serve a cache on a socket in ``folder``; ``name`` is the store, no password."""

    folder: Path
    name: str
    signed: bool
    tally: CacheCounts

    def add_to_environment(self, environment: Environment) -> tuple[Environment, dict[str, str]]:
        """Return ``environment`` with the proxy in it, and ccache's variables to find it."""
        folder = str(self.folder)
        if isinstance(environment, RootEnvironment):
            environment = replace(environment, overrides=(*environment.overrides, BindMount(self.folder, _INSIDE)))
            folder = _INSIDE
        values = (f"redis+unix:{folder}/{_SOCKET}", "true")
        return environment, dict(zip(VARIABLES, values, strict=True))

    def format_report(self) -> list[str]:
        """Report what is to be said once the build is over."""
        tally = self.tally
        made = [f"cache {self.name}: {tally.taken} objects taken, {tally.put} put there"]
        if not self.signed:
            made.append(f"cache {self.name}: without {KEY} whoever writes to it decides what is linked")
        if tally.forged:
            made.append(
                f"cache {self.name}: {tally.forged} objects were not put there by a holder of {KEY}: compiled here"
            )
        if tally.failed:
            made.append(
                f"cache {self.name}: {tally.failed} times no answer ({tally.reason}): compiled here; "
                "next: see that it is there and the address is right"
            )
        if tally.full:
            made.append(
                f"cache {self.name}: full, {tally.full} objects were not kept; "
                "next: give a Redis more maxmemory, or an eviction policy (allkeys-lru), and a folder more disk"
            )
        return made


@contextlib.contextmanager
def open_proxy(url: str, secret: str = "") -> Iterator[CacheProxy]:
    """Open a proxy to the Redis or the folder at ``url``, open while inside.

    Raises UsageError when that is neither.
    """
    name = check_address(url)
    tally = CacheCounts()
    objects = SharedObjects(_open_store(url), secret.encode(), tally)
    with tempfile.TemporaryDirectory(prefix="decouple-proxy-") as folder:  # a socket's path is 107 bytes at most
        server = _ProxyServer(str(Path(folder) / _SOCKET), _ProxyConnection)
        server.objects = objects
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield CacheProxy(Path(folder), name, bool(secret), tally)
        finally:
            server.shutdown()
            server.server_close()


def check_address(url: str) -> str:
    """Check an address; returns it without user and password.

    Raises UsageError when it is none of a Redis or a folder.
    """
    if folder := _find_folder(url):
        return f"file:{folder}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"--cache: no address: {error}", next_step=_EXAMPLES) from None
    if parts.scheme not in _SCHEMES or not (host or parts.scheme == "unix"):
        raise UsageError(
            f"--cache {parts.scheme or url}: neither the address of a Redis nor a folder", next_step=_EXAMPLES
        )
    place = f"{host}:{port or 6379}" if host else parts.path
    return f"{parts.scheme}://{place}"


def _find_folder(url: str) -> Path | None:
    """Return the folder of ``file:FOLDER``; None of another address.

    "#" and "%" are parts of its name. A shell leaves the "~" of ``--cache file:~/FOLDER`` to us.
    """
    scheme, _, name = url.partition(":")
    of_host = name.startswith("//") and not name.startswith("///")
    path = Path.home() / name[2:] if name.startswith("~/") else Path(name)
    return path.resolve() if scheme.lower() == "file" and name and not of_host else None


def _open_store(url: str) -> ObjectStore:
    folder = _find_folder(url)
    if folder is None:
        return RedisStore(url)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--cache {url}: {error}", next_step="name a folder that you may write to") from None
    return FolderStore(folder)


class _ProxyServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 256
    objects: SharedObjects


class _ProxyConnection(socketserver.StreamRequestHandler):
    """One ccache's connection."""

    server: _ProxyServer

    def handle(self) -> None:
        with contextlib.suppress(OSError, _ProtocolError):
            while words := _read_command(self.rfile):
                self.wfile.write(_answer_command(self.server.objects, words))


class _ProtocolError(Exception):
    """What came is not of the protocol; the connection ends."""


def _read_command(reader: BufferedIOBase) -> list[bytes]:
    """Read the words of the next command, none at the end."""
    line = reader.readline(64)
    if not line:
        return []
    return [_read_word(reader) for _ in range(_parse_number(line, b"*", 16))]


def _read_word(reader: BufferedIOBase) -> bytes:
    size = _parse_number(reader.readline(64), b"$", _BOUND)
    data = reader.read(size + 2)
    if len(data) != size + 2:
        raise _ProtocolError
    return data[:-2]


def _parse_number(line: bytes, mark: bytes, most: int) -> int:
    digits = line[1:].strip()
    if line[:1] != mark or not digits.isdigit() or int(digits) > most:
        raise _ProtocolError
    return int(digits)


def _answer_command(objects: SharedObjects, words: Sequence[bytes]) -> bytes:
    match [words[0].upper(), *words[1:]]:
        case [b"GET", key]:
            value = objects.get(key)
            return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
        case [b"SET", key, value]:
            objects.set(key, value)
            return b"+OK\r\n"
        case [b"EXISTS", key]:
            return b":%d\r\n" % objects.exists(key)
        case [b"DEL", key]:
            objects.delete(key)
            return b":1\r\n"
        case [b"PING"]:
            return b"+PONG\r\n"
    return b"-ERR this proxy is for a compiler cache's objects\r\n"
