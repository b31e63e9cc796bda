"""Whether stage 2 compiles what moves, found out without a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.cli import main
from decouple.relocate.plan import HOLLOW_REASON
from decouple.relocate.stage2 import LeftUnits, ListsReport, Stage2Sources, check_lists, load_sources
from tests.support.files import write_files
from tests.unit.relocate.trees import FILES as TREE

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
    left=[LeftUnits(["torch/csrc/cuda/test.cpp"], "a test")],
)


def report(
    folder: Path, *moved: str, listed: str = "torch/csrc/cuda/comm.cpp", files: tuple[str, ...] = FILES
) -> ListsReport:
    (folder / "Sources.cmake").write_text(SOURCES)
    (folder / "build_variables.bzl").write_text(f'libtorch_cuda_core_sources = ["{listed}"]\n')
    write_files(folder, dict.fromkeys(files, ""))
    return check_lists(folder, moved, folder, DATA)


def test_what_no_rule_settles_is_told_with_what_stage_2_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict of a rebase names this command as the one that shows all of it."""
    monkeypatch.setenv("DECOUPLE_PROJECT", str(find_project()))
    hollow = "torch/csrc/inductor/launcher/cuda.cpp"
    lists = f'libtorch_cmake_sources = ["torch/csrc/a.cpp", "{hollow}"]\n'
    more = {"build_variables.bzl": lists, hollow: "#ifdef USE_CUDA\nint a;\n#endif\n", "torch/odd/cuda/a.cu": ""}
    tree = write_files(tmp_path, {**TREE, **more, "aten/src/ATen/cuda/madeup/new.cu": ""})
    assert main(["stages", "sources", "2.6", "--tree", str(tree)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert "torch/odd/cuda/a.cu: no rule places this CUDA file" in told
    assert f"{hollow}: {HOLLOW_REASON}" in told
    assert any("aten/src/ATen/cuda/madeup/new.cu" in line for line in told)


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
    found = report(tmp_path, files=(*(name for name in FILES if "third_party" not in name), "third_party/new/LICENSE"))
    assert [fault.split()[1] for fault in found.faults] == ["aten/src/ATen/old/*.cu", "third_party/new/*.cu"]


@pytest.mark.parametrize("empty", [True, False])
def test_of_a_submodule_that_the_tree_has_not_nothing_is_claimed(tmp_path: Path, empty: bool) -> None:
    if empty:  # as `git checkout` leaves it
        (tmp_path / "third_party/new").mkdir(parents=True)
    found = report(tmp_path, files=tuple(name for name in FILES if "third_party" not in name))
    assert found.faults == ()
    assert found.unasked == ("third_party/new",)


def test_a_listed_file_that_is_gone_is_told(tmp_path: Path) -> None:
    listed = "torch/csrc/cuda/gone.cpp"
    found = report(tmp_path, listed=listed)
    assert [fault.partition(";")[0] for fault in found.faults] == [f"Sources.cmake:4: {listed} is not in this tree"]


def test_a_pattern_of_a_later_release_may_find_nothing(tmp_path: Path) -> None:
    report(tmp_path)
    (tmp_path / "Sources.cmake").write_text('torch_cuda_glob(launcher "torch/csrc/later.cpp")\n')
    assert [fault for fault in check_lists(tmp_path, (), tmp_path, DATA).faults if "later.cpp finds nothing" in fault]
    later = Stage2Sources(DATA.sources, DATA.either, DATA.left, ["torch/csrc/later.cpp"])
    assert check_lists(tmp_path, (), tmp_path, later).faults == ()


C10D = "torch/csrc/distributed/c10d"
LATER = {
    "from 2.8 on": (f"{C10D}/symm_mem/CUDASymmetricMemory.cu", f"{C10D}/symm_mem/CUDASymmetricMemoryUtils.cpp",
                    f"{C10D}/symm_mem/NVSHMEMSymmetricMemory.cu"),
    "from 2.10 on": (f"{C10D}/symm_mem/NCCLSymmetricMemory.cu", "torch/csrc/cuda/shim_common.cpp"),
    "from 2.14 on": (f"{C10D}/nccl2/ProcessGroupNCCL.cpp", f"{C10D}/cuda/StreamBlock.cu",
                     f"{C10D}/cuda/CUDAEventCache.cpp"),
    "from 2.15 on": (f"{C10D}/symm_mem/ops/nccl_made_up.cu", f"{C10D}/symm_mem/nccl_devcomm_manager.cpp",
                     f"{C10D}/symm_mem/nccl_extension.cu", f"{C10D}/symm_mem/cuda_mem_pool.cpp",
                     f"{C10D}/symm_mem/nccl_ep.cu", f"{C10D}/symm_mem/rocshmem_extension.cu"),
}  # fmt: skip


@pytest.mark.parametrize("since", LATER)
def test_what_later_releases_added_is_compiled_whichever_list_of_theirs_has_it(tmp_path: Path, since: str) -> None:
    moved = LATER[since]
    written = (*moved, f"{C10D}/symm_mem/SymmetricMemory.cpp", "build_variables.bzl")
    write_files(tmp_path, dict.fromkeys(written, ""))
    found = check_lists(tmp_path, moved, find_project())
    assert [fault for fault in found.faults if "by no list" in fault] == []
    later = load_sources().later
    assert not [fault for fault in found.faults for pattern in later if f" {pattern} finds nothing" in fault]


def test_no_pattern_of_a_later_release_takes_what_stays_in_the_core(tmp_path: Path) -> None:
    """Its object would be in two libraries."""
    stays = (
        "symm_mem/SymmetricMemory.cpp",
        "symm_mem/DMAConnectivity.cpp",
        "Functional.cpp",
        "gloo/ProcessGroupGloo.cpp",
    )
    write_files(tmp_path / C10D, dict.fromkeys(stays, ""))
    assert [one for pattern in load_sources().later for one in tmp_path.glob(pattern)] == []
