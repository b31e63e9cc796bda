"""An unpacked tree in the cache is believed with this user's seal: who can edit the tree can edit its record, too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.upstream import readers, tree_record
from decouple.upstream.fetch import fetch_source
from decouple.upstream.unpacked_release import UnpackedRelease
from tests.support.releases import manifest, sample_tree, tar_of
from tests.support.variables import set_variables

EVIL = b"import evil\n"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "pytorch-v2.6.0.tar.gz"
    path.write_bytes(tar_of(sample_tree(tmp_path / "original"), "pytorch-v2.6.0"))
    return path


def fetched(archive: Path) -> UnpackedRelease:
    return fetch_source(manifest(), f"local:{archive}", cache=archive.parent / "cache")


def without_record(shelf: Path) -> None:
    (shelf / tree_record.RECORD).unlink()


def with_a_record(shelf: Path) -> None:
    """Another user of the same cache records the files."""
    with set_variables(XDG_STATE_HOME=str(shelf.parents[3] / "theirs")):
        tree_record.record_files(shelf)


def with_their_seal_as_ours(shelf: Path) -> None:
    (ours,) = shelf.glob(f"{tree_record.RECORD}.*")
    with_a_record(shelf)
    (theirs,) = set(shelf.glob(f"{tree_record.RECORD}.*")) - {ours}
    theirs.replace(ours)


def with_a_record_and_no_seal(shelf: Path) -> None:
    with_a_record(shelf)
    for one in shelf.glob(f"{tree_record.RECORD}.*"):
        one.unlink()


PLANTED: dict[str, Callable[[Path], None]] = {
    "its record deleted": without_record,
    "its record made anew": with_a_record,
    "its record with another's seal in the place of ours": with_their_seal_as_ours,
    "its record without a seal": with_a_record_and_no_seal,
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_changed_file_is_found_whatever_the_record_says(archive: Path, planted: str) -> None:
    shelf = fetched(archive).path.parent
    (shelf / "tree/setup.py").write_bytes(EVIL)
    PLANTED[planted](shelf)
    again = fetched(archive)
    with pytest.raises(DecoupleError, match="not as it was unpacked"):
        tree_record.check_tree(again.path)
    with pytest.raises(DecoupleError, match="not as it was unpacked"):
        readers.open_unpacked(again).source.read("setup.py")


def test_the_provenance_is_under_the_seal(archive: Path) -> None:
    one = fetched(archive)
    shelf = one.path.parent
    shutil.copytree(shelf / "tree", shelf / "other")
    (shelf / "other/setup.py").write_bytes(EVIL)
    record = json.loads((shelf / "provenance.json").read_text())
    (shelf / "provenance.json").write_text(json.dumps(record | {"path": "other"}))
    assert fetched(archive).path == one.path


def test_a_seal_is_for_one_source(archive: Path) -> None:
    """The sealed tree of another release, or of another source, in its place."""
    one = fetched(archive)
    other = archive.with_name("other.tar.gz")
    (archive.parent / "original/setup.py").write_bytes(EVIL)
    other.write_bytes(tar_of(archive.parent / "original", "pytorch-v2.6.0"))
    evil = fetched(other)
    shutil.rmtree(one.path.parent)
    shutil.copytree(evil.path.parent, one.path.parent, symlinks=True)
    again = fetched(archive)
    with pytest.raises(DecoupleError, match="not as it was unpacked"):
        tree_record.check_tree(again.path)


def test_two_users_may_share_a_cache(archive: Path) -> None:
    """Each unpacks the archive once, to know what the tree should be; neither takes it from the other."""
    one = fetched(archive)
    inode = one.path.stat().st_ino
    with set_variables(XDG_STATE_HOME=str(archive.parent / "theirs")):
        tree_record.check_tree(fetched(archive).path)
    tree_record.check_tree(fetched(archive).path)
    assert one.path.stat().st_ino == inode
    assert len(list(one.path.parent.glob(f"{tree_record.RECORD}.*"))) == 2


def test_what_is_sealed_is_not_unpacked_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched(archive)
    monkeypatch.setattr(tree_record, "record_files", lambda *arguments: pytest.fail("unpacked again"))
    tree_record.check_tree(fetched(archive).path)


def test_a_user_who_can_have_no_key_believes_a_folder_of_their_own(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    tree = fetched(archive).path
    tree_record.check_tree(fetched(archive).path)
    assert tree_record.is_ours(tree.parent)
    tree.parent.chmod(0o777)
    assert not tree_record.is_ours(tree.parent)


@pytest.mark.parametrize("kind", ["a file", "a folder"])
def test_a_folder_of_a_person_has_no_record(tmp_path: Path, kind: str) -> None:
    """Whatever is called so beside it."""
    tree = sample_tree(tmp_path / "tree")
    (tmp_path / tree_record.RECORD).mkdir() if kind == "a folder" else (tmp_path / tree_record.RECORD).write_text(
        "words"
    )
    assert tree_record.read_known_files(tree) is None
    tree_record.check_tree(tree)
