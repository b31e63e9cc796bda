"""Hostile archives, each attack by its name; and the ordinary one."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.upstream.pristine import is_left_out
from decouple.upstream.unpack import Limits, make_new_folder, unpack_tar
from tests.support.releases import sample_tree, tar_of

Member = tuple[str, str, str | bytes]  # kind, name, content or link target

KINDS = {
    "file": tarfile.REGTYPE,
    "folder": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "hard": tarfile.LNKTYPE,
    "char device": tarfile.CHRTYPE,
    "block device": tarfile.BLKTYPE,
    "fifo": tarfile.FIFOTYPE,
}


def archive(path: Path, *members: Member) -> Path:
    """A tar archive with exactly these members."""
    with tarfile.open(path, "w") as tar:
        for kind, name, content in members:
            info = tarfile.TarInfo(name)
            info.type = KINDS[kind]
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content
                tar.addfile(info)
    return path


ATTACKS: dict[str, tuple[list[Member], str]] = {
    "absolute path": ([("file", "/top/x", b"x")], "has an absolute path"),
    "dot dot": ([("file", "top/../../x", b"x")], "has '..' in its path"),
    "dot dot inside": ([("file", "top/a/../x", b"x")], "has '..' in its path"),
    "link to an absolute path": ([("link", "top/l", "/etc/passwd")], "AbsoluteLink|absolute path"),
    "link out of the tree": ([("link", "top/l", "../../etc")], "outside the destination|leaves the tree"),
    "link out of the tree by one": ([("link", "top/l", "..")], "leaves the tree"),
    "link chain that leaves only when resolved": (
        [("link", "top/y", "p/q/top/.."), ("folder", "top/p/q", ""), ("link", "top/p/q/top", "../..")],
        "leaves the tree",
    ),
    "link in circles": ([("link", "top/a", "b"), ("link", "top/b", "a")], "never ends"),
    "file through a link": (
        [("folder", "top/d", ""), ("link", "top/l", "d"), ("file", "top/l/x", b"x")],
        "is below 'l', which is a link",
    ),
    "file below a file": ([("file", "top/f", b""), ("file", "top/f/x", b"x")], "is below 'f', which is a file"),
    "file over a link": ([("link", "top/l", "f"), ("file", "top/l", b"x")], "is there already as a link"),
    "link over a folder": ([("folder", "top/d", ""), ("link", "top/d", "e")], "is there already as a folder"),
    "folder over a link": ([("link", "top/l", "d"), ("folder", "top/l", "")], "which is a link"),
    "twice the same file": ([("file", "top/f", b"1"), ("file", "top/f", b"2")], "is there already as a file"),
    "twice the same file, spelt differently": (
        [("file", "top/f", b"1"), ("file", "top/.//f", b"2")],
        "is there already as a file",
    ),
    "hard link to nothing": ([("hard", "top/h", "top/none")], "no earlier file of the archive"),
    "hard link out of the tree": ([("hard", "top/h", "../../etc/passwd")], "outside|'..' in its path"),
    "hard link to a link": (
        [("file", "top/f", b""), ("link", "top/l", "f"), ("hard", "top/h", "top/l")],
        "no earlier file of the archive",
    ),
    "hard link into another top folder": ([("file", "top/f", b""), ("hard", "top/h", "etc/f")], "out of the tree"),
    "character device": ([("char device", "top/d", "")], "special|device"),
    "block device": ([("block device", "top/d", "")], "special|device"),
    "fifo": ([("fifo", "top/d", "")], "special|device"),
    "second top folder": ([("file", "top/f", b""), ("file", "other/f", b"")], "below a second top folder"),
    "file beside the top folder": ([("file", "f", b"")], "not below the archive's one top folder"),
    "control character": ([("file", "top/a\nb", b"")], "control character"),
    "backslash": ([("file", "top/..\\..\\x", b"")], "backslash"),
    "empty link": ([("link", "top/l", "")], "link to nowhere"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(tmp_path: Path, name: str) -> None:
    members, said = ATTACKS[name]
    hostile = archive(tmp_path / "hostile.tar", *members)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    with pytest.raises(DecoupleError, match=said) as caught:
        unpack_tar(hostile, tmp_path / "in" / "tree")
    assert caught.value.what.startswith("hostile.tar: refused: entry ")
    assert caught.value.next_step
    (tmp_path / "in").rmdir()  # empty: nothing was left in it
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("limits", "said"),
    [(Limits(size=1000), "exceeds the 1000 bytes"), (Limits(members=3), "one more than the 3 entries")],
)
def test_a_bomb_stops_at_the_bound(tmp_path: Path, limits: Limits, said: str) -> None:
    bomb = archive(tmp_path / "bomb.tar", *[("file", f"top/{n}", b"x" * 300) for n in range(5)])
    with pytest.raises(DecoupleError, match=said):
        unpack_tar(bomb, tmp_path / "tree", limits=limits)
    assert not (tmp_path / "tree").exists()


def test_a_header_that_promises_more_than_there_is_counts_as_promised(tmp_path: Path) -> None:
    info = tarfile.TarInfo("top/huge")
    info.size = 1 << 50
    path = tmp_path / "huge.tar"
    path.write_bytes(info.tobuf() + b"x" * 512)
    with pytest.raises(DecoupleError, match="exceeds the"):
        unpack_tar(path, tmp_path / "tree")


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flip, lambda data: b"<html>no</html>", lambda data: b""])
@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2"])
def test_damaged_archives(tmp_path: Path, mode: str, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(damage(tar_of(sample_tree(tmp_path / "source"), "top", mode)))
    with pytest.raises(DecoupleError, match=r"damaged|cut off") as caught:
        unpack_tar(path, tmp_path / "tree")
    assert "\n" not in caught.value.what
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_an_ordinary_archive(tmp_path: Path, mode: str) -> None:
    source = sample_tree(tmp_path / "source")
    (tmp_path / "a.tar").write_bytes(tar_of(source, "top", mode))
    writer = unpack_tar(tmp_path / "a.tar", tmp_path / "tree")
    for path in sorted(source.rglob("*")):
        twin = tmp_path / "tree" / path.relative_to(source)
        if path.is_symlink():
            assert os.readlink(twin) == os.readlink(path)  # noqa: PTH115
        elif path.is_file():
            assert twin.read_bytes() == path.read_bytes()
            assert stat.S_IMODE(twin.stat().st_mode) == (0o755 if path.name == "build.sh" else 0o644)
    assert writer.members == len(list(source.rglob("*"))) + 1


def test_hard_links_become_files_of_their_own(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", ("file", "top/f", b"content"), ("hard", "top/h", "top/f"))
    unpack_tar(path, tmp_path / "tree")
    assert (tmp_path / "tree/h").read_bytes() == b"content"
    assert (tmp_path / "tree/h").stat().st_nlink == 1


def test_what_no_release_archive_holds_is_left_out(tmp_path: Path) -> None:
    members: list[Member] = [
        ("file", "top/.git/hooks/post-checkout", b"evil"),
        ("file", "top/third_party/x/.gitmodules", b""),
        ("file", "top/.ci/run", b""),
        ("file", "top/docs/.ci", b"kept"),
    ]
    path = archive(tmp_path / "a.tar", *members)
    unpack_tar(path, tmp_path / "tree", leave_out=is_left_out)
    assert [str(found.relative_to(tmp_path / "tree")) for found in (tmp_path / "tree").rglob("*")] == [
        "docs",
        "docs/.ci",
    ]


def test_a_new_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    final = tmp_path / "final"
    with pytest.raises(RuntimeError), make_new_folder(final) as temporary:
        (temporary / "half").touch()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    stale = tmp_path / ".final.abc.part"
    stale.mkdir()
    with make_new_folder(final) as temporary:
        (temporary / "whole").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["final"]
