"""The command that compiles a moved source from the tree where nobody moved it."""

from __future__ import annotations

from pathlib import PurePosixPath

from decouple.flows.unpatched_kernels import make_command
from decouple.verify.stage1_units import TranslationUnit

NAMES = {"stage2": "/d/stage2", "tree": "/d/src"}
MOVED = "/d/src/third_device/torch_cuda/torch_cuda/csrc/aten/cuda/Sleep.cu"


def test_the_release_s_own_tree_stands_where_moved_files_have_upstream_s_names() -> None:
    words = (
        "nvcc",
        "-I/d/stage2/shadow/aten/src",
        "-I/d/stage2/shadow",
        "-I/d/stage2/generated",
        "-c",
        MOVED,
        "-o",
        "Sleep.o",
    )
    unit = TranslationUnit(PurePosixPath(MOVED), PurePosixPath("/d/stage2"), words)
    made = make_command(unit, NAMES, "/d/unpatched", "aten/src/ATen/cuda/Sleep.cu", "0-Sleep.cu.o")
    assert made == (
        *("nvcc", "-I/d/unpatched/aten/src", "-I/d/unpatched", "-I/d/stage2/generated"),
        *("-c", "/d/unpatched/aten/src/ATen/cuda/Sleep.cu", "-o", "/d/stage2/unpatched/0-Sleep.cu.o"),
    )
