"""The extras of pyproject.toml: what a plain install of this package lacks.

An extra holds those before it, too: ``publish`` all that ``build`` and ``verify`` have. Their modules are imported
where they are used, so that a command without a use for them runs in the smallest install.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Iterator

from decouple.base.errors import UsageError
from decouple.base.paths import find_project

EXTRAS = {
    "verify": ("elftools", "installer", "lz4", "zstandard"),
    "build": ("cyclonedx", "pip", "redis"),
    "publish": ("bs4", "cryptography", "pypi_simple", "securesystemslib", "tuf"),
    "neutral": ("libcst",),
}
"""The modules that each brings beside those before it; one that stands alone comes last."""
_LADDER = ("verify", "build", "publish")


def require_extra(extra: str) -> None:
    """Check that what ``extra`` brings is installed.

    Raises UsageError, with pip's command, when a module of it is missing.
    """
    for module in _list_modules(extra):
        if importlib.util.find_spec(module) is None:
            raise explain_missing(module, extra)


def find_extra(module: str | None) -> str | None:
    """Return the extra that brings ``module`` or the package it is in, else None."""
    top = (module or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if top in modules), None)


def explain_missing(module: str, extra: str) -> UsageError:
    """Return the error for a module of ``extra``, or inside it, that is missing."""
    try:
        what = shlex.quote(f"{find_project()}[{extra}]")
        command = f"{shlex.quote(sys.executable)} -m pip install -e {what}"
    except UsageError:  # installed from a wheel; no index has this project
        command = f"install it anew from a checkout: pipx install --force 'CHECKOUT[{extra}]'"
    return UsageError(
        f"{module.partition('.')[0]} is not installed: it comes with the extra {extra}", next_step=command
    )


def _list_modules(extra: str) -> Iterator[str]:
    below = _LADDER[: _LADDER.index(extra) + 1] if extra in _LADDER else (extra,)
    for name in below:
        yield from EXTRAS[name]
