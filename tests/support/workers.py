"""What the workers of one run share (``pytest -n``): a folder where the first that needs something makes it for all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of this run; who makes something in it holds a lock meanwhile (``decouple.base.files.hold_lock``)."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
