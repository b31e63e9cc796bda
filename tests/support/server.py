"""A real HTTP server on 127.0.0.1 that stands in for hosts which tests cannot reach, with the faults real ones have.

    with FaultyServer({"/a.tar.gz": data}) as server:
        server.fault("/a.tar.gz", truncated(after=1000), times=2)     # the first two answers break off
        download(server.url("/a.tar.gz"))
        assert [r.headers.get("Range") for r in server.requests] == [None, "bytes=1000-", "bytes=2000-"]

It serves bytes or files (a Path, also a folder), answers GET and HEAD, knows ``Range`` (one range, with ``If-Range``)
and ``ETag``. As a pytest fixture: ``from tests.support.server import http_server``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

import pytest

PAGE = b"<!DOCTYPE html><html><title>Sign in</title><body>Please sign in to use this network.</body></html>\n"


@dataclass(frozen=True)
class Fault:
    """What is wrong with an answer; made by the functions below."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    after: int | None = None
    ignore_range: bool = False
    corrupt: bool = False
    seconds: float = 0.0
    no_length: bool = False


def range_ignored() -> Fault:
    """The whole file with status 200, whatever range was asked for."""
    return Fault(ignore_range=True)


def truncated(after: int) -> Fault:
    """The connection ends after ``after`` bytes of the body, though the header promised all."""
    return Fault(after=after)


def wrong_bytes() -> Fault:
    """The right length, but bits flipped in the middle."""
    return Fault(corrupt=True)


def not_found() -> Fault:
    """404."""
    return Fault(status=404, body=b"no such file\n")


def status(code: int, body: bytes = b"", **headers: str) -> Fault:
    """Any status; header names with underscores for dashes."""
    return Fault(status=code, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def too_many(retry_after: str = "1") -> Fault:
    """429 with Retry-After."""
    return status(429, Retry_After=retry_after)


def slow(seconds: float) -> Fault:
    """``seconds`` pass before each 64 KiB of the body."""
    return Fault(seconds=seconds)


def redirected(to: str) -> Fault:
    """302 to another URL or path."""
    return status(302, Location=to)


def proxy_page(content_type: str = "text/html; charset=utf-8") -> Fault:
    """A sign-in page with status 200."""
    return Fault(status=200, body=PAGE, headers={"Content-Type": content_type})


def without_length() -> Fault:
    """No Content-Length; the end of the body is the end of the connection."""
    return Fault(no_length=True)


@dataclass(frozen=True)
class Request:
    """One request that came in; ``range`` is its Range header, or None."""

    path: str
    headers: Mapping[str, str]

    @property
    def range(self) -> str | None:
        return self.headers.get("Range")


class FaultyServer:
    """See the module."""

    def __init__(self, files: Mapping[str, bytes | Path] | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.files: dict[str, bytes | Path] = dict(files or {})
        self.requests: list[Request] = []
        self._faults: dict[str, list[tuple[Fault, int | None]]] = {}
        self._lock = threading.Lock()
        server = self

        class Handler(_Handler):
            owner = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._scheme = "https" if tls else "http"
        if tls:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def base(self) -> str:
        """http://127.0.0.1:PORT, https with ``tls``, without a slash at the end."""
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}"

    def url(self, path: str) -> str:
        """The full URL of a path that begins with a slash."""
        return self.base + path

    def fault(self, path: str, fault: Fault, times: int | None = None) -> None:
        """Answer the next ``times`` requests for ``path`` with ``fault`` (None: all that follow); faults queue up."""
        with self._lock:
            self._faults.setdefault(path, []).append((fault, times))

    def __enter__(self) -> FaultyServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def next_fault(self, path: str) -> Fault:
        """What is wrong with the next answer for ``path``."""
        with self._lock:
            queue = self._faults.get(path, [])
            while queue:
                fault, times = queue[0]
                if times is None:
                    return fault
                if times > 0:
                    queue[0] = (fault, times - 1)
                    return fault
                queue.pop(0)
            return Fault()

    def content(self, path: str) -> bytes | None:
        """The bytes served for ``path``; None for a 404."""
        found = self.files.get(path)
        if found is None:
            for prefix, folder in self.files.items():
                if isinstance(folder, Path) and folder.is_dir() and path.startswith(prefix.rstrip("/") + "/"):
                    found = folder / path.removeprefix(prefix).lstrip("/")
                    if ".." in found.parts:
                        return None
        if isinstance(found, Path):
            return found.read_bytes() if found.is_file() else None
        return found


class CatchAllServer(FaultyServer):
    """As some hosts are: a folder's page is its ``index.html``, the front page what any other address gets."""

    def content(self, path: str) -> bytes | None:
        found = super().content(f"{path}index.html" if path.endswith("/") else path)
        return super().content("/index.html") if found is None else found


class _Handler(BaseHTTPRequestHandler):
    owner: FaultyServer
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """A client that goes away in the middle is what these tests are about."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            super().handle()

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.owner.requests.append(Request(path, dict(self.headers.items())))
        fault = self.owner.next_fault(path)
        data = self.owner.content(path) if fault.body is None else fault.body
        code, headers = fault.status or 200, dict(fault.headers)
        if data is None:
            code, data = 404, b"no such file\n"
        elif fault.body is None:
            if fault.corrupt:
                middle = len(data) // 2
                data = data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]
            tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
            headers |= {"ETag": tag, "Accept-Ranges": "bytes"}
            asked = self.headers.get("Range")
            if asked and not fault.ignore_range and self.headers.get("If-Range", tag) == tag:
                code, data = self._range(asked, data, headers)
        self._send(code, headers, data, fault, body=body)

    @staticmethod
    def _range(asked: str, data: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.strip())
        if not match or match[1] == match[2] == "":
            return 200, data
        if match[1]:
            first, last = int(match[1]), min(int(match[2] or len(data) - 1), len(data) - 1)
        else:
            first, last = max(0, len(data) - int(match[2])), len(data) - 1
        if first > last:
            headers["Content-Range"] = f"bytes */{len(data)}"
            return 416, b""
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return 206, data[first : last + 1]

    def _send(self, code: int, headers: dict[str, str], data: bytes, fault: Fault, *, body: bool) -> None:
        self.send_response(code)
        for name, value in ({"Content-Type": "application/octet-stream"} | headers).items():
            self.send_header(name, value)
        if fault.no_length:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(data)))
        self.close_connection = fault.no_length or fault.after is not None
        self.end_headers()
        if not body:
            return
        if fault.after is not None:
            data = data[: fault.after]
        try:
            for start in range(0, len(data), 1 << 16):
                if fault.seconds:
                    time.sleep(fault.seconds)
                self.wfile.write(data[start : start + (1 << 16)])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


@pytest.fixture
def http_server() -> Iterator[FaultyServer]:
    """An empty server; put files into ``server.files``."""
    with FaultyServer() as server:
        yield server


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of the folder on a local web server that knows nothing about packages and has no faults."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
