"""One release from source to applied tree: what ``decouple apply`` and ``decouple status`` do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.progress import SILENT, Progress
from decouple.patch import seriesfile
from decouple.patch.size import Size, measure
from decouple.stack.engine import Moved, Places, Stack, create, link_objects
from decouple.stack.journal import State
from decouple.stack.patchtext import load
from decouple.stack.trees import differences


@dataclass(frozen=True)
class PatchStatus:
    """One line of ``decouple status``."""

    name: str
    state: str
    """"applied", "unapplied", "changed on disk" (applied, but with other bytes), "edited in the tree"."""
    size: Size
    offsets: int = 0


@dataclass(frozen=True)
class Status:
    """What ``decouple status`` says."""

    release: str
    tree: Path
    applied: bool
    """Whether there is an applied tree at all."""
    base: str
    patches: tuple[PatchStatus, ...]
    overlay: str
    """"laid", "not laid", "out of date"."""
    commits: tuple[str, ...] = ()
    """Titles of commits in the tree that are in no patch."""
    edited: tuple[str, ...] = ()
    """Files with uncommitted edits."""
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether tree, series and patches agree completely."""
        whole = all(patch.state == "applied" for patch in self.patches)
        return self.applied and whole and self.overlay == "laid" and not self.commits and not self.edited


def apply_release(
    project: Path,
    release: str,
    *,
    source: str = "auto",
    debian_patches: bool = False,
    offline: bool = False,
    say: Callable[[str], None] = lambda line: None,
    progress: Progress = SILENT,
) -> Moved:
    """Bring ``build/<release>/src`` to the whole series and the overlay, from whatever state it is in.

    Fetches what the cache lacks. Only files that differ are touched; a second run finds nothing to do. ``say`` gets one
    line per phase. Raises DecoupleError; the tree is then as it was before.
    """
    places = Places.of(project, release)
    wanted = _request(project, release, source, debian_patches)
    if (places.source / ".git" / "decouple" / "state.json").is_file():
        with Stack.open(places) as stack:
            for line in stack.recovered:
                say(line)
            stack.check_unedited()
            start = stack.state
            if dict(start.source) != wanted or source.startswith("local:"):
                start = _other_base(stack, project, release, source, debian_patches, offline, wanted, say, progress)
            else:
                say(f"source: unchanged, base {start.base[:12]}")
            return _finish(stack, start, say)
    commit, upstream, repo = _baseline(project, release, source, debian_patches, offline, say, progress)
    create(places, repo, commit, upstream, wanted)
    say(f"tree: {places.source} made")
    with Stack.open(places) as stack:
        return _finish(stack, stack.state, say)


def status(project: Path, release: str) -> Status:
    """How far tree, series and patches agree. Changes nothing, except to finish a command that was cut off."""
    places = Places.of(project, release)
    entries = seriesfile.read(places.series).entries
    patches = [load(places.patches, entry) for entry in entries]
    sizes = {patch.name: measure(patch.name, patch.parsed) for patch in patches}
    if not (places.source / ".git" / "decouple" / "state.json").is_file():
        none = tuple(PatchStatus(patch.name, "unapplied", sizes[patch.name]) for patch in patches)
        return Status(release, places.source, False, "", none, "not laid")
    with Stack.open(places) as stack:
        state = stack.state
        records = {item.name: item for item in state.applied}
        known = {item.commit for item in state.applied} | ({state.overlay.commit} if state.overlay else set())
        chain = stack.chain()
        here = {commit for commit, _, _ in chain}
        strange = tuple(text.title for commit, _, text in chain if commit not in known)
        rows: list[PatchStatus] = []
        for patch in patches:
            record = records.get(patch.name)
            if record is None:
                word = "unapplied"
            elif record.commit not in here:
                word = "edited in the tree"
            elif record.sha256 != patch.sha256:
                word = "changed on disk"
            else:
                word = "applied"
            offsets = len(record.offsets) if record else 0
            rows.append(PatchStatus(patch.name, word, sizes[patch.name], offsets))
        gone = [name for name in records if name not in sizes]
        notes = [*stack.recovered, *(f"{name} is applied and no longer in the series" for name in gone)]
        edited = stack.edited_files()
        overlay = "not laid"
        if state.overlay:
            fresh = stack.laid(state, patches, places.series.read_bytes()) if not gone else None
            overlay = "laid" if fresh == state.overlay else "out of date"
        return Status(
            release, places.source, True, state.base, tuple(rows), overlay, strange, edited, tuple(notes)
        )  # fmt: skip


def _request(project: Path, release: str, source: str, debian_patches: bool) -> dict[str, str]:
    manifest = (project / "series" / f"{release}.toml").read_bytes()
    return {
        "source": source,
        "debian_patches": "yes" if debian_patches else "no",
        "manifest": hashlib.sha256(manifest).hexdigest(),
    }


def _baseline(
    project: Path,
    release: str,
    source: str,
    debian_patches: bool,
    offline: bool,
    say: Callable[[str], None],
    progress: Progress,
) -> tuple[str, str, Path]:
    from decouple import upstream  # imported here: a run with nothing to fetch does not pay for it
    from decouple.base.paths import cache_dir
    from decouple.release.manifest import load_release

    manifest = load_release(project, release)
    if debian_patches and source == "auto":
        source = "debian"
    fetched = upstream.fetch(manifest, source, offline=offline, progress=progress)
    if fetched.kind != "source":
        raise DecoupleError(
            f"source {fetched.provider} has no sources to build from", next_step="use --source auto, or another one"
        )
    say(f"source: {fetched.provider}, {fetched.why}")
    base = upstream.ensure_baseline(cache_dir(), manifest, fetched, debian_patches, progress)
    say(f"baseline: commit {base.commit[:12]}, tree {base.tree[:12]}{' with Debian patches' if debian_patches else ''}")
    return base.commit, base.upstream, base.repo


def _other_base(
    stack: Stack,
    project: Path,
    release: str,
    source: str,
    debian_patches: bool,
    offline: bool,
    wanted: dict[str, str],
    say: Callable[[str], None],
    progress: Progress,
) -> State:
    """The state to start from when another source is asked for: its objects are brought in, nothing moves yet."""
    commit, upstream, repo = _baseline(project, release, source, debian_patches, offline, say, progress)
    start = replace(stack.state, source=wanted)
    if commit == start.base:
        return start
    link_objects(repo / "objects", stack.repository.git_dir / "objects")
    return replace(start, base=commit, upstream=upstream, applied=(), overlay=None)


def _finish(stack: Stack, start: State, say: Callable[[str], None]) -> Moved:
    names = stack.series.names
    moved = stack.goto([stack.patch(name) for name in names], verb="apply", overlay=True, start=start)
    if stack.repository.resolve("refs/decouple/base") != start.base:
        stack.repository.run("update-ref", "refs/decouple/base", start.base)
        stack.repository.run("update-ref", "refs/decouple/upstream", start.upstream)
    new = f", {len(moved.pushed)} of them now" if moved.pushed else ", none of them new"
    say(f"patches: {len(names)} applied{new}")
    for item in stack.state.applied:
        for offset in item.offsets:
            say(f"  {item.name}: {offset}")
    laid = stack.state.overlay
    count = len(differences(stack.repository, stack.state.tip, laid.commit)) if laid and moved.overlay else 0
    say(f"overlay: {f'{count} files laid' if moved.overlay else 'unchanged'}")
    say(f"tree: {stack.places.source} at {stack.state.head[:12]}, {moved.files} files touched")
    return moved
