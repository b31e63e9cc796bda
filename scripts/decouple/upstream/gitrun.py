"""Running git so that nobody's configuration, hooks or attributes change what a tree is."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.git import environment

#: Options of every call: bytes in, the same bytes out; nothing runs in the background.
OPTIONS = tuple(
    word
    for setting in ("core.autocrlf=false", "core.safecrlf=false", "gc.auto=0", "core.hooksPath=/dev/null")
    for word in ("-c", setting)
)


def command(*arguments: str) -> list[str]:
    """The argument list of one git call."""
    return ["git", *OPTIONS, *arguments]


def git(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    doing: str = "",
    next_step: str = "",
) -> bytes:
    """Run git and return what it wrote. ``doing`` replaces "git VERB in FOLDER" in messages.

    Raises DecoupleError with git's own reason when it fails or is not installed.
    """
    try:
        done = subprocess.run(
            command(*arguments), cwd=cwd, env=environment(env), input=stdin, capture_output=True, check=False
        )
    except FileNotFoundError:
        if not cwd.is_dir():
            raise DecoupleError(
                f"{cwd}: no such folder", next_step="did something delete it? run the same command again"
            ) from None
        raise DecoupleError("git is not installed", next_step="apt-get install git") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        cause = next((line for line in said if line.startswith(("fatal:", "error:"))), said[-1])
        raise DecoupleError(f"{doing or f'git {arguments[0]} in {cwd}'}: {cause}", next_step=next_step or None)
    return done.stdout


def text(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Like :func:`git`, as text without the newline at the end."""
    return git(*arguments, cwd=cwd, env=env).decode().strip()
