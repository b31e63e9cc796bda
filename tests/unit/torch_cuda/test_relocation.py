"""The shadow tree shows moved files at their upstream paths."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from torch_cuda_build import relocation

from tests.support.files import write_files

NEW = "third_device/torch_cuda/torch_cuda/csrc"
PATCH = f"""Description: moves
---
diff --git a/c10/cuda/CUDAStream.h b/{NEW}/framework/c10/cuda/CUDAStream.h
similarity index 100%
rename from c10/cuda/CUDAStream.h
rename to {NEW}/framework/c10/cuda/CUDAStream.h
diff --git a/c10/cuda/impl/CUDATest.h b/{NEW}/framework/c10/cuda/impl/CUDATest.h
similarity index 100%
rename from c10/cuda/impl/CUDATest.h
rename to {NEW}/framework/c10/cuda/impl/CUDATest.h
diff --git a/torch/csrc/jit/cuda_codegen.h b/{NEW}/jit/cuda_codegen.h
similarity index 100%
rename from torch/csrc/jit/cuda_codegen.h
rename to {NEW}/jit/cuda_codegen.h
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree that PATCH was applied to; torch/csrc/jit keeps a file."""
    source = tmp_path / "src"
    moved = ("framework/c10/cuda/CUDAStream.h", "framework/c10/cuda/impl/CUDATest.h", "jit/cuda_codegen.h")
    write_files(source / NEW, {name: name for name in moved})
    write_files(source, {"torch/csrc/jit/ir.h": "stays"})
    return write_files(tmp_path, {"patches/0001-relocate.patch": PATCH})


def test_a_whole_directory_is_one_link_and_a_single_file_its_own(tree: Path) -> None:
    pairs = relocation.rename_pairs(relocation.series_patches(tree / "patches"))
    assert relocation.make_shadow(tree / "src", pairs, tree / "shadow") == 2
    assert (tree / "shadow/c10").is_symlink()
    assert (tree / "shadow/c10/cuda/impl/CUDATest.h").read_text() == "framework/c10/cuda/impl/CUDATest.h"
    assert (tree / "shadow/torch/csrc/jit/cuda_codegen.h").read_text() == "jit/cuda_codegen.h"
    assert not (tree / "shadow/torch/csrc/jit/ir.h").exists()


def test_a_directory_that_keeps_a_file_is_not_linked_as_a_whole(tree: Path) -> None:
    (tree / "src/c10/cuda").mkdir(parents=True)
    (tree / "src/c10/cuda/stays.h").write_text("")
    pairs = relocation.rename_pairs([tree / "patches/0001-relocate.patch"])
    relocation.make_shadow(tree / "src", pairs, tree / "shadow")
    assert not (tree / "shadow/c10/cuda").is_symlink()
    assert (tree / "shadow/c10/cuda/impl").is_symlink()
    assert (tree / "shadow/c10/cuda/CUDAStream.h").is_symlink()


def test_an_unchanged_shadow_is_left_alone(tree: Path) -> None:
    pairs = relocation.rename_pairs([tree / "patches/0001-relocate.patch"])
    relocation.make_shadow(tree / "src", pairs, tree / "shadow")
    before = (tree / "shadow/c10").lstat().st_mtime_ns
    assert relocation.make_shadow(tree / "src", pairs, tree / "shadow") == 0
    assert (tree / "shadow/c10").lstat().st_mtime_ns == before


def test_a_shadow_shows_the_tree_that_is_named_now(tree: Path) -> None:
    pairs = relocation.rename_pairs([tree / "patches/0001-relocate.patch"])
    relocation.make_shadow(tree / "src", pairs, tree / "shadow")
    shutil.copytree(tree / "src", tree / "other")
    (tree / "other" / NEW / "jit/cuda_codegen.h").write_text("of the other")
    assert relocation.make_shadow(tree / "other", pairs, tree / "shadow") == 2
    assert (tree / "shadow/torch/csrc/jit/cuda_codegen.h").read_text() == "of the other"


def test_a_shadow_that_moved_alone_leads_somewhere_again(tree: Path) -> None:
    pairs = relocation.rename_pairs([tree / "patches/0001-relocate.patch"])
    relocation.make_shadow(tree / "src", pairs, tree / "shadow")
    (tree / "build").mkdir()
    moved = shutil.move(tree / "shadow", tree / "build/shadow")
    assert not (moved / "c10/cuda/CUDAStream.h").exists()
    assert relocation.make_shadow(tree / "src", pairs, moved) == 2
    assert (moved / "c10/cuda/CUDAStream.h").exists()


def test_a_shadow_below_a_linked_folder_leads_into_the_tree(tree: Path) -> None:
    """A build folder on another disk."""
    pairs = relocation.rename_pairs([tree / "patches/0001-relocate.patch"])
    (tree / "disk/large/build").mkdir(parents=True)
    (tree / "build").symlink_to(tree / "disk/large/build")
    relocation.make_shadow(tree / "src", pairs, tree / "build/shadow")
    assert (tree / "build/shadow/c10/cuda/CUDAStream.h").exists()


def test_a_second_move_starts_from_the_first_name(tmp_path: Path) -> None:
    first, second = tmp_path / "1.patch", tmp_path / "2.patch"
    first.write_text("rename from a.h\nrename to b.h\n")
    second.write_text("rename from b.h\nrename to c.h\n")
    assert relocation.rename_pairs([first, second]) == {"a.h": "c.h"}


def test_the_series_file_orders_the_patches(tmp_path: Path) -> None:
    for name in ("b.patch", "a.patch"):
        (tmp_path / name).write_text("")
    (tmp_path / "series").write_text("# ours\nb.patch\na.patch -p1\n")
    assert [path.name for path in relocation.series_patches(tmp_path)] == ["b.patch", "a.patch"]


def test_an_upstream_tree_has_an_empty_shadow(tmp_path: Path) -> None:
    assert relocation.series_patches(tmp_path / "torch_patches") == []
    assert relocation.make_shadow(tmp_path, {}, tmp_path / "shadow") == 0


def test_a_lost_file_is_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "src" / NEW / "jit/cuda_codegen.h").unlink()
    arguments = ["--source", str(tree / "src"), "--patches", str(tree / "patches"), "--shadow", str(tree / "shadow")]
    assert relocation.main(arguments) == 1
    assert "jit/cuda_codegen.h" in capsys.readouterr().err
