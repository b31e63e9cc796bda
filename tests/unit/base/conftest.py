"""Fixtures of the tests of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plants import PLANTS, Plant, planting


@pytest.fixture(params=PLANTS)
def plant(request: pytest.FixtureRequest, tmp_path: Path) -> Plant:
    """Puts something in a place; what it gives back asserts that it led nowhere."""
    return planting(request.param, tmp_path)
