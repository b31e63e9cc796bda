"""The applied tree in place: `pip install -e` finds the packages that moved, by the package_dir of setup.py."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from tests.support.tools import leave_test

PATCH = find_project() / "patches/2.6/0020-setup-decoupled-packages.patch"
SETUP = """
from setuptools import find_packages, setup
{table}
packages = find_packages(include=["torch", "torch.*"])
for name, folder in DECOUPLED_PACKAGES.items():
    packages += [name] + [f"{{name}}.{{sub}}" for sub in find_packages(folder)]
setup(name="torch", version="2.6.0", packages=packages, package_dir=DECOUPLED_PACKAGES)
"""
ASK = (
    "import torch.cuda, torch.backends.cudnn.rnn, torch._decoupled;"
    "print(torch.cuda.__file__, torch.backends.cudnn.rnn.__file__)"
)
CORE, CUDNN = "third_device/torch_cuda/torch_cuda/core", "third_device/torch_cuda/torch_cuda/backends/cudnn"


def added(patch: Path, start: str, end: str) -> str:
    """The lines that a patch adds from one that begins with *start* to one that is *end*."""
    text = "\n".join(line[1:] for line in patch.read_text().splitlines() if line.startswith("+"))
    found = re.search(rf"^{re.escape(start)}.*?^{re.escape(end)}$", text, re.M | re.S)
    assert found, f"{patch.name} has no {start}"
    return found.group()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder that a core is installed into in place; its tree is ``src`` beside it."""
    if importlib.util.find_spec("setuptools") is None:  # not imported here: it refuses where distutils was, before 3.12
        leave_test("no setuptools: pip install setuptools")
    tree = tmp_path / "src"
    table = added(PATCH, "DECOUPLED_PACKAGES", "}")
    places: dict[str, dict[str, str]] = {}
    exec(table, places)
    for folder in ("torch", "torch/backends", *places["DECOUPLED_PACKAGES"].values()):
        (tree / folder).mkdir(parents=True)
        (tree / folder / "__init__.py").touch()
    (tree / CUDNN / "rnn.py").touch()
    (tree / "setup.py").write_text(SETUP.format(table=table))
    build = "import sys; from setuptools import build_meta as b; print(b.build_editable(sys.argv[1]))"
    made = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=tree, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    site = tmp_path / "site"
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    return site


def ask(site: Path, code: str) -> str:
    """What a fresh Python with *site* as a site folder prints."""
    start = f"import site; site.addsitedir({str(site)!r}); {code}"
    done = subprocess.run([sys.executable, "-I", "-c", start], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_editable_install_of_the_core_has_the_packages_that_moved(site: Path) -> None:
    tree = site.with_name("src")
    assert ask(site, ASK) == f"{tree / CORE}/__init__.py {tree / CUDNN}/rnn.py"


def test_a_wheel_of_torch_cuda_hides_a_core_in_place_as_docs_say(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes the folder ``torch/`` of the wheel's file for CMake as all of torch, until it is deleted."""
    monkeypatch.syspath_prepend(str(find_project() / "third_device/torch_cuda"))
    from torch_cuda_build import backend

    for_cmake = site / backend.IN_TORCH
    for_cmake.parent.mkdir(parents=True)
    for_cmake.touch()
    assert ask(site, "import torch; print(torch.__file__)") == "None"
    shutil.rmtree(site / "torch")
    assert ask(site, "import torch; print(torch.__file__)") == str(site.with_name("src") / "torch/__init__.py")
