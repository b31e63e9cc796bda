"""Getting a PyTorch release: providers, verified downloads, safe unpacking, the git baseline. Knows no series.

The whole interface for other rooms::

    manifest = release.manifest.load_release(project, "2.6")
    fetched = upstream.fetch(manifest, source="auto")          # verified and unpacked in the shared cache
    base = upstream.ensure_baseline(cache_dir(), manifest, fetched, debian_patches=False)
    # base.repo: a bare repository in the cache; base.commit, base.tree: what the series starts from
"""

from decouple.upstream.baseline import Baseline, ensure_baseline
from decouple.upstream.fetched import Fetched, VerifiedFile
from decouple.upstream.fetching import fetch

__all__ = ["Baseline", "Fetched", "VerifiedFile", "ensure_baseline", "fetch"]
