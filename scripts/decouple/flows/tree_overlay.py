"""Keep an applied tree equal to the checkout, and name wheels older than it.

>>> from decouple.flows.tree_overlay import lay_overlay_again
>>> from decouple.flows.work_environment import WorkRequest
>>> work = WorkRequest(project, "2.6")
>>> lay_overlay_again(work, work.places)  # no tree yet: the first build makes it
0
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from decouple.base.checkout import Checkout, SeriesPlaces
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import hold_lock
from decouple.base.git import split_names
from decouple.build import inputs, toolkits, tree_status
from decouple.build.environment import Places
from decouple.flows.listener import QUIET, Listener
from decouple.flows.provenance import list_overlay_files
from decouple.flows.work_environment import WorkRequest
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.stack.engine import Stack
from decouple.stack.overlay import FOLDER, PATCHES
from decouple.stack.trees import compare_trees


def lay_overlay_again(work: WorkRequest, places: Places, listener: Listener = QUIET) -> int:
    """Lay what changed in the checkout since the tree was made; return how many files.

    Patches that changed are applied anew below it. Only files that differ are written, so that ninja compiles what
    reads them. A tree that is not whole is left as it is. Raises DecoupleError for edits by hand that would be lost,
    and UsageError where ``--tree`` names a tree of somebody else with another overlay.
    """
    if places.tree.resolve() != Checkout(work.project).locate_tree(work.release).resolve():
        _refuse_other_overlay(work, places.tree)
        return 0
    if not tree_status.is_applied(places.tree):
        return 0
    series = Checkout(work.project).find_series(work.release)
    with _open_stack(series, listener) as stack:
        if _plan_patches(stack, work, listener) is None:
            return 0
    with _hold_stages(work, listener), _open_stack(series, listener) as stack:  # others may use the tree meanwhile
        return _update_tree(stack, work, listener)


@contextlib.contextmanager
def _open_stack(series: SeriesPlaces, listener: Listener) -> Iterator[Stack]:
    """Open the stack and say what was done about a command that had been cut off."""
    with Stack.open(series) as stack:
        for line in stack.recovered:
            listener.say(line)
        yield stack


def _plan_patches(stack: Stack, work: WorkRequest, listener: Listener) -> list[Patch] | None:
    """Return the patches that the tree is to have, None where it is as the checkout.

    Raises DecoupleError where an edit by hand would be lost.
    """
    state, tree = stack.state, stack.places.tree
    if state.overlay is None:
        listener.warn(f"{tree}: {len(state.applied)} of {len(stack.series.names)} patches and no overlay: left so")
        return None
    patches = [stack.read_patch(name) for name in stack.series.names]
    same = [(item.name, item.sha256) for item in state.applied] == [(item.name, item.sha256) for item in patches]
    edited = _list_edited_files(stack, state.overlay.commit)
    if same and stack.write_overlay(state, patches, stack.places.series.read_bytes()) == state.overlay:
        if edited:
            listener.warn(f"{tree / edited[0]}{_count_more(edited)}: edited in the tree, built as it is there")
        return None
    if edited:
        raise DecoupleError(
            f"{tree / edited[0]}{_count_more(edited)}: edited in the tree, and {FOLDER}/ or a patch of the checkout "
            "changed since it was laid",
            next_step=f"take the edit over into {work.project / FOLDER}, then "
            f"`git -C {shlex.quote(str(tree))} checkout {state.overlay.commit[:12]} {shlex.quote(edited[0])}`",
        )
    stack.check_unedited()
    return patches


def _update_tree(stack: Stack, work: WorkRequest, listener: Listener) -> int:
    patches = _plan_patches(stack, work, listener)
    if patches is None:
        return 0
    state, laid = stack.state, _list_laid_files(stack)
    moved = stack.move_to(patches, verb="build", overlay=True)
    if moved.pushed:
        listener.say(f"patches: {len(moved.pushed)} applied anew, as they changed")
    laid |= _list_laid_files(stack)
    count = sum(change.path in laid for change in compare_trees(stack.repository, state.head, stack.state.head))
    listener.say(f"overlay: {count} files laid again")
    return count


def _list_laid_files(stack: Stack) -> set[str]:
    """Return the files that the overlay adds to the patched tree."""
    state = stack.state
    return {change.path for change in compare_trees(stack.repository, state.tip, state.head)}


def _count_more(paths: Sequence[object]) -> str:
    return f" and {len(paths) - 1} more" if len(paths) > 1 else ""


def _list_edited_files(stack: Stack, overlay: str) -> list[str]:
    """Return the files of the commit ``overlay`` that the work tree has otherwise."""
    stack.list_edited_files()  # and so brings the index up to date
    listed = stack.repository.run("diff-index", "-z", "--name-only", overlay, "--", FOLDER)
    return sorted(_list_laid_files(stack) & set(split_names(listed)))


@contextlib.contextmanager
def _hold_stages(work: WorkRequest, listener: Listener) -> Iterator[None]:
    """Wait until no build compiles the tree, and let none begin."""
    folder = Checkout(work.project).locate_build(work.release)
    usual = {place / f"stage{stage}.lock" for place in (folder / "state", work.places.locks) for stage in (1, 2)}
    others = {path for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}state/stage[12].lock")}
    with contextlib.ExitStack() as held:
        for lock in sorted(usual | others):  # the usual ones also where no build made them yet
            held.enter_context(hold_lock(lock, lambda: listener.say("waits: another run compiles this tree")))
        yield


def _refuse_other_overlay(work: WorkRequest, tree: Path) -> None:
    """Raise UsageError where a tree that is not the checkout's has another overlay."""
    other = list(_list_other_files(work, tree)) if (tree / FOLDER).is_dir() else []  # what lacks of it, the build says
    if other:
        raise UsageError(
            f"{tree / other[0]}{_count_more(other)}: not as in this checkout, and the tree is not the checkout's own",
            next_step=f"leave --tree out, or build in the checkout that {tree} belongs to",
        )


def _list_other_files(work: WorkRequest, tree: Path) -> dict[str, Path]:
    """Map the overlay's files that ``tree`` has otherwise to those of the checkout.

    Of a file that the checkout has no more, to where it was.
    """
    names = [name for name in list_overlay_files(work.project) if (work.project / name).is_file()]
    ours = {name: work.project / name for name in names}
    places = Checkout(work.project).find_series(work.release)
    series = series_file.read_series(places.series) if (tree / PATCHES).is_dir() else None
    tracked = inputs.list_tracked_files(tree) if (tree / ".git").exists() else frozenset[str]()
    laid = {name for name in tracked if name.startswith(f"{PATCHES}/")} - {f"{PATCHES}/series"}
    patches = dict.fromkeys(laid if series else (), places.series)  # that names no such patch any more
    patches |= {f"{PATCHES}/{name}": places.patches / name for name in (series.names if series else ())}
    other = {name: path for name, path in patches.items() if not _is_same_file(tree / name, path)}
    if series and not other:  # else nobody knows which files the tree has from its patches
        loaded = [entry.load_patch(places.patches) for entry in series.entries]
        made = {file.new_path for patch in loaded for file in patch.files}
        more = {name for name in tracked if name.startswith(f"{FOLDER}/")} - made - laid - {f"{PATCHES}/series"}
        ours |= {name: work.project / name for name in more if (tree / name).is_file()}
    other |= {name: path for name, path in ours.items() if not _is_same_file(tree / name, path)}
    return dict(sorted(other.items()))


def _is_same_file(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()


def warn_of_older_wheels(
    work: WorkRequest, places: Places, wheels: Sequence[Path], again: str, listener: Listener, toolkit: str = ""
) -> None:
    """Warn of each of ``wheels`` whose stage would compile something else now.

    ``again`` is the command that builds it, ``toolkit`` the vendor's that made stage 2. Nothing is said of
    wheels that an earlier version built, which did not note what was compiled.
    """
    if not tree_status.is_applied(places.tree):
        return
    changed: dict[str, Path] | None = None
    for stage, folder in dict.fromkeys(((1, places.core_state), (1, places.state), (2, places.state))):
        stamp = inputs.read_stamp(folder / f"stage{stage}.json")
        if stamp is None or not stamp.content or places.dist / stamp.wheel not in wheels:
            continue
        unread = toolkits.list_unread_paths(stage, toolkit)
        changed = _list_other_files(work, places.tree) if changed is None else changed
        # a patch may touch what either stage reads; the copy of it in the overlay is read by none
        left_out = tuple(f"{path}/" for path in unread)
        newer = [
            path
            for name, path in changed.items()
            if name.startswith(f"{PATCHES}/") or not f"{name}/".startswith(left_out)
        ]
        if newer or inputs.hash_tree_content(places.tree, unread) != stamp.content:
            what = f"{newer[0]}{_count_more(newer)}" if newer else f"{places.tree}"
            listener.warn(f"{stamp.wheel}: {what} changed since it was built; `{again}` takes that up")
