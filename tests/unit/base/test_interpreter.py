"""No Python that we start imports what lies in the folder that a person happens to be in."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decouple.base import interpreter
from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project
from decouple.build import pypi_files
from decouple.build.root_description import PypiPiece
from decouple.flows import verify_portable
from decouple.index import dependencies, get, wheel
from decouple.prebuilt import core_half
from decouple.suites import simulated_device
from decouple.verify import ecosystem, imports, parity, upstream_tests
from decouple.verify.venvs import TorchEnvironment
from simcuda import torchbuild, vendor
from simcuda.errors import SimcudaError
from tests.unit.index.wheels import make_wheel

ROOT = find_project()
PLANTED = ("pip", "venv", "json", "torch", "pytest", "simcuda", "virtualenv", "importlib_metadata", "nox")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a module in the working directory would write; it is in PATH for nobody, and no network answers."""
    here, mark = tmp_path / "here", tmp_path / "ran"
    for name in PLANTED:
        (here / name).mkdir(parents=True)
        for module in ("__init__", "__main__"):
            (here / name / f"{module}.py").write_text(
                f"open({str(mark)!r}, 'a').write({name!r})\nraise SystemExit(3)\n"
            )
    monkeypatch.chdir(here)
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return mark


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another Python than ours."""
    venv.create(tmp_path / "other", with_pip=False)
    return tmp_path / "other" / "bin" / "python"


def tried(interpreter: Path, folder: Path) -> TorchEnvironment:
    return TorchEnvironment("x", (str(interpreter),), folder, str(folder))


def start_all(other: Path, folder: Path) -> dict[str, Callable[[], object]]:
    """Everything that starts a Python on this machine, as a person's command would."""
    piece = PypiPiece("six", "1.0", "six-1.0-py3-none-any.whl", "0" * 64, "/opt/six")
    backend = make_wheel(folder, "torch-cuda", "2.6.0+cu124", cuda="12.4", requires=("nvidia-none==1",))
    project = ecosystem.Project("2.6", "x", "1", "import torch", "x")
    suite = upstream_tests.UpstreamSuite("test_cuda.py", "x")
    return {
        "resolve": lambda: dependencies.resolve_requirements(["six"]),
        "fetch of a piece": lambda: pypi_files.fetch_pypi_files([piece], folder / "pieces", folder / "log"),
        "install": lambda: get.install_wheels([wheel.read_wheel(backend)], other),
        "version": lambda: get.read_python_version(other),
        "environment of a half": lambda: core_half.make_environment(other, Path("half")),
        "libraries of another CUDA": lambda: verify_portable.install_libraries(other, other, backend, folder / "log"),
        "API of a torch": lambda: parity.dump_torch([str(other)], folder),
        "a project that uses torch": lambda: ecosystem._check_program(tried(other, folder), project),
        "operators": lambda: ecosystem._check_operators(tried(other, folder), project),
        "what an import opens": lambda: imports.run_without([str(other)], ["/none"]),
        "upstream's tests": lambda: upstream_tests.run_suites(tried(other, folder), "/t", [suite], folder / "log"),
        "stand-ins": lambda: simulated_device.share_stand_ins(folder / "cache", folder / "shared", ROOT),
        "look at a torch": lambda: torchbuild.find_torch_build(other),
        "NVIDIA's wheels": lambda: vendor.fetch_wheel("nvidia-none==1", folder, None),
    }


@pytest.mark.parametrize("what", [
    "resolve", "fetch of a piece", "install", "version", "environment of a half", "libraries of another CUDA",
    "API of a torch", "a project that uses torch", "operators", "what an import opens", "upstream's tests", "stand-ins",
    "look at a torch", "NVIDIA's wheels",
])  # fmt: skip
def test_nothing_in_the_working_directory_is_run(what: str, other: Path, tmp_path: Path, ran: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with contextlib.suppress(DecoupleError, SimcudaError, FileNotFoundError):
        start_all(other, folder)[what]()
    assert not ran.exists(), ran.read_text()


def test_the_plant_is_run_by_whoever_does_not_look(ran: Path) -> None:
    subprocess.run([sys.executable, "-m", "pip"], check=False)
    assert ran.read_text() == "pip"


def test_somebodys_python_is_found_where_its_name_says(other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(other.parents[1])
    done = interpreter.run_python(["bin/python", "-c", "import sys; print(sys.prefix)"])
    assert done.stdout.strip() == str(other.parents[1])


def test_a_relative_pythonpath_still_means_the_folder_that_a_person_named(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "mine.py").write_text("x = 1\n")
    (tmp_path / "unnamed.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":lib")
    assert interpreter.run_python([str(other), "-c", "import mine"]).returncode == 0
    assert interpreter.run_python([str(other), "-c", "import unnamed"]).returncode == 1


#: What we write, but for tests: those run in the checkout.
WRITTEN = sorted(path for folder in ("scripts", "third_device", "ci") for path in (ROOT / folder).rglob("*.py"))
PYTHON = re.compile(r"python|executable|interpreter|prefix", re.IGNORECASE)
LEFT_OUT = ("'-P'", "'-I'", "*OWN", "*python.OWN", "*PYTHON")
"""The options that leave the current folder out, and the names of command lines that begin with one."""
ELSEWHERE = (
    "run_python(",
    "cwd=",
    ".argv(",
    "make_online_command(",
    "read_output(environment",
    "_run_command(place",
    "_read_output(",
    "self.find_python()",
)
"""How a start says in which folder it is: those of `CommandPlace` take one, and begin in / unless it is ours."""
IN_A_SUITE = {"suites/target.py": "'-C', self.tests", "third_device_contract/upstream.py": "folder / suite.file"}
"""Upstream's tests run in their own folder, which some import from."""


def starts(path: Path) -> Iterator[tuple[int, list[str], str]]:
    """Line, words and function of each command line that starts a Python with ``-m`` or ``-c``."""

    def look(node: ast.AST, function: str) -> Iterator[tuple[int, list[str], str]]:
        if isinstance(node, ast.FunctionDef):
            function = ast.unparse(node)
        elements = node.elts if isinstance(node, ast.List | ast.Tuple) else getattr(node, "args", None)
        if isinstance(elements, list):
            words = [ast.unparse(one) for one in elements]
            first = min((words.index(option) for option in ("'-m'", "'-c'") if option in words), default=0)
            programs = [word for word in words[:first] if not re.match(r"'-\w+'", word)]
            if programs and (PYTHON.search(programs[-1]) or programs[-1].lstrip("*").endswith("OWN")):
                yield getattr(node, "lineno", 0), words[:first], function
        for child in ast.iter_child_nodes(node):
            yield from look(child, function)

    return look(ast.parse(path.read_text(encoding="utf-8")), "")


@pytest.mark.parametrize("path", [*WRITTEN, ROOT / "noxfile.py"], ids=lambda path: str(path.relative_to(ROOT)))
def test_each_start_of_a_python_leaves_the_current_folder_out(path: Path) -> None:
    """Our own by an option (``interpreter.OWN``); somebody else's, which may be older than it, in a folder of ours."""
    for line, words, function in starts(path):
        left_out = any(word in LEFT_OUT for word in words)
        suite = [word for end, word in IN_A_SUITE.items() if str(path).endswith(end)]
        assert left_out or any(word in function for word in (*ELSEWHERE, *suite)), f"{path}:{line}: {words}"


def test_the_starts_are_seen() -> None:
    seen = [words for path in WRITTEN for _, words, _ in starts(path)]
    assert len(seen) > 30 and ["*OWN"] in seen


@pytest.mark.parametrize("text", [
    "run([sys.executable, '-m', 'decouple'])",
    "run((str(python), '-u', '-c', text))",
    "OURS = [sys.executable, '-m', 'pip']",
    "def f():\n    return run(python, '-c', 'import torch')",
])  # fmt: skip
def test_a_start_in_the_current_folder_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(text)
    with pytest.raises(AssertionError):
        test_each_start_of_a_python_leaves_the_current_folder_out(tmp_path / "x.py")
