"""The verbs that change patches.

Each works out the files (``series_update``) and makes one transaction of them.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import write_atomically
from decouple.base.git import Repository
from decouple.base.steps import mark_step
from decouple.patch import series_file
from decouple.patch.mail import decode_mail, format_from, format_identity
from decouple.patch.parse import ENCODED, Patch
from decouple.stack import export
from decouple.stack.applier import ApplyError, apply_patches, check_file_kinds, explain_moved_files
from decouple.stack.commits import SCRATCH, NewCommit, format_mail_date, write_chain
from decouple.stack.engine import MoveResult, Stack
from decouple.stack.journal import Transaction
from decouple.stack.series_update import (
    ID,
    DraftPatch,
    SeriesUpdate,
    find_other_releases,
    make_numbered_name,
    make_series_update,
    make_slug,
    make_unlisted_error,
    read_draft_patches,
    refuse_overlay,
)
from decouple.stack.trees import Change, compare_trees, read_entries

_NO_DIFF = "give a unified diff, as `git diff` and `diff -u` write it; `decouple new` starts an empty patch"
_MAILS = (".eml", ".mbox")
"""Suffixes of a saved mail, which say nothing of the patch in it."""


class RefreshResult(Struct, frozen=True):
    """What a refresh did."""

    written: SeriesUpdate
    taken: tuple[str, ...] = ()
    """Files whose uncommitted edits went into a patch."""
    into: str | None = None
    """The patch they went into."""


def refresh_patches(
    stack: Stack, *, into: str | None = None, drop: bool = False, rewrite: Collection[str] = ()
) -> RefreshResult:
    """Write the tree's commits and edits back to ``patches/`` and the series file.

    The edits are those that are not committed. Edits go into the top patch, or into ``into`` if no later patch touches
    the same files. ``rewrite`` names patches that get a canonical diff even if they did not change (to take offsets
    out). All or nothing. Raises UsageError where a named patch is not applied; DecoupleError: a patch lost its commit
    and ``drop`` is not set, an edit is in the overlay, a patch changed on disk as well, ...
    """
    items = read_draft_patches(stack)
    names = [_get_stored_name(item) for item in items]
    into = _find_applied(stack, names, into) if into else None
    rewrite = [_find_applied(stack, names, name) for name in rewrite]
    index, tree, edits = _read_uncommitted_edits(stack)
    refuse_overlay(stack, (change.path for change in edits))
    target = None
    if edits:
        if not items:
            raise DecoupleError(
                f"{edits[0].path} is edited and no patch is applied", next_step="`decouple new NAME` makes one for it"
            )
        at = names.index(into) if into else len(items) - 1
        items = _merge_edits(items, at, edits)
        target = _get_stored_name(items[at]) or items[at].text.title
    items = [replace(item, same_diff=False) if _get_stored_name(item) in rewrite else item for item in items]
    written = make_series_update(stack, items, drop=drop)
    _commit_patches(stack, "refresh", written, index=index if edits else None, worktree=tree if edits else None)
    return RefreshResult(written, tuple(change.path for change in edits), target)


def _find_applied(stack: Stack, names: Collection[str], wanted: str) -> str:
    """Find the full name of a patch that has a commit in the tree.

    ``names`` are those that have one.
    """
    name = stack.find_name(wanted)
    if name in names:
        return name
    if name in stack.applied:
        raise UsageError(f"the commit of {name} is gone from the tree", next_step="name another patch")
    raise UsageError(f"{name} is not applied", next_step=f"`decouple push {stack.places.release} {name}` applies it")


def fold_diff(stack: Stack, data: bytes, *, strip: int = 1) -> RefreshResult:
    """Merge the diff ``data`` into the top patch: tree, commit and patch file.

    Raises ApplyError if it does not fit.
    """
    if not stack.applied:
        raise UsageError("no patch is applied that could take the diff", next_step="push one, or `decouple new NAME`")
    stack.check_unedited()
    try:
        patch = Patch("the diff", _decode_patch(data, strip), strip)
        (outcome,) = apply_patches(stack.repository, stack.state.tip, [patch], stack.journal.scratch)
    except ApplyError as error:
        raise explain_moved_files(error, [stack.read_patch(name) for name in stack.applied]) from None
    if not outcome.changes:
        raise UsageError("the input holds no diff", next_step="give a patch on standard input or as a file")
    refuse_overlay(stack, outcome.changes)
    before = read_entries(stack.repository, stack.state.tip, outcome.changes)
    edits = [Change(path, before.get(path), new) for path, new in outcome.changes.items()]
    items = read_draft_patches(stack)
    items = _merge_edits(items, len(items) - 1, edits)
    written = make_series_update(stack, items)
    _commit_patches(stack, "fold", written)
    return RefreshResult(written, tuple(outcome.changes), stack.top)


def create_patch(stack: Stack, name: str, *, title: str | None = None, now: float | None = None) -> str:
    """Put a new, empty patch on top of the applied ones.

    Returns its name in the series. ``name`` is a slug (it gets the next number), a file name or a path below
    ``patches/``.
    """
    stack.check_unedited()
    series = stack.series
    full = _complete_name(stack, name)
    slug = re.sub(r"\A\d+-", "", full.rsplit("/", 1)[-1].removesuffix(".patch"))
    date = f"{int(now if now is not None else time.time())} +0000"
    header = (
        f"From: {format_from(_read_user(stack.repository))}\nDate: {format_mail_date(date)}\n"
        f"Subject: {title or slug.replace('-', ' ')}\n\n{ID}: {slug}\n---\n"
    )
    data = header.encode()
    series = series.insert(full, after=_find_listed_top(stack))
    path = stack.places.patches / full
    if path.exists():
        raise UsageError(f"{path} exists already", next_step="`decouple import` puts an existing patch into the series")
    applied = [stack.read_patch(item) for item in stack.applied]
    files = {path: data, stack.places.series: series.to_text().encode()}
    stack.move_to([*applied, Patch(full, data)], verb="new", files=files)
    return full


def rename_patch(stack: Stack, old: str, name: str) -> str:
    """Give patch ``old`` another file name; returns the new one in the series."""
    stack.check_unedited()
    full = _complete_name(stack, name, number=False)
    source = stack.read_patch(old)
    series = stack.series.rename(old, full)
    target = stack.places.patches / full
    if target.exists():
        raise UsageError(f"{target} exists already", next_step="choose another name")
    files: dict[Path, bytes | None] = {target: source.data, stack.places.series: series.to_text().encode()}
    if not find_other_releases(stack.places, old):
        files[stack.places.patches / old] = None
    renamed = replace(source, name=full)
    applied = [renamed if item == old else stack.read_patch(item) for item in stack.applied]
    stack.move_to(applied, verb="rename", files=files)
    return full


def delete_patch(stack: Stack, name: str, *, remove_file: bool = False) -> MoveResult:
    """Take a patch out of the series.

    An applied one must be on top and is popped. ``remove_file`` deletes the file.
    """
    stack.check_unedited()
    applied = list(stack.applied)
    if name in applied and name != stack.top:
        raise UsageError(
            f"{name} has patches on top of it", next_step=f"`decouple pop {stack.places.release} {name}` first"
        )
    files: dict[Path, bytes | None] = {stack.places.series: stack.series.remove(name).to_text().encode()}
    if remove_file:
        others = find_other_releases(stack.places, name)
        if others:
            raise UsageError(f"{name} is also in series {', '.join(others)}", next_step="delete without -r")
        files[stack.places.patches / name] = None
    keep = [stack.read_patch(item) for item in applied if item != name]
    return stack.move_to(keep, verb="delete", files=files)


def import_files(stack: Stack, paths: Sequence[Path], *, name: str | None = None, strip: int = 1) -> list[str]:
    """Copy patch files into the series behind the top patch, not applied yet.

    Returns their names. An encoded mail is decoded, and the CR goes off a file whose lines all end in CR LF, as ``git
    am`` does; every other file keeps its bytes. One that cannot be read as a patch, or that holds what a series cannot,
    is refused before anything is written.
    """
    if name and len(paths) != 1:
        raise UsageError("a name fits one patch only", next_step="import the patches one by one")
    series, after = stack.series, _find_listed_top(stack)
    files: dict[Path, bytes | None] = {}
    names: list[str] = []
    for path in paths:
        own = path.stem if path.suffix in _MAILS else path.name
        full = _complete_name(stack, name or own, number=False)
        data = _decode_patch(path.read_bytes(), strip)
        if not Patch(str(path), data, strip).check_readable().files:
            raise DecoupleError(f"{path} holds no diff", next_step=_NO_DIFF)
        check_file_kinds(Patch(str(path), data, strip))
        _check_line_ends(path, Patch(str(path), data, strip))
        target = stack.places.patches / full
        if target.exists() and target.read_bytes() != data:
            raise UsageError(f"{target} exists already with other content", next_step="choose another name with -P")
        try:
            series = series.insert(full, after=after, strip=strip)
        except DecoupleError as error:
            raise UsageError(error.what, next_step="choose another name with -P") from None
        files[target] = data
        names.append(full)
        after = full
    files[stack.places.series] = series.to_text().encode()
    stack.transact(Transaction("import", stack.state, files))
    return names


def _find_listed_top(stack: Stack) -> str | None:
    """Return the top patch.

    Raises DecoupleError where the series does not list it any more.
    """
    if stack.top is not None and stack.top not in stack.series.names:
        raise make_unlisted_error(stack, stack.top)
    return stack.top


def _decode_patch(data: bytes, strip: int) -> bytes:
    """Decode the patch in an encoded mail, or from another system's editor."""
    if data.count(b"\n") == data.count(b"\r\n"):  # the lines of the diff's header too: no file has those
        data = data.replace(b"\r\n", b"\n")
    if any(problem.code == ENCODED for problem in Patch("", data, strip).problems):
        data = decode_mail(data)
    return data


def _check_line_ends(path: Path, patch: Patch) -> None:
    """Raise DecoupleError where ``git am`` makes another tree of the patch.

    It would say nothing of it. It takes the CR off every line of a mail. Where an old line has one, the patch then
    fails to apply, which is said.
    """
    for file in patch.files:
        for hunk in file.hunks:
            if not any(line.endswith(b"\r\n") for line in hunk.old_lines) and b"\r\n" in hunk.raw.partition(b"\n")[2]:
                raise DecoupleError(
                    f"{path}: adds lines to {file.path} that end in CR LF, and `git am` makes them end in LF",
                    next_step=f"take the CR off, here and below: sed -i 's/\\r$//' {shlex.quote(str(path))}; "
                    "or, if they must stay, `decouple new`, write the file in the tree, and refresh: `git am "
                    "--keep-cr` takes that",
                )


def refuse_empty_header(name: str, text: str) -> None:
    """Raise UsageError for no text: an editor's way to give up, or input that failed."""
    if not text.strip():
        raise UsageError(f"no text for the header of {name}: it stays as it is", next_step="write at least its title")


def set_header(stack: Stack, name: str, text: str) -> None:
    """Replace the header of a patch, applied or not.

    Raises DecoupleError if ``text`` would swallow or hold a diff, or is empty.
    """
    refuse_empty_header(name, text)
    stack.check_unedited()
    old = stack.read_patch(name)
    text = text.replace("\r\n", "\n")  # of another system's editor
    if not text.endswith("\n"):
        text += "\n"
    fresh = Patch(name, text.encode("utf-8", "surrogateescape") + old.body, old.strip)
    if fresh.body != old.body:
        raise DecoupleError(f"the new header of {name} holds lines of a diff", next_step="indent them")
    applied = [fresh if item == name else stack.read_patch(item) for item in stack.applied]
    stack.move_to(applied, verb="header", files={stack.places.patches / name: fresh.data})


def export_patches(stack: Stack, folder: Path) -> SeriesUpdate:
    """Write the applied patches as the tree has them now, and their series.

    They go to ``folder``; nothing else changes.
    """
    written = make_series_update(stack, read_draft_patches(stack), drop=True)
    folder.mkdir(parents=True, exist_ok=True)
    for patch in written.patches:
        mark_step(f"export {patch.name}")
        write_atomically(folder / patch.name, patch.data)
    write_atomically(folder / "series", "".join(f"{entry.to_text()}\n" for entry in _list_applied_entries(written)))
    return written


def make_working_diff(stack: Stack, paths: Sequence[str] = ()) -> bytes:
    """Return the top patch as a refresh of all files, or ``paths``, would write it."""
    items = read_draft_patches(stack)
    _, _, edits = _read_uncommitted_edits(stack)
    if not items:
        raise UsageError("no patch is applied", next_step="push one, or `decouple new NAME`")
    top = _merge_edits(items, len(items) - 1, edits)[-1]
    chosen = {path: pair for path, pair in top.changes.items() if not paths or path in paths}
    sides = []
    for side in (0, 1):
        entries = {path: pair[side] for path, pair in chosen.items()}
        sides += write_chain(stack.repository, stack.state.base, [NewCommit(SCRATCH, entries)])
    return export.make_diff(stack.repository, sides[0], sides[1])


def _commit_patches(
    stack: Stack, verb: str, written: SeriesUpdate, *, index: Path | None = None, worktree: str | None = None
) -> None:
    """Make the written patches the project's and the commits theirs; lay the overlay."""
    state = written.state
    if stack.state.overlay:
        state = replace(state, overlay=stack.write_overlay(state, written.patches, written.series.to_text().encode()))
    stack.transact(Transaction(verb, state, written.files, index, worktree))


def _merge_edits(items: Sequence[DraftPatch], at: int, edits: Iterable[Change]) -> list[DraftPatch]:
    """Merge ``edits`` into the item at ``at``.

    Raises DecoupleError if a later patch is in the way.
    """
    result = list(items)
    changes = dict(result[at].changes)
    for edit in edits:
        for later in result[at + 1 :]:
            if edit.path in later.changes:
                raise DecoupleError(
                    f"{edit.path} is also changed by the later patch {_get_stored_name(later)}",
                    next_step="commit the edit in the applied tree with `git commit --fixup`, `git rebase -i "
                    "--autosquash` there, then refresh",
                )
        before = changes[edit.path][0] if edit.path in changes else edit.old
        if before == edit.new:
            changes.pop(edit.path, None)
        else:
            changes[edit.path] = (before, edit.new)
    same = result[at].same_diff and changes == dict(result[at].changes)
    result[at] = replace(result[at], changes=changes, same_diff=same)
    return result


def _read_uncommitted_edits(stack: Stack) -> tuple[Path, str, list[Change]]:
    """Read the edits of the work tree against HEAD.

    Returns an index that holds them, its tree, and the changes. Tracked files and files that were added count; other
    untracked files are build products for all we know.
    """
    repository = stack.repository
    scratch = stack.journal.scratch
    scratch.mkdir(parents=True, exist_ok=True)
    index = scratch / "edits.index"
    shutil.copy2(repository.git_dir / "index", index)
    if repository.run("ls-files", "-u", "-z", index=index):
        raise DecoupleError(f"{repository.root} has unresolved conflicts", next_step="resolve them with git")
    repository.run("add", "-u", "--", ".", index=index)
    tree = repository.read_text("write-tree", index=index)
    return index, tree, compare_trees(repository, "HEAD", tree)


def _list_applied_entries(written: SeriesUpdate) -> list[series_file.SeriesEntry]:
    names = {patch.name for patch in written.patches}
    return [entry for entry in written.series.entries if entry.name in names]


def _get_stored_name(item: DraftPatch) -> str:
    return item.stored.name if item.stored else ""


def _complete_name(stack: Stack, name: str, *, number: bool = True) -> str:
    release = stack.places.release
    if "/" in name:
        return name
    if number and not re.match(r"\d{4}-", name):
        return make_numbered_name(set(stack.series.names), release, make_slug(name.removesuffix(".patch")))
    return f"{release}/{name if name.endswith(('.patch', '.diff')) else name + '.patch'}"


def _read_user(repository: Repository) -> str:
    """Return who the user is by their git configuration."""
    parts = [
        repository.try_run("config", f"user.{key}", user_config=True).out.decode("utf-8", "replace").strip()
        for key in ("name", "email")
    ]
    return format_identity(parts[0], parts[1], None)[0]
