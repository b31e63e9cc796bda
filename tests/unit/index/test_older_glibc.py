"""A machine whose C library is older than the wheels': pip, uv and ``decouple wheels`` say so and install nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.tags import Tag
from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.index import site
from decouple.index.choose import Machine, choose_packages
from decouple.index.remote import Index
from tests.support.server import serving
from tests.unit.index.wheels import make_environment, make_wheel

BUILT = "cp313-cp313-manylinux_2_31_x86_64"
CORE = "2.6.0+decoupled"
ASKED = {
    "pip": ["pip", "install", "--no-cache-dir", "--only-binary=:all:", "--python-version=3.13", "--platform={}_x86_64"],
    "uv": ["uv", "pip", "install", "--no-cache", "--python-version=3.13", "--python-platform=x86_64-{}"],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "dist", "torch", CORE, tag=BUILT)
    make_wheel(tmp_path / "dist", "torch-cuda", "2.6.0+cu124", requires=(f"torch=={CORE}",), cuda="12.4", tag=BUILT)
    site.build_site(tmp_path / "dist", tmp_path / "site")
    return tmp_path / "site"


@pytest.mark.parametrize("tool", ASKED)
@pytest.mark.parametrize(("glibc", "fits"), [("manylinux_2_31", True), ("manylinux_2_28", False)])
def test_pip_and_uv(tmp_path: Path, root: Path, tool: str, glibc: str, fits: bool) -> None:
    words = [word.format(glibc) for word in ASKED[tool]]
    with serving(root) as url:
        command = [*words, f"--target={tmp_path / 'into'}", "--index-url", f"{url}/simple/", "torch-cuda"]
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=make_environment())
    assert (done.returncode == 0) == fits, done.stderr
    assert (tmp_path / "into/torch_cuda").exists() == fits
    assert fits or re.search(r"manylinux_2_31|No matching distribution found for torch-cuda", done.stderr)


def test_our_own_choice_names_what_the_wheels_were_built_for(root: Path) -> None:
    older = Machine(Version("3.13"), (Tag("cp313", "cp313", "manylinux_2_28_x86_64"),), Version("12.4"))
    with pytest.raises(DecoupleError, match=rf"Python 3\.13.*{BUILT}"):
        choose_packages(Index(str(root)), "2.6", older)
