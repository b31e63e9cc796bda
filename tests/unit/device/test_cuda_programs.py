"""``scripts/cuda_programs.py``: a project of which no test ran, or of which a half lies there, is not called well."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import cuda_programs

PROGRAM = cuda_programs.Program("made_up", "1.0", ("tests",), (), "has no tests")


def test_a_run_without_a_test_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_up-cpu.json").write_text(json.dumps([4, {}, []]))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    with pytest.raises(SystemExit, match=r"made_up on cpu: no test ran; see .*made_up-cpu\.log"):
        cuda_programs.run(Path("python"), tmp_path / "made_up-1.0", PROGRAM, "")


def test_a_kill_while_unpacking_leaves_no_half_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack_half(archive: Path, to: Path) -> None:
        (to / "made_up-1.0").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(shutil, "unpack_archive", unpack_half)
    with pytest.raises(KeyboardInterrupt):
        cuda_programs.unpack(Path("python"), tmp_path, PROGRAM)
    assert not (tmp_path / "made_up-1.0").exists()
