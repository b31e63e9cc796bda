"""``decouple census`` as a user types it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from decouple.census.finding import IN_BUILD
from decouple.cli import main
from tests.unit.census import planted


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("series", "patches"):
        (tmp_path / "project" / name).mkdir(parents=True)
    (tmp_path / "project/series/2.6").write_text("")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("COLUMNS", "200")
    return planted.tree(tmp_path / "pytorch")


def test_a_pristine_tree_alone(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tree.parent / f"census.{name}" for name in ("json", "html")}
    arguments = ["census", "2.6", "--tree", str(tree), "--json", str(files["json"]), "--html", str(files["html"])]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "compile time: 3 before" in told
    assert json.loads(files["json"].read_text())["summary"]["vendors"]["cuda"]["key_number"] == {
        "before": 3,
        "after": None,
    }
    assert "planted_macro.cpp" in files["html"].read_text()


def test_both_vendors_are_told_and_each_alone(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tree.parent / "census.json"
    page = tree.parent / "census.html"
    assert main(["census", "2.6", "--tree", str(tree), "--json", str(where), "--html", str(page)]) == 0
    told = capsys.readouterr().out
    assert "need CUDA at compile time: 3 before" in told and "need ROCm at compile time: 2 before" in told
    vendors = json.loads(where.read_text())["summary"]["vendors"]
    assert {word: one["key_number"]["before"] for word, one in vendors.items()} == {"cuda": 3, "rocm": 2}
    assert {one["vendor"] for one in json.loads(where.read_text())["findings"]} == {"cuda", "rocm"}
    assert '"vendor":["cuda","rocm"]' in page.read_text()
    assert main(["census", "2.6", "--tree", str(tree), "--vendor", "rocm", "--couplings"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "torch/csrc/planted_rocm_include.cpp",
        "torch/csrc/planted_rocm_macro.cpp",
    ]


def test_what_is_left_after_the_series_fails(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(tree)]) == 1
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(tree), "--couplings"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "torch/csrc/planted_include.cpp:1: include cuda_runtime.h: unguarded" in lines


def test_a_file_that_the_rules_move_and_that_stands_in_the_core_counts_as_the_cores(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So it is where the relocation patch is older than the rules: nothing has moved the file, and stage 1 has it."""
    applied, report = planted.tree(tree.parent / "applied"), tree.parent / "census.json"
    for name in ("torch/csrc/a.cpp", *planted.UNITS):
        (applied / name).write_text("")
    (applied / "torch/csrc/cuda/Module.cpp").write_text("#include <cuda_runtime.h>\n#ifdef USE_CUDA\nint x;\n#endif\n")
    with (applied / "build_variables.bzl").open("a") as lists:
        lists.write('torch_cpp_srcs = ["torch/csrc/cuda/Module.cpp"]\n')
    words = ["census", "2.6", "--tree", str(tree), "--applied", str(applied), "--vendor", "cuda"]
    assert main([*words, "--couplings", "--json", str(report)]) == 1
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "torch/csrc/cuda/Module.cpp:1",
        "torch/csrc/cuda/Module.cpp:2",
    ]
    found = [one for one in json.loads(report.read_text())["findings"] if one["origin"] == "torch/csrc/cuda/Module.cpp"]
    assert {one["reason"] for one in found} == {"the rules move it, and it stands here"}
    assert {one["category"] for one in found} == {"inter-file", "include", "macro"}


def test_in_an_applied_tree_where_nothing_moved_nothing_counts_as_moved(tree: Path) -> None:
    report = tree.parent / "census.json"
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(tree), "--json", str(report)]) == 1
    told = json.loads(report.read_text())
    assert "moved" not in {one["verdict"] for one in told["findings"]}
    for row in told["summary"]["vendors"]["cuda"]["modules"]:
        assert row["after"] == row["before"], row


def test_a_file_at_its_old_and_its_new_place_is_told_at_both(tree: Path) -> None:
    """A later patch of a series may put one back where others look for it."""
    applied, report = planted.tree(tree.parent / "applied"), tree.parent / "census.json"
    new = "third_device/torch_cuda/torch_cuda/csrc/aten/cuda/Planted.cu"
    (applied / new).parent.mkdir(parents=True)
    (applied / new).write_text("")
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(applied), "--json", str(report)]) == 1
    old = "aten/src/ATen/cuda/Planted.cu"
    found = {one["path"]: one["verdict"] for one in json.loads(report.read_text())["findings"] if one["origin"] == old}
    assert found == {old: "open", new: "moved"}


def test_the_reports_have_the_coupling_that_made_the_census_fail(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a guard hid before the series is, without it, another finding of the same place."""
    applied, report = planted.tree(tree.parent / "applied"), tree.parent / "census.json"
    (applied / "torch/csrc/a.cpp").write_text("#include <c10/cuda/CUDAStream.h>\n")
    words = ["census", "2.6", "--tree", str(tree), "--applied", str(applied), "--vendor", "cuda"]
    assert main([*words, "--couplings", "--json", str(report)]) == 1
    listed = {line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()}
    assert "torch/csrc/a.cpp:1" in listed
    told = json.loads(report.read_text())
    needing = [
        one
        for one in told["findings"]
        if one["needs_vendor"] and one["stage"] in IN_BUILD and one["verdict"] not in ("moved", "stays", "cut")
    ]
    assert {f"{one['path']}:{one['line']}" for one in needing} == listed
    assert len(needing) == told["summary"]["vendors"]["cuda"]["key_number"]["after"]
    assert {one["detail"] for one in needing if one["path"] == "torch/csrc/a.cpp"} == {"unguarded"}


def test_what_a_patch_cuts_of_a_file_that_another_moved_is_told_with_the_patch(tree: Path) -> None:
    """The patch knows the file's new place, the pristine tree the old one."""
    old, project = "aten/src/ATen/cuda/Context.cpp", tree.parent / "project"
    assert main(["relocate", "2.6", "--tree", str(tree), "--write"]) == 0
    (move,) = (project / "patches").glob("2.6/*.patch")
    new = "third_device/torch_cuda/torch_cuda/csrc/aten/cuda/Context.cpp"
    (project / "patches/2.6/0002-context.patch").write_text(
        f"--- a/{new}\n+++ b/{new}\n@@ -1,1 +1,1 @@\n-#include <ATen/cuda/Context.h>\n+int x;\n"
    )
    (project / "series/2.6").write_text(f"2.6/{move.name}\n2.6/0002-context.patch\n")
    applied, report = planted.tree(tree.parent / "applied"), tree.parent / "census.json"
    subprocess.run(["git", "init", "-q"], cwd=applied, check=True)
    for patch in sorted((project / "patches/2.6").iterdir()):
        subprocess.run(["git", "apply", str(patch)], cwd=applied, check=True)
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(applied), "--json", str(report)]) == 1
    found = [one for one in json.loads(report.read_text())["findings"] if one["origin"] == old]
    assert {(one["category"], one["verdict"], one["reason"]) for one in found} == {
        ("inter-file", "moved", f"stands below {new.rpartition('/')[0]}"),
        ("include", "cut", "cut by 0002-context"),
    }


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("CMakeLists.txt", "add_subdirectory(third_party/cudaFHE)"),
        ("cmake/Dependencies.cmake", 'add_subdirectory("${PROJECT_SOURCE_DIR}/third_party/cudaFHE")'),
    ],
)
def test_what_every_build_does_is_left_after_the_series(
    tree: Path, capsys: pytest.CaptureFixture[str], file: str, line: str
) -> None:
    (tree / file).parent.mkdir(exist_ok=True)
    with (tree / file).open("a") as there:
        there.write(f"{line}\n")
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(tree), "--couplings"]) == 1
    assert "third_party/cudaFHE: unconditional" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["third_party/cutlass", "debian/kineto-338140f/libkineto/test"])
def test_what_a_component_does_in_its_own_project_is_no_coupling(tree: Path, where: str) -> None:
    """A tree with its submodules has cutlass, one with Debian's patches Debian's copy of kineto: nothing of them is
    built where nothing adds it. So the tree that is built in Debian's root counts as the pristine one does."""
    (tree / where).mkdir(parents=True)
    (tree / where / "CMakeLists.txt").write_text("project(CUTLASS)\nfind_package(CUDAToolkit)\nenable_language(CUDA)\n")
    told = tree.parent / "census.json"
    assert main(["census", "2.6", "--tree", str(tree), "--json", str(told)]) == 0
    assert json.loads(told.read_text())["summary"]["vendors"]["cuda"]["key_number"]["before"] == 3
    found = [one for one in json.loads(told.read_text())["findings"] if one["path"].startswith(where)]
    assert found
    assert {one["verdict"] for one in found} == {"stays"}


def test_a_file_that_no_rule_places_stops_no_census(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "torch/csrc/odd").mkdir()
    (tree / "torch/csrc/odd/cuda_thing.cu").write_text("int x;\n")
    where = tree.parent / "census.json"
    assert main(["census", "2.6", "--tree", str(tree), "--json", str(where)]) == 0
    said = capsys.readouterr()
    found = [one for one in json.loads(where.read_text())["findings"] if "cuda_thing" in one["path"]]
    assert [one["verdict"] for one in found if one["category"] == "inter-file"] in (["open"], ["moved"])
    assert "cuda_thing.cu" in said.out + said.err or found[0]["verdict"] == "moved"


def test_a_fork_brings_its_own_words(tree: Path) -> None:
    """No global rule is edited: the file is for this tree alone."""
    (tree / "torch/csrc/planted_macro.cpp").write_text("int a;\n#ifdef USE_ACME\nint b;\n#endif\n")
    (tree / "torch/planted.py").write_text("import torch\nx = torch._C._acmeBinding(1)\n")
    own = tree.parent / "acme.toml"
    own.write_text('schema = 1\nwords = ["acme", "Acme", "ACME"]\n[[macro]]\nfamily = "build"\nnames = ["USE_ACME"]\n')
    where = tree.parent / "census.json"
    for also, count in (([], 2), (["--also", str(own)], 3)):
        assert main(["census", "2.6", "--tree", str(tree), "--json", str(where), *also]) == 0
        assert json.loads(where.read_text())["summary"]["vendors"]["cuda"]["key_number"]["before"] == count
    symbols = {(one["category"], one["symbol"]) for one in json.loads(where.read_text())["findings"]}
    assert {("macro", "USE_ACME"), ("python", "_acmeBinding")} <= symbols


def test_the_compilers_macro_of_a_fork_is_not_defined_at_stage_1(tree: Path) -> None:
    """As ``__CUDACC__`` is not: what it guards is for the device's compiler alone."""
    (tree / "c10/util").mkdir(exist_ok=True)
    (tree / "c10/util/planted.h").write_text("#ifdef __ACMECC__\n#include <cuda.h>\n#endif\n")
    (tree / "c10/util/planted.cpp").write_text("#include <c10/util/planted.h>\n")
    own, where = tree.parent / "acme.toml", tree.parent / "census.json"
    own.write_text('schema = 1\n[[macro]]\nfamily = "compiler"\nnames = ["__ACMECC__"]\n')
    counts = []
    for also in ([], ["--also", str(own)]):
        assert main(["census", "2.6", "--tree", str(tree), "--json", str(where), *also]) == 0
        counts.append(json.loads(where.read_text())["summary"]["vendors"]["cuda"]["key_number"]["before"])
    assert counts[0] == counts[1] + 1


KEEP = '[[keep]]\nname = "{name}"\nmatch = ["aten/src/ATen/acme.md"]\nreason = "documentation"\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('words = [""]\n', "$.words[0]"),
        ('[[macro]]\nfamily = "build"\nnames = [""]\n', "$.macro[0].names[0]"),
        ('[[macro]]\nfamily = "bild"\nnames = ["USE_ACME"]\n', "$.macro[0].family"),
        (KEEP.format(name="rocm"), "$.keep[0].name: 'rocm' is the name of another rule"),
        (KEEP.format(name="acme") * 2, "$.keep[1].name: 'acme' is the name of another rule"),
    ],
)
def test_a_mistake_in_a_forks_words_is_told_by_file_and_key(
    tree: Path, capsys: pytest.CaptureFixture[str], text: str, key: str
) -> None:
    own = tree.parent / "acme.toml"
    own.write_text(f"schema = 1\n{text}")
    assert main(["census", "2.6", "--tree", str(tree), "--also", str(own)]) == 1
    assert f"{own}: {key}" in capsys.readouterr().err


def test_after_needs_an_applied_tree(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", "2.6", "--tree", str(tree), "--after"]) == 2
    assert "decouple apply 2.6" in capsys.readouterr().err


def test_an_applied_tree_that_is_not_there_is_told_by_its_name(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``decouple apply`` would make another one."""
    assert main(["census", "2.6", "--tree", str(tree), "--applied", str(tree / "none")]) == 2
    said = capsys.readouterr().err
    assert f"{tree / 'none'}: no such tree" in said and "decouple apply" not in said


def test_the_pristine_tree_alone_and_an_applied_one_are_not_asked_for_together(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["census", "2.6", "--tree", str(tree), "--before", "--applied", str(tree)]) == 2
    said = capsys.readouterr().err
    assert "--before" in said and "--applied" in said and "no such tree" not in said
