"""Objects of a baseline are shared with the applied tree by hard link."""

from __future__ import annotations

from pathlib import Path

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
