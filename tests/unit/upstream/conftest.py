"""What the tests of this package share."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.upstream.download import Downloader
from tests.support.server import http_server  # noqa: F401 - a fixture


@pytest.fixture
def naps() -> list[float]:
    """The waits between attempts, in seconds, which are not slept."""
    return []


@pytest.fixture
def downloader(tmp_path: Path, naps: list[float]) -> Downloader:
    """One with an empty cache that does not sleep."""
    return Downloader(tmp_path / "cache", sleep=naps.append)
