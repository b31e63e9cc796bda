"""What to do next, as far as the command that was typed can do it.

A room does not know which command called it: one downloader serves `apply`, which has ``--source``, and `wheels`, which
has not. So an alternative that needs an option of another command is left out where the line is printed.
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


def fitting(next_step: str, words: Sequence[str], parser: Callable[[Sequence[str]], argparse.ArgumentParser]) -> str:
    """The alternatives of ``next_step`` that the command line ``words`` can take, by the ``parser`` of such words.

    >>> from decouple.cli import parser
    >>> fitting("try again later, or another --source", ["wheels"], parser)
    'try again later'
    >>> fitting("try again later, or another --source", ["apply"], parser)
    'try again later, or another --source'
    """
    if not bare_options(next_step):
        return next_step
    if not words or words[0] not in VERBS:
        return next_step
    has = options_of(parser(words), words[0])
    left = [one for one in _ALTERNATIVE.split(next_step) if bare_options(one) <= has]
    if len(left) == len(_ALTERNATIVE.split(next_step)):
        return next_step
    return ", or ".join(left) or f"`decouple {words[0]} --help` says what this command takes"


def bare_options(text: str) -> set[str]:
    """The options in ``text`` that belong to no command which is named with them: those of the one that was typed."""
    return set(_OPTION.findall(_COMMAND.sub("", text)))


def options_of(parser: argparse.ArgumentParser, verb: str) -> set[str]:
    """The long options of ``verb``, those of its own verbs among them."""
    return _options(next(_verbs(parser))[verb])


def _options(parser: argparse.ArgumentParser) -> set[str]:
    found = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    return found.union(*(_options(one) for verbs in _verbs(parser) for one in verbs.values()))


def _verbs(parser: argparse.ArgumentParser) -> Iterator[Mapping[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield action.choices
