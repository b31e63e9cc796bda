"""Find what of a patch the release has already.

That is hunks that upstream took, and text that would then stand there twice. A merge drops what both sides did and says
nothing; where upstream put the same function elsewhere, it keeps both. So each hunk is looked for in the release's
text: is its new side there and its old side gone, it is told. A function, or a run of lines, that the patch adds and
that upstream added as well stops the patch: no text says which of the two goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.git import SUBMODULE, TREE, Repository
from decouple.patch.lines import find_lines, split_lines
from decouple.patch.moved_runs import TELLING
from decouple.patch.parse import FilePatch, Hunk, Patch
from decouple.rebase.verdicts import CarryResult, Note, Verdict
from decouple.recipes.definitions import find_signatures
from decouple.stack.trees import TreeEntry, read_blobs, read_entries

_LEAST = 3
"""Lines with words of a run that is looked for: fewer stand in many places by chance."""
_CALLED = re.compile(rb"\b(\w+)\s*\(")


class _ChangedFile(Struct, frozen=True):
    """A file that upstream changed: before the patch, and in the release."""

    section: FilePatch
    old: bytes
    new: bytes


def examine_patch(repository: Repository, patch: Patch, before: str, tip: str, result: CarryResult) -> CarryResult:
    """Add to ``result`` what upstream has of ``patch``.

    It stops where text of it would stand in a file twice. ``before`` is the commit that the patch was cut on, ``tip``
    the one that it comes onto.
    """
    files = list(_find_changed_files(repository, patch, before, tip))
    if not files or result.verdict is Verdict.ALREADY_UPSTREAM:
        return result
    taken = tuple(note for file in files for note in _find_taken_hunks(file)) if _is_examined(result) else ()
    result = replace(result, notes=(*taken, *result.notes)) if taken else result
    if result.changes is None:
        return result
    made = patch if result.body is None else Patch(patch.name, patch.header_bytes + result.body, patch.strip)
    if twice := tuple(_find_duplicates(repository, files, made, result.changes)):
        return CarryResult(result.name, Verdict.AMBIGUOUS, notes=(*twice, *result.notes))
    return result


def _is_examined(result: CarryResult) -> bool:
    """Return whether the patch's own text does not apply as it is.

    Only then can a part of it be there.
    """
    return result.verdict not in (Verdict.UNMODIFIED, Verdict.OFFSET)


def _find_changed_files(repository: Repository, patch: Patch, before: str, tip: str) -> Iterator[_ChangedFile]:
    """Yield the patch's files that upstream has under the same name, with other text."""
    sections = {section.old_path: section for section in patch.files if section.old_path and section.hunks}
    old, new = (read_entries(repository, commit, list(sections)) for commit in (before, tip))
    both = {path: (old[path].id, new[path].id) for path in sections if path in old and path in new}
    both = {path: ids for path, ids in both.items() if ids[0] != ids[1]}
    both = {path: ids for path, ids in both.items() if not {old[path].mode, new[path].mode} & {SUBMODULE, TREE}}
    data = read_blobs(repository, [blob_id for ids in both.values() for blob_id in ids])
    for path, (was, now) in both.items():
        yield _ChangedFile(sections[path], data[was], data[now])


def _find_taken_hunks(file: _ChangedFile) -> Iterator[Note]:
    """Yield a note for each hunk whose new side the release has, and not the old."""
    old, new = split_lines(file.old), split_lines(file.new)
    hunks = file.section.hunks
    for number, hunk in enumerate(hunks, start=1):
        cores = [(_make_core(hunk, run, "+"), _make_core(hunk, run, "-")) for run in _find_runs(hunk)]
        places = [_find_places(new, gone) for _, gone in cores]
        came = [_find_places(new, there) for there, _ in cores]
        if cores and all(came) and not any(places) and not all(_find_places(old, there) for there, _ in cores):
            what = f"hunk {number} of {len(hunks)} is already upstream: the new text of the patch lacks it"
            yield Note(file.section.old_path or "", came[0][0] + 1 + cores[0][0].lead, what)


class _Core(Struct, frozen=True):
    """One side of a change with the line before and the line behind it."""

    lines: tuple[bytes, ...]
    lead: int


def _find_runs(hunk: Hunk) -> list[tuple[int, int]]:
    """Return the changes of a hunk: ranges of lines that are added or removed."""
    runs: list[tuple[int, int]] = []
    for at, line in enumerate(hunk.lines):
        if line.kind != " ":
            if runs and runs[-1][1] == at:
                runs[-1] = (runs[-1][0], at + 1)
            else:
                runs.append((at, at + 1))
    return runs


def _make_core(hunk: Hunk, run: tuple[int, int], kind: str) -> _Core:
    start, stop = run
    side = [line.text for line in hunk.lines[start:stop] if line.kind == kind]
    lead = [line.text for line in hunk.lines[max(start - 1, 0) : start]]
    tail = [line.text for line in hunk.lines[stop : stop + 1]]
    return _Core((*lead, *side, *tail), len(lead))


def _find_places(lines: Sequence[bytes], core: _Core) -> list[int]:
    """Return where ``core`` stands.

    With one edge only where upstream changed what stands beyond the other.
    """
    whole = find_lines(lines, core.lines)
    if whole or len(core.lines) < 3:
        return whole
    telling = sum(1 for line in core.lines[1:-1] if TELLING.search(line))
    return (find_lines(lines, core.lines[:-1]) or find_lines(lines, core.lines[1:])) if telling else []


def _find_duplicates(
    repository: Repository, files: Sequence[_ChangedFile], made: Patch, changes: Mapping[str, TreeEntry | None]
) -> Iterator[Note]:
    """Yield a note for each function and run of lines that both sides add.

    Both sides: the patch and upstream, to one file.
    """
    sections = {section.new_path: section for section in made.files}
    for file in files:
        path = file.section.old_path or ""
        section, entry = sections.get(path), changes.get(path)
        if section is None or entry is None or not section.hunks:
            continue
        noted: set[int] = set()
        for number, line, what in [
            *_find_duplicate_runs(file, section),
            *_find_duplicate_functions(repository, file, section, entry),
        ]:
            if number not in noted:
                noted.add(number)
                where = f"hunk {number} of {len(section.hunks)} adds {what}"
                yield Note(
                    path, line, f"{where}, and upstream has that already in line {line}: it would stand there twice"
                )


def _find_duplicate_runs(file: _ChangedFile, section: FilePatch) -> Iterator[tuple[int, int, str]]:
    old, new = split_lines(file.old), split_lines(file.new)
    for number, hunk in enumerate(section.hunks, start=1):
        for start, stop in _find_runs(hunk):
            added = [line.text for line in hunk.lines[start:stop] if line.kind == "+"]
            while added and not added[0].strip():
                added.pop(0)
            while added and not added[-1].strip():
                added.pop()
            if sum(1 for line in added if TELLING.search(line)) < _LEAST or find_lines(old, added):
                continue
            if there := find_lines(new, added):
                yield number, there[0] + 1, f"{len(added)} lines ({_format_lines(added)}, …)"


def _find_duplicate_functions(
    repository: Repository, file: _ChangedFile, section: FilePatch, entry: TreeEntry
) -> Iterator[tuple[int, int, str]]:
    added = b"\n".join(line.text for hunk in section.hunks for line in hunk.lines if line.kind == "+")
    names = {match[1] for match in _CALLED.finditer(added)}
    if not any(_count_definitions(file.new, name) > _count_definitions(file.old, name) for name in names):
        return
    path = file.section.old_path or ""
    after = read_blobs(repository, [entry.id])[entry.id]
    texts = (find_signatures(data.decode("utf-8", "replace"), path) for data in (file.old, file.new, after))
    old, new, now = texts
    for name, lines in now.items():
        if len(lines) > len(new.get(name, ())) > len(old.get(name, ())):
            ours = next((at for at, hunk in enumerate(section.hunks, start=1) if _has_added_line(hunk, lines)), 0)
            if ours:
                yield ours, new[name][0], f"the function {name}"


def _has_added_line(hunk: Hunk, lines: Sequence[int]) -> bool:
    """Return whether the hunk adds one of these lines (from 1) of the new text."""
    number = hunk.new_start
    for line in hunk.lines:
        if line.kind == "+" and number in lines:
            return True
        number += line.kind != "-"
    return False


def _count_definitions(text: bytes, name: bytes) -> int:
    return text.count(name)


def _format_lines(lines: Sequence[bytes]) -> str:
    telling = next(line for line in lines if TELLING.search(line))
    return telling.decode("utf-8", "replace").strip()[:80]
