"""Which upstream commits changed the lines that a patch fails on, from a clone of upstream that has both tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from decouple.base.errors import UsageError
from decouple.base.git import PLAIN_DIFF, ask
from decouple.rebase.verdicts import Carried, Note

MOST = 5  # commits named per hunk; a report is for reading


def explained(
    carried: Sequence[Carried], clone: Path, old_tag: str, new_tag: str, origins: Mapping[str, str]
) -> list[Carried]:
    """``carried`` with the commits between the tags filled into every note of a patch that stops.

    ``origins`` maps a moved file to its upstream path. Raises UsageError when the clone lacks a tag.
    """
    for tag in (old_tag, new_tag):
        if _git(clone, "rev-parse", "--verify", "--quiet", f"{tag}^{{commit}}") is None:
            raise UsageError(f"{clone} has no {tag}", next_step=f"git -C {clone} fetch origin tag {tag}")
    span = f"{old_tag}..{new_tag}"
    result = []
    for one in carried:
        if one.verdict.stops:
            notes = tuple(_explained(note, clone, span, origins.get(note.path, note.path)) for note in one.notes)
            one = structs.replace(one, notes=notes)
        result.append(one)
    return result


def _explained(note: Note, clone: Path, span: str, path: str) -> Note:
    if not path:
        return note
    found: list[str] = []
    count = len(note.found) or sum(1 for line in note.upstream if line[:1] in " +")
    if note.line and count:
        # the history of just these lines, as they stand at the newer tag (git-log(1), -L)
        last = note.line + count - 1
        found = _log(clone, "--no-patch", f"-L{note.line},{last}:{path}", span)
    found = found or _log(clone, span, "--", path)
    return structs.replace(note, commits=tuple(found[:MOST]))


def _log(clone: Path, *arguments: str) -> list[str]:
    out = _git(clone, "log", *PLAIN_DIFF, "--format=%h %s", f"--max-count={MOST}", *arguments)
    return [line for line in (out or "").splitlines() if line]


def _git(clone: Path, *arguments: str) -> str | None:
    """git's output, None when it fails (a file that the newer tag does not have cannot be asked by line)."""
    answer = ask(*arguments, cwd=clone)
    return answer.out.decode("utf-8", "replace") if answer.status == 0 else None
