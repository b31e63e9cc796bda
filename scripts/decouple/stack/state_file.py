"""Read what the state file of an applied tree says by itself.

It is for questions that are asked many times a minute. No engine, no git and no lock: the file is replaced as a whole.
Where a command is under way or was cut off (there is a journal), and where anything else is unusual, a glance tells
nothing. Then the engine is asked, which waits, brings that command to its end, and says what is wrong. The folders are
`base.checkout`'s, which takes longer to load than all this.
"""

from __future__ import annotations

import json
from pathlib import Path


def read_applied_names(project: Path, words: list[str], here: Path) -> list[str] | None:
    """Read the names of the applied patches, bottom first.

    ``words`` or the folder ``here`` name the release. None when only the engine can tell.
    """
    release = words[0] if len(words) == 1 else None if words else _find_release(project, here)
    if release is None or not release[:1].isdigit() or release.endswith(".toml"):
        return None
    own = project / "build" / release / "src" / ".git" / "decouple"
    try:
        if not (project / "series" / release).is_file() or (own / "journal.json").exists():
            return None
        state = json.loads((own / "state.json").read_text("utf-8"))
        return [item["name"] for item in state["applied"]] if state["version"] == 1 else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _find_release(project: Path, here: Path) -> str | None:
    """Return the release below whose ``build/<release>`` the folder is."""
    build = project / "build"
    return here.relative_to(build).parts[0] if build in here.parents else None
