"""Trees with pipes, with names that are no UTF-8, with folders in folders in folders: read to the end, or one line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decouple.base.files import walk_files
from decouple.census.scan import list_tree_files
from decouple.cli import main
from decouple.patch.parse import parse_patch
from decouple.upstream import pristine, readers, tree_record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names in any bytes, paths of 4096")
ROOT = Path(__file__).parents[3]


def pipes(tree: Path) -> None:
    """A pipe where a source, a build file and an included header are looked for, links to pipes and to a device."""
    for name in ("torch/p.cpp", "torch/p.py", "torch/CMakeLists.txt"):
        os.mkfifo(tree / name)
    (tree / "torch/link.cpp").symlink_to("p.cpp")
    (tree / "torch/zero.h").symlink_to("/dev/zero")


def other_names(tree: Path) -> None:
    Path(os.fsdecode(os.fsencode(tree) + b"/torch/caf\xe9.cpp")).write_text("#include <cuda.h>\n")


def nested(tree: Path) -> None:
    with contextlib.chdir(tree):
        for _ in range(1900):  # a path has at most 4096 bytes
            Path("a").mkdir()
            os.chdir("a")
        Path("x.cpp").touch()


ODD: dict[str, Callable[[Path], object]] = {"pipes": pipes, "other names": other_names, "nested folders": nested}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    tree = tmp_path / "tree"
    (tree / "torch").mkdir(parents=True)
    (tree / "torch/a.cpp").write_text("#ifdef USE_CUDA\n#endif\n")
    yield tree
    subprocess.run(["rm", "-rf", tree], check=True)  # pytest's own way to remove it recurses


@pytest.mark.timeout(60)
@pytest.mark.parametrize("odd", ODD)
def test_census_reads_what_is_to_be_read(tree: Path, tmp_path: Path, odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(ROOT))
    ODD[odd](tree)
    out, page = tmp_path / "census.json", tmp_path / "census.html"
    assert main(["census", "2.6", "--tree", str(tree), "--json", str(out), "--html", str(page)]) == 0
    found = [one["path"] for one in json.loads(out.read_text())["findings"]]
    assert "torch/a.cpp" in found
    assert any(name.startswith("torch/caf") for name in found) == (odd == "other names")
    page.read_text(encoding="utf-8")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["build_variables.bzl", "caffe2/CMakeLists.txt"])
def test_a_pipe_for_the_lists_of_sources_is_one_line(
    tree: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(ROOT))
    (tree / "caffe2").mkdir()
    os.mkfifo(tree / name)
    code = main(["census", "2.6", "--tree", str(tree)])
    said = capsys.readouterr().err.strip().splitlines()
    assert code == 0 or (said[-2].startswith("decouple: ") and "not a regular file" in said[-2]), said


@pytest.mark.timeout(60)
@pytest.mark.parametrize("odd", ODD)
def test_check_reads_what_is_to_be_read(tree: Path, odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(ROOT))
    ODD[odd](tree)
    assert main(["check", "2.6", "--source", str(tree)]) == 1


@pytest.mark.timeout(60)
def test_relocate_writes_names_that_git_applies(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, folder = tmp_path / "project", tree / "aten/src/ATen/cuda"
    for name in (project / "series", project / "patches/2.6", folder):
        name.mkdir(parents=True)
    (project / "series/2.6.toml").touch()
    monkeypatch.setenv("DECOUPLE_PROJECT", str(project))
    names = [
        b"caf\xe9.h",
        "café.h".encode(),
        b"new\nline.h",
        b"cr\r.h",
        b"tab\t.h",
        b'quote".h',
        b"back\\slash.h",
        b" a .h",
    ]
    for name in names:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(name)
    assert main(["relocate", "2.6", "--tree", str(tree), "--write"]) == 0
    assert main(["relocate", "2.6", "--tree", str(tree), "--check"]) == 0
    (patch,) = (project / "patches/2.6").iterdir()
    assert parse_patch(patch.read_bytes()).check_readable().problems == ()
    subprocess.run(["git", "apply", patch], cwd=tree, check=True)
    (moved,) = tree.glob("third_device/**/cuda")
    assert {os.fsencode(path.name): path.read_bytes() for path in moved.iterdir()} == {name: name for name in names}


@pytest.mark.parametrize("repository", [False, True], ids=["a folder", "a repository"])
def test_a_link_to_a_folder_is_no_file_of_the_census(tree: Path, repository: bool) -> None:
    (tree / "docs").symlink_to("torch")
    if repository:
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
        subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    assert list_tree_files(tree) == ["torch/a.cpp"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("odd", ["other names", "nested folders"])
def test_every_reader_of_trees_lists_all_files(tree: Path, odd: str) -> None:
    ODD[odd](tree)
    names = sorted(name for name, _ in walk_files(tree))
    assert len(names) == 2
    assert [entry.path for entry in pristine.list_entries(tree)] == names == readers.FolderSource(tree).list_paths()
    tree_record.record_files(tree.parent)
    assert sorted(tree_record.read_known_files(tree) or ()) == names
    tree_record.check_tree(tree)
