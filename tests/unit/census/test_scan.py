"""The census of a small tree: each planted coupling is found with its category, and the control files are clean."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.census import scan
from decouple.census import taxonomy as taxonomies
from decouple.census.context import make_context
from decouple.census.finding import Census, Finding
from decouple.census.scan import list_tree_files, scan_tree
from decouple.inventory import rules as rule_files
from decouple.relocate.plan import make_plan
from tests.support.files import write_files
from tests.unit.census import planted


def take(tree: Path, jobs: int = 1, vendor: str = "cuda") -> Census:
    """One census of a pristine tree."""
    rules = rule_files.load_rules()
    taxonomy = taxonomies.load_taxonomy(taxonomies.DATA[vendor], undefined=rules.stage1.undefined)
    return scan_tree(make_context(tree, rules, make_plan(tree, rules).mapping), taxonomy, jobs=jobs)


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Census:
    return take(planted.tree(tmp_path_factory.mktemp("census") / "pytorch"))


def at(census: Census, path: str, category: str) -> list[Finding]:
    return [finding for finding in census.findings if finding.path == path and finding.category == category]


def make_repository(tree: Path) -> None:
    write_files(tree, {".gitignore": "/c10/made.cpp\n", "c10/util/a.cpp": "", "tools/build/a.py": ""})
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)


def test_a_new_file_that_git_does_not_know_yet_is_one_of_the_tree(tmp_path: Path) -> None:
    """CMake's globs compile it, too; what git is told to ignore, a build made."""
    make_repository(tmp_path)
    made = {"c10/made.cpp": "", "build/b.cpp": "", "torch/__pycache__/c.pyc": ""}
    write_files(tmp_path, {"c10/util/new.cpp": "#include <cuda_runtime.h>\n", **made})
    known = [".gitignore", "c10/util/a.cpp", "tools/build/a.py"]
    assert list_tree_files(tmp_path) == sorted([*known, "c10/util/new.cpp"])


def test_a_tree_has_the_same_files_with_git_and_without(tmp_path: Path) -> None:
    make_repository(tmp_path)
    write_files(tmp_path, {"build/b.cpp": ""})
    known = list_tree_files(tmp_path)
    shutil.rmtree(tmp_path / ".git")
    assert list_tree_files(tmp_path) == known == [".gitignore", "c10/util/a.cpp", "tools/build/a.py"]


def test_a_file_that_is_cudas_as_a_whole(census: Census) -> None:
    (finding,) = at(census, "aten/src/ATen/cuda/Planted.cu", "inter-file")
    assert (finding.symbol, finding.module, finding.verdict, finding.stage) == ("directory", "aten", "moved", "stage-2")


def test_a_macro_with_the_extent_of_what_it_guards(census: Census) -> None:
    (finding,) = at(census, "torch/csrc/planted_macro.cpp", "macro")
    assert (finding.symbol, finding.line, finding.end_line, finding.lines) == ("USE_CUDA", 2, 7, 2)
    assert finding.needs_vendor and finding.stage == "stage-1" and finding.verdict == "open"
    assert finding in census.needing_vendor


def test_an_include_of_a_cuda_header_that_stage_1_would_open(census: Census) -> None:
    (finding,) = at(census, "torch/csrc/planted_include.cpp", "include")
    assert (finding.symbol, finding.needs_vendor, finding.detail) == ("cuda_runtime.h", True, "unguarded")


def test_an_include_that_stage_1_skips_needs_nothing_by_itself(census: Census) -> None:
    (finding,) = at(census, "torch/csrc/a.cpp", "include")
    assert (finding.symbol, finding.needs_vendor) == ("c10/cuda/CUDAStream.h", False)
    assert finding.detail == "under a build macro: defined(USE_CUDA)" and finding.verdict == "open"


def test_a_binding_whose_name_has_no_word_of_cudas_is_found(tmp_path: Path) -> None:
    tree = planted.tree(tmp_path / "pytorch")
    (tree / "torch/planted_gather.py").write_text("import torch\n\ntorch._C._gather([])\n")
    (finding,) = at(take(tree), "torch/planted_gather.py", "python")
    assert finding.symbol == "_gather"


def test_cuda_only_code_is_a_coupling(census: Census) -> None:
    (finding,) = at(census, "torch/csrc/planted_name.cpp", "name")
    assert finding.symbol == "c10::cuda::CUDACachingAllocator::get"


def test_device_dispatch_is_legitimate(census: Census) -> None:
    found = at(census, "torch/csrc/planted_dispatch.cpp", "dispatch")
    assert {finding.symbol for finding in found} == {"is_cuda", "at::kCUDA", '"cuda"'}
    assert {finding.verdict for finding in found} == {"stays"}
    assert not at(census, "torch/csrc/planted_dispatch.cpp", "name")


def test_python_that_reaches_a_binding(census: Census) -> None:
    (finding,) = at(census, "torch/planted.py", "python")
    assert (finding.symbol, finding.line, finding.stage) == ("_cuda_plantedBinding", 3, "python")


def test_a_branch_of_a_build_file(census: Census) -> None:
    (finding,) = at(census, "torch/CMakeLists.txt", "build")
    assert (finding.symbol, finding.line, finding.end_line) == ("USE_CUDA", 1, 3)


def test_nothing_is_reported_in_the_control_files(census: Census) -> None:
    assert [f for f in census.findings if f.path in planted.CONTROL and f.category != "mention"] == []


def test_everything_found_is_planted_or_stands_in_the_first_file(census: Census) -> None:
    found = {f.path for f in census.in_core if f.category in ("macro", "include", "name", "python")}
    assert found <= set(planted.PLANTED) | {"torch/csrc/a.cpp"}


def test_ids_outlive_lines_that_move(census: Census, tmp_path: Path) -> None:
    tree = planted.tree(tmp_path / "next")
    path = tree / "torch/csrc/planted_macro.cpp"
    path.write_text("// a new line\n\n" + path.read_text())
    (before,) = at(census, "torch/csrc/planted_macro.cpp", "macro")
    (after,) = at(take(tree), "torch/csrc/planted_macro.cpp", "macro")
    assert after.line == before.line + 2 and after.id == before.id


def test_a_file_that_cannot_be_read_ends_the_count(tmp_path: Path) -> None:
    """It was passed over, and a count without it looked whole. One that is not there is no file."""
    tree = planted.tree(tmp_path / "pytorch")
    context = make_context(tree, rule_files.load_rules(), {})
    words = taxonomies.load_taxonomy(taxonomies.DATA["cuda"], undefined=())
    (tree / "link.cpp").symlink_to("nowhere")
    assert scan_tree(context, words, files=["gone.cpp", "link.cpp"]).findings == ()
    too_long = f"{'a' * 300}.cpp"
    with pytest.raises(DecoupleError, match=r"a\.cpp: File name too long"):
        scan_tree(context, words, files=[too_long])


def test_two_processes_find_what_one_finds(census: Census, tmp_path: Path) -> None:
    tree = planted.tree(tmp_path / "again")
    for number in range(300):  # more than one task's worth of files
        (tree / f"torch/filler_{number}.py").write_text("")
    assert take(tree, jobs=2).findings == census.findings


def test_one_process_finds_it_where_no_lock_can_be_shared(
    census: Census, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chroot may have no /dev/shm: `census` ended with "No such file or directory", and `apply` with it."""

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(scan, "ProcessPoolExecutor", refuse)
    monkeypatch.setattr(scan, "CHUNK", 2)
    assert take(planted.tree(tmp_path / "again"), jobs=2).findings == census.findings


def test_rocms_couplings_are_counted_as_cudas_are(census: Census) -> None:
    of_rocm = take(Path(census.tree), vendor="rocm")
    (whole,) = at(of_rocm, "c10/hip/Planted.h", "inter-file")
    (macro,) = at(of_rocm, "torch/csrc/planted_rocm_macro.cpp", "macro")
    (include,) = at(of_rocm, "torch/csrc/planted_rocm_include.cpp", "include")
    assert (whole.symbol, whole.verdict) == ("directory", "stays")
    assert (macro.symbol, macro.lines, macro.verdict) == ("USE_ROCM", 1, "open")
    assert (include.symbol, include.detail) == ("hip/hip_runtime.h", "unguarded")
    assert of_rocm.needing_vendor == [include, macro]
    assert {one.symbol for one in at(of_rocm, "torch/csrc/planted_rocm_name.cpp", "name")} == {
        "c10::hip::getStream",
        "hipMalloc",
    }
    assert {one.symbol for one in at(of_rocm, "torch/csrc/planted_rocm_dispatch.cpp", "dispatch")} == {
        "at::kHIP",
        '"hip"',
    }
    assert [one.symbol for one in at(of_rocm, "torch/planted_rocm.cmake", "build")] == ["USE_ROCM"]


def test_a_vendors_words_find_nothing_of_the_other_nor_a_part_of_a_word(census: Census) -> None:
    of_rocm = take(Path(census.tree), vendor="rocm")
    assert [one.path for one in of_rocm.findings if one.path in {**planted.PLANTED, **planted.CONTROL}] == []
    assert [one.path for one in census.findings if one.path in planted.OF_ROCM] == []


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('words = ["cuda"', 'words = ["", "cuda"', "names.words"),
        ('macro_words = ["USE_UCC"', 'macro_words = ["", "USE_UCC"', "names.macro_words"),
        ('prefilter = ["cuda"', 'prefilter = ["", "cuda"', "prefilter"),
    ],
)
def test_an_empty_word_of_a_taxonomy_is_told_by_its_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    text = taxonomies.DEFAULT.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "taxonomy.toml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(DecoupleError) as told:
        taxonomies.load_taxonomy(tmp_path / "taxonomy.toml")
    assert key in str(told.value)


def test_words_of_a_taxonomy_are_text_not_expressions() -> None:
    assert taxonomies.join_words(["a.c", "(b"]).findall("a.c abc (b") == ["a.c", "(b"]
    assert taxonomies.join_words([]).search("anything") is None


@pytest.mark.parametrize("vendor", taxonomies.DATA)
def test_a_file_with_nothing_but_one_watched_macro_is_read(vendor: str) -> None:
    taxonomy = taxonomies.load_taxonomy(taxonomies.DATA[vendor])
    names = [name.replace("*", "") for _, names in taxonomy.macros for name in names if not set(name) & set("{[")]
    assert [name for name in names if not taxonomy.may_hold_finding(f"#ifdef {name}".encode())] == []
