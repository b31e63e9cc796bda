"""Parse the word behind ``--source``, which means the same for every command.

``auto`` (the manifest's order, what is in the cache first), a provider of the release manifest (``debian``, ``github``,
``git``, ``wheel``), or a path, with or without ``local:`` before it: a folder, an archive, a bare repository, or
``REPOSITORY@REVISION``. A word without a slash is a path where there is such a file, or such a repository, unless it is
``auto`` or a provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.git import is_repository
from decouple.base.paths import expand_home

LOCAL = "local:"


def normalize_word(word: str) -> str:
    """Return ``local:`` and the whole path where ``word`` is a path, else ``word``.

    >>> normalize_word("debian"), normalize_word("local:/src/pytorch"), normalize_word("/src/pytorch@v2.7.0")
    ('debian', 'local:/src/pytorch', 'local:/src/pytorch@v2.7.0')
    """
    path = parse_local_path(word)
    return word if path is None else f"{LOCAL}{expand_home(path).absolute()}"


def parse_local_path(word: str) -> Path | None:
    """Return the path that a word names; None if it is no path.

    Its ``@REVISION`` is still on it. Raises UsageError for ``local:`` alone, which would be the current folder.
    """
    if word == LOCAL:
        raise UsageError(f"{LOCAL} needs a path", next_step=f"write it as {LOCAL}PATH")
    if word.startswith(LOCAL):
        return Path(word.removeprefix(LOCAL))
    if "/" in word:
        return Path(word)
    if word in ("", "auto") or not split_revision(Path(word))[0].exists():  # Path("") is the current folder
        return None
    from decouple.upstream.providers.table import PROVIDERS  # and what they import: only for a word that may be one

    return None if word in PROVIDERS else Path(word)


@contextmanager
def name_option(option: str) -> Iterator[None]:
    """Name ``option`` in errors, where what reads a source says ``--source``.

    >>> with name_option("--on"):
    ...     raise DecoupleError("no source can be had", next_step="--source PATH reads what you have")
    Traceback (most recent call last):
    ...
    decouple.base.errors.DecoupleError: no source can be had (--on PATH reads what you have)
    """
    try:
        yield
    except DecoupleError as error:
        error.next_step = error.next_step and re.sub(r"(?<![\w-])--source\b", option, error.next_step)
        raise


def split_revision(path: Path) -> tuple[Path, str | None]:
    """Split ``REPOSITORY@REVISION`` into the path and the revision that it names.

    A revision may have slashes (``origin/main``, ``release/2.7``), and an ``@`` of its own.
    """
    text = str(path)
    if not path.exists():
        for at in (at for at in reversed(range(1, len(text))) if text[at] == "@"):
            if is_repository(Path(text[:at])):
                return Path(text[:at]), text[at + 1 :]
    return path, None
