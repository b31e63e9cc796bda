"""The pristine tree of a release, for what reads upstream's source.

>>> from decouple.flows.pristine_tree import PristineRequest, fetch_tree
>>> fetch_tree(PristineRequest(project, "2.6", tree=source)) == source
True
"""

from __future__ import annotations

from pathlib import Path

from decouple.base.errors import UsageError
from decouple.flows.listener import QUIET, Listener
from decouple.flows.release_request import ReleaseRequest
from decouple.upstream import tree_record
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release


class PristineRequest(ReleaseRequest, frozen=True):
    """Which release, and where its source comes from."""

    tree: Path | None = None
    """Look at this tree instead of fetching the release."""


def fetch_tree(request: PristineRequest, listener: Listener = QUIET) -> Path:
    """Return the root of the tree, fetched if need be.

    Raises UsageError where ``request.tree`` is none, DecoupleError.
    """
    if request.tree is None:
        manifest = load_release(request.project, request.release)
        fetched = fetch_source(manifest, request.source, offline=request.offline, progress=listener.progress)
        tree_record.check_tree(fetched.path)
        return fetched.path
    if not request.tree.is_dir():
        raise UsageError(f"{request.tree}: no such folder", next_step="give the root of a PyTorch tree")
    return request.tree
