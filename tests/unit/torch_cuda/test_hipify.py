"""Relocated sources are translated beside the tree, by the hipify that the tree brings."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_cuda_build import hipify

from tests.support.files import write_files

MOVED = "third_device/torch_cuda/torch_cuda/csrc/framework/c10/cuda"
PATCH = f"""Description: moves
---
diff --git a/c10/cuda/CUDAStream.h b/{MOVED}/CUDAStream.h
similarity index 100%
rename from c10/cuda/CUDAStream.h
rename to {MOVED}/CUDAStream.h
"""
#: As upstream's: the script hands its lists to hipify, which writes beside and into what it finds.
SCRIPT = """\
import argparse
from hipify import hipify_python
parser = argparse.ArgumentParser()
parser.add_argument("--project-directory")
hipify_python.hipify(
    project_directory=parser.parse_args().project_directory, extra_files=["torch/_inductor/codegen/wrapper.py"]
)
"""
TRANSLATOR = """\
from pathlib import Path
def hipify(project_directory, extra_files):
    root = Path(project_directory)
    for name in extra_files:
        (root / name).read_text()
    for path in sorted(root.glob("c10/cuda/*")):
        (root / "c10/hip").mkdir(exist_ok=True)
        text = path.read_text().replace("cuda", "hip")
        (root / "c10/hip" / path.name.replace("CUDA", "HIP")).write_text(text)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree that PATCH was applied to, and a later one added a file beside what moved; with a small hipify."""
    source = tmp_path / "src"
    files = {
        f"{MOVED}/CUDAStream.h": "cudaStream_t\n",
        f"{MOVED}/added.h": "cudaEvent_t\n",
        "tools/amd_build/build_amd.py": SCRIPT,
        "torch/utils/hipify/__init__.py": "",
        "torch/utils/hipify/hipify_python.py": TRANSLATOR,
        "patches/0001-relocate.patch": PATCH,
    }
    return write_files(source, files)


def all_files(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_files_are_translated_at_upstreams_paths_and_the_tree_stays_as_it_is(tree: Path, tmp_path: Path) -> None:
    before = all_files(tree)
    assert hipify.translate_tree(tree, tree / "patches", tmp_path / "out") == (4, 4)
    assert all_files(tmp_path / "out") == {
        "c10/cuda/CUDAStream.h": "cudaStream_t\n",
        "c10/cuda/added.h": "cudaEvent_t\n",
        "c10/hip/HIPStream.h": "hipStream_t\n",
        "c10/hip/added.h": "hipEvent_t\n",
    }
    assert all_files(tree) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "src"]


def test_only_what_changed_is_written_again(tree: Path, tmp_path: Path) -> None:
    """A build system compares times: hipify writes all of its files each time, and all would be compiled again."""
    out = tmp_path / "out"
    hipify.translate_tree(tree, tree / "patches", out)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.h")}
    (tree / MOVED / "CUDAStream.h").write_text("cudaStream_t of_next_release\n")
    assert hipify.translate_tree(tree, tree / "patches", out) == (4, 2)
    assert {path.name for path, time in times.items() if path.stat().st_mtime_ns != time} == {
        "CUDAStream.h",
        "HIPStream.h",
    }
    (tree / MOVED / "added.h").unlink()
    hipify.translate_tree(tree, tree / "patches", out)
    assert sorted(all_files(out)) == ["c10/cuda/CUDAStream.h", "c10/hip/HIPStream.h"]


def test_a_hipify_that_fails_leaves_the_last_result_and_is_told_in_one_line(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    hipify.translate_tree(tree, tree / "patches", out)
    before = all_files(out)
    (tree / "torch/utils/hipify/hipify_python.py").write_text("def hipify(**given): raise KeyError('cudaNew')\n")
    words = ["--source", str(tree), "--patches", str(tree / "patches"), "--shadow", str(out)]
    assert hipify.main(words) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "build_amd.py" in said and "cudaNew" in said and "next: " in said
    assert all_files(out) == before


def test_a_tree_without_the_script_is_named(tree: Path, tmp_path: Path) -> None:
    (tree / hipify.SCRIPT).unlink()
    with pytest.raises(hipify.HipifyError, match=r"build_amd\.py; next: "):
        hipify.translate_tree(tree, tree / "patches", tmp_path / "out")


def test_a_file_that_is_not_where_the_patches_put_it_stops(tree: Path, tmp_path: Path) -> None:
    (tree / MOVED / "CUDAStream.h").unlink()
    done = hipify.main(["--source", str(tree), "--patches", str(tree / "patches"), "--shadow", str(tmp_path / "out")])
    assert done == 1
    assert not (tmp_path / "out").exists()
