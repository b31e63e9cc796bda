"""The plan of a small tree: what moves, what stays because stage 1 needs it, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from decouple.base.errors import DecoupleError
from decouple.inventory import rules as rule_files
from decouple.inventory.rules import Cut, Rule, RuleFile
from decouple.relocate.plan import list_unclassified, make_plan
from decouple.relocate.relocation_patch import render_patch
from tests.support.files import write_files
from tests.unit.relocate.trees import FILES

UNGUARDED = "#include <torch/csrc/utils/cuda_enabled.h>\n#include <c10/cuda/CUDAStream.h>\n"
ROOT = "third_device/torch_cuda/torch_cuda"


@pytest.fixture
def rules() -> RuleFile:
    return rule_files.load_rules()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_files(tmp_path / "pytorch", FILES)


def test_each_file_goes_where_its_rules_say(tree: Path, rules: RuleFile) -> None:
    moves = {move.origin: (move.target, move.rules) for move in make_plan(tree, rules).moves}
    assert moves == {
        "aten/src/ATen/cuda/Context.cpp": (f"{ROOT}/csrc/aten/cuda/Context.cpp", ("aten-directories",)),
        "aten/src/ATen/cuda/Context.h": (f"{ROOT}/csrc/aten/cuda/Context.h", ("aten-directories",)),
        "aten/src/ATen/native/miopen/Conv.cpp": (f"{ROOT}/csrc/aten/native/miopen/Conv.cpp", ("aten-build-lists",)),
        "aten/src/ATen/native/sparse/cuda/Blas.cu": (
            f"{ROOT}/csrc/aten/native/sparse/cuda/Blas.cu",
            ("aten-directories", "aten-suffixes"),
        ),
        "aten/src/THC/THCAtomics.cuh": (f"{ROOT}/csrc/aten/THC/THCAtomics.cuh", ("thc",)),
        "c10/cuda/CUDAStream.h": (f"{ROOT}/csrc/framework/c10/cuda/CUDAStream.h", ("c10-cuda",)),
        "torch/csrc/cuda/Module.cpp": (f"{ROOT}/csrc/pybinding/Module.cpp", ("python-bindings",)),
        "torch/csrc/jit/passes/fuse_gpu.cpp": (f"{ROOT}/csrc/jit/passes/fuse_gpu.cpp", ("jit-build-lists",)),
        "torch/csrc/jit/passes/fuse_gpu.h": (f"{ROOT}/csrc/jit/passes/fuse_gpu.h", ("jit-build-lists",)),
        "torch/cuda/__init__.py": (f"{ROOT}/core/__init__.py", ("torch.cuda",)),
    }


def test_what_stage_1_includes_stays_with_the_chain_that_proves_it(tree: Path, rules: RuleFile) -> None:
    (stay,) = make_plan(tree, rules).stays
    assert stay.path == "torch/csrc/utils/cuda_enabled.h"
    assert stay.chain == ("torch/csrc/a.cpp", "torch/csrc/utils/cuda_enabled.h")


def test_a_guarded_include_keeps_nothing_and_an_unguarded_one_does(tree: Path, rules: RuleFile) -> None:
    assert "c10/cuda/CUDAStream.h" in make_plan(tree, rules).mapping
    write_files(tree, {"torch/csrc/a.cpp": UNGUARDED})
    assert "c10/cuda/CUDAStream.h" not in make_plan(tree, rules).mapping


def test_an_unclassified_cuda_file_is_an_error_that_names_it(tree: Path, rules: RuleFile) -> None:
    write_files(tree, {"torch/headeronly/cuda/Half.h": ""})
    assert list_unclassified(tree, rules) == ["torch/headeronly/cuda/Half.h"]
    with pytest.raises(DecoupleError, match=r"Half\.h: unclassified"):
        make_plan(tree, rules)


LAUNCHER = "torch/csrc/inductor/launcher/cuda"


@pytest.mark.parametrize(
    "text", ["#ifdef USE_CUDA\nint a;\n#endif\n", "#include <a.h>\n#if USE_CUDA\nint a;\n#endif // CUDA\n"]
)
def test_a_unit_with_nothing_left_in_it_is_named(tree: Path, rules: RuleFile, text: str) -> None:
    """Its header would move and it would stay, where no library compiles it any more: its bindings would be gone."""
    core = f'core = ["torch/csrc/a.cpp", "{LAUNCHER}.cpp"]\nlibtorch_cmake_sources = sorted(core)\n'
    write_files(tree, {"build_variables.bzl": core, f"{LAUNCHER}.cpp": text, f"{LAUNCHER}.h": "#pragma once\n"})
    assert make_plan(tree, rules).hollow == (f"{LAUNCHER}.cpp",)
    known = structs.replace(rules.stage1, taken_out=[*rules.stage1.taken_out, f"{LAUNCHER}.cpp"])
    plan = make_plan(tree, structs.replace(rules, stage1=known))
    assert f"{LAUNCHER}.cpp" in plan.mapping
    assert plan.hollow == ()


def test_a_unit_with_something_left_in_it_stays(tree: Path, rules: RuleFile) -> None:
    core = f'core = ["torch/csrc/a.cpp", "{LAUNCHER}.cpp"]\nlibtorch_cmake_sources = sorted(core)\n'
    write_files(
        tree, {"build_variables.bzl": core, f"{LAUNCHER}.cpp": "#ifdef USE_CUDA\nint a;\n#else\nint b;\n#endif\n"}
    )
    plan = make_plan(tree, rules)
    assert f"{LAUNCHER}.cpp" not in plan.mapping
    assert plan.hollow == ()


def test_two_rules_that_disagree_are_an_error_that_names_the_file(tree: Path, rules: RuleFile) -> None:
    other = Rule("other", "directory", "aten", "csrc/elsewhere", "a mistake", ("aten/src/THC/**",))
    with pytest.raises(DecoupleError, match=r"THCAtomics.*disagree"):
        make_plan(tree, structs.replace(rules, rules=(*rules.rules, other)))


def test_two_files_that_would_get_one_name_are_an_error(tree: Path, rules: RuleFile) -> None:
    write_files(tree, {"c10/cuda/x/A.h": "", "c10/hip/cuda/A.h": ""})
    flat = Rule("flat", "directory", "c10/hip/cuda", "csrc/framework/c10/cuda/x", "", ("c10/hip/cuda/**",))
    crowded = structs.replace(rules, rules=(*rules.rules, flat), keeps=())
    with pytest.raises(DecoupleError, match="would both become"):
        make_plan(tree, crowded)


@pytest.mark.parametrize("whole", [True, False])
def test_what_upstream_has_where_a_file_would_go_is_an_error_that_names_both(
    tree: Path, rules: RuleFile, whole: bool
) -> None:
    target = make_plan(tree, rules).mapping["c10/cuda/CUDAStream.h"]
    there = target if whole else target.partition("/")[0]
    write_files(tree, {there: ""})
    with pytest.raises(DecoupleError, match=rf" would become .*, and this release has {'that' if whole else there}"):
        make_plan(tree, rules)


def test_a_cut_that_no_longer_stands_is_an_error(tree: Path, rules: RuleFile) -> None:
    cut = Cut("c10/cuda/CUDAStream.h", ("aten/src/ATen/native/Add.cpp",), "")
    with pytest.raises(DecoupleError, match=r"Add\.cpp.*CUDAStream"):
        make_plan(tree, structs.replace(rules, cuts=(cut,)))


def test_a_cut_lets_a_header_go_that_the_core_still_includes(tree: Path, rules: RuleFile) -> None:
    write_files(tree, {"torch/csrc/a.cpp": UNGUARDED})
    cut = Cut("c10/cuda/CUDAStream.h", ("torch/csrc/a.cpp",), "a patch takes the include out")
    assert "c10/cuda/CUDAStream.h" in make_plan(tree, structs.replace(rules, cuts=(cut,))).mapping


def test_a_cut_of_a_later_release_is_no_error_in_another(tree: Path, rules: RuleFile) -> None:
    cut = Cut("c10/cuda/CUDAStream.h", ("torch/later.cpp",), "a patch takes the include out", later=True)
    assert "c10/cuda/CUDAStream.h" in make_plan(tree, structs.replace(rules, cuts=(cut,))).mapping


def test_a_unit_that_a_patch_takes_out_of_the_core_s_lists_moves(tree: Path, rules: RuleFile) -> None:
    unit = "torch/csrc/inductor/static_cuda_launcher.cpp"
    lists = f'libtorch_cmake_sources = ["torch/csrc/a.cpp", "{unit}"]\nlibtorch_cuda_core_sources = []\n'
    write_files(tree, {unit: "#ifdef USE_CUDA\nint x;\n#endif\n", "build_variables.bzl": lists})
    assert make_plan(tree, rules).mapping[unit].startswith(ROOT)
    kept = structs.replace(rules, stage1=structs.replace(rules.stage1, taken_out=()))
    assert unit not in make_plan(tree, kept).mapping


def test_not_a_pytorch_tree(tmp_path: Path, rules: RuleFile) -> None:
    with pytest.raises(DecoupleError, match="holds none of"):
        make_plan(tmp_path, rules)


def test_the_patch_moves_files_and_nothing_else(tree: Path, rules: RuleFile, tmp_path: Path) -> None:
    plan = make_plan(tree, rules)
    text = render_patch(plan.moves, rules, "2.6")
    assert text == render_patch(make_plan(tree, rules).moves, rules, "2.6"), "the same tree gives the same bytes"
    patch = tmp_path / "move.patch"
    patch.write_text(text)
    before = {path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "apply", str(patch)], cwd=tree, check=True)
    after = {
        path.relative_to(tree).as_posix(): path.read_bytes()
        for path in tree.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }
    assert after == {plan.mapping.get(name, name): data for name, data in before.items()}


def test_git_am_keeps_the_dep3_fields_in_its_message(tree: Path, rules: RuleFile, tmp_path: Path) -> None:
    patch = tmp_path / "move.patch"
    patch.write_text(render_patch(make_plan(tree, rules).moves, rules, "2.6"))
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", "-C", str(tree)]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "upstream"], ["am", "-q", str(patch)]):
        subprocess.run([*git, *command], check=True)
    message = subprocess.run([*git, "log", "-1", "--format=%B"], check=True, capture_output=True, text=True).stdout
    assert message.startswith(rules.patch.subject) and f"Decouple-Id: {rules.patch.decouple_id}" in message


def test_a_relocated_tree_moves_nothing_more(tree: Path, rules: RuleFile, tmp_path: Path) -> None:
    patch = tmp_path / "move.patch"
    patch.write_text(render_patch(make_plan(tree, rules).moves, rules, "2.6"))
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "apply", str(patch)], cwd=tree, check=True)
    with pytest.raises(DecoupleError, match="moves nothing"):
        render_patch(make_plan(tree, rules).moves, rules, "2.6")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("schema = 2\n", r"schema: expected 1 .*, found 2"),
        ("schema = \n", "Invalid value"),
        ("schema = 1\n", r"\$: Object missing required field"),
    ],
)
def test_a_faulty_rule_file_is_refused_with_the_key(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(DecoupleError, match=told):
        rule_files.load_rules(path)
