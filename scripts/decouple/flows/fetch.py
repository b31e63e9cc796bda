"""Fetch a release's source to the cache of all checkouts, with its git baseline.

>>> from decouple.flows.fetch import fetch_source
>>> from decouple.flows.release_request import BaselineRequest
>>> fetched, base = fetch_source(BaselineRequest(project, "2.6", source=f"local:{source}"))
>>> fetched.provider, base is not None
('local', True)
"""

from __future__ import annotations

from decouple.base.paths import find_cache
from decouple.flows.listener import QUIET, Listener
from decouple.flows.release_request import BaselineRequest
from decouple.upstream import fetch
from decouple.upstream.baseline import Baseline, ensure_baseline
from decouple.upstream.manifests import load_release
from decouple.upstream.unpacked_release import UnpackedRelease


def fetch_source(request: BaselineRequest, listener: Listener = QUIET) -> tuple[UnpackedRelease, Baseline | None]:
    """Fetch a source; return what was taken, and the baseline of a whole one.

    What is there is not fetched again. Raises DecoupleError.
    """
    manifest = load_release(request.project, request.release)
    source = fetch.choose_provider(manifest, request.source, debian_patches=bool(request.debian_patches))
    cache = request.cache or find_cache()
    fetched = fetch.fetch_source(manifest, source, cache=cache, offline=request.offline, progress=listener.progress)
    if fetched.kind != "source":
        return fetched, None
    return fetched, ensure_baseline(cache, manifest, fetched, bool(request.debian_patches), listener.progress)
