"""No command is told to use an option that it has not, by any error message there is."""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import decouple
from decouple.cli import advice, build_parser, main
from decouple.cli.menu import VERBS
from tests.support.server import FaultyServer, status
from tests.unit.index.test_commands import digest, project

__all__ = ["digest", "project"]  # fixtures

PACKAGE = Path(decouple.__file__).parent
OPTIONS = {verb: advice.list_options(build_parser(), [verb])[1] for verb in VERBS}
PARTS = [
    [verb, part]
    for verb in VERBS
    for action in next(advice._list_verbs(build_parser()))[verb]._actions
    if isinstance(action, argparse._SubParsersAction)
    for part in action.choices
]


def text(node: ast.expr) -> list[str]:
    """What an expression of strings may say, a value in it as X."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(text(one)[0] for one in node.values)]
    if isinstance(node, ast.BinOp):
        return [left + right for left in text(node.left) for right in text(node.right)]
    if isinstance(node, ast.IfExp):
        return [*text(node.body), *text(node.orelse)]
    return ["X"]


def messages() -> Iterator[tuple[str, str, str]]:
    """Place, kind ("what" or "next_step") and text of each error message in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                given = [("what", one) for one in node.args[:1]]
                given += [("next_step", one.value) for one in node.keywords if one.arg == "next_step"]
                for kind, value in given:
                    for one in text(value):
                        yield where, kind, one


MESSAGES = list(messages())


def test_there_are_messages() -> None:
    assert len(MESSAGES) > 800
    assert sum(bool(advice.find_bare_options(one)) for _, _, one in MESSAGES) > 100


def test_an_option_in_a_message_is_one_of_some_command() -> None:
    known = set().union(*OPTIONS.values())
    assert [row for row in MESSAGES if not advice.find_bare_options(row[2]) <= known] == []


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_command_says_to_do_next_it_can_do(verb: str) -> None:
    for where, kind, one in MESSAGES:
        if kind == "next_step":
            said = advice.select_fitting(one, [verb], build_parser)
            assert said and advice.find_bare_options(said) <= OPTIONS[verb] | {"--help"}, where


@pytest.mark.parametrize("typed", PARTS, ids=" ".join)
def test_what_a_part_of_a_command_says_to_do_next_that_part_can_do(typed: list[str]) -> None:
    """`stages symbols` was told of --source, which `stages sources` has."""
    parser = build_parser(typed)
    command, has = advice.list_options(parser, typed)
    assert command == " ".join(typed)
    for where, kind, one in MESSAGES:
        if kind == "next_step":
            said = advice.select_fitting(one, typed, lambda _: parser)
            assert said and advice.find_bare_options(said) <= has | {"--help"}, where


#: A command in a message that is to be typed as it stands: without backticks, or there with a word behind its name.
TYPED = re.compile(r"(?:^|[:,] )decouple ([^`,;]+)|`decouple ([a-z-]+(?: [a-z-]+)? [^a-z`-][^`]*)`")


def test_a_command_in_a_message_has_all_that_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    """Of Debian's package it was told to type `decouple manifest fill`, which asks for a release."""
    commands = {
        (where, one[1] or one[2])
        for where, kind, said in MESSAGES
        if kind == "next_step"
        for one in TYPED.finditer(said)
    }
    assert len(commands) > 50
    for where, command in commands:
        words = command.replace("RELEASE", "2.6").split()
        with contextlib.suppress(SystemExit):  # an X may be no value of its option
            build_parser(words).parse_args(words)
        assert "arguments are required" not in capsys.readouterr().err, (where, command)


def test_facts_that_are_to_be_mended_are_written() -> None:
    """Without --write `manifest fill` prints a diff, and the next run says the same again."""
    fills = {(where, said) for where, _, said in MESSAGES if re.search("(?<!`)decouple manifest fill", said)}
    assert len(fills) > 4
    assert {row for row in fills if " --write" not in row[1] and "reads it off PyPI" not in row[1]} == set()


def test_a_command_keeps_its_options_behind_a_path_with_odd_characters() -> None:
    """`index build` names `index sign`, whose --key it has not."""
    for path in ("'/a (copy)/x.whl'", "'/this or that; both/x.whl'", "/a/x.whl"):
        sign = f"sign again: decouple index sign {path} --key KEY"
        assert (
            advice.select_fitting(f"delete it, or {sign}", ["index", "build"], build_parser) == f"delete it, or {sign}"
        )
        assert advice.select_fitting(f"leave --stage out, or {sign}", ["index", "build"], build_parser) == sign
    spoken = "leave the user's --stage out, or the user's"
    assert advice.select_fitting(spoken, ["index", "build"], build_parser) == "the user's"


def test_an_option_of_another_part_is_left_out() -> None:
    full = "try again later, or another --source"
    assert advice.select_fitting(full, ["stages", "sources", "2.6"], build_parser) == full
    assert advice.select_fitting(full, ["stages", "symbols", "2.6"], build_parser) == "try again later"
    assert advice.select_fitting(full, ["-v", "stages", "symbols", "2.6"], build_parser) == "try again later"
    help_of_part = "`decouple upstream patch --help` says what this command takes"
    assert advice.select_fitting("leave --stage out", ["upstream", "patch"], build_parser) == help_of_part


@pytest.mark.parametrize(
    ("typed", "release"),
    [
        ("contract 2.6", "2.6"),
        ("verify --python 3.12 2.6", "2.6"),
        ("stages units 2.6 --jobs 2", "2.6"),
        ("push 2.6", "2.6"),
        ("push", "RELEASE"),
        ("push 2", "RELEASE"),
        ("stages symbols 2.6 2.7", "RELEASE"),
    ],
)
def test_the_release_that_was_typed_is_filled_in(typed: str, release: str) -> None:
    said = advice.select_fitting("run `decouple apply RELEASE` first", typed.split(), build_parser)
    assert said == f"run `decouple apply {release}` first"
    side = "name a dump, or official:RELEASE"
    assert advice.select_fitting(side, typed.split(), build_parser) == side


def test_what_fits_stays_as_it_is() -> None:
    full = "free 3.0 GiB, or build one stage at a time (--stage 1)"
    assert advice.select_fitting(full, ["build", "2.6"], build_parser) == full
    assert advice.select_fitting(full, ["parity", "2.6"], build_parser) == "free 3.0 GiB"
    named = "decouple build X --env portable --stage 1, or run it again"
    assert advice.select_fitting(named, ["wheels"], build_parser) == named
    assert "decouple wheels --help" in advice.select_fitting("leave --stage out", ["wheels"], build_parser)


def test_a_wheel_that_does_not_come_whole(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`wheels` was told of --source, which `apply` has."""
    from tests.fault.index.test_foreign_pages import VERSION, page, put
    from tests.unit.index.wheels import make_wheel

    with FaultyServer() as server:
        row = put(server, make_wheel(tmp_path, "torch", VERSION), "/simple/torch/")
        server.files["/simple/torch/index.json"] = page(row)
        server.fault(f"/simple/torch/{row['filename']}", status(200, b"PK\3\4 short"))
        words = ["wheels", "2.6", "--index", server.url("/simple/"), "--cuda", "cpu", "--trust-index"]
        assert main(words) == 1
    said = capsys.readouterr().err
    assert "cannot download" in said and "next: try again later" in said and "--source" not in said
