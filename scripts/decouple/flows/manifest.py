"""The facts of a release, read off what is published or off a tree, beside what ``series/<release>.toml`` says.

>>> from decouple.flows.manifest import ReadFacts, read_facts
>>> _ = (source / "version.txt").write_text("2.6.0a0")
>>> read_facts(ReadFacts(project, "acme-2.6", tree=source)).old  # no manifest yet
''
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.base.paths import cache_dir
from decouple.flows.listener import QUIET, Listener
from decouple.release.manifest import is_released, release_of
from decouple.release.render import render
from decouple.upstream.download import Downloader
from decouple.upstream.fill import Filled, fill
from decouple.upstream.fill_other import candidate_tag, of_repository, of_tree
from decouple.upstream.manifests import load, parse
from decouple.upstream.providers.github import GITHUB


class ReadFacts(Struct, frozen=True):
    """Which release; what is no upstream release is read off a tree, or off ``ref`` of a repository."""

    project: Path
    name: str
    tree: Path | None = None
    url: str | None = None
    ref: str | None = None
    """A tag, branch or commit; None: upstream's tag of a release candidate."""


class FactsRead(Struct, frozen=True):
    """The manifest as it is ("" where there is none), as it should be, and remarks on how far that could be checked."""

    path: Path
    old: str
    new: str
    remarks: tuple[str, ...]


def read_facts(request: ReadFacts, listener: Listener = QUIET) -> FactsRead:
    """Nothing is written. Raises DecoupleError."""
    release = release_of(request.name)
    path = Checkout(request.project).manifest(release)
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old and (request.tree or request.url) and is_released(release) and load(path).source("wheel"):
        raise UsageError(
            f"{release} is out: only published files may describe it",
            next_step=f"decouple manifest fill {release} reads it off PyPI; call the tree by another name",
        )
    if request.tree:
        filled = Filled(of_tree(release, request.tree.resolve()), ())
    elif request.url or not is_released(release):
        ref = request.ref or candidate_tag(release)
        filled = Filled(of_repository(release, request.url or f"{GITHUB}.git", ref), ())
    else:
        downloader = Downloader(cache_dir(), progress=listener.progress)
        filled = fill(release, downloader, known=load(path) if old else None, progress=listener.progress)
    text = render(filled.manifest)
    assert parse(text, path) == filled.manifest
    return FactsRead(path, old, text, filled.remarks)
