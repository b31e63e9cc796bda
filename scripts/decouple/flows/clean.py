"""What building left is deleted; wheels in ``dist/`` and tests' results stay.

>>> from decouple.flows.clean import CleanRequest, clean_build
>>> clean_build(CleanRequest(project, "2.6", stage=2))
[]
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator
from pathlib import Path

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import hold_lock
from decouple.base.mounts import refuse_link
from decouple.base.paths import find_cache
from decouple.build import root_description, rootfs
from decouple.build.environment import Places, list_kept_objects, remove_objects
from decouple.build.stage1 import uninstall_files
from decouple.flows.listener import QUIET, Listener
from decouple.flows.work_environment import WorkRequest


class CleanRequest(WorkRequest, frozen=True):
    """Choose a stage (None: all of every kind), and which roots go, too."""

    stage: int | None = None
    results: bool = False
    """What `test-cuda` stored, too, which may have taken hours."""
    rootfs: bool = False
    """The Debian root."""
    all_roots: bool = False
    """Every root in the cache, which other checkouts share: Debian's, the portable one, those of ``try wheels``."""


def clean_build(request: CleanRequest, listener: Listener = QUIET) -> list[Path]:
    """Delete what building left; returns the folders that were there.

    Raises UsageError for no release; DecoupleError while a build, or a test of what was built, runs, where a folder is
    a link, and when something is mounted in one, or a command runs in a root.
    """
    Checkout(request.project).check_release(request.release)
    places = request.places

    def refuse_running_build() -> None:
        raise DecoupleError(f"{places.stage2.parent}: a build is running", next_step="wait until it ends, or stop it")

    stage1 = [places.stage1, *list_kept_objects(places.stage1)]
    built = [*stage1, places.stage2, places.core, places.kernels, places.verify, places.raw, places.state]
    if request.stage and request.results:
        raise UsageError(f"--results: stage {request.stage} has none", next_step="leave --stage or --results out")
    results = _list_results(places)
    others = [] if request.stage else _list_other_builds(places, results)
    folders = {1: stage1, 2: [places.stage2]}.get(request.stage or 0, [*built, *others])
    kept = [] if request.results else results
    deleted = []
    with contextlib.ExitStack() as held:
        for other in others:
            for lock in (*other.glob("state/stage[12].lock"), *other.glob("*/state/stage[12].lock")):
                held.enter_context(hold_lock(lock, refuse_running_build))
        for stage in (request.stage,) if request.stage else (1, 2):
            if places.state.exists():
                held.enter_context(hold_lock(places.state / f"stage{stage}.lock", refuse_running_build))
        for trials in () if request.stage else _list_trials(places):
            held.enter_context(hold_lock(trials, functools.partial(_refuse_running_trial, trials)))
        there = [folder for folder in folders if folder.exists()]
        inside = () if request.stage else (*_list_below(places, "stage2"), *_list_below(places, "verify"))
        for folder in (*there, *inside):
            refuse_link(folder)  # it would go in place of the objects, which are on another disk perhaps
        removed = {folder: list(_list_all_but(folder, kept)) for folder in there}
        for folder, paths in removed.items():
            if folder == places.stage1 and (places.tree / ".git").exists():
                uninstall_files(places.tree, folder)  # which nobody could tell from the tree's own files then
            for path in paths:
                if path.is_dir() and not path.is_symlink():
                    remove_objects(path)
                else:
                    path.unlink(missing_ok=True)
            if paths:
                deleted.append(folder)
                listener.say(f"deleted {folder}")
        for folder in () if request.stage else kept:
            listener.say(f"kept {folder}: --results deletes it, too")
        for stamp in places.state.glob(f"stage{request.stage or '*'}*") if places.state.exists() else ():
            stamp.unlink()
    for folder in _list_roots(request):
        rootfs.remove_root(folder, functools.partial(listener.say, f"waits for the run that makes {folder.name}"))
        deleted.append(folder)
        listener.say(f"deleted {folder}")
    return deleted


def _refuse_running_trial(folder: Path) -> None:
    raise DecoupleError(f"{folder}: a test of what was built is running", next_step="wait until it ends, or stop it")


def _list_trials(places: Places) -> Iterator[Path]:
    """Yield the folders of which `verify`, `contract` and `test-cuda` hold one."""
    for verify in _list_below(places, "verify"):
        yield from (path for path in (verify, *verify.glob("*"), *verify.glob("suites/*")) if path.is_dir())


def _list_results(places: Places) -> list[Path]:
    """Return the folders in which `test-cuda` stored results."""
    return [path for path in _list_below(places, "verify/suites") if any(path.glob("*/results.jsonl"))]


def _list_below(places: Places, name: str) -> list[Path]:
    """Return the folders of that name, of the usual build and of each other one."""
    base = places.stage2.parent
    found = (path for depth in ("", "*/", "*/*/") for path in base.glob(f"{depth}{name}"))
    return sorted(path for path in found if path.is_dir() and not path.is_relative_to(places.tree))


def _list_all_but(folder: Path, kept: Collection[Path]) -> Iterator[Path]:
    """Yield what to delete so that nothing of ``folder`` is left but what is ``kept``.

    Raises DecoupleError where what is kept lies behind a link.
    """
    if folder in kept:
        return
    if not any(path.is_relative_to(folder) for path in kept):
        yield folder
        return
    refuse_link(folder)
    for path in sorted(folder.iterdir()):
        yield from _list_all_but(path, kept)


def _list_roots(request: CleanRequest) -> list[Path]:
    if request.all_roots:
        return rootfs.list_roots(find_cache())
    return rootfs.list_roots(find_cache(), root_description.load_description()) if request.rootfs else []


def _list_other_builds(places: Places, results: Collection[Path]) -> list[Path]:
    """Return the folders of builds that have one of their own, smoke too.

    Also of those that have nothing left but ``results``.
    """
    base = places.stage2.parent
    found = (path for path in base.iterdir() if path != places.tree and not path.is_symlink()) if base.is_dir() else ()
    return sorted(
        path
        for path in found
        if (path / "stage2").is_dir()
        or (path / "state").is_dir()
        or (path != places.verify and any(result.is_relative_to(path) for result in results))
    )
