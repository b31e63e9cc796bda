"""Standard streams as cron, systemd and other locales leave them: closed, or without a character for what is said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.cli.menu import VERBS
from decouple.cli.shown import escape_streams
from tests.support.series import World, usual_world

CLOSED = ["1>&-", "2>&-", "0<&- 1>&- 2>&-"]
PLAIN = {"PYTHONIOENCODING": "latin-1"}
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A series with a patch whose path, title and author no Latin-1 has."""
    made = usual_world(tmp_path)
    text = (
        "From: Łukasz → <l@example.org>\nDate: Mon, 3 Feb 2025 10:00:00 +0100\nSubject: naprawić → ścieżkę\n\n"
        "Decouple-Id: path\nForwarded: no\n---\ndiff --git a/torch/ścieżka→.py b/torch/ścieżka→.py\n"
        "new file mode 100644\n"
        "--- /dev/null\n+++ b/torch/ścieżka→.py\n@@ -0,0 +1 @@\n+x = '→'  \n"
    )
    made.patch_text("2.6/0004-path.patch", text)
    return made


def decouple(
    world: World, words: list[str], redirect: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """``decouple WORDS`` as a shell starts it."""
    command = ["bash", "-c", f'exec "$@" {redirect}', "bash", sys.executable, "-m", "decouple", *words]
    said = {"DECOUPLE_PROJECT": str(world.project), "DECOUPLE_CACHE": str(world.project / "cache"), **environment}
    return subprocess.run(command, env={**os.environ, **said}, capture_output=True, cwd=world.project)


@pytest.mark.parametrize("redirect", CLOSED)
def test_a_closed_stream_takes_what_is_written_to_it(world: World, redirect: str) -> None:
    usual = {}
    for words in (
        ["lint", "2.6"],
        ["status", "2.6"],
        ["push", "2.6", "-a"],
        ["header", "2.6"],
        ["series", "2.6", "--top"],
    ):
        done = decouple(world, words, redirect)
        usual[words[0]] = done.returncode
        assert b"fault of decouple" not in done.stderr and done.returncode in (0, 1), (words, done.stderr)
    assert usual["series"] == usual["push"] == usual["header"] == 0
    assert not (world.project / "cache" / "faults").exists()


def test_no_verb_ends_in_a_fault_without_streams(tmp_path: Path) -> None:
    """Called without arguments, in a checkout with nothing in it, each says what it wants, or does nothing.

    One process whose standard input and output are closed forks for each of them.
    """
    for name in ("series", "patches", "third_device"):
        (tmp_path / name).mkdir()
    code = """if True:
        import os, sys
        from decouple.cli import build_parser, main
        build_parser()  # loads the modules of all verbs, once
        for verb in sys.argv[1:]:
            child = os.fork()
            if not child:
                try:
                    code = main([verb])
                except SystemExit as ended:
                    code = ended.code
                os._exit(code)
            print(verb, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=sys.stderr, flush=True)
    """
    said = {"DECOUPLE_PROJECT": str(tmp_path), "DECOUPLE_CACHE": str(tmp_path / "cache")}
    command = ["bash", "-c", 'exec "$@" 0<&- 1>&-', "bash", sys.executable, "-c", code, *VERBS]
    done = subprocess.run(command, env={**os.environ, **said}, capture_output=True, cwd=tmp_path, text=True)
    codes = dict(re.findall(r"^([a-z0-9-]+) (-?\d+)$", done.stderr, re.MULTILINE))
    assert codes.keys() == VERBS.keys()
    assert {verb: code for verb, code in codes.items() if code not in ("0", "1", "2", "75")} == {}, done.stderr
    assert not (tmp_path / "cache" / "faults").exists()


def test_what_a_program_of_ours_prints_lands_in_no_file_of_ours(world: World) -> None:
    """With standard output closed the next file that is opened has its number."""
    code = (
        "import subprocess, sys; from decouple.cli.last_resort import run_to_end\n"
        "def run():\n  with open('kept', 'w') as out:\n    subprocess.run(['echo', 'strange']); out.write('ours')\n"
        "  return 0\n"
        "sys.exit(run_to_end(run, []))"
    )
    done = subprocess.run(["bash", "-c", 'exec "$@" 1>&-', "bash", sys.executable, "-c", code], cwd=world.project)
    assert (done.returncode, (world.project / "kept").read_text()) == (0, "ours")


def test_nothing_is_read_from_a_closed_input(world: World) -> None:
    decouple(world, ["push", "2.6", "-a"])
    for words in (["fold", "2.6"], ["header", "2.6", "-r"], ["import", "2.6", "-"]):
        done = decouple(world, words, "0<&-")
        assert done.returncode in (0, 1, 2) and b"fault of decouple" not in done.stderr, done.stderr


def test_a_header_goes_out_and_in_as_its_bytes_are(world: World) -> None:
    """In another locale than UTF-8 it came back in other characters, or as a fault of decouple."""
    path = world.project / "patches/2.6/0004-path.patch"
    before = path.read_bytes()
    for environment in (PLAIN, C_LOCALE):
        text = decouple(world, ["header", "2.6", "path"], **environment).stdout
        assert before.startswith(text) and "naprawić → ścieżkę".encode() in text
        (world.project / "text").write_bytes(text.replace(b"Forwarded: no", b"Forwarded: no, caf\xe9"))
        assert decouple(world, ["header", "2.6", "path", "-r"], "< text", **environment).returncode == 0
        assert path.read_bytes() == before.replace(b"Forwarded: no", b"Forwarded: no, caf\xe9")
        path.write_bytes(before)


@pytest.mark.parametrize("environment", [PLAIN, C_LOCALE], ids=["latin-1", "C"])
def test_what_an_encoding_lacks_is_escaped(world: World, environment: dict[str, str]) -> None:
    for words in (["lint", "2.6"], ["series", "2.6"], ["push", "2.6", "-a"], ["status", "2.6"], ["header", "2.6"],
                  ["series", "2.6", "--top"], ["show", "2.6"],
                  ["check", "2.6", "--source", f"local:{world.source}"]):  # fmt: skip
        done = decouple(world, words, **environment)
        assert done.returncode in (0, 1) and b"fault of decouple" not in done.stderr, (words, done.stderr)
    said = decouple(world, ["lint", "2.6"], **environment).stdout
    assert rb"\u2192" in said or "→".encode() in said  # the C locale of Python 3.13 on Debian 13 is C.UTF-8
    shown = decouple(world, ["show", "2.6"], **environment).stdout
    assert shown == (world.project / "patches/2.6/0004-path.patch").read_bytes()


@pytest.mark.parametrize("environment", [PLAIN, C_LOCALE], ids=["latin-1", "C"])
def test_files_for_a_person_are_utf_8_in_every_locale(world: World, environment: dict[str, str]) -> None:
    done = decouple(world, ["push", "2.6", "-a"], **environment)
    assert done.returncode == 0, done.stderr
    (world.source / "torch/ścieżka→.py").write_text("x = '→→'\n", encoding="utf-8")
    assert decouple(world, ["refresh", "2.6"], **environment).returncode == 0
    assert "→→" in (world.project / "patches/2.6/0004-path.patch").read_text(encoding="utf-8")
    assert decouple(world, ["export", "2.6", "out"], **environment).returncode == 0
    state = json.loads((world.source / ".git/decouple/state.json").read_text(encoding="utf-8"))
    assert state["applied"][-1]["name"] == "2.6/0004-path.patch"


def test_a_stream_is_left_as_it_was() -> None:
    before = sys.stdout, sys.stdout.errors
    with escape_streams():
        assert sys.stdout.errors == "backslashreplace"
    assert (sys.stdout, sys.stdout.errors) == before
