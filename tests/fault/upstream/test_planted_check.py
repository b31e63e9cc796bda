"""What `check` keeps of an archive is believed only with this user's seal: others may write into a cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base import seal
from decouple.upstream import readers
from tests.support.releases import sample_tree, tar_of
from tests.support.variables import set_variables

WANTED = frozenset({"version.txt"})


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "source.tar.gz"
    path.write_bytes(tar_of(sample_tree(tmp_path / "tree"), "top"))
    return path


def checked(archive: Path, cache: Path) -> bytes:
    return readers.read_archive(archive, WANTED, cache).read("version.txt")


def kept(cache: Path) -> Path:
    (found,) = (cache / "check").iterdir()
    return found


def evil(archive: Path, folder: Path) -> bytes:
    """What another user would keep of the archive, with another file in it."""
    theirs = folder / "their-cache" / kept(folder / "cache").name
    with set_variables(XDG_STATE_HOME=str(folder / "their-state")):
        readers.write_cache(theirs, {"version.txt": 0o100644}, {"version.txt": b"evil"})
    return theirs.read_bytes()


PLANTED: dict[str, Callable[[Path, Path], bytes]] = {
    "with another's seal": evil,
    "without one": lambda archive, folder: evil(archive, folder)[32:],
    "with one byte changed": lambda archive, folder: (
        kept(folder / "cache").read_bytes().replace(b"2.6.0a0", b"2.6.0a1")
    ),
    "cut": lambda archive, folder: kept(folder / "cache").read_bytes()[:-1],
    "empty": lambda archive, folder: b"",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_was_planted_is_not_believed(archive: Path, tmp_path: Path, planted: str) -> None:
    cache = tmp_path / "cache"
    assert checked(archive, cache) == b"2.6.0a0\n"
    kept(cache).write_bytes(PLANTED[planted](archive, tmp_path))
    assert checked(archive, cache) == b"2.6.0a0\n"


def test_what_was_kept_of_another_archive_is_not_believed(archive: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    checked(archive, cache)
    other = tmp_path / "other.tar.gz"
    tree = sample_tree(tmp_path / "other-tree")
    (tree / "version.txt").write_text("2.7.0a0\n")
    other.write_bytes(tar_of(tree, "top"))
    of_first = kept(cache)
    shutil.copy(of_first, readers.make_shelf_path(cache, readers.compute_sha256(other)))
    assert checked(other, cache) == b"2.7.0a0\n"


def test_what_this_user_kept_is_read_again_and_the_archive_is_not(archive: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    checked(archive, cache)
    inode = kept(cache).stat().st_ino
    found = readers.read_cache(kept(cache), WANTED)
    assert found is not None and found.read("version.txt") == b"2.6.0a0\n"
    assert checked(archive, cache) == b"2.6.0a0\n" and kept(cache).stat().st_ino == inode


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o604])
def test_a_key_that_others_can_read_seals_nothing(archive: Path, tmp_path: Path, mode: int) -> None:
    checked(archive, tmp_path / "cache")
    assert seal.locate_key().stat().st_mode & 0o777 == 0o600
    seal.locate_key().chmod(mode)
    assert seal.add_seal("a", b"b") is None
    assert checked(archive, tmp_path / "cache") == b"2.6.0a0\n"


def test_without_a_place_for_the_key_the_archive_is_read_each_time(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert checked(archive, tmp_path / "cache") == b"2.6.0a0\n"
    assert not (tmp_path / "cache/check").exists()


def test_a_pipe_in_its_place_is_not_waited_for(archive: Path, tmp_path: Path) -> None:
    checked(archive, tmp_path / "cache")
    place = kept(tmp_path / "cache")
    place.unlink()
    os.mkfifo(place)
    assert checked(archive, tmp_path / "cache") == b"2.6.0a0\n"
