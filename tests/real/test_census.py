"""The census of the real 2.6.0 source: plants are found, and after the series nothing needs CUDA to compile."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.build import preflight
from decouple.census import taxonomy as taxonomies
from decouple.census.context import make_context
from decouple.census.finding import Census
from decouple.census.python import may_access_binding, scan_python
from decouple.census.scan import list_tree_files, scan_tree
from decouple.cli import main
from decouple.flows.listener import QUIET
from decouple.flows.work_environment import WorkRequest, ensure_tree
from decouple.inventory import rules as rule_files
from decouple.patch import series_file
from decouple.relocate.plan import make_plan
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: file -> (text, category, symbol) of what is planted in a copy of the tree; each is a kind of its own
PLANTED = {
    "aten/src/ATen/native/cuda/Planted.cu": ("int x;\n", "inter-file", "directory"),
    "torch/csrc/jit/backends/planted_macro.cpp": (
        "#if A\n#elif defined(USE_NCCL)\nint x;\n#endif\n",
        "macro",
        "USE_NCCL",
    ),
    "torch/csrc/jit/backends/planted_include.cpp": ("#include <cuda_runtime.h>\n", "include", "cuda_runtime.h"),
    "torch/csrc/jit/backends/planted_name.cpp": ("auto x = at::cuda::warp_size();\n", "name", "at::cuda::warp_size"),
    "torch/csrc/jit/backends/planted_dispatch.cpp": ("auto x = t.is_cuda();\n", "dispatch", "is_cuda"),
    "torch/planted.py": ("from torch._C import _cuda_planted\n", "python", "_cuda_planted"),
    "cmake/planted.cmake": ("if(USE_CUDNN)\nendif()\n", "build", "USE_CUDNN"),
}
CONTROL = {
    "torch/csrc/jit/backends/control.cpp": '// USE_CUDA at::cuda::f\nauto s = "at::cuda::f";\n'
    "#ifdef USE_MKLDNN\n#endif\n",
    "torch/control.py": '"""torch._C._cuda_init"""\nimport torch\n\ntorch._C._jit_init()\n',
}


@pytest.fixture(scope="module")
def pristine() -> Path:
    return fetch_source(load_release(find_project(), "2.6"), "debian").path


@pytest.fixture(scope="module")
def moves(pristine: Path) -> dict[str, str]:
    return make_plan(pristine, rule_files.load_rules()).mapping


def take(tree: Path, moves: dict[str, str], vendor: str = "cuda", *, applied: bool = False) -> Census:
    rules = rule_files.load_rules()
    context = make_context(tree, rules, moves, applied=applied)
    return scan_tree(context, taxonomies.load_taxonomy(taxonomies.DATA[vendor], undefined=rules.stage1.undefined))


@pytest.fixture(scope="module")
def copy(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real") / "pytorch"
    shutil.copytree(pristine, folder, symlinks=True)
    return folder


@pytest.fixture(scope="module")
def census(pristine: Path, moves: dict[str, str]) -> Census:
    return take(pristine, moves)


def test_every_finding_has_an_id_of_its_own(census: Census) -> None:
    assert len({finding.id for finding in census.findings}) == len(census.findings)


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
def test_no_file_with_a_python_finding_is_passed_over_unread(pristine: Path, vendor: str) -> None:
    undefined = rule_files.load_rules().stage1.undefined
    taxonomy = taxonomies.load_taxonomy(taxonomies.DATA[vendor], undefined=undefined)
    passed, found = 0, set()
    for path in list_tree_files(pristine):
        if path.endswith(".py") and not may_access_binding(data := (pristine / path).read_bytes(), taxonomy):
            passed += 1
            if b"_C" in data and scan_python(path, data.decode("utf-8", "replace"), taxonomy):
                found.add(path)
    assert passed > 1000
    assert found == set()


def test_the_couplings_that_a_reader_found_are_found(census: Census) -> None:
    """17 files whose #ifdef changes behaviour were listed by hand before there was a census; it finds each of them."""
    found = {finding.origin for finding in census.needing_vendor}
    csrc = """Module.cpp Generator.cpp Storage.cpp StorageMethods.cpp StorageSharing.cpp utils.h dynamo/guards.cpp
        inductor/aoti_runner/pybind.cpp inductor/resize_storage_bytes.cpp inductor/aoti_eager/kernel_holder.cpp
        inductor/aoti_package/pybind.cpp jit/tensorexpr/tensorexpr_init.cpp jit/passes/frozen_conv_add_relu_fusion.cpp
        distributed/c10d/init.cpp distributed/rpc/request_callback_impl.cpp
        distributed/rpc/request_callback_no_python.cpp"""
    listed = {f"torch/csrc/{name}" for name in csrc.split()} | {"tools/autograd/templates/python_variable_methods.cpp"}
    assert listed - found == set()


def test_what_use_rocm_decides_in_the_core_is_found_and_nothing_is_left_after_the_series(
    pristine: Path, moves: dict[str, str], tmp_path: Path
) -> None:
    """A trial with hipify listed these files by hand (issue 41); each is told, cut or with the reason why it stays."""
    before = take(pristine, moves, "rocm")
    listed = [
        "aten/src/ATen/Context.cpp",
        "aten/src/ATen/Context.h",
        "aten/src/ATen/DLConvertor.cpp",
        "aten/src/ATen/detail/CUDAHooksInterface.h",
        "aten/src/ATen/native/sparse/SparseBlasImpl.cpp",
        "torch/csrc/autograd/function.h",
        "torch/csrc/jit/codegen/fuser/cuda/resource_strings.h",
        "torch/csrc/profiler/collection.cpp",
        "torch/csrc/profiler/util.cpp",
    ]
    assert set(listed) <= {finding.origin for finding in before.findings if "USE_ROCM" in finding.symbol.split("+")}
    tree = tmp_path / "pytorch"
    shutil.copytree(pristine, tree, symlinks=True)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    for name in series_file.read_series(find_project() / "series" / "2.6").names:
        subprocess.run(["git", "apply", str(find_project() / "patches" / name)], cwd=tree, check=True)
    shutil.rmtree(tree / ".git")
    after = take(tree, moves, "rocm", applied=True)
    assert [(f.path, f.line, f.symbol) for f in after.needing_vendor] == []
    assert [(f.path, f.line, f.symbol) for f in after.findings if f.verdict == "open"] == [], "each has its reason"
    page = " ".join((find_project() / "docs/census.md").read_text(encoding="utf-8").split())
    assert f"its key number of 2.6.0: {len(before.needing_vendor)} before the series, 0 after." in page


def test_the_guide_says_what_the_census_finds(census: Census) -> None:
    """docs/census.md states the key number of 2.6.0; it is this, or the page is out of date."""
    page = " ".join((find_project() / "docs/census.md").read_text(encoding="utf-8").split())
    assert f"2.6.0: {len(census.needing_vendor)} before the series, 0 after." in page


def test_what_is_planted_is_found_with_its_category_and_the_control_is_clean(
    copy: Path, census: Census, moves: dict[str, str]
) -> None:
    plants = {name: text for name, (text, _, _) in PLANTED.items()} | CONTROL
    try:
        for name, text in plants.items():
            (copy / name).write_text(text)
        found = take(copy, make_plan(copy, rule_files.load_rules()).mapping)
    finally:
        for name in plants:
            (copy / name).unlink()
    known = {finding.id for finding in census.findings}
    new = [finding for finding in found.findings if finding.id not in known]
    assert {(f.origin, f.category, f.symbol) for f in new} == {
        (name, category, symbol) for name, (_, category, symbol) in PLANTED.items()
    }
    assert len(found.findings) == len(census.findings) + len(PLANTED), "and nothing else changed"


def test_after_the_series_nothing_in_the_core_needs_vendor_to_compile(
    copy: Path, census: Census, moves: dict[str, str]
) -> None:
    project = find_project()
    assert len(census.needing_vendor) > 50, "the census sees what the series has to cut"
    subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
    for name in series_file.read_series(project / "series" / "2.6").names:
        subprocess.run(["git", "apply", str(project / "patches" / name)], cwd=copy, check=True)
    shutil.rmtree(copy / ".git")
    after = take(copy, moves, applied=True)
    assert [(f.path, f.line, f.symbol) for f in after.needing_vendor] == []
    assert [(f.path, f.line, f.symbol) for f in after.findings if f.verdict == "open"] == [], "each has its reason"


def test_the_tree_that_a_build_lays_counts_as_the_one_that_apply_lays(
    pristine: Path, census: Census, moves: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build in the Debian root lays Debian's folder and patches under the series: also 0 there."""
    project = tmp_path / "project"
    for name in ("series", "patches", "third_device"):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copytree(find_project() / name, project / name, symlinks=True)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(project))
    monkeypatch.setattr(preflight, "check_root", lambda *_: None)  # the tree alone is wanted, no root
    work = WorkRequest(project, "2.6", "rootfs")
    ensure_tree(work, work.places, QUIET)
    assert (work.places.tree / "debian/patches").is_dir()
    after = take(work.places.tree, moves, applied=True)
    assert [(f.path, f.line, f.symbol) for f in after.needing_vendor] == []
    assert main(["census", "2.6"]) == 0
    assert main(["apply", "2.6"]) == 0
    assert (work.places.tree / "debian/patches").is_dir(), "it stays the tree that is built"
