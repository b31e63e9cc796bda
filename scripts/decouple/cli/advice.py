"""What to do next, as far as the command that was typed can do it.

A package does not know which command called it: one downloader serves `apply`, which has ``--source``, and `wheels`,
which has not. So an alternative that needs an option of another command is left out where the line is printed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from decouple.cli.menu import VERBS

_ALTERNATIVE = re.compile(r",? or (?=\S)|; ")
#: A command that is named in full; its options are its own.
_COMMAND = re.compile(r"`[^`]*`|\b(?:decouple|nox -s|git|pip|pipx|apt-get|python3?) [^,;:)`]*")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def select_fitting(
    next_step: str, words: Sequence[str], parser: Callable[[Sequence[str]], argparse.ArgumentParser]
) -> str:
    """Return the alternatives of ``next_step`` that the command line can take.

    ``words`` are that line's, and ``parser`` parses such words.

    >>> from decouple.cli import build_parser
    >>> select_fitting("try again later, or another --source", ["wheels"], build_parser)
    'try again later'
    >>> select_fitting("try again later, or another --source", ["apply"], build_parser)
    'try again later, or another --source'
    """
    if not find_bare_options(next_step):
        return next_step
    if not words or words[0] not in VERBS:
        return next_step
    has = list_options(parser(words), words[0])
    left = [alternative for alternative in _ALTERNATIVE.split(next_step) if find_bare_options(alternative) <= has]
    if len(left) == len(_ALTERNATIVE.split(next_step)):
        return next_step
    return ", or ".join(left) or f"`decouple {words[0]} --help` says what this command takes"


def find_bare_options(text: str) -> set[str]:
    """Return options in ``text`` of the typed command, not of commands named there."""
    return set(_OPTION.findall(_COMMAND.sub("", text)))


def list_options(parser: argparse.ArgumentParser, verb: str) -> set[str]:
    """Return the long options of ``verb``, those of its own verbs among them."""
    return _list_options(next(_list_verbs(parser))[verb])


def _list_options(parser: argparse.ArgumentParser) -> set[str]:
    options = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    return options.union(*(_list_options(choice) for verbs in _list_verbs(parser) for choice in verbs.values()))


def _list_verbs(parser: argparse.ArgumentParser) -> Iterator[Mapping[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield action.choices
