"""Projects of PyPI on a torch: each verdict is seen to fail once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.verify import ecosystem
from decouple.verify.ecosystem import Project
from decouple.verify.venvs import TorchEnvironment
from tests.support.tools import require_tool

TORCH = """__version__ = "2.6.0"
class _C:
    _dispatch_has_kernel_for_dispatch_key = staticmethod(lambda name, key: name == "thing::there" and key == "CUDA")
"""
THING = Project("2.6", "thing", "1.0", "import thing; print(thing.sum())", "3", ("thing::there",))


def library(path: Path, text: str, *flags: str) -> None:
    require_tool("cc")
    subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", *flags, "-o", path], input=text, text=True, check=True)


@pytest.fixture
def on(tmp_path: Path) -> TorchEnvironment:
    """This Python with a torch that knows one operator, and a project on it."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(TORCH)
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing/__init__.py").write_text("def sum(): return 3\n")
    library(tmp_path / "torch/libtorch.so", "int THPThing(void) { return 1; }")
    library(tmp_path / "thing/_C.so", "int THPThing(void); int use(void) { return THPThing(); }")
    return TorchEnvironment("here", ("env", f"PYTHONPATH={tmp_path}", sys.executable), tmp_path, str(tmp_path))


def verdicts(on: TorchEnvironment, project: Project) -> dict[str, bool]:
    found = ecosystem.try_project(on, project, on.folder, cuda="12.4")
    return {one.name.partition(": ")[2]: one.passed for one in found}


def test_a_project_that_works(on: TorchEnvironment) -> None:
    assert verdicts(on, THING) == {"symbols": True, "used": True, "CUDA operators": True}


def test_a_symbol_that_torch_lacks_is_named(on: TorchEnvironment) -> None:
    library(on.folder / "thing/_C.so", "int THPOther(void); int use(void) { return THPOther(); }")
    (found, *_) = ecosystem.try_project(on, THING, on.folder, cuda="")
    assert (
        not found.passed
        and found.observed.startswith("1 symbols of torch's, 1 missing")
        and "THPOther" in found.observed
    )


@pytest.mark.parametrize(
    ("project", "fails"),
    [
        (replace(THING, says="4"), "used"),
        (replace(THING, trial="import gone"), "used"),
        (replace(THING, operators=("thing::there", "thing::away")), "CUDA operators"),
    ],
)
def test_one_that_does_not_is_named(on: TorchEnvironment, project: Project, fails: str) -> None:
    assert verdicts(on, project)[fails] is False


def test_one_that_crashes_when_python_ends_does_not_work(on: TorchEnvironment) -> None:
    """After its last print: two copies of a registry are unloaded in the wrong order."""
    crash = "import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))\n"
    (on.folder / "thing/__init__.py").write_text(f"{crash}def sum(): return 3\n")
    project = replace(THING, trial="import thing; print(thing.sum(), flush=True)")
    _, used, operators = ecosystem.try_project(on, project, on.folder, cuda="12.4")
    assert not used.passed and not operators.passed
    assert used.observed == operators.observed == "exit status -11: no error told"


@pytest.mark.parametrize(("runtime", "own", "other"), [("12", "12.4", "11.8"), ("11.0", "11.8", "12.4")])
def test_one_that_is_linked_with_another_cuda_is_said_to_be_and_not_used(
    on: TorchEnvironment, runtime: str, own: str, other: str
) -> None:
    name = f"libcudart.so.{runtime}"
    library(on.folder / name, "int cudaInit;", f"-Wl,-soname,{name}")
    uses = "int THPThing(void); int use(void) { return THPThing(); }"
    library(on.folder / "thing/_C.so", uses, "-Wl,--no-as-needed", f"-L{on.folder}", f"-l:{name}")
    broken = replace(THING, trial="import gone")
    symbols, unused = ecosystem.try_project(on, broken, on.folder, cuda=other)
    assert symbols.passed and (unused.name, unused.done) == ("thing==1.0: not used", False)
    assert unused.observed == f"it needs {name}, and this torch is of CUDA {other}"
    assert not ecosystem.try_project(on, broken, on.folder, cuda=own)[1].passed, "with its own CUDA it is tried"


def test_every_release_names_each_project_once() -> None:
    names = [one.name for one in ecosystem.load_projects("2.6")]
    assert sorted(set(names)) == sorted(names) and "torchvision" in names
    assert ecosystem.load_projects("1.0") == ()
