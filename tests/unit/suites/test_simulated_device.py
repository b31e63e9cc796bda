"""A simulated device that cannot be made is told in the words of what makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.suites import simulated_device


def project_with(folder: Path, program: str) -> Path:
    """A checkout whose ``simcuda`` is this program."""
    package = folder / "scripts/simcuda"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(f"import sys\n{program}\n")
    return folder


def test_the_hint_is_that_of_the_failure(tmp_path: Path) -> None:
    """A source that g++ 14 refused was answered with the advice to set SIMCUDA_WHEELS."""
    said = "libcudart.so.12: 3 functions written\\nsimcuda: nccl.cpp:9: error: no sort\\n  next: set CXX\\n"
    project = project_with(tmp_path, f"sys.stderr.write({said!r}.replace(chr(92) + 'n', chr(10))); sys.exit(1)")
    with pytest.raises(DecoupleError) as failed:
        simulated_device.share_stand_ins(tmp_path / "cache", tmp_path / "shared", project)
    assert failed.value.what == "the simulated device: nccl.cpp:9: error: no sort"
    assert failed.value.next_step == "set CXX"


def test_an_end_without_a_word_is_told_with_the_command(tmp_path: Path) -> None:
    project = project_with(tmp_path, "sys.exit(9)")
    with pytest.raises(DecoupleError) as failed:
        simulated_device.share_stand_ins(tmp_path / "cache", tmp_path / "shared", project)
    assert "exit status 9" in failed.value.what
    assert "python -m simcuda build --no-torch" in str(failed.value.next_step)


def test_a_python_of_this_machine_takes_the_stand_ins_that_the_roots_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fetched NVIDIA's wheels and compiled the same stand-ins again, into a cache of its own."""
    monkeypatch.delenv("SIMCUDA_CACHE", raising=False)
    assert simulated_device.select_cache("simulated", tmp_path) == {"SIMCUDA_CACHE": f"{tmp_path}/simcuda"}
    assert simulated_device.select_cache("gpu", tmp_path) == {}
    monkeypatch.setenv("SIMCUDA_CACHE", "/mine")
    assert simulated_device.select_cache("simulated", tmp_path) == {"SIMCUDA_CACHE": "/mine"}
