"""A real Redis for one test."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import redis

from tests.support.tools import require_tool


class Server:
    """A Redis of this test's own."""

    def __init__(self, folder: Path, *words: str) -> None:
        require_tool("redis-server")
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = ["redis-server", "--port", str(self.port), "--dir", str(folder), "--save", "", "--bind", "127.0.0.1"]
        self.process = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client = redis.Redis.from_url(self.url)
        for _ in range(600):  # a minute
            try:
                self.client.ping()
                return
            except redis.AuthenticationError:
                return
            except redis.ConnectionError:
                time.sleep(0.1)
        raise RuntimeError("redis-server does not answer")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)
