"""A whole series for a release that has none: the nearest one carried, before anything is applied.

>>> from decouple.flows.carry import nearest
>>> nearest(project, "2.6")
'2.6'
"""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from decouple.base.checkout import Checkout, is_name
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import cache_dir
from decouple.flows.listener import QUIET, Listener
from decouple.flows.rebase import Judged, Rebase, rebase
from decouple.flows.way import choose_way
from decouple.rebase import report, stop
from decouple.release.manifest import Manifest, is_released, release_of
from decouple.upstream import words
from decouple.upstream.manifests import load_release


def name_of(project: Path, word: str) -> str:
    """The release that ``word`` names: what is called so here, else "2.7" of "2.7.0". Raises UsageError."""
    have = Checkout(project)
    if is_name(word) and (have.series(word).is_file() or have.manifest(word).is_file()):
        return word
    return release_of(word)


def read_manifest(project: Path, release: str, source: str) -> Manifest | None:
    """What can be read off the user's ``source`` for a name without a manifest; None where it needs none.

    Raises UsageError for a name with nothing to read it off, and for a path that is no source.
    """
    if Checkout(project).manifest(release).is_file():
        return None
    path = words.local(source)
    if path is None and is_released(release):
        raise UsageError(
            f"no manifest {Checkout(project).manifest(release)}: releases with one: "
            f"{', '.join(Checkout(project).known()) or 'none'}",
            next_step=f"decouple manifest fill {release} --write where the release is out; where it is not, "
            f"decouple apply {release} --source PATH: a folder, an archive or REPOSITORY@REVISION",
        )
    if path is None:
        said = "" if source == "auto" else f", and {source} is no file or folder"
        raise UsageError(
            f"{release}: no upstream release, and not known here{said}",
            next_step=f"decouple apply {release} --source PATH: a folder, an archive or REPOSITORY@REVISION",
        )
    from decouple.upstream.fill_other import of_local  # only where there is something to read

    return of_local(release, path, cache_dir())


def nearest(project: Path, release: str) -> str:
    """The whole series to carry from: the newest that is not newer than ``release``, else the oldest.

    A series for a tree of the user's is passed over: its manifest names no source, and both trees are needed.
    Raises UsageError where no series is whole, or ``release`` has no manifest.
    """
    wanted = Version(load_release(project, release).version)
    every = Checkout(project).releases()
    whole = [one for one in every if load_release(project, one).sources] or every
    if not whole:
        raise UsageError("no whole series to carry from", next_step="name a checkout with a series of all patches")
    versions = {one: Version(load_release(project, one).version) for one in whole}
    older = [one for one in whole if versions[one] <= wanted]
    return max(older, key=lambda one: versions[one]) if older else min(whole, key=lambda one: versions[one])


def carry(
    project: Path, release: str, source: str = "auto", *, debian_patches: bool = False, listener: Listener = QUIET
) -> None:
    """Write ``series/<release>`` and ``patches/<release>``, carried from the nearest whole series; a verdict for each.

    Raises DecoupleError at a patch that a person must settle, with the command that goes on from there.
    """
    old = nearest(project, release)
    listener.say(f"series: {release} has no whole series; carried from {old}")

    def heard(judged: Judged) -> None:
        for line in report.text(judged.outcome.carried).splitlines():
            listener.say(f"  {line}")

    asked = choose_way(Rebase(project, (old, release), source, debian_patches=debian_patches), listener)
    found = rebase(asked, listener, heard)
    if found.stopped_at:
        again = f"decouple apply {release}" + (f" --source {source}" if source != "auto" else "")
        raise DecoupleError(
            f"series/{release}: stopped at {found.stopped_at}, the conflict is in {found.tree}",
            next_step=f"{stop.what_helps(found.outcome.stopped)}, then `{again}` again",
        )
    assert found.series
    listener.say(
        f"series: {len(found.series.lines)} patches in series/{release}, {len(found.series.bodies)} new bodies"
    )
