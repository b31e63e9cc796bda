"""Paths that a file names stay below the folder that they are for."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from decouple.base.errors import DecoupleError
from decouple.base.path_names import PathPart, RelativePath, is_relative_path, locate_path

LEAD_OUT = [
    *("", ".", "..", "/etc/passwd", "../x", "a/../../x", "a/..", "./a", "a//b", "a/", "C:/x", "c:x", "a\\b", "a\0b"),
    *("a\nb", ".git/hooks/post-checkout", "sub/.GIT/config", ".git", "x" * 300, "\udcff", "a/" * 3000 + "a"),
]


@pytest.mark.parametrize("path", ["a", "a/b.c", ".gitignore", "..a", "a/.gitattributes", "torch/größe", "-x", "a b"])
def test_a_plain_path_is_taken(path: str, tmp_path: Path) -> None:
    assert locate_path(tmp_path, path) == tmp_path / path
    assert msgspec.convert({path: path}, dict[RelativePath, RelativePath]) == {path: path}


@pytest.mark.parametrize("path", LEAD_OUT)
def test_a_path_that_leads_out_is_refused_by_whoever_reads_it(path: str, tmp_path: Path) -> None:
    assert not is_relative_path(path)
    with pytest.raises(DecoupleError):
        locate_path(tmp_path, path)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert([path], list[RelativePath])
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({path: ""}, dict[RelativePath, str])


@pytest.mark.parametrize("name", ["2.6", "2.7.0rc3", "main-2026-11-20", "1!2.6+cu124.1", "_x"])
def test_a_release_or_version_is_part_of_a_name(name: str) -> None:
    assert msgspec.convert(name, PathPart) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../2.6", "/2.6", "-2.6", ".2", "2.6\n", "2 6", "x" * 300])
def test_what_would_be_more_than_part_of_a_name_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(name, PathPart)


def test_no_link_is_followed_and_no_fifo_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    (folder / "file").touch()
    os.mkfifo(folder / "fifo")
    for path in ("link", "link/x", "dangling", "file/x", "fifo", "fifo/x"):
        with pytest.raises(DecoupleError, match="nothing is read"):
            locate_path(folder, path)
    assert locate_path(folder, "file") == folder / "file"
    (tmp_path / "named").symlink_to(folder)
    assert locate_path(tmp_path / "named", "file") == tmp_path / "named" / "file"
