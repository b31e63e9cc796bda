from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.series import World, usual_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A project with three patches and an overlay, its tree made, nothing applied."""
    return usual_world(tmp_path)
