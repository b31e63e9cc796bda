"""A command that fails leaves the checkout as it was: ``git status`` says the same before and after, for every verb."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.cli import build_parser
from decouple.cli.menu import VERBS
from tests.support import kills
from tests.support.series import git

NONE = "/nowhere/at-all"
OUT = "new-folder"
UNKNOWN = ["9.9"]
OF_A_TREE = [UNKNOWN, ["2.6", "no-such-patch"], ["2.6", "--nonsense"]]

#: verb -> arguments that make it fail: a release or name that is none, a missing path, a bad source, a wrong option
FAILING: dict[str, list[list[str]]] = {
    "fetch": [UNKNOWN, ["2.6", "--source", NONE], ["2.6", "--offline"], ["2.6", "--source", "nonsense"]],
    "apply": [
        UNKNOWN, ["2.6", "--source", NONE], ["2.6", "--offline"], ["acme-1", "--source", NONE],
        ["acme-1", "--source", f"{NONE}@main"], ["acme-1", "--source", ".@no-such-commit"], ["../x", "--source", NONE],
        ["acme-1", "--source", "nonsense"], ["2.7", "--source", "wheel", "--offline"],
    ],
    **dict.fromkeys(["status", "push", "pop", "series", "add", "refresh"], OF_A_TREE),
    **dict.fromkeys(["show", "diff", "header"], OF_A_TREE),
    "new": [["9.9", "x"], ["2.6", "x", "-m", "a title"], ["2.6", "../../x"]],
    "fold": [["2.6", NONE], ["9.9", NONE]],
    "rename": [["2.6", "x"], ["9.9", "x"]],
    "delete": [["2.6", "-r"], ["9.9"]],
    "import": [["2.6", NONE], ["2.6", "README.md"], ["9.9", NONE]],
    "export": [["2.6", OUT], ["9.9", OUT]],
    "branch": [
        ["2.6", "--repo", NONE], ["2.6", "--repo", ".", "--base", "no-such-commit"], UNKNOWN, ["2.6", "--drop"],
        ["2.6", "--back", "--repo", NONE], ["2.6", "--back", "--repo", ".", "--base", "no-such-commit"],
        ["2.6", "--back", "--force"],
    ],
    "lint": [UNKNOWN, ["--format", "nonsense"]],
    "check": [
        UNKNOWN, ["2.6", "--source", NONE], ["2.6", "--source", "nonsense"], ["2.6", "--offline"],
        ["2.6", "--depends", "--source", NONE],
    ],
    "relocate": [
        UNKNOWN, ["2.6", "--source", NONE], ["2.6", "--write", "--source", NONE], ["2.6", "--write", "--offline"],
    ],
    "census": [UNKNOWN, ["2.6", "--before", NONE], ["2.6", "--before", NONE, "--html", f"{OUT}.html"]],
    "forecast": [UNKNOWN, ["2.6", "--on", f"2.6={NONE}", "--html", f"{OUT}.html", "--strict"]],
    "rebase": [
        ["9.9", "9.10"], ["2.6", "9.9.0"], ["2.6", "2.7.0", "--source", NONE], ["2.6", "2.7.0", "--source", "nonsense"],
        ["--continue"], ["--abort"], ["2.6", "acme-1", "--source", NONE],
    ],
    "bisect": [["2.6", "--", "false"], UNKNOWN],
    "manifest": [["fill", "9.9", "--tree", NONE, "--write"], ["nonsense"]],
    "record": [UNKNOWN, ["2.6", "--census", NONE], ["2.6", "--census", "README.md"], ["2.6", "--source", NONE]],
    "neutral": [[NONE], ["README.md"]],
    "upstream": [
        ["patch", "no-such-patch"], ["patch", "plan", "--release", "9.9"], ["patch", "no-such-patch", "--out", OUT],
        ["watch", "--source", NONE], ["watch", "--source", "README.md"], ["nonsense"],
    ],
    "build": [UNKNOWN, ["2.6", "--stage", "7"], ["2.6", "--arch", "nonsense", "--estimate"], ["2.6", "--jobs", "0"]],
    "smoke": [UNKNOWN, ["2.6", "--nonsense"]],
    "shell": [UNKNOWN, ["2.6", "--stage", "7"]],
    "clean": [UNKNOWN, ["2.6", "--stage", "7"], ["2.6", "--nonsense"]],
    "repack": [
        ["split", NONE, "--out", OUT], ["split", "README.md", "--out", OUT],
        ["thin", NONE, "--arch", "9.0", "--out", OUT], ["thin", "README.md", "--arch", "9.0", "--out", OUT],
        ["pair", NONE, NONE, "--out", OUT], ["pair", "README.md", "README.md", "--out", OUT],
        ["variants", NONE, "--out", OUT], ["variants", "README.md", "--out", OUT],
        ["core-half", "9.9", OUT], ["core-half", "2.6", OUT, "--python", NONE], ["nonsense"],
    ],
    "verify": [
        UNKNOWN, [f"{NONE}.whl"], ["2.6"], [f"{NONE}.whl", "--explain"], ["README.md", "--explain"], ["2.6", "--json"],
    ],
    "parity": [UNKNOWN, ["2.6", "--against", NONE, "--json", f"{OUT}.json"]],
    "try": [
        ["wheels", "9.9", "bookworm"], ["wheels", "2.6", "nonsense"], ["wheels", "2.6", "bookworm", "--wheel", NONE],
        ["extensions", "9.9"], ["extensions", "2.6", "nonsense"], ["extensions", "2.6", "--python", NONE],
        ["patches", "9.9"], ["patches", "2.6", "--torch", NONE, "--record"], ["nonsense"],
    ],
    "status-table": [["nonsense"]],
    "kernels": [["dump", NONE, "-o", f"{OUT}.xz"], ["compare", NONE, NONE], ["host", NONE], ["nonsense"]],
    "test-cuda": [
        UNKNOWN, ["2.6", "--torch", NONE], ["2.6", "--compare", NONE, NONE], ["2.6", "nonsense", "--torch", NONE],
    ],
    "stages": [
        ["sources", "9.9"], ["sources", "2.6", "--source", NONE], ["symbols", "9.9"],
        ["symbols", "2.6", "--core", NONE], ["units", "9.9"], ["units", "2.6", "--opened", f"{OUT}.txt"], ["nonsense"],
        ["audit", NONE], ["audit", "--backend", NONE], ["reuse", "9.9"], ["reuse", "2.6", "--tree", NONE],
        ["reuse", "2.6", "--names", NONE], ["reuse", "2.6", "--header", f"{OUT}.h"],
    ],
    "index": [
        ["build", NONE, "--site", OUT], ["yank", "x.whl", "--site", NONE], ["check", NONE], ["verify", NONE],
        ["sign", NONE, "--key", NONE], ["sign-list", "--site", NONE, "--key", NONE], ["key", "README.md/key"],
        ["nonsense"],
    ],
    "wheels": [["2.6", "--index", NONE], ["9.9", "--index", NONE], ["2.6", "--index", NONE, "--dest", OUT]],
    "contract": [UNKNOWN, ["2.6", "--device", "nonsense"], [], ["--table", "--record", NONE]],
    "new-device": [["nn"], ["acme", "--key", "HIP"], ["acme", "--into", "README.md"], ["../x"], []],
}  # fmt: skip


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout as it is now, committed, without what is ignored."""
    folder = tmp_path_factory.mktemp("copied") / "checkout"
    folder.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=find_project(), check=True, capture_output=True
    ).stdout
    tar = ["tar", "-c", "--null", "--ignore-failed-read", "-T", "-"]
    packed = subprocess.run(tar, cwd=find_project(), input=listed, capture_output=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=packed, check=True)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "as it is")
    return folder


@pytest.fixture
def checkout(copied: Path) -> Iterator[Path]:
    """The copy, which every example finds as it was committed."""
    yield copied
    if git(copied, "status", "--porcelain"):
        git(copied, "reset", "-q", "--hard")
        git(copied, "clean", "-fdq")


def test_every_verb_is_here() -> None:
    assert FAILING.keys() == VERBS.keys()


@pytest.fixture(scope="module")
def loaded() -> None:
    """The modules of all verbs, so that a process that is forked loads none of them again."""
    build_parser()


@pytest.mark.parametrize(("verb", "arguments"), [(verb, words) for verb, rows in FAILING.items() for words in rows])
def test_a_failed_command_leaves_the_checkout_as_it_was(
    checkout: Path, loaded: None, tmp_path: Path, verb: str, arguments: list[str]
) -> None:
    environment = {
        "DECOUPLE_PROJECT": str(checkout), "DECOUPLE_CACHE": str(tmp_path / "cache"), "EDITOR": "false",
        "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": "",
    }  # fmt: skip

    def run() -> int:
        os.chdir(checkout)
        return kills.command(verb, *arguments, **environment)()

    said = tmp_path / "said"
    code = kills.start(run, said).wait()
    assert code in (1, 2, 75), said.read_text()
    assert git(checkout, "status", "--porcelain") == "", said.read_text()
