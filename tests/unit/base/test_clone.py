"""A clone tells how much of it has come."""

from __future__ import annotations

import subprocess
from pathlib import Path

from decouple.base.git import clone_repository


def test_a_clone_tells_how_many_objects_have_come(tmp_path: Path) -> None:
    source = tmp_path / "source"
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", str(source)], ["-C", str(source), *who, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], check=True)
    told: list[tuple[float, float | None]] = []
    clone_repository(
        source.as_uri(), tmp_path / "clone", doing="clone", next_step="none", told=lambda *amount: told.append(amount)
    )
    assert told[-1] == (2, 2)  # a commit and an empty tree
    assert (tmp_path / "clone" / ".git").is_dir()
