"""The digest of a series: what a wheel was made from, in 64 hex digits that can be compared."""

from __future__ import annotations

import hashlib
from pathlib import Path

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.patch import series_file


def compute_patch_digests(project: Path, release: str) -> tuple[tuple[str, str], ...]:
    """Compute the path and SHA-256 of each patch, in the order they apply.

    The path is relative to ``patches/``.

    Raises DecoupleError when the series or one of its patches is missing.
    """
    digests = []
    checkout = Checkout(project)
    for entry in series_file.read_series(checkout.locate_series(release)).entries:
        path = checkout.patches / entry.name
        if not path.is_file():
            raise DecoupleError(
                f"series/{release}: line {entry.line}: {path} is missing", next_step=f"decouple lint {release}"
            )
        digests.append((entry.name, hashlib.sha256(path.read_bytes()).hexdigest()))
    return tuple(digests)


def compute_series_digest(project: Path, release: str) -> str:
    """Compute the SHA-256 over the patches' digests in order.

    Comments and names in the series file do not count.

    The same patches in the same order are the same series, also when a later release lists them from another home.
    """
    text = "".join(f"{digest}\n" for _, digest in compute_patch_digests(project, release))
    return hashlib.sha256(text.encode()).hexdigest()
