"""Variables of the environment for a while: the process goes on with other tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def set_variables(**given: str) -> Iterator[None]:
    """Set these variables and put what they were back afterwards."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
