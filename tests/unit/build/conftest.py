"""A small tree with the interface that stage 1 drives: setup.py runs CMake, ninja compiles, a wheel results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.build.environment import HostEnvironment, Places
from decouple.build.options import Provenance
from tests.support.templates import make_once
from tests.support.tools import require_tool

SETUP = """
import os, subprocess, sys

configure_only = "--cmake-only" in sys.argv
sys.argv = [word for word in sys.argv if word not in ("--cmake", "--cmake-only")]
if configure_only:
    launcher = os.environ.get("CMAKE_C_COMPILER_LAUNCHER", "")
    flags = ["-DCMAKE_INSTALL_PREFIX=" + os.path.abspath("tiny"), "-DCMAKE_C_COMPILER_LAUNCHER=" + launcher]
    sys.exit(subprocess.call(["cmake", "-GNinja", "-S.", "-Bbuild", *flags]))

from setuptools import Distribution, setup

class Binary(Distribution):
    def has_ext_modules(self):
        return True

setup(name="tiny", version=os.environ["PYTORCH_BUILD_VERSION"], packages=["tiny"],
      package_data={"tiny": ["lib/*.so"]}, distclass=Binary)
"""
CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(tiny C)
add_library(tiny SHARED part0.c part1.c part2.c part3.c)
install(TARGETS tiny LIBRARY DESTINATION lib)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The tree, under git as an applied one is."""
    require_tool("cmake", "ninja", "cc")
    return make_tree(tmp_path / "src")


def make_tree(folder: Path) -> Path:
    return Path(shutil.copytree(make_once(_write_tree), folder, copy_function=shutil.copy))  # as new as if written now


def _write_tree(folder: Path) -> Path:
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny" / "__init__.py").write_text("")
    (folder / "setup.py").write_text(SETUP)
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / ".gitignore").write_text("/build/\n/tiny/lib/\n/tiny.egg-info/\n")
    for number in range(4):
        (folder / f"part{number}.c").write_text(f"int part{number}(void) {{ return {number}; }}\n")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    """Commit everything, at a fixed time."""
    when = "2025-01-29T00:00:00+00:00"
    who = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "tree", "--allow-empty"]):
        subprocess.run([*git, *words], check=True, env={**os.environ, **who})


@pytest.fixture
def host(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostEnvironment:
    """The host environment on that tree; this Python is the one that builds."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    project = Path(__file__).parents[3]
    places = Places.of_release(tmp_path, "2.6", tmp_path / "cache", tree)
    places = replace(places, project=project)
    places.create_folders()
    return HostEnvironment(places)


@pytest.fixture
def provenance() -> Provenance:
    return Provenance(
        version="2.6.0",
        upstream={"version": "2.6.0", "tag": "v2.6.0", "commit": "0" * 40},
        sources=({"name": "source.tar.xz", "url": "https://example.invalid/", "size": 1, "sha256": "1" * 64},),
        series_digest="2" * 64,
        patches=({"path": "2.6/0001-x.patch", "sha256": "3" * 64},),
        overlay_digest="4" * 64,
        cuda="12.4",
    )
