"""Hunks that belong to no file: git applies the rest of such a patch and says nothing, we name them."""

from __future__ import annotations

from decouple.patch.parse import scan_patch

PATCH = b"""\
diff --git a/f b/f
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
GIT binary patch
literal 3
KcmZ

@@ -7 +6,0 @@
-lost without a word
"""


def test_hunks_behind_a_binary_patch_are_named() -> None:
    # Found by the fuzzer (seed 1, cases 5790 and 18162).
    _, problems = scan_patch(PATCH)
    assert [(problem.code, problem.line) for problem in problems if problem.code == "orphan-hunk"] == [
        ("orphan-hunk", 7)
    ]
