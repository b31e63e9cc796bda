"""The command that compiles a translated source from the tree that upstream's hipify made."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from decouple.build.inputs import Stamp, write_stamp
from decouple.flows.build_request import BuildRequest
from decouple.flows.single_stage import choose_part, make_command
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


def test_the_whole_is_compared_where_it_was_built(tmp_path: Path) -> None:
    asked = BuildRequest(tmp_path, "2.6", toolkit="rocm", core="stock")
    assert choose_part(asked).part == "runtime"
    stamp = asked.places.state / "stage2.json"
    stamp.parent.mkdir(parents=True)
    write_stamp(stamp, Stamp("0", "torch_hip.whl", "0", 1.0, 379))
    assert choose_part(asked).part == "all"
