"""The smallest install is 18 packages; what needs more says in one line how to get it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from decouple.base.extras import EXTRAS, explain_missing
from decouple.base.paths import find_project
from decouple.cli import menu

MODULES = [module for modules in EXTRAS.values() for module in modules]


def without_extras(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``decouple`` as an install does that has no extra."""
    code = f"import sys\nsys.modules.update(dict.fromkeys({MODULES}))\n"
    code += f"from decouple.cli import main\nsys.exit(main({list(words)}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)


def read_extras() -> dict[str, list[str]]:
    """The extras of pyproject.toml as they stand there."""
    with (find_project() / "pyproject.toml").open("rb") as file:
        found: dict[str, list[str]] = tomllib.load(file)["project"]["optional-dependencies"]
    return found


def list_required(project: str) -> Iterator[str]:
    """The projects that ``project`` requires here, without an extra."""
    for line in requires(project) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def test_the_base_install_is_eighteen_packages() -> None:
    with (find_project() / "pyproject.toml").open("rb") as file:
        waiting = [canonicalize_name(Requirement(line).name) for line in tomllib.load(file)["project"]["dependencies"]]
    found = {"decouple"}
    while waiting:
        if (project := waiting.pop()) not in found:
            found.add(project)
            waiting += list_required(project)
    assert len(found) <= 18, sorted(found)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_the_modules_that_are_looked_for(extra: str) -> None:
    distributions = packages_distributions()
    written = {canonicalize_name(Requirement(line).name) for line in read_extras()[extra]}
    of_others = {"cryptography"}  # an extra of securesystemslib
    for module in EXTRAS[extra]:
        assert module in of_others or written & {canonicalize_name(name) for name in distributions[module]}, module


@pytest.mark.parametrize("verb", menu.VERBS)
def test_help_needs_no_extra(verb: str, tmp_path: Path) -> None:
    done = without_extras(verb, "--help", folder=tmp_path)
    if menu.EXTRAS.get(verb) == "publish":
        assert done.returncode == 2 and "[publish]'" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["build", "2.6"], "build"),
        (["repack", "split", "torch_cuda.whl"], "build"),
        (["verify", "2.6"], "verify"),
        (["wheels", "2.6", "--index", "site"], "publish"),
        (["index", "check", "site"], "publish"),
    ],
)
def test_a_missing_extra_is_one_line_with_pips_command(words: list[str], extra: str, tmp_path: Path) -> None:
    done = without_extras(*words, folder=tmp_path)
    told, next_step = done.stderr.splitlines()
    assert done.returncode == 2 and not list(tmp_path.iterdir())
    assert re.fullmatch(rf"decouple: \w+ is not installed: it comes with the extra {extra}", told)
    assert next_step.endswith(f"-m pip install -e '{find_project()}[{extra}]'")


def test_pips_command_can_be_typed_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of nox is below the checkout, whose path may have a blank; an apostrophe ended the quotation."""
    checkout = tmp_path / "Ada's checkout"
    for name in ("series", "patches"):
        (checkout / name).mkdir(parents=True)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(checkout))
    monkeypatch.setattr(sys, "executable", f"{checkout}/.nox/lint/bin/python")
    words = shlex.split(explain_missing("elftools.elf", "verify").next_step or "")
    assert words == [sys.executable, "-m", "pip", "install", "-e", f"{checkout}[verify]"]


def test_without_a_checkout_it_is_installed_from_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install -e decouple[verify]` is refused, and another project may have the name on PyPI."""
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    said = explain_missing("elftools", "verify").next_step
    assert said == "install it anew from a checkout: pipx install --force 'CHECKOUT[verify]'"


def test_a_series_is_linted_without_an_extra(tmp_path: Path) -> None:
    assert without_extras("lint", "2.6", folder=tmp_path).returncode == 0
