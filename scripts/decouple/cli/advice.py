"""What to do next, as far as the command that was typed can do it.

A package does not know which command called it: one downloader serves `apply`, which has ``--source``, and `wheels`,
which has not. So an alternative that needs an option of another command is left out where the line is printed, and the
release that was typed stands for the word RELEASE.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from decouple.cli.menu import VERBS, skip_verbose

#: A word that the shell needs quoted, such as a path with a parenthesis; no apostrophe of a sentence.
_QUOTED = r"(?<!\w)'[^']*'(?!\w)"
#: What stands between two alternatives, and before it, what is none although it may look so.
_ALTERNATIVE = re.compile(rf"(?:`[^`]*`|{_QUOTED})|(,? or (?=\S)|; )")
#: A command that is named in full; its options are its own.
_COMMAND = re.compile(rf"`[^`]*`|\b(?:decouple|nox -s|git|pip|pipx|apt-get|python3?) (?:{_QUOTED}|[^,;:)`])*")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_TO_FILL_IN = re.compile(r"(?<!:)\bRELEASE\b")
_RELEASE = re.compile(r"\d+\.\d+[\w.]*")


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
    words = skip_verbose(words)
    if not words or words[0] not in VERBS:
        return next_step
    if _TO_FILL_IN.search(next_step) and (release := _find_release(words, parser)):
        next_step = _TO_FILL_IN.sub(release, next_step)
    if not find_bare_options(next_step):
        return next_step
    typed, has = list_options(parser(words), words)
    alternatives = _split_alternatives(next_step)
    left = [alternative for alternative in alternatives if find_bare_options(alternative) <= has]
    if left == alternatives:
        return next_step
    return ", or ".join(left) or f"`decouple {typed} --help` says what this command takes"


def _split_alternatives(text: str) -> list[str]:
    """Split at what stands between two alternatives, never inside a command's words."""
    begin, found = 0, []
    for match in _ALTERNATIVE.finditer(text):
        if match[1]:
            found.append(text[begin : match.start()])
            begin = match.end()
    return [*found, text[begin:]]


def find_bare_options(text: str) -> set[str]:
    """Return options in ``text`` of the typed command, not of commands named there."""
    return set(_OPTION.findall(_COMMAND.sub("", text)))


def list_options(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[str, set[str]]:
    """Return the verb that was typed, with its part, and the long options of it.

    "stages symbols" of "stages symbols 2.6". Of a verb without its part they are the options of all parts.
    """
    named = next(_list_verbs(parser))[words[0]]
    for parts in _list_verbs(named):
        if part := next((word for word in words[1:] if word in parts), ""):
            return f"{words[0]} {part}", _list_options(parts[part])
    return words[0], _list_options(named)


def _find_release(words: Sequence[str], parser: Callable[[Sequence[str]], argparse.ArgumentParser]) -> str:
    """Return the release that was typed, "" where there is none, or more than one."""
    if not any(map(_RELEASE.fullmatch, words)):
        return ""
    typed = parser(words).parse_known_args(words)[0]
    named = getattr(typed, "release", None) or getattr(typed, "words", "")[:1]
    named = [named] if isinstance(named, str) else named
    return named[0] if len(named) == 1 and _RELEASE.fullmatch(named[0]) else ""


def _list_options(parser: argparse.ArgumentParser) -> set[str]:
    options = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    return options.union(*(_list_options(choice) for verbs in _list_verbs(parser) for choice in verbs.values()))


def _list_verbs(parser: argparse.ArgumentParser) -> Iterator[Mapping[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield action.choices
