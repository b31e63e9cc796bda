"""Find changes that would go into another function than they were cut for.

Where the same lines stand in several functions, neither a search for them nor a merge knows which are meant: upstream
let two functions change places, or deleted the one and wrote another with the same body. So the lines that enclose each
change are compared, in the tree that the patch was cut on and in the release: those above it that are indented less,
such as the first line of a function or a class. They may be written otherwise, or be others where a function has a new
name. So a change is told only where what it was cut for is still there, where its lines stand twice, or where a merge
found a place for them by lines of which none stands once in both texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from decouple.base.git import Repository
from decouple.patch.apply import FileResult, Tree, apply_patch
from decouple.patch.lines import find_lines, split_lines
from decouple.patch.moved_runs import TELLING
from decouple.patch.parse import Hunk, Patch
from decouple.rebase.tree_source import TreeSource
from decouple.rebase.verdicts import CarryResult, Note, Verdict

_CLOSING = (b")", b"]", b"}", b"{")
"""How a line begins that goes on with one above it, which has the same indentation."""
_NO_HEAD = (b"#", b"//", b"/*", b"*")
"""How a line begins that encloses nothing: a comment, or a directive at the margin."""
_CHOICE = re.compile(rb"(?:if|elif|else|for|while|do|switch|case|default|try|catch|except|finally|with)\b")
_NAMED = re.compile(rb"(?:(?:class|struct|union)\b[^:{(]*?(\w+)\s*(?:final\s*)?[:{(]|.*?(?<=[\s*&])([\w:~]+)\s*\()")


class _ChangedLine(Struct, frozen=True):
    """A line that a patch adds or takes out, and what encloses it."""

    kind: str
    text: bytes
    heads: tuple[bytes, ...]
    """The lines above it that are indented less, from the margin on, without their indentation."""
    hunk: int
    """1-based in its file."""
    line: int
    """1-based in the text that the patch finds."""
    around: tuple[bytes, ...]
    """A line that goes itself; the lines between which one comes."""


class _File(Struct, frozen=True):
    """What a patch does to a file."""

    lines: tuple[bytes, ...]
    changed: tuple[_ChangedLine, ...]
    blocks: tuple[tuple[bytes, ...], ...]
    """What each hunk expects to find."""
    heads: frozenset[bytes]
    """What encloses something in the text that the patch finds, by name."""


def examine_places(repository: Repository, patch: Patch, before: str, tip: str, result: CarryResult) -> CarryResult:
    """Stop a patch of which a change would go into another function.

    ``before`` is the commit that the patch was cut on, ``tip`` the one that it comes onto.
    """
    if result.changes is None or not result.changes:
        return result
    made = patch if result.body is None else Patch(patch.name, patch.header_bytes + result.body, patch.strip)
    olds, news = _read_files(repository, patch, before), _read_files(repository, made, tip)
    merged = result.verdict is Verdict.MERGED
    strayed = [
        note for path, old in olds.items() for note in _find_strayed(old, _find_file(path, olds, news), merged=merged)
    ]
    return CarryResult(result.name, Verdict.CONFLICT, notes=(*strayed, *result.notes)) if strayed else result


def _find_file(path: str, olds: dict[str, _File], news: dict[str, _File]) -> tuple[str, _File] | None:
    """Find the file of the release.

    It has the same name, or is the only one that has another.
    """
    if path in news:
        return path, news[path]
    left = [other for other in news if other not in olds]
    return (left[0], news[left[0]]) if len(left) == 1 and len(olds.keys() - news.keys()) == 1 else None


def _read_files(repository: Repository, patch: Patch, commit: str) -> dict[str, _File]:
    """Read each file that the patch changes in ``commit``.

    None where it does not apply there.
    One that several of its sections name is left out: their lines are counted in texts that are nowhere.
    """
    source = TreeSource(repository, commit, patch.touched_paths)
    applied = apply_patch(patch, Tree(source))
    named = Counter(path for file in patch.files for path in file.paths)
    files = {}
    for file in applied.files if applied.applies else ():
        section = file.file
        after = applied.changes.get(section.new_path or "")
        if section.old_path and after and file.placed and max(named[path] for path in section.paths) == 1:
            files[section.old_path] = _read_file(
                split_lines(source.read(section.old_path)), split_lines(after.data), file
            )
    return files


def _read_file(old: Sequence[bytes], new: Sequence[bytes], file: FileResult) -> _File:
    heads, new_heads = _find_heads(old), _find_heads(new)
    changed = []
    shift = 0
    for placed in file.placed:
        was, now = placed.line - 1 - shift, placed.line - 1
        for at, line in enumerate(placed.hunk.lines):
            if line.kind != " " and line.text.strip():
                there = _list_heads(old, heads, was) if line.kind == "-" else _list_heads(new, new_heads, now)
                around = _find_around(placed.hunk, at)
                changed.append(_ChangedLine(line.kind, line.text, there, placed.number, was + 1, around))
            was += line.kind != "+"
            now += line.kind != "-"
        shift += len(placed.hunk.new_lines) - len(placed.hunk.old_lines)
    names = frozenset(_find_name(old[at].strip()) for at in heads if at is not None)
    return _File(tuple(old), tuple(changed), tuple(placed.hunk.old_lines for placed in file.placed), names)


def _find_around(hunk: Hunk, at: int) -> tuple[bytes, ...]:
    """Return the changed line where it goes, the lines around it where it comes."""
    if hunk.lines[at].kind == "-":
        return (hunk.lines[at].text,)
    before = [line.text for line in hunk.lines[:at] if line.kind != "+"][-1:]
    after = [line.text for line in hunk.lines[at + 1 :] if line.kind != "+"][:1]
    return (*before, *after)


def _find_heads(lines: Sequence[bytes]) -> list[int | None]:
    """Return for each line which one encloses it; None at the margin.

    A comment, a directive or an empty line is where the code below it is.
    """
    heads: list[int | None] = []
    open_lines: list[tuple[int, int]] = []
    waiting = 0
    for at, line in enumerate(lines):
        text = line.strip()
        if not text or text.startswith(_NO_HEAD):
            waiting += 1
            continue
        wide = line.expandtabs(8)
        indent, goes_on = len(wide) - len(wide.lstrip()), text.startswith(_CLOSING)
        while open_lines and open_lines[-1][0] >= indent + goes_on:
            open_lines.pop()
        heads += [open_lines[-1][1] if open_lines else None] * (waiting + 1)
        waiting = 0
        if not goes_on:
            open_lines.append((indent, at))
    return heads + [None] * waiting


def _list_heads(lines: Sequence[bytes], heads: Sequence[int | None], at: int) -> tuple[bytes, ...]:
    found: list[bytes] = []
    head = heads[at]
    while head is not None:
        found.insert(0, lines[head].strip())
        head = heads[head]
    return tuple(found)


def _find_name(head: bytes) -> bytes:
    """Return what a line is known by.

    The name of its function, whose parameters may change; else all of it.
    """
    named = None if _CHOICE.match(head) else _NAMED.match(head)
    return (named[1] or named[2]) if named else head


def _find_strayed(old: _File, found: tuple[str, _File] | None, *, merged: bool) -> Iterator[Note]:
    """Yield a note for each hunk of which a line would be enclosed by others.

    ``merged``: not where the text of the patch applies, but where a merge came to.
    """
    if found is None or found[1].lines == old.lines:
        return
    place, new = found
    noted: set[int] = set()
    for was, now in _pair_lines(old.changed, new.changed):
        lost, head = _find_other_head(was.heads, now.heads)
        if was.hunk in noted or lost is None:
            continue
        blocks = {old.blocks[was.hunk - 1], new.blocks[now.hunk - 1]}
        twice = any(len(find_lines(text, block)) > 1 for block in blocks for text in (old.lines, new.lines))
        unproven = merged and not _is_proven(now, old.lines, new.lines)
        if twice or (not _CHOICE.match(lost) and (unproven or _find_name(lost) in new.heads)):
            noted.add(was.hunk)
            what = f"hunk {was.hunk} of {len(old.blocks)} was cut for a place in {_show(lost)}"
            yield Note(
                place, now.line, f"{what}, and would come {f'into {_show(head)}' if head else 'outside of it'} here"
            )


def _is_proven(line: _ChangedLine, olds: Sequence[bytes], news: Sequence[bytes]) -> bool:
    """Say whether a line that tells the place stands once in both texts."""
    return any(TELLING.search(text) and olds.count(text) == news.count(text) == 1 for text in line.around)


def _pair_lines(
    olds: Sequence[_ChangedLine], news: Sequence[_ChangedLine]
) -> Iterator[tuple[_ChangedLine, _ChangedLine]]:
    """Pair the changed lines with one text of which other lines enclose each."""
    for kind, text in dict.fromkeys((line.kind, line.text) for line in olds):
        was, now = ([line for line in side if (line.kind, line.text) == (kind, text)] for side in (olds, news))
        for line in list(was):
            same = next((other for other in now if _name_heads(other) == _name_heads(line)), None)
            if same:
                was.remove(line)
                now.remove(same)
        yield from zip(was, now, strict=False)


def _name_heads(line: _ChangedLine) -> list[bytes]:
    return [_find_name(head) for head in line.heads]


def _find_other_head(olds: Sequence[bytes], news: Sequence[bytes]) -> tuple[bytes | None, bytes | None]:
    """Return the first of ``olds`` that is another in ``news``, and that one.

    None where lines only came or went.
    """
    left, right = (list(map(_find_name, heads)) for heads in (olds, news))
    if _is_part(left, right) or _is_part(right, left):
        return None, None
    at = next(at for at, name in enumerate(left) if name not in right[at : at + 1])
    return olds[at], news[at] if at < len(news) else None


def _is_part(some: Sequence[bytes], all_of_them: Sequence[bytes]) -> bool:
    """Return whether ``some`` are among the others, in this order."""
    rest = iter(all_of_them)
    return all(name in rest for name in some)


def _show(head: bytes) -> str:
    return f"`{head.decode('utf-8', 'replace')[:80]}`"
