"""What makes a series another one, and what of a patch changes the tree that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.series.digest import compute_series_digest, digest_changes, hash_patches

ONE = b"""\
diff --git a/one.txt b/one.txt
index 1111111..2222222 100644
--- a/one.txt
+++ b/one.txt
@@ -1 +1 @@
-old
+new
"""
TWO = ONE.replace(b"one.txt", b"two.txt")


def digest(project: Path, listed: str, **patches: bytes) -> str:
    """Of a series file with that text, and these patches."""
    for folder in ("series", "patches/1.0"):
        (project / folder).mkdir(parents=True, exist_ok=True)
    for name, data in patches.items():
        (project / f"patches/1.0/{name}.patch").write_bytes(data)
    (project / "series/1.0").write_text(listed)
    return compute_series_digest(project, "1.0")


def test_order_and_bytes_count_and_names_and_comments_do_not(tmp_path: Path) -> None:
    usual = digest(tmp_path, "1.0/a.patch\n1.0/b.patch\n", a=ONE, b=TWO)
    assert usual == digest(tmp_path, "# why\n1.0/c.patch\n1.0/d.patch\n", c=ONE, d=TWO) == hash_patches([ONE, TWO])
    others = {
        "order": digest(tmp_path, "1.0/b.patch\n1.0/a.patch\n"),
        "one less": digest(tmp_path, "1.0/a.patch\n"),
        "a byte of a header": digest(tmp_path, "1.0/a.patch\n1.0/e.patch\n", e=b"why\n" + TWO),
    }
    assert len({usual, *others.values()}) == 4


@pytest.mark.parametrize(
    ("before", "after", "other"),
    [
        (b"diff --git", b"why\ndiff --git", False),
        (b"1111111..2222222", b"3333333..4444444", False),
        (b"@@ -1 +1 @@", b"@@ -7 +7 @@", False),
        (b"+new", b"+newer", True),
        (b"+new", b"+new\r", True),
        (b"-old", b"-older", True),
        (b"one.txt", b"three.txt", True),
    ],
)
def test_a_patch_changes_what_a_tree_gets_by_it(before: bytes, after: bytes, other: bool) -> None:
    changed = ONE.replace(before, after)
    assert changed != ONE
    assert (digest_changes(changed, "a") != digest_changes(ONE, "a")) is other
