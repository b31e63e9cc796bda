"""Find which upstream commits changed the lines that a patch fails on.

They are read from a clone of upstream that has both tags.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from decouple.base.errors import UsageError
from decouple.base.git import PLAIN_DIFF, is_repository, try_git
from decouple.rebase.verdicts import CarryResult, Note

_COMMIT = re.compile("[0-9a-f]{40}")
MOST = 5  # commits named per hunk; a report is for reading


def check_clone(clone: Path, *tags: str) -> None:
    """Raise UsageError where ``clone`` is no repository or lacks one of ``tags``.

    A tag is a whole commit id where a release has none, and the name of a tree that nobody published.
    """
    if not is_repository(clone):
        raise UsageError(f"--history {clone}: no git repository", next_step="name a clone of upstream's")
    for tag in tags:
        if _run_git(clone, "rev-parse", "--verify", "--quiet", f"{tag}^{{commit}}") is None:
            ref = tag if _COMMIT.fullmatch(tag) else f"tag {tag}"
            raise UsageError(
                f"--history {clone}: it has no {tag}",
                next_step=f"`git -C {shlex.quote(str(clone))} fetch origin {ref}`, or leave --history out where "
                "upstream has no such commit",
            )


def explain_stops(
    carried: Sequence[CarryResult], clone: Path, old_tag: str, new_tag: str, origins: Mapping[str, str]
) -> list[CarryResult]:
    """Fill the commits between the tags into every note of a patch that stops.

    ``origins`` maps a moved file to its upstream path; `check_clone` has looked for the tags.
    """
    span = f"{old_tag}..{new_tag}"
    result = []
    for carry_result in carried:
        if carry_result.verdict.is_stop:
            notes = tuple(
                _explain_note(note, clone, span, origins.get(note.path, note.path)) for note in carry_result.notes
            )
            carry_result = structs.replace(carry_result, notes=notes)
        result.append(carry_result)
    return result


def _explain_note(note: Note, clone: Path, span: str, path: str) -> Note:
    if not path:
        return note
    commits: list[str] = []
    count = len(note.found) or sum(1 for line in note.upstream if line[:1] in " +")
    if note.line and count:
        # the history of just these lines, as they stand at the newer tag (git-log(1), -L)
        last = note.line + count - 1
        commits = _list_commits(clone, "--no-patch", f"-L{note.line},{last}:{path}", span)
    commits = commits or _list_commits(clone, span, "--", path)
    return structs.replace(note, commits=tuple(commits[:MOST]))


def _list_commits(clone: Path, *arguments: str) -> list[str]:
    out = _run_git(clone, "log", *PLAIN_DIFF, "--format=%h %s", f"--max-count={MOST}", *arguments)
    return [line for line in (out or "").splitlines() if line]


def _run_git(clone: Path, *arguments: str) -> str | None:
    """Return git's output, None when it fails.

    A file that the newer tag does not have cannot be asked by line.
    """
    answer = try_git(*arguments, cwd=clone)
    return answer.out.decode("utf-8", "replace") if answer.status == 0 else None
