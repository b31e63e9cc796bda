"""The menu: ``nox -l`` lists it. Each session hands its arguments to the ``decouple`` command.

Sessions named after a release exist for every series in ``series/``; a new series file is all it takes to get them.
Arguments after ``--`` go to the command: ``nox -s apply-2.6 -- --source git``.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True

ROOT = Path(__file__).parent
RELEASES = sorted(path.name for path in (ROOT / "series").iterdir() if not path.suffix.isalpha() and path.suffix != ".toml")

#: verb -> what the menu says; the session ``<verb>-<release>`` runs ``decouple <verb> <release> [arguments]``
PER_RELEASE = {
    "fetch": "download, verify and unpack the source of this release",
    "apply": "fetch, then put the whole series on it: build/<release>/src",
    "refresh": "write the commits of build/<release>/src back to patches/",
    "status": "how far the applied tree, the series and the patches agree",
}

#: verb -> what the menu says; the session ``<verb>`` runs ``decouple <verb> [arguments]``
GENERAL: dict[str, str] = {}


def install(session: nox.Session, extra: str = "") -> None:
    """Install the package into the one virtual environment that all sessions share, once per pyproject.toml."""
    wanted = f".[{extra}]" if extra else "."
    key = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + wanted.encode() + sys.version.encode()).hexdigest()
    stamp = Path(session.virtualenv.location) / f"decouple-{extra or 'base'}.stamp"
    if stamp.exists() and stamp.read_text() == key:
        return
    session.install("-q", "-e", wanted)
    stamp.write_text(key)


def define(name: str, summary: str, command: list[str]) -> None:
    """Make one session that runs ``decouple COMMAND [arguments after --]``."""

    def run(session: nox.Session) -> None:
        install(session)
        session.run("decouple", *command, *session.posargs)

    run.__doc__ = summary
    shared(name)(run)


def shared(name: str) -> Callable[[Callable[[nox.Session], None]], object]:
    """A session decorator: the given name, and the virtual environment that all sessions share."""
    return nox.session(name=name, venv_location=str(ROOT / ".nox" / "decouple"), reuse_venv=True)


for _release in RELEASES:
    for _verb, _summary in PER_RELEASE.items():
        define(f"{_verb}-{_release}", _summary.replace("<release>", _release), [_verb, _release])
for _verb, _summary in GENERAL.items():
    define(_verb, _summary, [_verb])


@shared("lint")
def lint(session: nox.Session) -> None:
    """ruff, mypy --strict, and every fault of every patch of every series."""
    install(session, "dev")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy", "scripts/decouple")
    session.run("decouple", "lint")


@shared("tests")
def tests(session: nox.Session) -> None:
    """The quick tests; after -- any pytest arguments, e.g. tests/real for those on the real source."""
    install(session, "dev")
    session.run("pytest", *(session.posargs or ["tests/unit", "tests/fault", "tests/contract"]))
