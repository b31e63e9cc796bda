"""The menu says where each verb is declared, and a command loads no other module than its own."""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from decouple.cli import build_parser, main, parse_words
from decouple.cli.menu import FORMER, GROUPS, VERBS
from decouple.cli.request import make_request
from decouple.cli.shown import escape_streams
from decouple.flows.apply import ApplyRequest

ROOT = Path(__file__).parents[3]


def test_help_has_each_verb_once_those_of_every_day_first() -> None:
    listed = [name for _, names in GROUPS for name in names]
    assert sorted(listed) == sorted(VERBS)
    assert len(GROUPS[0][1]) == 10
    told = build_parser([]).format_help()
    places = [told.index(f"\n  {name} ") for name in listed]
    assert places == sorted(places)
    assert max(map(len, told.splitlines())) <= 80


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_its_own_options_and_not_the_other_verbs(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    said = capsys.readouterr().out
    assert re.search(r"^\s+-h, --help\s+\S", said, re.M) and "every day:" not in said


def walk_commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser, and those of the verbs below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from walk_commands(below)


def test_help_of_a_command_begins_with_what_it_does_and_says_what_release_means() -> None:
    """`decouple build --help` was a list of options, and told nothing of `release`."""
    commands = list(walk_commands(build_parser()))
    assert len(commands) > len(VERBS) + 20
    assert [one.prog for one in commands if not (one.description or "").endswith(".")] == []
    assert [one.prog for one in commands for a in one._actions if a.dest in ("release", "words") and not a.help] == []


def test_a_verb_that_there_is_not_suggests_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for word, meant in (("aply", "decouple apply"), ("census-2.6", "decouple census 2.6"), ("nonsense", "--help")):
        assert main([word]) == 2
        said = capsys.readouterr().err
        assert meant in said
        assert len(said.splitlines()) == 2, "not all sixty names"


def test_a_session_that_there_is_not_suggests_the_one_that_was_meant() -> None:
    command = [sys.executable, "-m", "nox", "-s", "cenus-2.6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "census-2.6" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["-v", "lint"], ["lint", "-v"], ["--verbose", "lint"], ["lint", "--verbose"]])
def test_commands_that_are_run_can_be_seen_and_repeated(words: list[str], tmp_path: Path) -> None:
    """In a process of its own: what hears of commands stays until the process ends."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    code = (
        "import sys\nfrom pathlib import Path\nfrom decouple import cli\nfrom decouple.base.git import try_git\n"
        "def run(arguments):\n    try_git('init', '-q', 'new one', cwd=Path(sys.argv[1]))\n    return 0\n"
        "parsed = cli.parse_words\n"
        "def instead(words):\n    arguments = parsed(words)\n    arguments.run = run\n    return arguments\n"
        f"cli.parse_words = instead\nraise SystemExit(cli.main({words!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("+ ")]
    (folder / "new one/.git/HEAD").unlink()
    subprocess.run(["sh", "-c", line.removeprefix("+ ")], check=True, cwd="/")
    assert (folder / "new one/.git/HEAD").is_file()


def test_every_verb_can_show_its_commands() -> None:
    for verb in VERBS:
        words = [verb, "-v"] if verb not in ("series", "check") else ["-v", verb]
        known = build_parser([verb])
        (action,) = known._subparsers._group_actions  # type: ignore[union-attr]
        leaves = [action.choices[verb]]  # type: ignore[index,call-overload]
        while leaves:
            one = leaves.pop()
            below = [a for a in one._actions if isinstance(a, argparse._SubParsersAction)]
            leaves += [leaf for a in below for leaf in a.choices.values()]
            assert below or "-v" in one._option_string_actions, words


def test_help_shows_an_address_with_a_password_as_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        with pytest.raises(SystemExit):
            parse_words([verb, "--help"])
        text = capsys.readouterr().out
        with escape_streams():
            print(text)
        assert "***" not in capsys.readouterr().out, verb


def test_a_slip_in_a_field_of_a_request_is_an_error() -> None:
    """It would ask for the default in silence."""
    with pytest.raises(TypeError, match="souce"):
        make_request(ApplyRequest, argparse.Namespace(), project=ROOT, release="2.6", souce="debian")


@pytest.mark.parametrize("module", dict.fromkeys(module for module, _ in VERBS.values()))
def test_a_module_declares_the_verbs_that_the_menu_gives_it(module: str) -> None:
    added = argparse.ArgumentParser().add_subparsers()
    importlib.import_module(f"decouple.cli.{module}").register(added)
    assert list(added.choices) == [name for name, (of, _) in VERBS.items() if of == module]


def loaded(words: Sequence[str]) -> set[str]:
    """The modules that a command loads."""
    code = f"""
import sys
from decouple.cli import main
try:
    main({list(words)})
finally:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return set(done.stderr.split())


BASE = {"decouple.base", "decouple.base.errors", "decouple.cli", "decouple.cli.last_resort", "decouple.cli.menu"}


@pytest.mark.parametrize("words", [["--version"], ["--help"], []])
def test_help_and_version_load_no_room(words: list[str]) -> None:
    assert {name for name in loaded(words) if name.startswith("decouple.")} == {*BASE, "decouple.cli.shown"}


def test_a_parser_is_made_without_shutil() -> None:
    """argparse's own formatter imports it when an option is added, to ask how wide the terminal is."""
    code = "import sys\nfor name in [n for n in sys.modules if n == 'shutil']: del sys.modules[name]\n"
    code += "from decouple.cli import build_parser\nbuild_parser(['series'])\nprint('shutil' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_series_loads_no_engine_and_no_git() -> None:
    assert not {"decouple.stack.engine", "decouple.base.git", "decouple.patch.parse"} & loaded(["series", "--help"])
    assert "decouple.cli.standing" in loaded(["series", "--help"])


def test_lint_loads_nothing_that_downloads_or_builds() -> None:
    packages = {name.split(".")[1] for name in loaded(["lint", "--codes"]) if name.startswith("decouple.")}
    assert not packages & {"build", "verify", "index", "device", "census"}


HEAVY = {
    *("cyclonedx", "dataclasses", "difflib", "email", "lz4", "msgspec", "packaging", "redis", "requests"),
    *("rich", "subprocess", "tree_sitter", "tuf", "zstandard"),
}
"""What takes longer to import than a verb of the stack to do; a dataclass alone takes half a millisecond to define."""


@pytest.mark.parametrize(
    ("words", "may"),
    [
        (["series", "--help"], set()),
        (["series", "2.6"], {"msgspec", "subprocess"}),
        (["push", "--help"], {"msgspec", "subprocess"}),
        (["status", "--help"], {"msgspec", "subprocess"}),
        (["check", "--help"], {"msgspec", "subprocess"}),
        (["lint", "2.6"], {"difflib", "email", "msgspec", "subprocess"}),
    ],
)
def test_a_verb_loads_only_the_heavy_libraries_that_it_needs(words: list[str], may: set[str]) -> None:
    assert HEAVY & loaded(words) - may == set()


@pytest.mark.parametrize("verb", ["build", "verify"])
def test_a_build_without_a_shared_cache_loads_no_client_of_one(verb: str) -> None:
    found = loaded([verb, "--help"])
    assert "decouple.build.remote_cache" in found and "redis" not in found


def test_the_table_of_providers_loads_no_reader_of_metadata() -> None:
    """Every command that opens a source loads the table."""
    code = "import sys, decouple.upstream.providers.table\n"
    code += "print({'email', 'packaging.requirements', 'requests'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("before", [["-vv"], ["-v", "-v"], ["--verbose", "-v"]])
def test_an_option_before_the_verb_may_be_said_twice(before: list[str]) -> None:
    """The verb was then looked for in a parser without any."""
    assert parse_words([*before, "status", "2.6"]).show_commands


def test_words_around_an_option_belong_together(capsys: pytest.CaptureFixture[str]) -> None:
    """argparse itself takes them in one run only, and called NAME of `new 2.6 -m TITLE NAME` unrecognized."""
    assert parse_words(["new", "2.6", "-m", "A title", "NAME"]).words == ["2.6", "NAME"]
    assert parse_words(["test-cuda", "2.6", "-k", "graph", "cuda", "torch"]).suite == ["cuda", "torch"]
    assert parse_words(["test-cuda", "2.6", "cuda", "-k", "graph", "torch"]).suite == ["cuda", "torch"]
    for mistake in (["new", "2.6", "NAME", "--titel", "A title"], ["record", "2.6", "2.7"]):
        with pytest.raises(SystemExit):
            parse_words(mistake)
        assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "now"), FORMER.items())
def test_a_verb_that_became_part_of_another_names_it(word: str, now: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main([word]), main([f"{word}-2.6"])) == (2, 2)
    said = capsys.readouterr().err
    assert f"next: `{now}`" in said and f"next: `{now} 2.6`" in said
    program, *words = now.split()
    if program == "decouple":
        with pytest.raises(SystemExit) as end:
            parse_words([*words, "--help"])
        assert end.value.code == 0


@pytest.mark.parametrize("words", [[], ["hooks-in-init"], ["hooks-in-init", "--release", "2.6"]])
def test_upstream_alone_names_what_it_was(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upstream", *words]) == 2
    assert f"next: `{' '.join(['decouple upstream patch', *words])}`" in capsys.readouterr().err
