"""Run programs whose output is read: they speak English.

The language of the person who runs this does not matter.

Messages of compilers, linkers, pip and the C library are translated where their catalogues are installed; what is
looked for in them, and told of them, is not.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

_HINT = "  next: "
"""How decouple and simcuda begin the line below an error's."""


def make_english_variables(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``variables`` (None: ours) with the language of C, in UTF-8.

    ``LANGUAGE`` would win over it, so it is left out.
    """
    inherited = os.environ if variables is None else variables
    return {name: value for name, value in inherited.items() if name != "LANGUAGE"} | {"LC_ALL": "C.UTF-8"}


def run_program(
    command: Sequence[str], variables: Mapping[str, str] | None = None, *, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a short command that reads nothing, and return its output as text.

    What is no UTF-8 of that is replaced.

    ``variables``: all that it has (None: ours); ``timeout`` in seconds. Raises OSError when it cannot be started,
    subprocess.TimeoutExpired.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=make_english_variables(variables),
        timeout=timeout,
    )


def read_failure(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """Read why a program failed: its last line on standard error, and its hint.

    The hint is what a command of this project says under ``next:``, "" where there is none.
    """
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit status {done.returncode}"]
    *before, last = lines
    if before and last.startswith(_HINT):
        return before[-1].strip(), last.removeprefix(_HINT).strip()
    return last.strip(), ""
