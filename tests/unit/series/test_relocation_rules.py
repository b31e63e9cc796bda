"""A relocation that still applies is compared with its rules: what upstream added beside the files that move."""

from __future__ import annotations

from pathlib import Path

from decouple.base.git import REGULAR
from decouple.flows.patch_regeneration import PatchRemaker
from decouple.inventory.rules import load_rules
from decouple.patch.parse import parse_patch
from decouple.relocate.plan import make_plan
from decouple.relocate.relocation_patch import render_patch
from decouple.series.check import Fit, PatchFit, check_series
from decouple.upstream.readers import FolderSource, MemorySource, OpenedSource
from tests.support.files import write_files
from tests.unit.relocate.trees import FILES

NEW = "torch/csrc/cuda/GreenContext.cpp"


def judge(tree: Path, more: dict[str, str], *, names_alone: bool = False) -> PatchFit:
    """Judge the relocation of FILES on a tree where upstream has ``more``."""
    rules = load_rules()
    write_files(tree, FILES)
    text = render_patch(make_plan(tree, rules).moves, rules, "2.6")
    write_files(tree, more)
    source = FolderSource(tree)
    opened = OpenedSource(source, "here")
    if names_alone:
        modes = dict.fromkeys(source.list_paths(), REGULAR)
        opened = OpenedSource(MemorySource(modes, {path: source.read(path) for path in modes}), "here")
    remaker = PatchRemaker({})
    (found,) = check_series(
        [parse_patch(text.encode(), name="2.6/0001-relocate.patch")],
        opened.source,
        remade=remaker.bind_source(opened),
        ruled=remaker.bind_rules(opened),
    )
    return found


def test_nothing_is_said_where_patch_and_rules_agree(tmp_path: Path) -> None:
    found = judge(tmp_path, {})
    assert (found.status, found.notes) == (Fit.CLEAN, ())


def test_a_file_that_upstream_added_makes_it_anew(tmp_path: Path) -> None:
    found = judge(tmp_path, {NEW: ""})
    assert found.status is Fit.MADE
    (note,) = found.notes
    assert note.startswith(f"{NEW}: new in this source, moves to third_device/") and note.endswith("GreenContext.cpp")


def test_a_file_that_no_rule_places_is_a_conflict_as_it_stops_a_rebase(tmp_path: Path) -> None:
    found = judge(tmp_path, {"torch/csrc/elsewhere/cuda_green.cpp": ""})
    assert found.status is Fit.CONFLICT
    (conflict,) = found.conflicts
    assert conflict.failure.message == "torch/csrc/elsewhere/cuda_green.cpp: no rule places this CUDA file"


def test_what_such_a_relocation_moves_is_where_later_patches_look_for_it(tmp_path: Path) -> None:
    rules = load_rules()
    write_files(tmp_path, FILES)
    moves = make_plan(tmp_path, rules).moves
    relocation = parse_patch(render_patch(moves, rules, "2.6").encode(), name="2.6/0001-relocate.patch")
    moved = next(move for move in moves if FILES.get(move.origin, "").count("\n") == 1)
    line = FILES[moved.origin].rstrip("\n")
    body = f"--- a/{moved.target}\n+++ b/{moved.target}\n@@ -1 +1 @@\n-{line}\n+{line} // ours\n"
    edit = parse_patch(f"diff --git a/{moved.target} b/{moved.target}\n{body}".encode(), name="2.6/0002-edit.patch")
    write_files(tmp_path, {"torch/csrc/elsewhere/cuda_green.cpp": ""})
    opened = OpenedSource(FolderSource(tmp_path), "here")
    remaker = PatchRemaker({})
    first, second = check_series(
        [relocation, edit], opened.source, remade=remaker.bind_source(opened), ruled=remaker.bind_rules(opened)
    )
    assert (first.status, second.status) == (Fit.CONFLICT, Fit.CLEAN)


def test_a_file_that_stage_1_includes_now_is_told(tmp_path: Path) -> None:
    found = judge(
        tmp_path, {"torch/csrc/a.cpp": FILES["torch/csrc/a.cpp"] + "#include <torch/csrc/jit/passes/fuse_gpu.h>\n"}
    )
    assert found.status is Fit.MADE
    assert found.notes == ("torch/csrc/jit/passes/fuse_gpu.h: moved before, stays in this source",)


def test_without_a_tree_on_disk_names_tell_of_python_files_alone(tmp_path: Path) -> None:
    found = judge(tmp_path, {NEW: "", "torch/cuda/green.py": ""}, names_alone=True)
    assert found.status is Fit.CLEAN, "what is not known is no verdict"
    (note,) = found.notes
    assert note.startswith("torch/cuda/green.py: new in this source")
