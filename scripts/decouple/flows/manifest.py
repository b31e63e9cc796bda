"""Read the facts of a release off what is published or off a tree.

Beside them stands what ``series/<release>.toml`` says.

>>> from decouple.flows.manifest import FactsRequest, read_facts
>>> _ = (source / "version.txt").write_text("2.6.0a0")
>>> read_facts(FactsRequest(project, "acme-2.6", tree=source)).old  # no manifest yet
''
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.base.paths import find_cache
from decouple.flows.listener import QUIET, Listener
from decouple.release.manifest import derive_release, is_released
from decouple.release.manifest_toml import render_manifest
from decouple.upstream.download import Downloader
from decouple.upstream.manifest_facts import FillResult, fill_manifest
from decouple.upstream.manifests import load_manifest, parse_manifest
from decouple.upstream.providers.github import GITHUB
from decouple.upstream.unpublished_manifest import describe_repository, describe_tree, make_candidate_tag


class FactsRequest(Struct, frozen=True):
    """Choose a release; what is none of upstream's is read off a tree or ``ref``."""

    project: Path
    name: str
    tree: Path | None = None
    url: str | None = None
    ref: str | None = None
    """A tag, branch or commit; None: upstream's tag of a release candidate."""


class FactsResult(Struct, frozen=True):
    """Give the old manifest ("" for none), the new, and how far that was checked."""

    path: Path
    old: str
    new: str
    remarks: tuple[str, ...]


def read_facts(request: FactsRequest, listener: Listener = QUIET) -> FactsResult:
    """Read the facts; nothing is written. Raises DecoupleError."""
    release = derive_release(request.name)
    path = Checkout(request.project).locate_manifest(release)
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old and (request.tree or request.url) and is_released(release) and load_manifest(path).find_source("wheel"):
        raise UsageError(
            f"{release} is out: only published files may describe it",
            next_step=f"decouple manifest fill {release} reads it off PyPI; call the tree by another name",
        )
    if request.tree and (request.url or request.ref):
        option = "--git" if request.url else "--ref"
        raise UsageError(f"{option}: the facts are read off --tree", next_step="leave one of the two out")
    if request.ref and not request.url and is_released(release):
        raise UsageError(f"--ref: {release} is read off published files", next_step="leave it out, or name --git URL")
    if request.tree:
        filled = FillResult(describe_tree(release, request.tree.resolve()), ())
    elif request.url or not is_released(release):
        ref = request.ref or make_candidate_tag(release)
        filled = FillResult(describe_repository(release, request.url or f"{GITHUB}.git", ref), ())
    else:
        downloader = Downloader(find_cache(), progress=listener.progress)
        filled = fill_manifest(
            release, downloader, known=load_manifest(path) if old else None, progress=listener.progress
        )
    text = render_manifest(filled.manifest)
    assert parse_manifest(text, path) == filled.manifest
    return FactsResult(path, old, text, filled.remarks)
