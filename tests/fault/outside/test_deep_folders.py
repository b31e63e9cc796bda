"""Folders nested thousands deep: what Python's own helpers call themselves for, once a level."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from decouple.base import zips
from decouple.base.errors import DecoupleError
from decouple.base.files import make_work_folder, remove_folder
from decouple.base.mounts import remove_tree
from decouple.upstream import readers
from decouple.upstream.unpack import unpack_tar

DEEP = 2_500


def nest(folder: Path, levels: int = DEEP) -> None:
    """Make ``levels`` folders below one another, a file in the last: deeper than a path can name."""
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.fixture
def where(tmp_path: Path) -> object:
    yield tmp_path
    subprocess.run(["rm", "-rf", *map(str, tmp_path.iterdir())], check=True)  # pytest could not


def test_a_deep_folder_is_removed(where: Path) -> None:
    nest(where / "deep")
    remove_folder(where / "deep")
    assert not (where / "deep").exists()


def test_what_a_link_in_it_leads_to_stays(where: Path) -> None:
    (where / "mine").mkdir()
    (where / "mine/file").write_text("mine")
    nest(where / "deep")
    (where / "deep/link").symlink_to(where / "mine")
    remove_folder(where / "deep")
    assert (where / "mine/file").read_text() == "mine"


def test_a_tree_of_ours_is_removed_by_the_same_way(where: Path) -> None:
    nest(where / "deep", 1_200)
    remove_tree(where / "deep")
    assert not (where / "deep").exists()


def test_what_a_killed_run_left_is_removed(where: Path) -> None:
    nest(where / ".split.abcdefgh.part")
    with make_work_folder(where, "split"):
        assert not (where / ".split.abcdefgh.part").exists()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_deep_archive_is_refused_and_nothing_is_left(kind: str, where: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        info = tarfile.TarInfo("/".join(["top", *["d"] * DEEP]))
        info.type = tarfile.DIRTYPE if kind == "folder" else tarfile.REGTYPE
        tar.addfile(info)
    (where / "a.tar").write_bytes(made.getvalue())
    with pytest.raises(DecoupleError, match="folders deep"):
        unpack_tar(where / "a.tar", where / "out")
    assert not (where / "out").exists()
    assert readers.read_archive(where / "a.tar", {"x"}, None).mode("x") is None  # looked into, not unpacked


def test_a_deep_zip_is_refused(where: Path) -> None:
    with zipfile.ZipFile(where / "a.zip", "w") as out:
        out.writestr("d/" * DEEP + "file", "")
    with pytest.raises(DecoupleError, match="folders deep"), zips.open_zip(where / "a.zip"):
        pass


def test_the_helper_of_python_cannot_or_this_file_has_no_use(where: Path) -> None:
    nest(where / "deep")
    try:
        shutil.rmtree(where / "deep")
    except RecursionError:
        return
    pytest.skip("this Python's shutil.rmtree can")
