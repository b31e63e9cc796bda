"""Choose over which releases, with source at hand, a far jump stops less often.

>>> from decouple.flows.rebase import RebaseRequest
>>> from decouple.flows.rebase_route import choose_way
>>> request = RebaseRequest(project, ("2.6", "2.7"), source=f"local:{newer}", from_source=f"local:{source}")
>>> choose_way(request).via  # nothing lies between
()
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs
from packaging.version import Version

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.files import copy_folders, make_scratch_folder
from decouple.flows.listener import QUIET, Listener
from decouple.flows.rebase import RebaseRequest, rebase_series
from decouple.release.manifest import is_released
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release


def choose_way(request: RebaseRequest, listener: Listener = QUIET) -> RebaseRequest:
    """Return the request with the ``via`` that has the fewest stops.

    It stays as it is where nothing is gained, or ``via`` is given. Judged are the jump itself and, where that stops,
    each release between and all of them, of those whose whole source is in the cache. Nothing is written in the
    checkout. Raises DecoupleError where an end of the jump cannot be had.
    """
    project, named = request.project, request.releases
    have = Checkout(project)
    if request.via or request.step or request.source == "wheel" or (have.rebase / "state.json").exists():
        return request
    whole = have.list_releases()
    old = named[0] if len(named) == 2 else whole[-1] if whole else ""
    if len(named) not in (1, 2) or old not in whole or (named[-1] in whole and not request.report):
        return request  # no jump: rebase says why
    between = _list_between(project, old, named[-1])
    if not between:
        return request
    direct = rebase_series(structs.replace(request, report=True)).outcome.stops
    if not direct:
        return request
    best: tuple[str, ...] = ()
    fewest = len(direct)
    for way in dict.fromkeys([*((one,) for one in between), tuple(between)]):
        stops = _judge_way(request, old, way)
        told = f"stops at {', '.join(stops)}" if stops else "0 stops" if stops is not None else "stops before its end"
        listener.say(f"way: over {', '.join(way)}: {told}")
        if stops is not None and len(stops) < fewest:
            best, fewest = way, len(stops)
        if not fewest:
            break
    listener.say(f"way: straight from {old}: stops at {', '.join(direct)}")
    if not best:
        return request
    if request.report:
        listener.say(f"way: without --report it is carried over {', '.join(best)} (--via {','.join(best)})")
        return request
    listener.say(f"way: over {', '.join(best)}, each of which gets a series")
    return structs.replace(request, via=best)


def _list_between(project: Path, old: str, new: str) -> list[str]:
    """Return releases between whose whole source needs no network, oldest first."""
    ends = [Version(load_release(project, name).version) for name in (old, new)]
    found = []
    for release in Checkout(project).list_manifest_releases():
        manifest = load_release(project, release)
        if is_released(release) and ends[0] < Version(manifest.version) < ends[1]:
            try:
                fetch_source(manifest, offline=True)
            except DecoupleError:
                continue
            found.append((Version(manifest.version), release))
    return [release for _, release in sorted(found)]


def _judge_way(request: RebaseRequest, old: str, way: Sequence[str]) -> tuple[str, ...] | None:
    """Return the patches that stop on the last leg; None where one stops before.

    The series is carried in a copy of the checkout.
    """
    with make_scratch_folder(Checkout(request.project).rebase, "way") as folder:
        copy = copy_folders(request.project, folder, ("patches", "series"))
        if (read_off := Checkout(request.project).locate_draft_manifest(request.releases[-1])).is_file():
            shutil.copyfile(read_off, Checkout(copy).locate_manifest(request.releases[-1]))
        start, source = old, request.from_source
        for release in way:
            if release not in Checkout(copy).list_releases():
                leg = structs.replace(request, project=copy, releases=(start, release), source="auto")
                leg = structs.replace(leg, from_source=source, debian_patches=False, report=False)
                if rebase_series(leg).stopped_at:
                    return None
            start, source = release, "auto"
        last = structs.replace(request, project=copy, releases=(start, request.releases[-1]), report=True)
        return rebase_series(structs.replace(last, from_source=source)).outcome.stops
