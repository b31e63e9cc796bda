"""What the words behind a stack verb mean: a release, then what the verb acts on.

The release may be left out below ``build/<release>`` and where there is just one series.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from decouple.base.checkout import Checkout, SeriesPlaces
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_project

TYPE_CHECKING = False  # as typing has it
if TYPE_CHECKING:
    from decouple.stack.engine import Stack

_OF_A_RELEASE = ["apply", "status", "refresh", "branch", "series"]
"""The verbs whose first word can be nothing but a release."""
_RELEASE = re.compile(r"\d+\.\d+(\.\d+)*")
"""What is always meant as a release: ``push 2`` is two patches, ``push 2.9`` is not a patch of that name."""


def parse_release(arguments: argparse.Namespace) -> tuple[SeriesPlaces, list[str]]:
    """Return the release's places, and the words that are left.

    Raises UsageError if the release is not clear.
    """
    project = find_project()
    have = Checkout(project).list_releases()
    words: list[str] = list(arguments.words)
    words[:1] = map(Checkout(project).shorten_version, words[:1])
    if words and (words[0] in have or _RELEASE.fullmatch(words[0])):
        return Checkout(project).find_series(words[0]), words[1:]
    here = Path.cwd().resolve()
    for release in have:
        if here.is_relative_to(Checkout(project).locate_build(release).resolve()):
            return Checkout(project).find_series(release), words
    if arguments.command in _OF_A_RELEASE and words:
        Checkout(project).find_series(words[0])  # says which releases there are
    if len(have) == 1:
        return Checkout(project).find_series(have[0]), words
    raise UsageError("which release?", next_step=f"name one of {', '.join(have) or 'none'} first")


def parse_release_alone(arguments: argparse.Namespace) -> tuple[Path, str]:
    """Return the checkout and the release of a verb that takes no other word.

    Raises UsageError.
    """
    places, words = parse_release(arguments)
    if words or places.project is None:
        verb = arguments.command
        raise UsageError(f"{verb} takes a release, not {' '.join(words)}", next_step=f"see `decouple {verb} --help`")
    return places.project, places.release


def parse_words(arguments: argparse.Namespace, most: int = 0, least: int = 0) -> tuple[SeriesPlaces, list[str]]:
    """Return the release's places, and ``least`` to ``most`` further words.

    Raises UsageError.
    """
    places, words = parse_release(arguments)
    if not least <= len(words) <= most:
        few = f"{arguments.command} takes " + (f"{least} to {most}" if least != most else f"{most}")
        raise UsageError(f"{few} arguments beside the release, not {len(words)}", next_step="see --help")
    return places, words


@contextmanager
def open_stack(arguments: argparse.Namespace, most: int = 0, least: int = 0) -> Iterator[tuple[Stack, list[str]]]:
    """Open the stack of the release, and ``least`` to ``most`` further words.

    Raises UsageError.
    """
    places, words = parse_words(arguments, most, least)
    with open_stack_at(places) as stack:
        yield stack, words


@contextmanager
def open_stack_at(places: SeriesPlaces) -> Iterator[Stack]:
    """Open a stack and say what was done about a command that had been cut off."""
    from decouple.stack.engine import Stack  # here: `series` needs none

    with Stack.open(places) as stack:
        for line in stack.recovered:
            print(f"decouple: {line}", file=sys.stderr)
        yield stack


def find_patch(stack: Stack, words: list[str]) -> str:
    """Return the patch that is named, or the top one.

    Raises DecoupleError.
    """
    if words:
        return stack.find_name(words[0])
    if stack.top is None:
        raise DecoupleError("no patch is applied", next_step="name one, or push first")
    return stack.top


def find_paths(stack: Stack, words: list[str]) -> list[str]:
    """Return tree paths of files named relative to the current folder or to the tree.

    A link is a file of the tree itself, wherever it leads.
    """
    found = []
    root = stack.places.tree.resolve()
    for word in words:
        here = Path.cwd() / word
        ours = (_resolve_folder(path) for path in (here, stack.places.tree / word))
        inside = next((path for path in ours if path.is_relative_to(root)), here)
        try:
            found.append(str(inside.relative_to(root)))
        except ValueError:
            raise UsageError(f"{word} is outside {stack.places.tree}", next_step="name a file of the tree") from None
    return found


def _resolve_folder(path: Path) -> Path:
    """Return ``path`` with the links above it resolved, and it as it is."""
    return path.resolve() if path.name in ("", "..") else path.parent.resolve() / path.name
