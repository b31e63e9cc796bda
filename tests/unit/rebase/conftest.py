"""The repository that most tests of carrying a patch write two releases into."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.rebase.releases import Upstream


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")
