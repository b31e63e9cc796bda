"""The verbs that change patches: what the commits and files of the applied tree say is written back to ``patches/``.

A patch whose commit changes the same files in the same way as before keeps its stored diff byte for byte, however it
was formatted; a header keeps its bytes while the commit's text is the same. Only what changed is written anew, in the
canonical form of ``export``, and proved by applying it again.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.fault import step
from decouple.series import seriesfile
from decouple.series.seriesfile import SeriesFile
from decouple.series.stack import export
from decouple.series.stack.applier import apply
from decouple.series.stack.commits import (
    OVERLAY_TRAILER,
    PATCH_TRAILER,
    CommitText,
    NewCommit,
    from_header,
    read_chain,
    rfc2822,
    split_message,
    to_header,
    valid_author,
    without_diffstat,
    write_chain,
)
from decouple.series.stack.engine import Moved, Places, Stack, partial_releases, releases
from decouple.series.stack.journal import Applied, Plan, State
from decouple.series.stack.patchtext import PatchText
from decouple.series.stack.plumbing import Repository
from decouple.series.stack.trees import Change, Entry, differences

ID = "Decouple-Id"


@dataclass(frozen=True)
class Item:
    """One patch to be: its commit's text and what it changes, by path: (before, after)."""

    text: CommitText
    changes: Mapping[str, tuple[Entry | None, Entry | None]]
    stored: PatchText | None = None
    """The patch it was, if it was one."""
    same_diff: bool = False
    """Whether ``stored`` changes exactly the same."""
    same_text: bool = False
    offsets: tuple[object, ...] = ()

    @property
    def identity(self) -> str | None:
        """The patch's ``Decouple-Id``."""
        return self.text.trailer(ID)


@dataclass(frozen=True)
class Written:
    """The patch files that a list of items makes."""

    state: State
    patches: tuple[PatchText, ...]
    series: SeriesFile
    files: Mapping[Path, bytes | None]
    """What differs from the project's files."""
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    newer: tuple[str, ...] = ()
    """Patches whose file changed since they were applied; kept, and not in the tree yet."""


@dataclass(frozen=True)
class Refreshed:
    """What a refresh did."""

    written: Written
    taken: tuple[str, ...] = ()
    """Files whose uncommitted edits went into a patch."""
    into: str | None = None
    """The patch they went into."""


def refresh(
    stack: Stack, *, into: str | None = None, drop: bool = False, rewrite: Collection[str] = (), verb: str = "refresh"
) -> Refreshed:
    """Write the commits of the tree, and its uncommitted edits, back to ``patches/`` and the series file.

    Edits go into the top patch, or into ``into`` if no later patch touches the same files. ``rewrite`` names patches
    that get a canonical diff even if they did not change (to take offsets out). All or nothing. Raises DecoupleError:
    a patch lost its commit and ``drop`` is not set, an edit is in the overlay, a patch changed on disk as well, ...
    """
    items = read_items(stack)
    index, tree, edits = _uncommitted(stack)
    _refuse_overlay(stack, (change.path for change in edits))
    target = None
    if edits:
        if not items:
            raise DecoupleError(
                f"{edits[0].path} is edited and no patch is applied", next_step="`decouple new NAME` makes one for it"
            )
        names = [_name_of(item) for item in items]
        at = names.index(stack.find(into)) if into else len(items) - 1
        items = _take(items, at, edits)
        target = _name_of(items[at]) or items[at].text.title
    items = [replace(item, same_diff=False) if _name_of(item) in rewrite else item for item in items]
    written = write(stack, items, drop=drop)
    _commit(stack, verb, written, index=index if edits else None, worktree=tree if edits else None)
    return Refreshed(written, tuple(change.path for change in edits), target)


def fold(stack: Stack, data: bytes, *, strip: int = 1) -> Refreshed:
    """Merge the diff ``data`` into the top patch: tree, commit and patch file. Raises ApplyError if it does not fit."""
    if not stack.applied:
        raise UsageError("no patch is applied that could take the diff", next_step="push one, or `decouple new NAME`")
    stack.check_unedited()
    (outcome,) = apply(stack.repository, stack.state.tip, [PatchText("the diff", data, strip)], stack.journal.scratch)
    if not outcome.changes:
        raise UsageError("the input holds no diff", next_step="give a patch on standard input or as a file")
    _refuse_overlay(stack, outcome.changes)
    before = {change.path: change.old for change in differences(stack.repository, *_as_trees(stack, outcome.changes))}
    edits = [Change(path, before.get(path), new) for path, new in outcome.changes.items()]
    items = read_items(stack)
    items = _take(items, len(items) - 1, edits)
    written = write(stack, items)
    _commit(stack, "fold", written)
    return Refreshed(written, tuple(outcome.changes), stack.top)


def new(stack: Stack, name: str, *, title: str | None = None, now: float | None = None) -> str:
    """Put a new, empty patch on top of the applied ones; returns its name in the series.

    ``name`` is a slug (it gets the next number), a file name or a path below ``patches/``.
    """
    stack.check_unedited()
    series = stack.series
    full = _full_name(stack, name)
    slug = re.sub(r"\A\d+-", "", full.rsplit("/", 1)[-1].removesuffix(".patch"))
    date = f"{int(now if now is not None else time.time())} +0000"
    header = (
        f"From: {_user(stack.repository)}\nDate: {rfc2822(date)}\n"
        f"Subject: {title or slug.replace('-', ' ')}\n\n{ID}: {slug}\n---\n"
    )
    data = header.encode()
    series = series.insert(full, after=stack.top)
    path = stack.places.patches / full
    if path.exists():
        raise UsageError(f"{path} exists already", next_step="`decouple import` puts an existing patch into the series")
    applied = [stack.patch(item) for item in stack.applied]
    files = {path: data, stack.places.series: series.text().encode()}
    complete = bool(stack.state.overlay)
    stack.goto([*applied, PatchText(full, data)], verb="new", overlay=complete, files=files)
    return full


def rename(stack: Stack, old: str, name: str) -> str:
    """Give patch ``old`` another file name; returns the new one in the series."""
    stack.check_unedited()
    full = _full_name(stack, name, number=False)
    source = stack.patch(old)
    series = stack.series.rename(old, full)
    target = stack.places.patches / full
    if target.exists():
        raise UsageError(f"{target} exists already", next_step="choose another name")
    files: dict[Path, bytes | None] = {target: source.data, stack.places.series: series.text().encode()}
    if not _listed_elsewhere(stack.places, old):
        files[stack.places.patches / old] = None
    renamed = replace(source, name=full)
    applied = [renamed if item == old else stack.patch(item) for item in stack.applied]
    _goto_or_write(stack, applied, "rename", files)
    return full


def delete(stack: Stack, name: str, *, remove_file: bool = False) -> Moved:
    """Take a patch out of the series; an applied one must be on top and is popped. ``remove_file`` deletes the file."""
    stack.check_unedited()
    applied = list(stack.applied)
    if name in applied and name != stack.top:
        raise UsageError(
            f"{name} has patches on top of it", next_step=f"`decouple pop {stack.places.release} {name}` first"
        )
    files: dict[Path, bytes | None] = {stack.places.series: stack.series.remove(name).text().encode()}
    if remove_file:
        others = _listed_elsewhere(stack.places, name)
        if others:
            raise UsageError(f"{name} is also in series {', '.join(others)}", next_step="delete without -r")
        files[stack.places.patches / name] = None
    keep = [stack.patch(item) for item in applied if item != name]
    return _goto_or_write(stack, keep, "delete", files)


def import_files(stack: Stack, paths: Sequence[Path], *, name: str | None = None, strip: int = 1) -> list[str]:
    """Copy patch files into the series behind the top patch, not applied yet; returns their names.

    A file that cannot be read as a patch is refused before anything is written.
    """
    if name and len(paths) != 1:
        raise UsageError("a name fits one patch only", next_step="import the patches one by one")
    series, after = stack.series, stack.top
    files: dict[Path, bytes | None] = {}
    names: list[str] = []
    for path in paths:
        full = _full_name(stack, name or path.name, number=False)
        data = path.read_bytes()
        if not PatchText(str(path), data, strip).touched:
            raise DecoupleError(f"{path} holds no diff", next_step="`decouple new` starts an empty patch")
        target = stack.places.patches / full
        if target.exists() and target.read_bytes() != data:
            raise UsageError(f"{target} exists already with other content", next_step="choose another name with -P")
        series = series.insert(full, after=after, strip=strip)
        files[target] = data
        names.append(full)
        after = full
    files[stack.places.series] = series.text().encode()
    stack.transact(Plan("import", stack.state, files))
    return names


def set_header(stack: Stack, name: str, text: str) -> None:
    """Replace the header of a patch, applied or not. Raises DecoupleError if ``text`` would swallow or hold a diff."""
    stack.check_unedited()
    old = stack.patch(name)
    if text and not text.endswith("\n"):
        text += "\n"
    fresh = PatchText(name, text.encode("utf-8", "surrogateescape") + old.body, old.strip)
    if fresh.body != old.body:
        raise DecoupleError(f"the new header of {name} holds lines of a diff", next_step="indent them")
    applied = [fresh if item == name else stack.patch(item) for item in stack.applied]
    _goto_or_write(stack, applied, "header", {stack.places.patches / name: fresh.data})


def export_to(stack: Stack, folder: Path) -> Written:
    """Write the applied patches as the tree has them now, and their series, to ``folder``; nothing else changes."""
    written = write(stack, read_items(stack), drop=True)
    folder.mkdir(parents=True, exist_ok=True)
    for patch in written.patches:
        path = folder / patch.name
        path.parent.mkdir(parents=True, exist_ok=True)
        step(f"export {patch.name}")
        path.write_bytes(patch.data)
    (folder / "series").write_text("".join(f"{entry.text()}\n" for entry in _applied_entries(written)), "utf-8")
    return written


def working_diff(stack: Stack, paths: Sequence[str] = ()) -> bytes:
    """What the top patch would be if refreshed now, for all files or just ``paths``."""
    items = read_items(stack)
    _, _, edits = _uncommitted(stack)
    if not items:
        raise UsageError("no patch is applied", next_step="push one, or `decouple new NAME`")
    top = _take(items, len(items) - 1, edits)[-1]
    chosen = {path: pair for path, pair in top.changes.items() if not paths or path in paths}
    sides = []
    for side in (0, 1):
        text = CommitText("decouple <decouple@localhost>", "0 +0000", "scratch\n")
        entries = {path: pair[side] for path, pair in chosen.items()}
        sides += write_chain(stack.repository, stack.state.base, [NewCommit(text, entries)])
    return export.diff(stack.repository, sides[0], sides[1])


# ---- from commits to patches


def read_items(stack: Stack) -> list[Item]:
    """The commits on top of the base as items, oldest first; the overlay is left out.

    Commits that the stack made and nobody touched cost nothing; the others are compared with what they were.
    """
    chain = stack.chain()
    state = stack.state
    repository = stack.repository
    old_chain = read_chain(repository, state.base, state.tip)
    records = {item.name: (item, row) for item, row in zip(state.applied, old_chain, strict=True)}
    by_id = {row[2].trailer(ID): name for name, (_, row) in records.items() if row[2].trailer(ID)}
    trees: dict[str, str] = {state.base: repository.tree_of(state.base)}
    trees |= {commit: tree for commit, tree, _ in (*old_chain, *chain)}
    parents = dict(zip((row[0] for row in old_chain), (state.base, *(row[0] for row in old_chain)), strict=False))
    parents |= dict(zip((row[0] for row in chain), (state.base, *(row[0] for row in chain)), strict=False))
    laid = _overlay_paths(stack)
    items: list[Item] = []
    used: set[str] = set()
    for commit, tree, text in chain:
        if text.trailer(OVERLAY_TRAILER) is not None:
            if not _same_overlay(stack, commit, parents[commit]):
                raise DecoupleError(
                    f"the overlay commit {commit[:12]} was edited",
                    next_step="edit the files in third_device/ of the project; "
                    f"`git rebase --onto {state.tip[:12]}` drops the edits",
                )
            continue
        changes = {c.path: (c.old, c.new) for c in differences(repository, trees[parents[commit]], tree)}
        for path in changes:
            if path in laid:
                _refuse_overlay(stack, [path])
        name = text.trailer(PATCH_TRAILER)
        if name not in records or name in used:
            name = by_id.get(text.trailer(ID))
        if name is None or name in used:
            items.append(Item(text, changes))
            continue
        used.add(name)
        record, (old_commit, old_tree, old_text) = records[name]
        stored = _stored(stack, record)
        if commit == old_commit:
            items.append(Item(text, changes, stored, True, True, record.offsets))
            continue
        before = {c.path: (c.old, c.new) for c in differences(repository, trees[parents[old_commit]], old_tree)}
        same_diff, same_text = before == changes, text.same_text(old_text)
        items.append(Item(text, changes, stored, same_diff, same_text, record.offsets if same_diff else ()))
    return items


def write(stack: Stack, items: Sequence[Item], *, drop: bool = False) -> Written:
    """Turn items into patch files, a series file and a state; writes objects, but no file of the project yet."""
    places, repository, state = stack.places, stack.repository, stack.state
    _refuse_drops(stack, items, drop)
    names = _names(stack, items)
    records = {record.name: record for record in state.applied}
    headers = [
        item.stored.header_text if item.stored and item.same_text else _header(item, name)
        for item, name in zip(items, names, strict=True)
    ]
    chain = [
        NewCommit(from_header(header, name), {path: after for path, (_, after) in item.changes.items()})
        for item, name, header in zip(items, names, headers, strict=True)
    ]
    commits = write_chain(repository, state.base, chain)
    patches: list[PatchText] = []
    applied: list[Applied] = []
    newer: list[str] = []
    parent = state.base
    for item, name, header, commit in zip(items, names, headers, commits, strict=True):
        stored = item.stored
        if stored and item.same_diff and item.same_text and name == stored.name:
            record = records[name]
            if stored.sha256 != record.sha256:
                newer.append(name)
            applied.append(Applied(name, record.sha256, commit, record.offsets))
            patches.append(stored)
            parent = commit
            continue
        if stored and stored.sha256 != records[stored.name].sha256:
            raise DecoupleError(
                f"{stored.name} changed on disk and in the tree",
                next_step=f"restore the file (git checkout -- patches/{stored.name}), refresh, then merge the two",
            )
        if stored and item.same_diff:
            patch = PatchText(name, header.encode("utf-8", "surrogateescape") + stored.body, stored.strip)
            offsets = records[stored.name].offsets
        else:
            head = without_diffstat(header).encode("utf-8", "surrogateescape")
            patch = PatchText(name, head + export.diff(repository, parent, commit))
            _prove(stack, parent, patch, item)
            offsets = ()
        applied.append(Applied(name, patch.sha256, commit, offsets))
        patches.append(patch)
        parent = commit
    series, dropped = _series(stack, items, patches)
    files: dict[Path, bytes | None] = {places.patches / patch.name: patch.data for patch in patches}
    kept = {patch.name for patch in patches}
    renamed = {
        item.stored.name: name
        for item, name in zip(items, names, strict=True)
        if item.stored and item.stored.name != name
    }
    for name in (*dropped, *renamed):
        if name not in kept and not _listed_elsewhere(places, name):
            files[places.patches / name] = None
    files[places.series] = series.text().encode()
    files = {path: data for path, data in files.items() if data != (path.read_bytes() if path.is_file() else None)}
    added = tuple(name for item, name in zip(items, names, strict=True) if item.stored is None)
    changed = tuple(patch.name for patch in patches if places.patches / patch.name in files and patch.name not in added)
    return Written(
        replace(state, applied=tuple(applied)), tuple(patches), series, files, changed, added, dropped, renamed,
        tuple(newer),
    )  # fmt: skip


def _commit(
    stack: Stack, verb: str, written: Written, *, index: Path | None = None, worktree: str | None = None
) -> None:
    """Make the written patches the project's, the tree's commits theirs, and lay the overlay again."""
    state = written.state
    if stack.state.overlay:
        state = replace(state, overlay=stack.laid(state, written.patches, written.series.text().encode()))
    stack.transact(Plan(verb, state, written.files, index, worktree))


def _prove(stack: Stack, parent: str, patch: PatchText, item: Item) -> None:
    """Raise DecoupleError unless the patch, applied again, makes exactly what its commit holds."""
    if not item.changes:
        return
    (outcome,) = apply(stack.repository, parent, [patch], stack.journal.scratch)
    if dict(outcome.changes) != {path: after for path, (_, after) in item.changes.items()} or outcome.offsets:
        raise DecoupleError(
            f"{patch.name}: the patch written for this commit does not give the same files back",
            next_step="this is a fault of decouple; please report it with the commit",
        )


def _refuse_drops(stack: Stack, items: Sequence[Item], drop: bool) -> None:
    kept = {item.stored.name for item in items if item.stored}
    lost = [record.name for record in stack.state.applied if record.name not in kept]
    if lost and not drop:
        raise DecoupleError(
            f"the commit of {lost[0]}{f' and {len(lost) - 1} more' if len(lost) > 1 else ''} is gone from the tree",
            next_step="--drop takes the patch out of the series for good"
            + (f"; `git reset --hard {head[:12]}` brings it back" if (head := stack.state.head) else ""),
        )


def _names(stack: Stack, items: Sequence[Item]) -> list[str]:
    """The file name of each item: the one it has, or the next number; never another release's file for a new body."""
    release = stack.places.release
    taken = set(stack.series.names) | {
        str(path.relative_to(stack.places.patches)) for path in (stack.places.patches / release).glob("*.patch")
    }
    names: list[str] = []
    for item in items:
        stored = item.stored
        if stored is None:
            name = _numbered(taken, release, item.identity or _slug(item.text.title))
        elif item.same_diff and item.same_text:
            name = stored.name
        elif _listed_elsewhere(stack.places, stored.name) and not stored.name.startswith(f"{release}/"):
            name = f"{release}/{stored.name.rsplit('/', 1)[-1]}"
            if name in taken:
                name = _numbered(taken, release, _slug(item.text.title))
        else:
            name = stored.name
        taken.add(name)
        names.append(name)
    return names


def _header(item: Item, name: str) -> str:
    header = to_header(item.text, item.stored.header_text if item.stored else None)
    if item.stored is None and item.identity is None:
        slug = re.sub(r"\A\d+-", "", name.rsplit("/", 1)[-1].removesuffix(".patch"))
        title, body, trailers = split_message(item.text.message)
        message = f"{title}\n\n{body}\n\n" if body else f"{title}\n\n"
        message += "".join(f"{key}: {value}\n" for key, value in (*trailers, (ID, slug)))
        header = to_header(replace(item.text, message=message))
    return header


def _series(stack: Stack, items: Sequence[Item], patches: Sequence[PatchText]) -> tuple[SeriesFile, tuple[str, ...]]:
    """The series file with the applied patches as they are now, in their order, and the unapplied ones behind them."""
    series = stack.series
    was = {record.name for record in stack.state.applied}
    kept = {item.stored.name for item in items if item.stored}
    dropped = tuple(name for name in series.names if name in was - kept)
    for name in dropped:
        series = series.remove(name)
    for item, patch in zip(items, patches, strict=True):
        if item.stored and item.stored.name in series.names:
            if item.stored.name != patch.name:
                series = series.rename(item.stored.name, patch.name)
            if patch.strip != item.stored.strip:  # the new diff has the usual prefixes
                at = series.names.index(patch.name)
                series = series.remove(patch.name)
                series = series.insert(patch.name, after=series.names[at - 1] if at else None)
    after: str | None = None
    for patch in patches:
        if patch.name not in series.names:
            series = series.insert(patch.name, after=after, strip=patch.strip)
        after = patch.name
    ours = [patch.name for patch in patches]
    wanted = [*ours, *(name for name in series.names if name not in set(ours))]
    return (series if list(series.names) == wanted else series.reorder(wanted)), dropped


def _take(items: Sequence[Item], at: int, edits: Iterable[Change]) -> list[Item]:
    """``items`` with ``edits`` merged into the one at ``at``. Raises DecoupleError if a later patch is in the way."""
    result = list(items)
    changes = dict(result[at].changes)
    for edit in edits:
        for later in result[at + 1 :]:
            if edit.path in later.changes:
                raise DecoupleError(
                    f"{edit.path} is also changed by the later patch {_name_of(later)}",
                    next_step="commit the edit with `git commit --fixup`, `git rebase -i --autosquash`, then refresh",
                )
        before = changes[edit.path][0] if edit.path in changes else edit.old
        if before == edit.new:
            changes.pop(edit.path, None)
        else:
            changes[edit.path] = (before, edit.new)
    same = result[at].same_diff and changes == dict(result[at].changes)
    result[at] = replace(result[at], changes=changes, same_diff=same)
    return result


def _uncommitted(stack: Stack) -> tuple[Path, str, list[Change]]:
    """The edits of the work tree against HEAD: an index that holds them, its tree, and the changes.

    Tracked files and files that were added count; other untracked files are build products for all we know.
    """
    repository = stack.repository
    scratch = stack.journal.scratch
    scratch.mkdir(parents=True, exist_ok=True)
    index = scratch / "edits.index"
    shutil.copy2(repository.git_dir / "index", index)
    if repository.run("ls-files", "-u", "-z", index=index):
        raise DecoupleError(f"{repository.root} has unresolved conflicts", next_step="resolve them with git")
    repository.run("add", "-u", "--", ".", index=index)
    tree = repository.text("write-tree", index=index)
    return index, tree, differences(repository, "HEAD", tree)


def _stored(stack: Stack, record: Applied) -> PatchText:
    """The patch file of an applied patch as it is on disk now. Raises DecoupleError if it is gone."""
    try:
        return stack.patch(record.name)
    except UsageError:
        raise DecoupleError(
            f"{record.name} is applied, but no longer in {stack.places.series}",
            next_step=f"`decouple apply {stack.places.release}` brings the tree to the series",
        ) from None


def _overlay_paths(stack: Stack) -> frozenset[str]:
    if stack.state.overlay is None:
        return frozenset()
    laid = differences(stack.repository, stack.state.tip, stack.state.overlay.commit)
    return frozenset(change.path for change in laid)


def _same_overlay(stack: Stack, commit: str, parent: str) -> bool:
    """Whether an overlay commit that may have been moved by a rebase still adds what the stack's own adds."""
    state = stack.state
    if state.overlay is None:
        return False
    if commit == state.overlay.commit:
        return True
    ours = {(c.path, c.new) for c in differences(stack.repository, state.tip, state.overlay.commit)}
    return ours == {(c.path, c.new) for c in differences(stack.repository, parent, commit)}


def _refuse_overlay(stack: Stack, paths: Iterable[str]) -> None:
    laid = _overlay_paths(stack)
    for path in paths:
        if path in laid:
            raise DecoupleError(
                f"{path} comes from the overlay, not from a patch",
                next_step=f"make the edit in the project's {path} and undo it here",
            )


def _as_trees(stack: Stack, changes: Mapping[str, Entry | None]) -> tuple[str, str]:
    text = CommitText("decouple <decouple@localhost>", "0 +0000", "scratch\n")
    (commit,) = write_chain(stack.repository, stack.state.tip, [NewCommit(text, changes)])
    return stack.state.tip, commit


def _goto_or_write(stack: Stack, applied: Sequence[PatchText], verb: str, files: dict[Path, bytes | None]) -> Moved:
    complete = bool(stack.state.overlay)
    return stack.goto(applied, verb=verb, overlay=complete, files=files)


def _listed_elsewhere(places: Places, name: str) -> list[str]:
    """Other releases whose series lists this patch file."""
    folder = places.series.parent
    if not (folder.parent / "series").is_dir() or folder.name != "series":
        return []
    return [
        release
        for release in (*releases(folder.parent), *partial_releases(folder.parent))
        if release != places.release and name in seriesfile.read(folder / release).names
    ]


def _applied_entries(written: Written) -> list[seriesfile.Entry]:
    names = {patch.name for patch in written.patches}
    return [entry for entry in written.series.entries if entry.name in names]


def _name_of(item: Item) -> str:
    return item.stored.name if item.stored else ""


def _full_name(stack: Stack, name: str, *, number: bool = True) -> str:
    release = stack.places.release
    if "/" in name:
        return name
    if number and not re.match(r"\d{4}-", name):
        return _numbered(set(stack.series.names), release, _slug(name.removesuffix(".patch")))
    return f"{release}/{name if name.endswith(('.patch', '.diff')) else name + '.patch'}"


def _numbered(taken: Collection[str], release: str, slug: str) -> str:
    numbers = [int(m.group(1)) for n in taken if (m := re.match(rf"{re.escape(release)}/(\d+)-", n))]
    return f"{release}/{max(numbers, default=0) + 1:04}-{slug}.patch"


def _slug(title: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:52].rstrip("-") or "patch"


def _user(repository: Repository) -> str:
    """Who the user's git configuration says they are."""
    parts = [
        repository.try_run("config", f"user.{key}", user_config=True).out.decode("utf-8", "replace").strip()
        for key in ("name", "email")
    ]
    return valid_author(f"{parts[0]} <{parts[1]}>")
