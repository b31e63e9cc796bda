"""The one error that users see: what is wrong, and the next step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class SimcudaError(Exception):
    """One line on the file or command at fault; ``next_step`` says what to do."""

    def __init__(self, what: str, *, next_step: str) -> None:
        super().__init__(f"{what}; {next_step}")
        self.what = what
        self.next_step = next_step


@contextlib.contextmanager
def explain_os_error(what: object, next_step: str) -> Iterator[None]:
    """Say of what the system refused something, and why. Raises SimcudaError."""
    try:
        yield
    except OSError as error:
        raise SimcudaError(f"{what}: {error.strerror}", next_step=next_step) from None
