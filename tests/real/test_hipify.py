"""Upstream's hipify on the relocated sources of 2.6 makes what it makes of the pristine tree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_cache, find_project
from decouple.patch import series_file
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.support.series import git

sys.path.insert(0, str(find_project() / "third_device" / "torch_cuda"))
from torch_cuda_build import hipify  # a project of its own, not installed

pytestmark = pytest.mark.real

PROJECT = find_project()

#: What is not the same, because a patch of the series changed what hipify reads.
CHANGED_BY_PATCHES = {
    "aten/src/ATen/hip/detail/HIPHooks.cpp": "generator-new-through-hooks",
    "aten/src/ATen/hip/detail/HIPHooks.h": "generator-new-through-hooks",
    "torch/csrc/cuda/Module.cpp": "storage-helpers-generic",
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of upstream; `applied` hipifies it in place, as upstream's ROCm build does."""
    manifest = load_release(PROJECT, "2.6")
    baseline = ensure_baseline(find_cache(), manifest, fetch_source(manifest, "debian"), debian_patches=False)
    source = tmp_path_factory.mktemp("pristine") / "src"
    git(source.parent, "clone", "-q", "--shared", "--no-checkout", str(baseline.repo), str(source))
    git(source, "checkout", "-q", "--detach", baseline.commit)
    return source


@pytest.fixture(scope="module")
def applied(pristine: Path) -> Path:
    """The same tree with the series on it; then `pristine` is hipified."""
    source = pristine.parent / "applied"
    git(pristine, "worktree", "add", "-q", "--detach", str(source))
    for entry in series_file.read_series(PROJECT / "series" / "2.6").entries:
        git(source, "apply", str(PROJECT / "patches" / entry.name))
    subprocess.run([sys.executable, hipify.SCRIPT], cwd=pristine, check=True, capture_output=True)
    return source


def test_what_hipify_writes_is_what_it_writes_in_upstreams_tree(pristine: Path, applied: Path, tmp_path: Path) -> None:
    out = tmp_path / "hip" / "out"  # a folder of that name above it changes nothing
    held, written = hipify.translate_tree(applied, PROJECT / "patches" / "2.6", out)
    assert held == written
    told = git(pristine, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored").split(
        "\0"
    )
    theirs = {line[3:] for line in told if line and not line.endswith(".pyc")}
    ours = {name for name in theirs if (out / name).is_file()}
    different = {name for name in ours if (out / name).read_bytes() != (pristine / name).read_bytes()}
    same = len(ours - different)
    print(f"\n{len(ours)} files written by hipify, {same} as in the pristine tree; not: {sorted(different)}")
    assert len(ours) == 586
    assert different == CHANGED_BY_PATCHES.keys()
    assert not git(
        applied, "status", "--porcelain", "--", "aten/src/ATen/hip", "c10/hip"
    )  # nothing is written to the tree

    assert hipify.translate_tree(applied, PROJECT / "patches" / "2.6", out) == (held, 0)


def test_what_composable_kernel_would_define_is_answered_without_it(pristine: Path) -> None:
    """Each specialization that its headers declare: the link of the whole fails by one that nobody defines."""
    declared = re.compile(r"template <>\s*void (\w+<[\w:]+>)\((\w+)\([\w:]+\)\)")
    headers = "".join((pristine / f"aten/src/ATen/native/hip/{name}.h").read_text() for name in ("ck_gemm", "ck_bgemm"))
    ours = PROJECT / "third_device/torch_cuda/cmake/toolkit/rocm_without_ck.cpp"
    assert sorted(declared.findall(ours.read_text())) == sorted(declared.findall(headers)) != []
