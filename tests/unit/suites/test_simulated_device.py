"""A simulated device that cannot be made is told in the words of what makes it."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("cut", ["lib.so", "cuda.h"])
def test_a_copy_that_was_cut_off_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    """It had its name, and "done" in it, from the first file on: each run in the root failed until it was deleted."""
    cache, shared, real = tmp_path / "cache", tmp_path / "shared", shutil.copy2
    stand_ins, headers = cache / "stand-ins/digest", "wheels/nvidia_x-1/nvidia/x/include"
    for path in (stand_ins / "done", stand_ins / "lib.so", cache / headers / "a.h", cache / headers / "cuda.h"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    project = project_with(tmp_path, f"print({str(stand_ins)!r})")

    def copy_half(source: str, target: str, **_: Any) -> str:
        if source.endswith(f"/{cut}"):
            raise KeyboardInterrupt
        return str(real(source, target))

    monkeypatch.setattr(shutil, "copytree", partial(shutil.copytree, copy_function=copy_half))
    with pytest.raises(KeyboardInterrupt):
        simulated_device.share_stand_ins(cache, shared, project)
    monkeypatch.undo()
    simulated_device.share_stand_ins(cache, shared, project)
    copied = sorted(str(path.relative_to(shared)) for path in shared.rglob("*") if path.is_file())
    assert copied == ["stand-ins/digest/done", "stand-ins/digest/lib.so", f"{headers}/a.h", f"{headers}/cuda.h"]


def test_the_part_of_a_wheel_that_another_run_unpacks_is_not_copied(tmp_path: Path) -> None:
    stand_ins = tmp_path / "cache/stand-ins/digest"
    for path in (
        stand_ins / "done",
        *(tmp_path / f"cache/wheels/{name}/nvidia/x/include/a.h" for name in ("x-1", "x-2.part_1")),
    ):
        path.parent.mkdir(parents=True)
        path.touch()
    simulated_device.share_stand_ins(
        tmp_path / "cache", tmp_path / "shared", project_with(tmp_path, f"print({str(stand_ins)!r})")
    )
    assert [path.name for path in (tmp_path / "shared/wheels").iterdir()] == ["x-1"]


def test_a_python_of_this_machine_takes_the_stand_ins_that_the_roots_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fetched NVIDIA's wheels and compiled the same stand-ins again, into a cache of its own."""
    for name in ("SIMCUDA_CACHE", "SIMCUDA_WHEELS"):
        monkeypatch.delenv(name, raising=False)
    assert simulated_device.select_cache("simulated", tmp_path) == {"SIMCUDA_CACHE": f"{tmp_path}/simcuda"}
    assert simulated_device.select_cache("gpu", tmp_path) == {}
    monkeypatch.setenv("SIMCUDA_CACHE", "/mine")
    assert simulated_device.select_cache("simulated", tmp_path) == {"SIMCUDA_CACHE": "/mine"}


def test_a_folder_named_from_the_current_one_is_known_where_the_tests_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMCUDA_CACHE", "mine")
    monkeypatch.setenv("SIMCUDA_WHEELS", "wheels")
    assert simulated_device.select_cache("simulated", tmp_path / "cache") == {
        "SIMCUDA_CACHE": f"{tmp_path}/mine",
        "SIMCUDA_WHEELS": f"{tmp_path}/wheels",
    }
