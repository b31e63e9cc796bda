"""Objects of a baseline are shared with the applied tree by hard link."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from decouple.stack.engine import link_objects


def test_linking_again_after_the_baseline_grew(tmp_path: Path) -> None:
    # Laying Debian's patches under a series adds a commit to the baseline that the tree was made from.
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "ab").mkdir(parents=True)
    (source / "ab" / "first").write_bytes(b"1")
    link_objects(source, target)
    (source / "ab" / "second").write_bytes(b"2")
    link_objects(source, target)
    assert sorted(path.name for path in (target / "ab").iterdir()) == ["first", "second"]
    assert (target / "ab" / "first").samefile(source / "ab" / "first")


@pytest.mark.parametrize("end", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_copy_that_was_cut_off_is_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    """The next run took it for whole: link(2) says that the name is there before it says that it is on another disk."""
    pack, target = tmp_path / "source/pack/pack-1.pack", tmp_path / "target"
    pack.parent.mkdir(parents=True)
    pack.write_bytes(b"0123456789")

    def refuse_link(_: Path, copy: Path) -> None:
        number = errno.EEXIST if copy.exists() else errno.EXDEV
        raise OSError(number, os.strerror(number))

    def copy_half(path: Path, copy: Path) -> None:
        copy.write_bytes(path.read_bytes()[:5])
        raise end

    monkeypatch.setattr(os, "link", refuse_link)
    with monkeypatch.context() as full, pytest.raises(type(end)):
        full.setattr(shutil, "copy2", copy_half)
        link_objects(tmp_path / "source", target)
    assert list((target / "pack").iterdir()) == []
    (target / "pack/pack-1.pack").write_bytes(b"01234")  # of a run before copies had a name of their own
    link_objects(tmp_path / "source", target)
    assert (target / "pack/pack-1.pack").read_bytes() == b"0123456789"
