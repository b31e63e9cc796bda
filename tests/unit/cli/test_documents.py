"""What README.md and docs/ tell people to type and to read is there."""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.build import root_description
from decouple.cli import build_parser
from decouple.upstream.manifests import load_release
from decouple.upstream.providers.debian import DebianSource
from simcuda.cli import build_parser as simcuda_parser

PROJECT = find_project()
PLACES = ("*.md", "docs/*.md", ".github/**/*.md", "[!.]*/README.md", "scripts/*/README.md")
PAGES = sorted(path for places in PLACES for path in PROJECT.glob(places))
HISTORY = PROJECT / "CHANGELOG.md"
"""It names what is no more."""
PACKAGE = PROJECT / "scripts/decouple"
INCLUDED = PROJECT / "third_device/layer/include"
"""The layer's headers are `third_device/NAME.h` to whoever includes them."""


#: What stands before a command: the mark of code in a line, or a line's begin with or without a prompt.
BEFORE = r"(?:`|^(?:\$ | {4})?)"


def page_id(page: Path) -> str:
    """The page's place in the project."""
    return str(page.relative_to(PROJECT))


def anchors(text: str) -> set[str]:
    """What a link to a heading of the page may name, as GitHub makes it."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    words = (re.sub(r"\]\([^)]*\)", "]", heading).lower() for heading in re.findall(r"^#+ +(.+?) *$", prose, re.M))
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in words}


def named(text: str) -> tuple[set[str], set[str]]:
    """The commands of ``decouple`` and the sessions of nox that a page names."""
    return (
        set(re.findall(rf"{BEFORE}decouple ([a-z][a-z0-9-]*)", text, re.M)),
        set(re.findall(r"\bnox -s ([a-z][\w.-]*\w)", text)),
    )


def verbs() -> set[str]:
    """The commands of ``decouple``."""
    (commands,) = (action for action in whole_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return set(commands.choices)


@functools.cache
def sessions() -> set[str]:
    """The sessions of noxfile.py."""
    command = [sys.executable, "-m", "nox", "-l"]
    menu = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    # of releases without a series one line says which there are
    (carried,) = re.findall(r"^- apply-2\.N -> (.+?), of (.+?):", menu, re.M)
    others = {f"{verb}-{release}" for verb in carried[0].split(", ") for release in carried[1].split(", ")}
    return set(re.findall(r"^[*-] (\S+)", menu, re.M)) | others


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_command_exists(page: Path) -> None:
    ours, menu = named(page.read_text(encoding="utf-8"))
    assert (ours - verbs(), menu - sessions()) == (set(), set())


@functools.cache
def whole_parser() -> argparse.ArgumentParser:
    """That of all commands, which takes a second to build."""
    return build_parser()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_file_that_is_linked_or_run_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    linked = [page.parent / name for name in re.findall(r"\]\((?!https?:)([^)#\s]+)", text)]
    run = [PROJECT / name for name in re.findall(r"\bpython3? ((?:scripts|third_device|ci|tests)/[\w./-]+)", text)]
    tests = [PROJECT / name for name in re.findall(r"\btests/[\w/]+(?:\.py)?", text)]
    assert [str(path) for path in (*linked, *run, *tests) if not path.exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != HISTORY], ids=page_id)
def test_every_path_that_is_named_exists(page: Path) -> None:
    """One below a folder of the checkout, or a file of a package of ``scripts/decouple``."""
    named = re.findall(r"`([a-z][\w.-]*(?:/[\w.-]+)+)(?:::\w+)?/?`", page.read_text(encoding="utf-8"))
    roots = {"scripts", "third_device", "ci", "docs", "series", "patches", "tests"}
    kept = [name for name in named if name.split("/")[0] in roots or (PACKAGE / name.split("/")[0]).is_dir()]
    files = [name for name in kept if Path(name).suffix in (".py", ".toml", ".h", ".md") and not MADE_UP.search(name)]
    places = (PROJECT, PACKAGE, INCLUDED)
    assert [name for name in files if not any((place / name).exists() for place in places)] == []


MADE_UP = re.compile("NAME|NNNN|ID|acme")
"""In a path: what the reader puts there."""


@functools.cache
def list_variables() -> frozenset[str]:
    """What in the code may be the name of a variable of the environment."""
    command = ["git", "grep", "-hIoE", "[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", "--", ":!*.md"]
    return frozenset(subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("page", [page for page in PAGES if page != HISTORY], ids=page_id)
def test_every_variable_of_ours_that_is_named_is_in_the_code(page: Path) -> None:
    ours = r"\b(?:DECOUPLE|SIMCUDA|TORCH_CUDA|TORCH_DEVICE|WRAPPED_CMAKE|THIRD_DEVICE)(?:_[A-Z0-9]+)+\b"
    assert set(re.findall(ours, page.read_text(encoding="utf-8"))) - list_variables() == set()


@functools.cache
def read_help(script: str) -> str:
    """What a script of the checkout says of itself."""
    command = [sys.executable, str(PROJECT / script), "--help"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "scripts"), str(PROJECT)])}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=paths).stdout


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_option_of_a_script_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    ran = re.findall(r"\bpython3? ((?:scripts|third_device|ci|tests)/[\w./-]+)([^`\n#;&|]*)", text)
    options = [(script, word) for script, words in ran for word in re.findall(r"--[a-z-]+", words) if word != "--help"]
    assert [one for one in options if not re.search(rf"{one[1]}\b", read_help(one[0]))] == []


def find_lost_of_simcuda(words: list[str]) -> Iterator[str]:
    """The options that a part of ``simcuda`` does not have, up to the command that it runs."""
    (parts,) = (one for one in simcuda_parser()._actions if isinstance(one, argparse._SubParsersAction))
    known = parts.choices[words[0]]._option_string_actions
    left = iter(words[1:])
    for word in itertools.takewhile(lambda word: word.startswith("-"), left):
        name, _, value = word.partition("=")
        if name not in known:
            yield f"{words[0]} {name}"
        elif known[name].nargs != 0 and not value:
            next(left, None)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_option_of_the_simulated_device_exists(page: Path) -> None:
    ran = re.findall(r"\bsimcuda ((?:build|run|unset|doubt|record)\b[^`\n#;&|]*)", page.read_text(encoding="utf-8"))
    assert [lost for words in ran for lost in find_lost_of_simcuda(words.split())] == []


def test_a_lost_option_of_the_simulated_device_is_seen_before_the_command_that_runs() -> None:
    typed = ["run", "--devices", "4", "--memry=1G", "python", "train.py", "--epochs", "3"]
    assert list(find_lost_of_simcuda(typed)) == ["run --memry"]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_section_that_is_linked_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    lost = [
        f"{name}#{anchor}"
        for name, anchor in links
        if anchor not in anchors((page.parent / name if name else page).read_text(encoding="utf-8"))
    ]
    assert lost == []


def test_a_heading_is_linked_as_github_names_it() -> None:
    text = "# Stage 2: `third_device/it`\n\n```\n# no heading\n```\n\n## Upstream's [suites](x.md)\n"
    assert anchors(text) == {"stage-2-third_deviceit", "upstreams-suites"}


def test_a_session_of_a_release_without_a_series_runs_when_it_is_named() -> None:
    for named in (["-s", "check-2.7"], ["--session=check-2.7"]):
        command = [sys.executable, "-m", "nox", "--list", *named]
        menu = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        assert re.search(r"^\* check-2\.7 ->", menu, re.M)


def test_each_way_of_naming_a_command_is_seen() -> None:
    text = (
        "`decouple one`, `nox -s two-2.6`:\n$ decouple three x\n    decouple four\ndecouple five\n  nox -s six -- a\n"
    )
    assert named(text) == ({"one", "three", "four", "five"}, {"two-2.6", "six"})


def test_the_sizes_that_readme_names_are_those_of_the_data_files() -> None:
    text, root = (PROJECT / "README.md").read_text(encoding="utf-8"), root_description.load_description()
    mib = root.bootstrap.disk_mib + sum(root.find_layer(name).disk_mib for name in ("core", "cuda", "stock"))
    assert f"it makes that root, {mib // 1024} GiB of disk" in text
    source = load_release(PROJECT, "2.6").find_source("debian")
    assert isinstance(source, DebianSource) and source.orig.size
    assert f"fetched once ({source.orig.size // 10**6} MB)" in text
