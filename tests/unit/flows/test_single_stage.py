"""The command that compiles a translated source from the tree that upstream's hipify made."""

from __future__ import annotations

from pathlib import PurePosixPath

from decouple.flows.single_stage import make_command
from decouple.verify.stage1_units import TranslationUnit

SOURCE = "/d/stage2/shadow/aten/src/ATen/hip/Sleep.hip"


def test_places_are_the_same_but_the_applied_tree_s_headers_are_not_before_all() -> None:
    words = (
        *("clang++", "-I/d/stage2/generated/instead", "-I/d/stage2/generated/config", "-I/d/stage2/shadow/aten/src"),
        *("-o", "torch_cuda/Sleep.hip.o", "-x", "hip", "-c", SOURCE),
    )
    made = make_command(TranslationUnit(PurePosixPath(SOURCE), PurePosixPath("/d/stage2"), words), "/d/stage2", "0.o")
    assert made == (
        *("clang++", "-I/d/stage2/single-stage/generated/instead", "-I/d/stage2/generated/config"),
        *("-I/d/stage2/shadow/aten/src", "-o", "/d/stage2/single-stage/0.o", "-x", "hip", "-c", SOURCE),
    )
