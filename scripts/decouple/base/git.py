"""What every git command of ours is given, and how ``git fast-import`` wants a path."""

from __future__ import annotations

import os
from collections.abc import Mapping

#: How git reaches other hosts, its configuration and its trace are the user's to set.
_KEPT = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_SSH", "GIT_SSL", "GIT_PROXY", "GIT_TRACE")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The process environment without what points git at another repository or asks a person something.

    git sets ``GIT_DIR`` and the like for its hooks and for ``git rebase --exec``; ``git -C FOLDER`` would read the
    wrong repository there.
    """
    result = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith(_KEPT)}
    result["GIT_TERMINAL_PROMPT"] = "0"
    result["LC_ALL"] = "C"
    return result | dict(extra or {})


def fast_import_path(raw: bytes) -> bytes:
    """A path as git-fast-import(1) wants it: as it is, C-quoted where it starts with a quote or has a newline."""
    if raw.startswith(b'"') or b"\n" in raw:
        return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    return raw
