"""The menu says where each verb is declared, and a command loads no other module than its own."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Sequence

import pytest

from decouple.cli import parsed
from decouple.cli.menu import VERBS


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
    code += "from decouple.cli import parser\nparser(['top'])\nprint('shutil' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_top_loads_no_engine_and_no_git() -> None:
    assert not {"decouple.stack.engine", "decouple.base.git", "decouple.patch.parse"} & loaded(["top", "--help"])
    assert "decouple.cli.standing" in loaded(["top", "--help"])


def test_lint_loads_nothing_that_downloads_or_builds() -> None:
    rooms = {name.split(".")[1] for name in loaded(["lint", "--codes"]) if name.startswith("decouple.")}
    assert not rooms & {"build", "verify", "index", "device", "census"}


HEAVY = {
    *("cyclonedx", "dataclasses", "difflib", "email", "git", "lz4", "msgspec", "packaging", "redis", "requests"),
    *("rich", "subprocess", "tree_sitter", "tuf", "zstandard"),
}
"""What takes longer to import than a verb of the stack to do; a dataclass alone takes half a millisecond to define."""


@pytest.mark.parametrize(
    ("words", "may"),
    [
        (["top", "--help"], set()),
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


def test_words_around_an_option_belong_together(capsys: pytest.CaptureFixture[str]) -> None:
    """argparse itself takes them in one run only, and called NAME of `new 2.6 -m TITLE NAME` unrecognized."""
    assert parsed(["new", "2.6", "-m", "A title", "NAME"]).words == ["2.6", "NAME"]
    assert parsed(["test-cuda", "2.6", "-k", "graph", "cuda", "torch"]).suite == ["cuda", "torch"]
    assert parsed(["test-cuda", "2.6", "cuda", "-k", "graph", "torch"]).suite == ["cuda", "torch"]
    for mistake in (["new", "2.6", "NAME", "--titel", "A title"], ["record", "2.6", "2.7"]):
        with pytest.raises(SystemExit):
            parsed(mistake)
        assert "unrecognized arguments" in capsys.readouterr().err
