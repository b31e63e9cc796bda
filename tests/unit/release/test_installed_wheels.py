"""Of which series the installed wheels of torch are: one answer, whoever asks."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.release import installed_wheels
from decouple.suites.target import Target
from decouple.verify import patches

TORCH = """
import types
__version__ = "2.6.0"
version = types.SimpleNamespace(git_version="x", cuda=None)
cuda = types.SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
"""


def install(site: Path, name: str, series: str = "", tree: str = "f0") -> None:
    info = site / f"{name}-2.6.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 2.6.0\n")
    if series:
        (info / "decouple.json").write_text(json.dumps({"series": {"digest": series}, "tree": tree}))


def ask_both(*sites: Path) -> tuple[list[str], list[str]]:
    """The series that `test-cuda` records, and those that `try patches` does."""
    target = Target(
        label="here",
        python=(sys.executable,),
        device="none",
        tests="/",
        folder=sites[0],
        work="/",
        project=str(find_project()),
        variables={"PYTHONPATH": os.pathsep.join(map(str, sites))},
    )
    told = patches.run_questions(target.argv([f"{target.project}/{patches.INSIDE}", "[]"]))
    return target.describe_torch()["series"], list(told.series)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site/torch").mkdir(parents=True)
    (tmp_path / "site/torch/__init__.py").write_text(TORCH)
    return tmp_path / "site"


def test_the_wheels_of_torch_are_asked_and_no_other_project(site: Path) -> None:
    """`try patches` took torchvision for one, `test-cuda` did not."""
    install(site, "torch", "core's")
    install(site, "torch_cuda", "backend's")
    install(site, "Torch.CUDA_libraries", "libraries'")
    install(site, "torchvision", "another's")
    install(site, "not-torch", "another's")
    assert ask_both(site) == (["backend's", "core's", "libraries'"],) * 2


def test_a_wheel_of_an_edited_tree_is_no_proof_of_its_series(site: Path) -> None:
    install(site, "torch", "core's")
    install(site, "torch_cuda", "backend's", tree="f0+335b7a45c3a7")
    assert ask_both(site) == (["backend's+edits", "core's"],) * 2


def test_a_torch_that_is_not_ours_is_of_no_series(site: Path) -> None:
    install(site, "torch")
    assert ask_both(site) == ([], [])


def test_of_two_wheels_of_one_name_the_first_on_the_path_counts(site: Path, tmp_path: Path) -> None:
    """An environment that `verify` made has the wheels of today before those of the Python that it is of."""
    install(site, "torch_cuda", "today's")
    install(tmp_path / "beside", "torch-cuda", "yesterday's")
    assert ask_both(site, tmp_path / "beside") == (["today's"],) * 2


def test_a_python_that_has_nothing_of_ours_can_run_it() -> None:
    """Its imports are of the standard library, and so are those of the packages that it is in."""
    for module in (installed_wheels, sys.modules["decouple"], sys.modules["decouple.release"]):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert {str(name).partition(".")[0] for name in names} <= sys.stdlib_module_names
