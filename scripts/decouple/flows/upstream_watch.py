"""Judge the series on upstream's main of today, and what is new since last time.

>>> from decouple.flows.upstream_watch import WatchRequest, watch_upstream
>>> found = watch_upstream(WatchRequest(project, source=str(newer), from_source=f"local:{source}"))
>>> found.now.patches
{'0001-relocate.patch': 'unmodified', '0002-hooks.patch': 'offset', '0003-split.patch': 'unmodified'}
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct, to_builtins

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.base.files import make_scratch_folder, write_atomically, write_output
from decouple.base.git import Repository
from decouple.base.paths import find_cache
from decouple.base.untrusted_input import escape_surrogates, read_json
from decouple.flows.carry import find_nearest
from decouple.flows.listener import QUIET, Listener
from decouple.flows.rebase import RebaseRequest, hold_rebase_lock, rebase_series
from decouple.flows.verdict import SeriesVerdict, judge_trees
from decouple.rebase import report
from decouple.release.manifest_toml import render_manifest
from decouple.upstream import source_specifier
from decouple.upstream.fetch import fetch_source
from decouple.upstream.providers.github import GITHUB
from decouple.upstream.unpublished_manifest import describe_local, describe_repository

NAME = "upstream-main"
"""What the tree is called while it is judged; no series of that name is written."""
_LINE = re.compile(r":\d+(?=: )")
_EXTENT = re.compile(r" \[\d+-\d+\]")
"""From which line to which a branch goes, in the detail of a coupling."""


class WatchRequest(Struct, frozen=True):
    """Which tree is judged, and what was known before."""

    project: Path
    source: str = ""
    """A tree, an archive or REPOSITORY@REVISION; "": ``ref`` of ``url`` is fetched."""
    url: str = f"{GITHUB}.git"
    ref: str = "main"
    """A tag, a branch or a commit."""
    from_source: str = "auto"
    """Where the source of the series' own release comes from."""
    state: Path | None = None
    """What the last run came to, as JSON; written anew. None: everything is new."""
    also: Path | None = None
    """Words, macros and rules of this tree alone; see ``decouple.census.additions``."""
    report: Path | None = None
    """Where the report is written, as Markdown."""


class WatchState(Struct, frozen=True):
    """What a run came to. Places have no line numbers: those change every day."""

    schema: int = 1
    series: str = ""
    version: str = ""
    commit: str | None = None
    patches: Mapping[str, str] = {}
    """Name of a patch without its folder -> verdict."""
    sources: tuple[str, ...] = ()
    """CUDA files that no rule places, units and lists of stage 2 that do not agree."""
    couplings: tuple[str, ...] = ()
    """What in the core needs a vendor at compile time after the series; one that stands twice is there twice."""
    unasked: tuple[str, ...] = ()
    """What the tree gave no answer to: a check, a submodule. Of "couplings" the last that was known stands for it."""


class WatchResult(Struct, frozen=True):
    """Report what became of the series today, and in lines what is new."""

    now: WatchState
    changes: tuple[str, ...]
    report: str
    """Markdown: the changes, each patch, every finding."""


def watch_upstream(request: WatchRequest, listener: Listener = QUIET) -> WatchResult:
    """Carry the series of the nearest release, judge the result, compare.

    Only ``request.report`` is written and, after it, ``request.state``: a change that no report tells is told again.
    Raises UsageError for a source that is none, DecoupleError where it cannot be
    fetched.
    """
    checkout = Checkout(request.project)
    before = _read_state(request.state)
    path = source_specifier.parse_local_path(request.source) if request.source else None
    if request.source and path is None:
        raise UsageError(
            f"{request.source}: no file or folder", next_step="name a folder, an archive or REPOSITORY@REVISION"
        )
    manifest = describe_local(NAME, path, find_cache()) if path else describe_repository(NAME, request.url, request.ref)
    source = request.source or "auto"
    with hold_rebase_lock(request.project, listener):  # of two at once each would take the other's manifest away
        write_atomically(checkout.locate_draft_manifest(NAME), render_manifest(manifest))
        try:
            old = find_nearest(request.project, NAME)
            asked = RebaseRequest(
                request.project, (old, NAME), source, from_source=request.from_source, report=True, alone=True
            )
            outcome = rebase_series(asked, listener).outcome
            tree = fetch_source(manifest, source, progress=listener.progress).path
            with make_scratch_folder(checkout.rebase, "watched") as folder:
                applied = folder / "src"
                _lay_files(Repository(checkout.rebase / "objects"), outcome.tips[-1], applied, folder / "index")
                verdict = judge_trees(request.project, old, tree, applied, request.also, listener)
        finally:
            checkout.locate_draft_manifest(NAME).unlink(missing_ok=True)
    unasked = {entry.partition(": ")[0] for entry in verdict.unasked}
    seen: SeriesVerdict | WatchState = verdict
    if before and "couplings" in unasked:  # of the rest nothing is known then, either
        seen, unasked = before, unasked | set(before.unasked)
    now = WatchState(
        series=old,
        version=manifest.version,
        commit=manifest.commit,
        patches={PurePosixPath(item.name).name: item.verdict.value for item in outcome.carried},
        sources=tuple(sorted(set(map(escape_surrogates, seen.sources)))),
        couplings=tuple(
            sorted(_EXTENT.sub("", _LINE.sub("", escape_surrogates(item), count=1)) for item in seen.couplings)
        ),
        unasked=tuple(sorted(map(escape_surrogates, unasked))),
    )
    changes = _find_changes(before, now)
    described = f"{manifest.version}, commit {manifest.commit[:12]}" if manifest.commit else manifest.version
    text = _format_report(
        changes, report.format_markdown(outcome.carried, f"Series {old}", f"upstream {described}"), verdict
    )
    if request.report:
        write_output(request.report, text)
    if request.state:
        write_output(request.state, json.dumps(to_builtins(now), indent=1, sort_keys=True) + "\n")
    return WatchResult(now, changes, text)


def _read_state(path: Path | None) -> WatchState | None:
    if path is None or not path.exists():
        return None
    return read_json(path, WatchState, mend="delete it: the next run then tells everything as new")


def _lay_files(repository: Repository, commit: str, folder: Path, index: Path) -> None:
    """Lay the files of ``commit`` in ``folder``, no repository."""
    folder.mkdir()
    repository.run("read-tree", commit, index=index)
    repository.run("checkout-index", "-a", f"--prefix={folder}/", index=index)


def _find_changes(before: WatchState | None, now: WatchState) -> tuple[str, ...]:
    if before is None:
        return ("the first run: all of this is new",)
    lines = []
    if before.series != now.series:
        lines.append(f"series {now.series}, and it was {before.series}")
    for name in sorted(before.patches.keys() | now.patches.keys()):
        was, is_now = before.patches.get(name, "no patch"), now.patches.get(name, "no patch")
        if was != is_now:
            lines.append(f"{name}: {is_now}, and it was {was}")
    for title, was_there, there in (
        ("source", before.sources, now.sources),
        ("coupling", before.couplings, now.couplings),
    ):
        new, gone = Counter(there) - Counter(was_there), Counter(was_there) - Counter(there)
        lines += [f"new {title}: {entry}" for entry in new.elements()]
        lines += [f"no more a {title}: {entry}" for entry in gone.elements()]
    lines += [f"not asked any more: {entry}" for entry in now.unasked if entry not in before.unasked]
    lines += [f"asked again: {entry}" for entry in before.unasked if entry not in now.unasked]
    return tuple(lines)


def _format_report(changes: tuple[str, ...], carried: str, verdict: SeriesVerdict) -> str:
    head, _, rest = carried.partition("\n\n")
    bullets = "".join(f"* {line}\n" for line in changes) or "Nothing.\n"
    findings = (
        ("CUDA files that no rule places, and stage 2's lists", verdict.sources),
        ("What in the core still needs CUDA or ROCm", verdict.couplings),
        ("Not asked", verdict.unasked),
    )
    lists = "".join(
        f"\n## {title}\n\n" + "".join(f"* {entry}\n" for entry in entries) for title, entries in findings if entries
    )
    return f"{head}\n\n## Changed since the last run\n\n{bullets}\n## Each patch\n\n{rest}{lists}"
