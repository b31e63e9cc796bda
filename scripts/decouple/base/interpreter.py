"""Start Pythons that import nothing from the current folder.

``python -m`` and ``python -c`` put the current folder first on the path of modules, before the standard library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from decouple.base.errors import UsageError
from decouple.base.program_output import make_english_variables

OWN = (sys.executable, "-P")
"""Our own Python, without the current folder on its path."""


def parse_python(word: str) -> Path:
    """Parse an option that names a Python, for `find_python`.

    ``Path`` would drop the ``./`` of ``./python``, and another one of that name on the PATH be taken.

    >>> parse_python("python3"), parse_python("./python3").is_absolute()
    (PosixPath('python3'), True)
    """
    return Path(word).absolute() if os.sep in word else Path(word)


def find_python(named: str | Path, next_step: str) -> Path:
    """Return the path of a Python that is named by its path or as on the shell.

    Programs that get it may look nowhere else. Raises UsageError with ``next_step`` where there is none.
    """
    program = shutil.which(named)
    if program is None:
        raise UsageError(f"{named}: no Python there", next_step=next_step)
    return Path(program).absolute()  # a link into a virtual environment is that environment


def run_python(command: Sequence[str], variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command line that starts somebody's Python, and return its output as text.

    It runs in a folder where nobody leaves files.

    That Python may be older than the option that `OWN` has. What the command names must be absolute, but for itself.
    ``variables``: all that it has (None: ours). Raises OSError when it cannot be started.
    """
    program, *words = command
    if os.sep in program:
        program = str(Path(program).absolute())  # a link into a virtual environment is that environment
    return subprocess.run(
        [program, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env=resolve_python_path(make_english_variables(variables)),
    )


def resolve_python_path(variables: Mapping[str, str]) -> dict[str, str]:
    """Return ``variables`` with absolute folders in ``PYTHONPATH``."""
    resolved = dict(variables)
    if "PYTHONPATH" in resolved:
        named = filter(None, resolved["PYTHONPATH"].split(os.pathsep))  # an empty one is the current folder
        resolved["PYTHONPATH"] = os.pathsep.join(str(Path(folder).absolute()) for folder in named)
    return resolved
