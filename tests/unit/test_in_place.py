"""The applied tree in place: `pip install -e` finds the packages that moved, by the package_dir of setup.py."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path

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


def added(patch: Path, start: str, end: str) -> str:
    """The lines that a patch adds from one that begins with *start* to one that is *end*."""
    text = "\n".join(line[1:] for line in patch.read_text().splitlines() if line.startswith("+"))
    found = re.search(rf"^{re.escape(start)}.*?^{re.escape(end)}$", text, re.M | re.S)
    assert found, f"{patch.name} has no {start}"
    return found.group()


def test_an_editable_install_of_the_core_has_the_packages_that_moved(tmp_path: Path) -> None:
    if importlib.util.find_spec("setuptools") is None:  # not imported here: it refuses where distutils was, before 3.12
        leave_test("no setuptools: pip install setuptools")
    tree = tmp_path / "src"
    table = added(PATCH, "DECOUPLED_PACKAGES", "}")
    places: dict[str, dict[str, str]] = {}
    exec(table, places)
    for folder in ("torch", "torch/backends", *places["DECOUPLED_PACKAGES"].values()):
        (tree / folder).mkdir(parents=True)
        (tree / folder / "__init__.py").touch()
    cudnn = places["DECOUPLED_PACKAGES"]["torch.backends.cudnn"]
    (tree / cudnn / "rnn.py").touch()
    (tree / "setup.py").write_text(SETUP.format(table=table))
    build = "import sys; from setuptools import build_meta as b; print(b.build_editable(sys.argv[1]))"
    made = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=tree, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    site = tmp_path / "site"
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    ask = f"import site; site.addsitedir({str(site)!r}); {ASK}"
    done = subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True, text=True)
    core = places["DECOUPLED_PACKAGES"]["torch.cuda"]
    assert done.stdout.split() == [f"{tree / core}/__init__.py", f"{tree / cudnn}/rnn.py"], done.stderr
