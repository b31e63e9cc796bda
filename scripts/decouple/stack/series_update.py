"""Make patch files of commits.

What the applied tree says becomes the files and the series that say the same. A patch whose commit changes the same
files in the same way as before keeps its stored diff byte for byte, however it was formatted; a header keeps its bytes
while the commit's text is the same. Only what changed is written anew, in the canonical form of ``export``, and proved
by applying it again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.checkout import Checkout, SeriesPlaces
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.git import format_git
from decouple.base.path_names import is_path_part
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.patch.series_file import SeriesFile
from decouple.stack import export
from decouple.stack.applier import apply_patches
from decouple.stack.commits import (
    OVERLAY_TRAILER,
    PATCH_TRAILER,
    CommitText,
    NewCommit,
    format_header,
    parse_commit_text,
    read_chain,
    remove_diffstat,
    split_message,
    write_chain,
)
from decouple.stack.engine import Stack
from decouple.stack.journal import StackEntry, StackState
from decouple.stack.trees import TreeEntry, compare_trees

ID = "Decouple-Id"


class DraftPatch(Struct, frozen=True):
    """One patch to be: its commit's text and its changes, path: (before, after)."""

    text: CommitText
    changes: Mapping[str, tuple[TreeEntry | None, TreeEntry | None]]
    stored: Patch | None = None
    """The patch it was, if it was one."""
    same_diff: bool = False
    """Whether ``stored`` changes exactly the same."""
    same_text: bool = False
    offsets: tuple[object, ...] = ()

    @property
    def identity(self) -> str | None:
        """Return the patch's ``Decouple-Id``."""
        return self.text.find_trailer(ID)


class SeriesUpdate(Struct, frozen=True):
    """The patch files that a list of items makes."""

    state: StackState
    patches: tuple[Patch, ...]
    series: SeriesFile
    files: Mapping[Path, bytes | None]
    """What differs from the project's files."""
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}
    newer: tuple[str, ...] = ()
    """Patches whose file changed since they were applied; kept, and not in the tree yet."""
    shared: Mapping[str, Sequence[str]] = {}
    """Of ``changed`` those that the series of other releases list, too, and these releases."""


def read_draft_patches(stack: Stack) -> list[DraftPatch]:
    """Read the commits on top of the base as drafts, oldest first.

    The overlay is left out. Commits that the stack made and nobody touched cost nothing; the others are compared with
    what they were.
    """
    chain = stack.read_commits()
    state = stack.state
    repository = stack.repository
    old_chain = read_chain(repository, state.base, state.tip)
    records = {item.name: (item, row) for item, row in zip(state.applied, old_chain, strict=True)}
    by_id = {row[2].find_trailer(ID): name for name, (_, row) in records.items() if row[2].find_trailer(ID)}
    trees: dict[str, str] = {state.base: repository.read_tree_id(state.base)}
    trees |= {commit: tree for commit, tree, _ in (*old_chain, *chain)}
    parents = dict(zip((row[0] for row in old_chain), (state.base, *(row[0] for row in old_chain)), strict=False))
    parents |= dict(zip((row[0] for row in chain), (state.base, *(row[0] for row in chain)), strict=False))
    laid = _list_overlay_paths(stack)
    items: list[DraftPatch] = []
    used: set[str] = set()
    for commit, tree, text in chain:
        if text.find_trailer(OVERLAY_TRAILER) is not None:
            if not _is_same_overlay(stack, commit, parents[commit]):
                on_top = commit == chain[-1][0] and parents[commit] == state.tip
                raise _make_overlay_error(stack, commit, trees[parents[commit]], on_top=on_top)
            continue
        changes = {c.path: (c.old, c.new) for c in compare_trees(repository, trees[parents[commit]], tree)}
        for path in changes:
            if path in laid:
                refuse_overlay(stack, [path])
        name = text.find_trailer(PATCH_TRAILER)
        if name not in records or name in used:
            name = by_id.get(text.find_trailer(ID))
        if name is None or name in used:
            items.append(DraftPatch(text, changes))
            continue
        used.add(name)
        record, (old_commit, old_tree, old_text) = records[name]
        stored = _read_stored_patch(stack, record)
        if commit == old_commit:
            items.append(DraftPatch(text, changes, stored, True, True, record.offsets))
            continue
        before = {c.path: (c.old, c.new) for c in compare_trees(repository, trees[parents[old_commit]], old_tree)}
        same_diff, same_text = before == changes, text.has_same_text(old_text)
        items.append(DraftPatch(text, changes, stored, same_diff, same_text, record.offsets if same_diff else ()))
    return items


def make_series_update(stack: Stack, items: Sequence[DraftPatch], *, drop: bool = False) -> SeriesUpdate:
    """Turn items into patch files, a series file and a state.

    Objects are written, but no file of the project yet.
    """
    places, repository, state = stack.places, stack.repository, stack.state
    _refuse_drops(stack, items, drop)
    names = _choose_names(stack, items)
    records = {record.name: record for record in state.applied}
    headers = [
        item.stored.header_text if item.stored and item.same_text else _make_header(item, name)
        for item, name in zip(items, names, strict=True)
    ]
    chain = [
        NewCommit(parse_commit_text(header, name), {path: after for path, (_, after) in item.changes.items()})
        for item, name, header in zip(items, names, headers, strict=True)
    ]
    commits = write_chain(repository, state.base, chain)
    patches: list[Patch] = []
    applied: list[StackEntry] = []
    newer: list[str] = []
    parent = state.base
    for item, name, header, commit in zip(items, names, headers, commits, strict=True):
        stored = item.stored
        if stored and item.same_diff and item.same_text and name == stored.name:
            record = records[name]
            if stored.sha256 != record.sha256:
                newer.append(name)
            applied.append(StackEntry(name, record.sha256, commit, record.offsets))
            patches.append(stored)
            parent = commit
            continue
        if stored and stored.sha256 != records[stored.name].sha256:
            raise DecoupleError(
                f"{stored.name} changed on disk and in the tree", next_step=_advise_merge(stack, stored.name)
            )
        if stored and item.same_diff:
            patch = Patch(name, header.encode("utf-8", "surrogateescape") + stored.body, stored.strip)
            offsets = records[stored.name].offsets
        else:
            head = remove_diffstat(header).encode("utf-8", "surrogateescape")
            patch = Patch(name, head + export.make_diff(repository, parent, commit))
            _check_round_trip(stack, parent, patch, item)
            offsets = ()
        applied.append(StackEntry(name, patch.sha256, commit, offsets))
        patches.append(patch)
        parent = commit
    series, dropped = _update_series(stack, items, patches)
    files: dict[Path, bytes | None] = {places.patches / patch.name: patch.data for patch in patches}
    kept = {patch.name for patch in patches}
    renamed = {
        item.stored.name: name
        for item, name in zip(items, names, strict=True)
        if item.stored and item.stored.name != name
    }
    for name in (*dropped, *renamed):
        if name not in kept and not find_other_releases(places, name):
            files[places.patches / name] = None
    files[places.series] = series.to_text().encode()
    files = {path: data for path, data in files.items() if data != (path.read_bytes() if path.is_file() else None)}
    added = tuple(name for item, name in zip(items, names, strict=True) if item.stored is None)
    changed = tuple(patch.name for patch in patches if places.patches / patch.name in files and patch.name not in added)
    return SeriesUpdate(
        replace(state, applied=tuple(applied)), tuple(patches), series, files, changed, added, dropped, renamed,
        tuple(newer), {name: others for name in changed if (others := find_other_releases(places, name))},
    )  # fmt: skip


def _advise_merge(stack: Stack, name: str) -> str:
    """Name the commands that bring both edits of a patch together.

    One is that of its file, the other that of the tree.
    """
    places, root = stack.places, stack.repository.root
    if stack.repository.read_head() == stack.state.head:
        steps = (
            f"`{format_git(root, 'add', '-u')}`",  # git stashes no file that is only announced, as `decouple add` does
            f"`{format_git(root, 'stash')}`",
            f"`decouple apply {places.release}`",
            f"`{format_git(root, 'stash', 'pop')}`",
        )
        return f"{', '.join(steps)}, merge where git asks for it, then `decouple refresh {places.release}`"
    path = places.patches / name
    return (
        f"copy {path} elsewhere, put the version that was applied in its place "
        f"(`{format_git(path.parent, 'log', '--', path.name)}` lists them), `decouple refresh {places.release}`, "
        "then merge the copy into the file"
    )


def refuse_overlay(stack: Stack, paths: Iterable[str]) -> None:
    """Raise DecoupleError for a path of the overlay: its edits go into the project."""
    laid = _list_overlay_paths(stack)
    for path in paths:
        if path in laid:
            raise DecoupleError(
                f"{path} comes from the overlay, not from a patch",
                next_step=f"make the edit in the project's {path} and undo it here",
            )


def _make_overlay_error(stack: Stack, commit: str, parent: str, *, on_top: bool) -> DecoupleError:
    """Make the error for a commit that is the overlay's and not as it was laid.

    ``on_top``: nothing else was changed, as after ``git commit --amend``.
    """
    laid, state = _list_overlay_paths(stack), stack.state
    edited = [change.path for change in compare_trees(stack.repository, parent, commit) if change.path not in laid]
    root = stack.repository.root
    drop = f"`{format_git(root, 'reset', '--keep', state.head[:12])}` drops"
    if not edited:
        return DecoupleError(
            f"the overlay commit {commit[:12]} was edited",
            next_step=f"edit the files in third_device/ of the project; {drop} all that was committed there since",
        )
    more = f" and {len(edited) - 1} more" if len(edited) > 1 else ""
    what = f"the overlay commit {commit[:12]} is no patch, and the edit of {edited[0]}{more} is in it"
    if on_top and state.overlay:
        soft = format_git(root, "reset", "--soft", state.overlay.commit[:12])
        way = f"`{soft}`, then `decouple refresh {stack.places.release}`"
        return DecoupleError(what, next_step=f"{way} (-p PATCH) takes it into a patch; {drop} it")
    return DecoupleError(
        what,
        next_step=f"make it a commit of its own (`{format_git(root, 'rebase', '-i')}`, `edit` that commit); "
        f"{drop} all that was committed there since",
    )


def find_other_releases(places: SeriesPlaces, name: str) -> list[str]:
    """Return the other releases whose series lists this patch file."""
    folder = places.series.parent
    if not (folder.parent / "series").is_dir() or folder.name != "series":
        return []
    return [
        release
        for release in Checkout(folder.parent).list_releases()
        if release != places.release and name in series_file.read_series(folder / release).names
    ]


def make_numbered_name(taken: Collection[str], release: str, slug: str) -> str:
    """Make the file name of a new patch of ``release``.

    The number behind the highest one ``taken``, then ``slug``.
    """
    numbers = [int(m.group(1)) for n in taken if (m := re.match(rf"{re.escape(release)}/(\d+)-", n))]
    return f"{release}/{max(numbers, default=0) + 1:04}-{slug}.patch"


def make_slug(title: str) -> str:
    """Turn a commit's title into a part of a file name."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:52].rstrip("-") or "patch"


def _check_round_trip(stack: Stack, parent: str, patch: Patch, item: DraftPatch) -> None:
    """Raise DecoupleError unless the patch applied again gives its commit."""
    if not item.changes:
        return
    (outcome,) = apply_patches(stack.repository, parent, [patch], stack.journal.scratch)
    if dict(outcome.changes) != {path: after for path, (_, after) in item.changes.items()} or outcome.offsets:
        raise DecoupleError(
            f"{patch.name}: the patch written for this commit does not give the same files back",
            next_step="this is a fault of decouple; please report it with the commit",
        )


def _refuse_drops(stack: Stack, items: Sequence[DraftPatch], drop: bool) -> None:
    kept = {item.stored.name for item in items if item.stored}
    lost = [record.name for record in stack.state.applied if record.name not in kept]
    if lost and not drop:
        head = stack.state.head
        back = f"; `{format_git(stack.repository.root, 'reset', '--keep', head[:12])}` brings it back" if head else ""
        raise DecoupleError(
            f"the commit of {lost[0]}{f' and {len(lost) - 1} more' if len(lost) > 1 else ''} is gone from the tree",
            next_step=f"--drop takes the patch out of the series for good{back}",
        )


def _choose_names(stack: Stack, items: Sequence[DraftPatch]) -> list[str]:
    """Choose the file name of each item: the one it has, or the next number.

    Never another release's file for a new body.
    """
    release = stack.places.release
    taken = set(stack.series.names) | {
        str(path.relative_to(stack.places.patches)) for path in (stack.places.patches / release).glob("*.patch")
    }
    names: list[str] = []
    for item in items:
        stored = item.stored
        if stored is None:
            name = make_numbered_name(taken, release, _choose_slug(item))
        elif item.same_diff and item.same_text:
            name = stored.name
        elif find_other_releases(stack.places, stored.name) and not stored.name.startswith(f"{release}/"):
            name = f"{release}/{stored.name.rsplit('/', 1)[-1]}"
            if name in taken:
                name = make_numbered_name(taken, release, make_slug(item.text.title))
        else:
            name = stored.name
        taken.add(name)
        names.append(name)
    return names


def _choose_slug(item: DraftPatch) -> str:
    """Choose what a new patch is called.

    By its Decouple-Id, if that can be part of a file's name, else by its title.
    """
    identity = item.identity or ""
    return identity if is_path_part(identity) else make_slug(item.text.title)


def _make_header(item: DraftPatch, name: str) -> str:
    header = format_header(item.text, item.stored.header_text if item.stored else None)
    if item.stored is None and item.identity is None:
        slug = re.sub(r"\A\d+-", "", name.rsplit("/", 1)[-1].removesuffix(".patch"))
        title, body, trailers = split_message(item.text.message)
        message = f"{title}\n\n{body}\n\n" if body else f"{title}\n\n"
        message += "".join(f"{key}: {value}\n" for key, value in (*trailers, (ID, slug)))
        header = format_header(replace(item.text, message=message))
    return header


def _update_series(
    stack: Stack, items: Sequence[DraftPatch], patches: Sequence[Patch]
) -> tuple[SeriesFile, tuple[str, ...]]:
    """Return the series file with the applied patches as they are now.

    In their order, and the unapplied ones behind them.
    """
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


def _read_stored_patch(stack: Stack, record: StackEntry) -> Patch:
    """Read the patch file of an applied patch as it is on disk now.

    Raises DecoupleError if it is gone.
    """
    try:
        return stack.read_patch(record.name)
    except UsageError:
        raise make_unlisted_error(stack, record.name) from None


def make_unlisted_error(stack: Stack, name: str) -> DecoupleError:
    """Make the error for an applied patch that was taken out of the series file."""
    return DecoupleError(
        f"{name} is applied, but no longer in {stack.places.series}",
        next_step=f"`decouple apply {stack.places.release}` brings the tree to the series",
    )


def _list_overlay_paths(stack: Stack) -> frozenset[str]:
    if stack.state.overlay is None:
        return frozenset()
    laid = compare_trees(stack.repository, stack.state.tip, stack.state.overlay.commit)
    return frozenset(change.path for change in laid)


def _is_same_overlay(stack: Stack, commit: str, parent: str) -> bool:
    """Return whether an overlay commit still adds what the stack's own adds.

    A rebase may have moved it.
    """
    state = stack.state
    if state.overlay is None:
        return False
    if commit == state.overlay.commit:
        return True
    ours = {(c.path, c.new) for c in compare_trees(stack.repository, state.tip, state.overlay.commit)}
    return ours == {(c.path, c.new) for c in compare_trees(stack.repository, parent, commit)}
