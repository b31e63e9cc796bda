"""Stage 1 of a release that scikit-build-core packs, as from 2.14 on: with real CMake, ninja and that packer."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.build import settings
from decouple.build.environment import HostEnvironment
from decouple.build.options import Choices, Provenance
from decouple.build.stage import BuildJob
from decouple.build.stage1 import Stage1
from decouple.flows.bisect import make_configure_oracle
from tests.unit.build.conftest import CMAKE, commit

NO_CACHE = Choices(variables={"CMAKE_C_COMPILER_LAUNCHER": "", "CMAKE_CXX_COMPILER_LAUNCHER": ""})
PYPROJECT = """
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"

[project]
name = "tiny"
dynamic = ["version"]

[tool.scikit-build]
build-dir = "build"
experimental = true
wheel.packages = ["tiny"]
wheel.install-dir = "tiny"
metadata.version = {provider = "made_up_version", provider-path = "tools"}
"""
VERSION = """
import os

def dynamic_metadata(field, settings=None):
    return os.environ["PYTORCH_BUILD_VERSION"]
"""


@pytest.fixture
def later(host: HostEnvironment) -> HostEnvironment:
    """The small tree without a setup.py; its CMake asks for SKBUILD, as upstream's does."""
    tree = host.places.tree
    (tree / "setup.py").unlink()
    (tree / "pyproject.toml").write_text(PYPROJECT)
    (tree / "tools").mkdir()
    (tree / "tools/made_up_version.py").write_text(VERSION)
    packed = "if(SKBUILD)\n  add_compile_definitions(PACKED)\nendif()\nadd_library"
    (tree / "CMakeLists.txt").write_text(CMAKE.replace("add_library", packed))
    commit(tree)
    return host


def test_the_wheel_of_a_release_without_setup_py(later: HostEnvironment, provenance: Provenance) -> None:
    outcome = Stage1(BuildJob(later, provenance, NO_CACHE)).build_wheel()
    assert outcome.wheel.name.startswith("tiny-2.6.0+decoupled-")
    assert outcome.objects == 4
    with zipfile.ZipFile(outcome.wheel) as wheel:
        assert "tiny/lib/libtiny.so" in wheel.namelist()
    log = (later.places.logs / "stage1.log").read_text()
    assert log.count("Building C object") == 4, "what is configured here is what the packer would configure"
    assert "no work to do" in log, "the packer compiles nothing itself, past the limits of memory"


def test_a_second_wheel_compiles_only_what_changed(later: HostEnvironment, provenance: Provenance) -> None:
    Stage1(BuildJob(later, provenance, NO_CACHE)).build_wheel()
    objects = sorted((later.places.tree / "build").rglob("*.o"))
    before = [one.stat().st_mtime_ns for one in objects]
    (later.places.tree / "part1.c").write_text("int part1(void) { return 11; }\n")
    assert Stage1(BuildJob(later, provenance, NO_CACHE)).build_wheel().built
    changed = [one.name for one, time in zip(objects, before, strict=True) if one.stat().st_mtime_ns != time]
    assert changed == ["part1.c.o"]


def test_what_the_packer_needs_is_asked_before_anything_is_compiled(
    later: HostEnvironment, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decouple.build.stage1.read_output", lambda *asked: None)
    with pytest.raises(DecoupleError, match="module build"):
        Stage1(BuildJob(later, provenance, NO_CACHE)).build_wheel()
    assert not list(later.places.tree.glob("build/**/*.o"))


def test_both_kinds_of_tree_are_configured_for_bisect(later: HostEnvironment, tree: Path) -> None:
    def run(command: str) -> int:
        return subprocess.run(["sh", "-c", command], cwd=tree, capture_output=True).returncode

    command = settings.find_packer(tree).configure.format(python="python3")
    assert make_configure_oracle(run, command)(tree, ()) is None
    assert (tree / "build/build.ninja").is_file()
    (tree / "CMakeLists.txt").write_text("message(FATAL_ERROR planted)\n")
    assert "configure fails" in (make_configure_oracle(run, command)(tree, ()) or "")


def test_a_configure_begins_with_an_empty_cache(later: HostEnvironment, tree: Path) -> None:
    """As setup.py's does: CMake keeps flags, and choices that are said no longer."""
    command = settings.find_packer(tree).configure.format(python="python3")
    for flags in ("-O1", "-O2"):
        environ = {**os.environ, "CFLAGS": flags}
        subprocess.run(["sh", "-c", command], cwd=tree, env=environ, capture_output=True, check=True)
        assert f"CMAKE_C_FLAGS:STRING={flags}\n" in (tree / "build/CMakeCache.txt").read_text()


@pytest.mark.parametrize("text", ["", '[build-system]\nrequires = ["numpy"]\n'])
def test_a_tree_that_names_no_packer_has_setup_py(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert "setup.py" in settings.find_packer(tmp_path).configure


def test_a_packer_that_nobody_knows_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[build-system]\nbuild-backend = "made_up.build"\n')
    with pytest.raises(DecoupleError, match=r"made_up\.build"):
        settings.find_packer(tmp_path)


def test_a_pyproject_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[build-system\n")
    with pytest.raises(DecoupleError, match=r"pyproject\.toml"):
        settings.find_packer(tmp_path)
