"""Stage 2's view of the real, relocated 2.6.0 source: upstream's lists and include names lead to the moved files."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

sys.path.insert(0, str(find_project() / "third_device" / "torch_cuda"))
from torch_cuda_build import relocation, source_lists  # a project of its own, not installed

pytestmark = pytest.mark.real

LISTS = (
    "libtorch_cuda_core_sources",
    "libtorch_cuda_distributed_base_sources",
    "libtorch_cuda_distributed_extra_sources",
    "libtorch_python_cuda_sources",
    "aten_cuda_cu_source_list",
    "aten_cuda_with_sort_by_key_source_list",
    "aten_cuda_cu_with_sort_by_key_source_list",
)
INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
ROOTS = ("c10", "ATen", "torch")
#: Made by CMake or torchgen, in no tree.
GENERATED = {"ATen/cuda/CUDAConfig.h", "c10/cuda/impl/cuda_cmake_macros.h"}


@pytest.fixture(scope="module")
def relocated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source with 0001 applied (it only renames), and its shadow tree."""
    origin = fetch_source(load_release(find_project(), "2.6"), "debian").path
    place = tmp_path_factory.mktemp("stage2")
    source = place / "src"
    shutil.copytree(
        origin, source, symlinks=True, ignore=shutil.ignore_patterns(".git", "test", "docs", "android", "ios")
    )
    pairs = relocation.rename_pairs([find_project() / "patches" / "2.6" / "0001-relocate-cuda-sources.patch"])
    moved = {old: new for old, new in pairs.items() if (source / old).exists()}
    for old, new in moved.items():
        (source / new).parent.mkdir(parents=True, exist_ok=True)
        (source / old).rename(source / new)
    for folder in sorted((path for path in source.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    relocation.make_shadow(source, moved, place / "shadow")
    return source, place / "shadow"


def test_every_listed_source_is_in_the_tree_or_in_the_shadow(relocated: tuple[Path, Path]) -> None:
    source, shadow = relocated
    names = source_lists.read_lists(source / "build_variables.bzl", list(LISTS))
    assert len(names) > 60
    assert [name for name in names if not (shadow / name).exists() and not (source / name).exists()] == []


def test_every_cuda_header_that_a_moved_file_includes_is_found_under_its_upstream_name(
    relocated: tuple[Path, Path],
) -> None:
    source, shadow = relocated
    moved_root = source / "third_device/torch_cuda/torch_cuda/csrc"
    folders = [shadow / "aten/src", shadow, source / "aten/src", source, source / "torch/csrc/api/include"]
    lost: set[str] = set()
    seen = 0
    for path in moved_root.rglob("*"):
        if path.suffix not in (".cpp", ".cu", ".h", ".cuh", ".hpp") or "/test/" in str(path):
            continue
        for name in INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
            if name.split("/", 1)[0] not in ROOTS or "cuda" not in name or "ATen/ops/" in name or "/hip/" in name:
                continue
            seen += 1
            if name not in GENERATED and not any((folder / name).exists() for folder in folders):
                lost.add(name)
    assert seen > 1000
    assert lost - {"ATen/CUDAFunctions.h"} == set()


def test_few_links_show_all_of_it(relocated: tuple[Path, Path]) -> None:
    """785 moves, and whole directories (``c10/cuda``, ``ATen/cuda``, ...) are one link each."""
    _, shadow = relocated
    assert (shadow / "c10/cuda").is_symlink()
    assert (shadow / "aten/src/ATen/cuda").is_symlink()
    assert len((shadow / relocation.STAMP).read_text().splitlines()) < 100


def test_the_hooks_over_upstreams_kernels_hand_on_every_question(relocated: tuple[Path, Path]) -> None:
    """A question that they forget would be answered as by a torch without CUDA, and nothing would say so."""
    source, _ = relocated
    asked: set[str] = set()
    for name in ("AcceleratorHooksInterface", "CUDAHooksInterface"):
        text = re.sub(
            r"#ifdef USE_ROCM.*?#endif", "", (source / f"aten/src/ATen/detail/{name}.h").read_text(), flags=re.DOTALL
        )
        asked |= set(re.findall(r"virtual [\w:<>&* ]*?[ *&](\w+)\(", text)) | set(
            re.findall(r"(\w+)\([^;{}]*\) const override", text)
        )
    ours = (find_project() / "third_device/torch_cuda/torch_cuda/csrc/imported/generator.cpp").read_text()
    answered = set(re.findall(r"HAND_ON\([^,]+, (\w+),|theirs->(\w+)\(", ours))
    answered = {"".join(names) for names in answered} - {"name"}
    assert len(answered) > 30
    assert asked - answered == {"getNewGenerator"}
