"""Find a Python with the official torch of a release, to compare wheels with it.

>>> from decouple.flows.official_python import find_official_torch
>>> find_official_torch(None, "2.6.0", "--env portable")
Traceback (most recent call last):
decouple.base.errors.UsageError: --env portable: compared with the official torch, installed (pip install ...)
"""

from __future__ import annotations

from pathlib import Path

from decouple.base.errors import UsageError
from decouple.base.interpreter import find_python, run_python

_ASKED = "import sys, torch; print('decouple: %d.%d' % sys.version_info[:2], torch.__version__)"


def find_official_torch(python: Path | None, version: str, option: str) -> tuple[Path, str]:
    """Return the absolute path of ``python``, and its own version ("3.13").

    It may be named as on the shell.

    ``version`` is the release's ("2.6.0"): with another torch two releases would be compared. A builder adds to it:
    2.6.0+cu124 is 2.6.0. Raises UsageError naming what is there, or the ``option`` that needs a Python.
    """
    next_step = f"pip install torch=={version} in a virtual environment, then --python PYTHON"
    if python is None:
        raise UsageError(f"{option}: compared with the official torch, installed", next_step=next_step)
    python = find_python(python, next_step)
    try:
        done = run_python([str(python), "-c", _ASKED])
    except OSError as error:
        raise UsageError(f"{python}: {error.strerror}", next_step=next_step) from error
    told = [line.split() for line in done.stdout.splitlines() if line.startswith("decouple: ")]
    if done.returncode or not told:
        said = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise UsageError(f"{python}: no torch {version}: {said}", next_step=next_step)
    _, own, found = told[-1]
    if found.partition("+")[0] != version:
        raise UsageError(f"{python}: has torch {found}, not {version}", next_step=next_step)
    return python, own
