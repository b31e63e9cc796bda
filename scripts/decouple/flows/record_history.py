"""Complete from git history what the series of each proof changes in a tree.

>>> from decouple.flows.record_history import complete_history
>>> complete_history(project, "2.6")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from decouple.base import git
from decouple.patch import series_file
from decouple.release import status
from decouple.series.digest import compute_change_digests, digest_changes, hash_patches


def complete_history(project: Path, release: str) -> None:
    """Write the changes of each proven series to a status file; drop all others.

    What is not in the file comes from the commits of a full clone; where they have none, that series stays without.
    Raises DecoupleError.
    """
    path = status.locate_status(project, release)
    if not path.exists():
        return
    known = status.read_status(path)
    present = known.series.digest if known.series else ""
    used = {present, *(mark.series for mark in known.recorded.values())}
    changes = {present: compute_change_digests(project, release), **known.changes}
    if used - changes.keys() - {""}:
        changes = {**dict(_read_old_series(project, release)), **changes}

    def choose_proven(before: status.ReleaseStatus) -> Mapping[str, Mapping[str, str]]:
        found = {**changes, **before.changes}
        proven = {present, *(mark.series for mark in before.recorded.values())}
        return {digest: found[digest] for digest in proven & found.keys()}

    status.update_status(path, changes=choose_proven)


def _read_old_series(project: Path, release: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield digest and changes of the series of each commit to one, oldest first."""
    name = f"series/{release}"
    for commit in reversed(_list_commits(project, "patches", name)):
        text = _read_blob(project, commit, name)
        if text is None:
            continue
        names = series_file.parse_series(text.decode(), name=f"{commit}:{name}").names
        patches = {patch: _read_blob(project, commit, f"patches/{patch}") or b"" for patch in names}
        changes = {Path(patch).name: digest_changes(data, patch) for patch, data in patches.items()}
        yield hash_patches(patches.values()), changes


def _list_commits(project: Path, *paths: str) -> list[str]:
    """List commits that touched ``paths``, newest first; none outside a repository."""
    answer = git.try_git("log", "--format=%H", "--", *paths, cwd=project)
    return answer.out.decode().split() if answer.status == 0 else []


def _read_blob(project: Path, commit: str, name: str) -> bytes | None:
    answer = git.try_git("cat-file", "blob", f"{commit}:./{name}", cwd=project)  # it may be a folder of another
    return answer.out if answer.status == 0 else None
