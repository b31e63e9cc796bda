"""What a message, a help text or a page tells the reader to type can be typed: verbs and their options exist."""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.cli import build_parser
from decouple.cli.menu import VERBS
from decouple.flows import test_cuda
from decouple.release import proofs, status
from tests.unit.cli.test_documents import PAGES, page_id, whole_parser

ROOT = Path(__file__).parents[3]
REST = r"((?: (?!decouple |nox |# )[^\s`,;:()|&]+(?:[,:][^\s`,;:()|&]+)*)*)"
"""The words of a command, up to the next command, a comment or the line's end."""
SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)[^`]+\1(?!`)")
"""Code in a text, which may go over lines."""
TYPED = re.compile(rf"(?<![\w/.-])decouple ([a-z][a-z0-9-]*){REST}")
BY_NOX = re.compile(rf"\bnox -s ([a-z][\w.-]*) --{REST}")


@functools.cache
def list_sessions() -> dict[str, list[str]]:
    """What a session of nox is called before its release -> the words of ``decouple`` that get what follows ``--``."""
    nox = runpy.run_path(str(ROOT / "noxfile.py"))
    return {name: nox["WORDS"].get(name, [name]) for name in (*nox["PER_RELEASE"], *nox["GENERAL"])}


def find_words(session: str) -> list[str]:
    """The words that ``session`` runs, as "test-cuda" of "test-cuda-slice-2.6"; none where it runs another command."""
    named = [name for name in list_sessions() if f"{session}-".startswith(f"{name}-")]
    return list_sessions()[max(named, key=len)] if named else []


def find_lost(words: list[str]) -> list[str]:
    """The parts and options in a command's words that it does not have, up to those that another program gets."""
    parser, lost = whole_parser(), list[str]()
    for given in itertools.takewhile(lambda word: word != "--", words):
        word = given.strip("[]'\"").partition("=")[0].rstrip(".")
        below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if word.startswith("-"):
            lost += [word] if word not in parser._option_string_actions else []
        elif below and word.islower():
            if word not in below[0].choices:
                return [word]
            parser = below[0].choices[word]
    return lost


def wrong(text: str) -> Iterator[str]:
    """What in ``text`` is typed after ``decouple``, or after ``nox -s SESSION --``, and does not exist."""
    text = SPAN.sub(lambda span: " ".join(span[0].split()), text.replace("\\\n", " "))
    text = re.sub(" +", " ", text)
    for said in TYPED.finditer(text):
        if said[1] in VERBS:
            yield from (f"decouple {said[1]} {name}" for name in find_lost([said[1], *said[2].split()]))
        elif " --" in said[2]:
            yield said[0]
    for said in BY_NOX.finditer(text):
        if words := find_words(said[1]):
            yield from (f"nox -s {said[1]} -- {name}" for name in find_lost([*words, *said[2].split()]))


def texts(path: Path) -> Iterator[str]:
    """The strings of a module, those in braces as X."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


@pytest.mark.parametrize(
    "package", sorted(path.name for path in (ROOT / "scripts/decouple").iterdir() if path.is_dir())
)
def test_what_the_code_advises_can_be_typed(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {one}"
        for path in sorted((ROOT / "scripts/decouple" / package).rglob("*.py"))
        for text in texts(path)
        for one in wrong(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_what_a_page_advises_can_be_typed(page: Path) -> None:
    assert not list(wrong(page.read_text(encoding="utf-8")))


def test_the_commands_of_the_table_of_proofs_can_be_typed() -> None:
    """`decouple verify 2.6 --env portable` asks for a Python, and the table named none."""
    known = {path.stem: status.read_status(path) for path in sorted((ROOT / "ci/status").glob("[0-9]*.json"))}
    rows = [(release, row) for release in known for row in proofs.list_proof_rows(known[release])]
    for release, row in rows:
        _, *words = row.command.format(release=release).split()
        typed = build_parser(words).parse_args(words)
        if words[0] == "verify" and (typed.core == "official" or typed.env == "portable"):
            assert typed.python, row.command
        assert row.name.partition(":")[0] != "patches' own checks" or typed.record, row.command
        if row.name.startswith("CUDA suites: "):  # `test-cuda 2.6 --record` of all, which makes one of them at most
            torch, device = row.name.removeprefix("CUDA suites: ").split(";")[0].rstrip(")").split(" (")
            assert (
                typed.label == ("built" if torch == proofs.OURS else torch) and typed.device == device and typed.record
            )
            assert typed.torch in test_cuda.IN_ROOT or typed.torch == "PYTHON"
    suites = [(release, row.command) for release, row in rows if row.name.startswith("CUDA suites: ")]
    assert len(set(suites)) == len(suites) > 20
    (one,) = [row for release, row in rows if (release, row.name) == ("2.6", "portable wheels: py3.13-cu12.4")]
    assert one.command.endswith(" --env portable --python PYTHON3.13 --cuda 12.4 --kernels official")


def test_a_part_or_option_that_a_command_lacks_is_found_however_it_is_written() -> None:
    text = (
        "`decouple lint --a`\n$ decouple try wheels 2.6 \\\n    --b=3\ndecouple repack x\nnox -s build-2.6 -- [--c 4]\n"
    )
    lost = ["decouple lint --a", "decouple try --b", "decouple repack x", "nox -s build-2.6 -- --c"]
    assert list(wrong(text)) == lost
    assert list(wrong("then `decouple apply 2.6 --replace` does it")) == ["decouple apply --replace"]
    assert not list(wrong("then `decouple apply 2.6 --offline` does it"))


def test_a_wrong_option_behind_a_session_of_nox_is_found() -> None:
    """README.md names most commands so: `nox -s build-2.6 -- --stage 2`."""
    assert list(wrong("`nox -s build-2.6 -- --stag 2 --kernel official`")) == [
        "nox -s build-2.6 -- --stag",
        "nox -s build-2.6 -- --kernel",
    ]
    for session in ("test-patches-2.6", "upstream-watch", "test-cuda-slice-2.6", "rebase", "smoke-RELEASE"):
        assert list(wrong(f"`nox -s {session} -- --no-such`")) == [f"nox -s {session} -- --no-such"]
    assert not list(wrong("`nox -s build-2.6 -- --stage 2 --kernels official`, `nox -s tests -- --no-such-of-pytest`"))
    assert not list(wrong("nox -s contract-2.6 -- --upstream\nnox -s tests -- --lf\n"))
