"""Parses arguments, calls a flow or another package, prints what it returned.

A module that ``menu`` names has ``register(subparsers)``, which adds its verbs and sets ``run`` of each to a function
``(argparse.Namespace) -> int``. Only the module of the typed verb is loaded.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
from collections.abc import Sequence

from decouple import __version__
from decouple.base.errors import UsageError
from decouple.cli.last_resort import run_to_end
from decouple.cli.menu import EXTRAS, FORMER, GROUPS, VERBS, skip_verbose


class _Formatter(argparse.HelpFormatter):
    """Format help as wide as the terminal, without importing shutil.

    argparse imports it to ask for the width, and asks for each option that is added.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_measure_width())


class _Parser(argparse.ArgumentParser):
    """A parser whose verbs' parsers are of its kind."""

    def __init__(self, **options: object) -> None:  # `Any` would load typing, for every start
        super().__init__(**{"formatter_class": _Formatter, **options})  # type: ignore[arg-type]


class _TopParser(_Parser):
    """The one of ``decouple --help``: the verbs in groups, those of every day first."""

    def format_help(self) -> str:
        wide = max(map(len, VERBS)) + 4
        lines = [f"{self.format_usage()}\n{self.description}"]
        for title, names in GROUPS:
            lines.append(f"\n{title}:")
            for name in names:
                line = f"  {name:<{wide - 2}}"
                for word in VERBS[name][1].split():
                    if len(line) + len(word) + 1 > _measure_width():
                        lines.append(line.rstrip())
                        line = " " * wide
                    line += f"{word} "
                lines.append(line.rstrip())
        lines += ["", "`decouple COMMAND --help` lists the options of one."]
        lines += ["With -v a command prints what it runs (git, cmake, pip, …), to be repeated.", ""]
        return "\n".join(lines)


@functools.cache
def _measure_width() -> int:
    try:
        columns = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(1).columns
    except (OSError, ValueError):
        columns = 0
    return (columns or 80) - 2


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser as far as ``words`` need it.

    None: the whole of it, with every module loaded.
    """
    top = _TopParser(prog="decouple", description="PyTorch with its CUDA code as a standalone backend.")
    top.add_argument("--version", action="version", version=f"decouple {__version__}")
    top.add_argument("-v", "--verbose", **_SHOW)  # type: ignore[arg-type]
    subparsers = top.add_subparsers(
        prog="decouple", dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    verb = words[0] if words else ""
    if verb == "--version":
        return top
    if words is not None and verb not in VERBS:  # --help or a mistake: the names are enough
        for name, (_, text) in VERBS.items():
            subparsers.add_parser(name, help=text)
        return top
    for module in dict.fromkeys(module for name, (module, _) in VERBS.items() if words is None or name == verb):
        importlib.import_module(f"decouple.cli.{module}").register(subparsers)
    for verb_parser in set(subparsers.choices.values()):
        _add_verbose(verb_parser)
    for name, verb_parser in subparsers.choices.items():
        _describe(verb_parser, VERBS[name][1])
    return top


def _describe(parser: argparse.ArgumentParser, text: str) -> None:
    """Give a verb, those below it and ``release`` a help text where they have none.

    ``text`` is what the menu says of the verb.
    """
    parser.description = parser.description or f"{text[0].upper()}{text[1:]}."
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action._choices_actions:
                _describe(action.choices[below.dest], below.help or below.dest)
        elif action.dest == "release" and not action.option_strings:
            action.help = action.help or "for example 2.6"


_SHOW: dict[str, object] = {
    "action": "store_true",
    "dest": "show_commands",
    "default": argparse.SUPPRESS,
    "help": "print the commands that it runs",
}


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add ``-v`` to a verb and the verbs below it, but where it means something else.

    There it goes before the verb.
    """
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for choice in set(action.choices.values()):
            _add_verbose(choice)
    free = [name for name in ("-v", "--verbose") if name not in parser._option_string_actions]
    if not below and len(free) == 2:
        parser.add_argument(*free, **_SHOW)  # type: ignore[arg-type]


def parse_words(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words of a command line, lists of words in several runs, too.

    argparse takes a list of words in one run only. Those after an option (`new 2.6 -m TITLE NAME`) belong to the same
    list, which a command names as the default ``rest``.
    """
    typed = words
    words = skip_verbose(typed)
    if words and words[0] not in VERBS and not words[0].startswith("-"):
        raise _explain_unknown(words[0])
    if words[:1] == ["upstream"] and words[1:2] not in (["patch"], ["watch"], ["-h"], ["--help"]):
        meant = " ".join(["decouple upstream patch", *words[1:]])  # what earlier versions did without a word
        raise UsageError("upstream: `patch` or `watch` of it?", next_step=f"`{meant}`")
    known = build_parser(words)
    arguments, left = known.parse_known_args(words)
    if left and ("rest" not in arguments or any(word.startswith("-") for word in left)):
        known.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        getattr(arguments, arguments.rest).extend(left)
    if len(words) < len(typed):
        arguments.show_commands = True
    return arguments


def _explain_unknown(word: str) -> UsageError:
    """Return the error for a verb that does not exist.

    Most are a slip, a session of nox (``apply-2.6``), or part of another verb.
    """
    import difflib  # only for a mistake

    if word in FORMER:
        return UsageError(f"no command {word!r}", next_step=f"`{FORMER[word]}`")
    verb, _, release = word.rpartition("-")
    if verb in FORMER:
        return UsageError(f"no command {word!r}", next_step=f"`{FORMER[verb]} {release}`")
    near = [f"{verb} {release}"] if verb in VERBS else difflib.get_close_matches(word, VERBS, 3, 0.6)
    meant = f"did you mean {' or '.join(f'`decouple {name}`' for name in near)}? " if near else ""
    return UsageError(f"no command {word!r}", next_step=f"{meant}`decouple --help` lists all")


def _restart_in_utf8_mode() -> None:
    """Restart in Python's UTF-8 mode where a locale's file names are not in UTF-8.

    Patches name files in UTF-8. The standard streams keep the encoding of the locale.
    """
    if sys.getfilesystemencoding() == "utf-8" or sys.flags.utf8_mode or not sys.executable:
        return
    spoken = sys.stdout.encoding if sys.stdout else "ascii"
    command = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    os.execve(sys.executable, command, {"PYTHONIOENCODING": spoken, **os.environ})


def settle_release(arguments: argparse.Namespace) -> None:
    """Put 2.6 for 2.6.0; refuse a word that is no release.

    Raises UsageError. It is called before a verb does anything with it: each makes paths of the word. What ``manifest
    fill`` is given may be new, what ``verify`` is given may be a wheel, what ``rebase`` is given it checks itself.
    """
    name = "releases" if "releases" in arguments else "release"
    given = getattr(arguments, name, None)
    words = [given] if isinstance(given, str) else given or []
    if not words or arguments.command == "manifest" or words[0].endswith(".whl"):
        return
    from decouple.base.checkout import Checkout
    from decouple.base.paths import find_project

    checkout = Checkout(find_project())
    meant = [checkout.shorten_version(word) for word in words]
    for word in meant if name == "release" else []:
        checkout.check_release(word)
    setattr(arguments, name, meant[0] if isinstance(given, str) else meant)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 ok, 1 check failed, 2 usage, or one of `last_resort`."""
    if argv is None:
        _restart_in_utf8_mode()
    words = sys.argv[1:] if argv is None else list(argv)

    def run() -> int:
        try:
            return run_command()
        except ModuleNotFoundError as error:
            from decouple.base import extras

            if (extra := extras.find_extra(error.name)) is None:
                raise
            raise extras.explain_missing(str(error.name), extra) from None

    def run_command() -> int:
        arguments = parse_words(words)
        if getattr(arguments, "show_commands", False):
            from decouple.base.process import show_commands

            show_commands(lambda line: print(line, file=sys.stderr, flush=True))
        settle_release(arguments)
        if extra := EXTRAS.get(arguments.command):  # now, not when a wheel is packed after hours
            from decouple.base.extras import require_extra

            require_extra(extra)
        code: int = arguments.run(arguments)
        return code

    return run_to_end(run, words, build_parser)
