"""``scripts/cuda_programs.py``: what is not called well.

A project of which no test ran, of which a half or another sdist lies there, whose counts are not those of the data.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import cuda_programs

PROGRAM = cuda_programs.Program(
    name="made_up",
    version="1.0",
    sha256=hashlib.sha256(b"an sdist").hexdigest(),
    tests=("tests",),
    needs=(),
    why="has no tests",
    expected=cuda_programs.Expected(cpu={"passed": 1, "skipped": 1}, as_cuda={"passed": 2}, on_device=1),
)


def test_a_run_without_a_test_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_up-cpu.json").write_text(json.dumps([4, {}, [], []]))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    with pytest.raises(SystemExit, match=r"made_up on cpu: no test ran; see .*made_up-cpu\.log"):
        cuda_programs.run_tests(Path("python"), tmp_path / "made_up-1.0", PROGRAM, "")


TORCH = """
from types import SimpleNamespace
class device: pass
manual_seed = print
serialization = SimpleNamespace(_package_registry=[])
overrides = SimpleNamespace(_get_current_function_mode_stack=list)
"""
PARTS = """
import unittest

class TestParts(unittest.TestCase):
    def test_a_part_fails(self):
        with self.subTest("first"):
            self.fail("two is not three")
    def test_good(self): pass
"""


def test_a_test_of_which_a_part_failed_has_failed(tmp_path: Path) -> None:
    """Behind the report of a failed subTest pytest 9 sends one of the whole test, which says "passed"."""
    source = tmp_path / "made_up-1.0"
    (source / "tests").mkdir(parents=True)
    (source / "torch.py").write_text(TORCH)
    (source / "numpy.py").write_text("class random: seed = print\n")
    (source / "tests/test_parts.py").write_text(PARTS)
    outcomes, _, _ = cuda_programs.run_tests(Path(sys.executable), source, PROGRAM, "")
    assert cuda_programs.count_outcomes(outcomes) == {"passed": 1, "failed": 1}


def test_a_kill_while_unpacking_leaves_no_half_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack_half(archive: Path, to: Path) -> None:
        (to / "made_up-1.0").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(shutil, "unpack_archive", unpack_half)
    with pytest.raises(KeyboardInterrupt):
        cuda_programs.unpack_sdist(Path("python"), tmp_path, PROGRAM)
    assert not (tmp_path / "made_up-1.0").exists()


def test_the_environment_of_another_python_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It kept the first one's Python, which cannot import the second one's torch; one without pip stayed so, too."""
    real, made = subprocess.run, list[list[str]]()

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if "venv" in command:
            made.append(command)
            command = [*command, "--without-pip"]
        return subprocess.CompletedProcess(command, 0) if "pip" in command else real(command, **options)

    monkeypatch.setattr(subprocess, "run", run)
    home, other = tmp_path / "environments" / PROGRAM.name, tmp_path / "other"
    real([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True)
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").symlink_to(sys.executable)  # as far as one came that was killed
    for interpreter, times in ((Path(sys.executable), 1), (Path(sys.executable), 1), (other / "bin/python", 2)):
        assert cuda_programs.make_environment(interpreter, tmp_path, PROGRAM) == home / "bin/python"
        assert len(made) == times
    [above] = home.glob("lib/*/site-packages/above.pth")
    assert above.read_text().startswith(str(other))


def test_another_sdist_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip itself, with a folder for an index: an sdist of another SHA-256 is not built, nor unpacked."""
    (tmp_path / "index").mkdir()
    setup = (
        f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom setuptools import setup\nsetup(name='made_up', version='1.0')\n"
    )
    with tarfile.open(tmp_path / "index" / "made_up-1.0.tar.gz", "w:gz") as archive:
        for name, text in (("PKG-INFO", "Metadata-Version: 2.1\nName: made_up\nVersion: 1.0\n"), ("setup.py", setup)):
            member = tarfile.TarInfo(f"made_up-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    with pytest.raises(SystemExit, match=r"made_up: pip has no sdist of 1\.0 with the sha256 of scripts/cuda_programs"):
        cuda_programs.unpack_sdist(Path(sys.executable), tmp_path, PROGRAM)
    assert not (tmp_path / "ran").exists() and not (tmp_path / "made_up-1.0").exists()


@pytest.mark.parametrize(
    ("skipped", "on_device", "code"),
    [(False, ["b"], 0), (True, ["b"], 1), (False, [], 1)],
    ids=["as said", "skipped", "none on the device"],
)
def test_counts_are_those_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skipped: bool, on_device: list[str], code: int
) -> None:
    """A run that skips what CUDA is for, or never takes memory of the device, proves nothing."""
    second = {"a": "passed", "b": "skipped" if skipped else "passed"}
    first: tuple[dict[str, str], list[str], list[str]] = ({"a": "passed", "b": "skipped"}, [], [])
    runs = iter([first, (second, [], on_device)])
    monkeypatch.setattr(cuda_programs, "load_programs", lambda: cuda_programs.ProgramTable((PROGRAM,)))
    monkeypatch.setattr(cuda_programs, "make_environment", lambda *_: Path("python"))
    monkeypatch.setattr(cuda_programs, "unpack_sdist", lambda *_: tmp_path)
    monkeypatch.setattr(cuda_programs, "run_tests", lambda *_: next(runs))
    assert cuda_programs.main(["--torch", "python", "--folder", str(tmp_path)]) == code


def test_projects_are_read_from_the_data() -> None:
    """Each failure that is known has a reason, and there are as many as are expected."""
    programs = cuda_programs.load_programs().programs
    assert len(programs) >= 3
    for program in programs:
        assert len(program.known) == program.expected.as_cuda.get("failed", 0) and all(program.known.values())
        assert program.expected.on_device
