"""When each proof was recorded, and what its series changed: from this checkout's history where a record lacks it.

>>> from decouple.flows.record_history import complete_history
>>> complete_history(project, "2.6")
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decouple.base import git
from decouple.patch import series_file
from decouple.release import status
from decouple.series.digest import compute_change_digests, digest_changes, hash_patches


def complete_history(project: Path, release: str) -> None:
    """Write to a status file what it lacks: the mark of each proof, and the changes of each series that it names.

    Both come from the commits of a full clone. Where they have none, a proof stays without; the changes of a series
    that no proof is of any more are dropped. Raises DecoupleError.
    """
    path = status.locate_status(project, release)
    if not path.exists():
        return
    known = status.read_status(path)
    marks = _find_marks(project, path)
    used = {mark.series for mark in marks.values()} | {known.series.digest if known.series else ""}
    present = known.series.digest if known.series else ""
    changes = {present: compute_change_digests(project, release), **known.changes}
    if used - changes.keys() - {""}:
        changes = {**dict(_read_old_series(project, release)), **changes}
    status.update_status(path, recorded=marks, changes={digest: changes[digest] for digest in used & changes.keys()})


def _find_marks(project: Path, path: Path) -> dict[str, status.RecordMark]:
    """Return the mark of each proof: that of the record, or of the oldest commit since which its figures stand."""
    current = json.loads(path.read_text(encoding="utf-8"))
    marks: dict[str, dict[str, str]] = dict(current.get("recorded", {}))
    lacking = {key: value for key, value in status.list_proofs(current).items() if key not in marks}
    searched = lacking
    name = path.relative_to(project).as_posix()
    for commit, date in _list_commits(project, name) if searched else ():
        text = _read_blob(project, commit, name)
        document: dict[str, Any] = json.loads(text) if text else {}
        there = status.list_proofs(document)
        searched = {key: value for key, value in searched.items() if there.get(key) == value}
        marks |= {key: status.make_mark(key, document, date) for key in searched}
    if "series" in marks:  # `record` writes the three together, also where the figures stay the same
        marks |= {key: marks["series"] for key in ("applies", "proven") if key in lacking}
    return {key: status.RecordMark(**mark) for key, mark in marks.items()}


def _read_old_series(project: Path, release: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield digest and changes of the series of each commit that touched one, oldest first."""
    name = f"series/{release}"
    for commit, _ in reversed(list(_list_commits(project, "patches", name))):
        text = _read_blob(project, commit, name)
        if text is None:
            continue
        names = series_file.parse_series(text.decode(), name=f"{commit}:{name}").names
        patches = {patch: _read_blob(project, commit, f"patches/{patch}") or b"" for patch in names}
        changes = {Path(patch).name: digest_changes(data, patch) for patch, data in patches.items()}
        yield hash_patches(patches.values()), changes


def _list_commits(project: Path, *paths: str) -> Iterator[tuple[str, str]]:
    """Yield commit and day of all that touched ``paths``, newest first; none outside a repository."""
    answer = git.try_git("log", "--format=%H %as", "--", *paths, cwd=project)
    for line in answer.out.decode().splitlines() if answer.status == 0 else ():
        commit, _, day = line.partition(" ")
        yield commit, day


def _read_blob(project: Path, commit: str, name: str) -> bytes | None:
    answer = git.try_git("cat-file", "blob", f"{commit}:{name}", cwd=project)
    return answer.out if answer.status == 0 else None
