"""Whether stage 2 compiles what moves, found out without a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.relocate.stage2 import Left, ListsReport, Stage2Sources, check

SOURCES = """
set(ATEN aten/src/ATen)
torch_cuda_glob(KERNELS "${ATEN}/cuda/*.cu" "${ATEN}/old/*.cu" "third_party/new/*.cu")
torch_cuda_filelist(CORE libtorch_cuda_core_sources)
foreach(name IN ITEMS A.cu)
  torch_cuda_glob(path "${ATEN}/cuda/${name}")
endforeach()
"""
FILES = ("aten/src/ATen/cuda/A.cu", "third_party/new/flash.cu", "torch/csrc/cuda/comm.cpp", "torch/csrc/cuda/test.cpp")
DATA = Stage2Sources(
    sources=["Sources.cmake"],
    either=[["aten/src/ATen/old/*.cu", "third_party/new/*.cu"]],
    left=[Left(["torch/csrc/cuda/test.cpp"], "a test")],
)


def report(
    folder: Path, *moved: str, listed: str = "torch/csrc/cuda/comm.cpp", files: tuple[str, ...] = FILES
) -> ListsReport:
    (folder / "Sources.cmake").write_text(SOURCES)
    (folder / "build_variables.bzl").write_text(f'libtorch_cuda_core_sources = ["{listed}"]\n')
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return check(folder, moved, folder, DATA)


def test_every_unit_that_moves_is_compiled_or_left_with_a_reason(tmp_path: Path) -> None:
    found = report(tmp_path, *FILES)
    assert (found.units, found.compiled, found.faults) == (4, 3, ())
    assert found.left == (("torch/csrc/cuda/test.cpp", "a test"),)


def test_new_units_that_no_list_compiles_are_told_with_the_line_to_add(tmp_path: Path) -> None:
    found = report(tmp_path, "torch/csrc/cuda/symm/a.cu", "torch/csrc/cuda/symm/b.cu")
    (fault,) = found.faults
    assert fault.startswith("torch/csrc/cuda/symm/a.cu and 1 more: moves, and stage 2 compiles it by no list")
    assert 'add "torch/csrc/cuda/symm/*.cu" to a torch_cuda_glob() of Sources.cmake' in fault


def test_a_pattern_that_became_empty_is_told_with_its_line(tmp_path: Path) -> None:
    found = report(tmp_path, files=FILES[1:])
    assert [fault.partition(";")[0] for fault in found.faults] == [
        "Sources.cmake:3: aten/src/ATen/cuda/*.cu finds nothing in this tree"
    ]


def test_of_patterns_that_stand_for_each_other_one_is_enough(tmp_path: Path) -> None:
    found = report(tmp_path, files=tuple(name for name in FILES if "third_party" not in name))
    assert [fault.split()[1] for fault in found.faults] == ["aten/src/ATen/old/*.cu", "third_party/new/*.cu"]


@pytest.mark.parametrize("listed", ["torch/csrc/cuda/gone.cpp"])
def test_a_listed_file_that_is_gone_is_told(tmp_path: Path, listed: str) -> None:
    found = report(tmp_path, listed=listed)
    assert [fault.partition(";")[0] for fault in found.faults] == [f"Sources.cmake:4: {listed} is not in this tree"]


def test_a_pattern_of_a_later_release_may_find_nothing(tmp_path: Path) -> None:
    report(tmp_path)
    (tmp_path / "Sources.cmake").write_text('torch_cuda_glob(launcher "torch/csrc/later.cpp")\n')
    assert [fault for fault in check(tmp_path, (), tmp_path, DATA).faults if "later.cpp finds nothing" in fault]
    later = Stage2Sources(DATA.sources, DATA.either, DATA.left, ["torch/csrc/later.cpp"])
    assert check(tmp_path, (), tmp_path, later).faults == ()
