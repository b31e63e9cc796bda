"""Deflate on all cores, with the same bytes for any number of them.

The result is readable by everything that reads zip.

A block is compressed by itself, with the end of the one before as its dictionary, and ends at a byte: so blocks follow
each other as one stream (RFC 1951; zlib's ``Z_SYNC_FLUSH``).
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

_BLOCK = 4 << 20
_WINDOW = 32 << 10


class Deflater:
    """A compressor in place of ``zlib.compressobj(level, zlib.DEFLATED, -15)``.

    It is closed by ``with``.
    """

    def __init__(self, level: int, threads: int | None = None) -> None:
        self._level = level
        self._threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._threads)
        self._pending = bytearray()
        self._previous = b""
        self._running: deque[Future[bytes]] = deque()

    def __enter__(self) -> Deflater:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def compress(self, data: bytes) -> bytes:
        """Take ``data`` and return what is compressed by now."""
        self._pending += data
        while len(self._pending) >= _BLOCK:
            self._start_block(bytes(self._pending[:_BLOCK]), last=False)
            del self._pending[:_BLOCK]
        return self._collect_blocks(keep=2 * self._threads)

    def flush(self) -> bytes:
        """Return all that is left; another stream may begin after it."""
        self._start_block(bytes(self._pending), last=True)
        self._pending.clear()
        self._previous = b""
        return self._collect_blocks(keep=0)

    def _start_block(self, block: bytes, *, last: bool) -> None:
        self._running.append(self._pool.submit(_deflate_block, block, self._previous, self._level, last))
        self._previous = block[-_WINDOW:]

    def _collect_blocks(self, keep: int) -> bytes:
        return b"".join(self._running.popleft().result() for _ in range(len(self._running) - keep))


def _deflate_block(block: bytes, before: bytes, level: int, last: bool) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=before)
    return compressor.compress(block) + compressor.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)
