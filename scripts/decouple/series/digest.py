"""Compute the digest of a series, 64 hex digits of what a wheel was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.patch import series_file
from decouple.patch.lines import split_lines
from decouple.patch.parse import parse_patch


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


def compute_change_digests(project: Path, release: str) -> dict[str, str]:
    """Compute for each patch a digest of what it changes in a tree.

    Patches are known by the names of their files. Neither its header nor where a hunk stands counts: wheels of two
    series with equal digests are of the same text. Raises DecoupleError when the series or one of its patches is
    missing or unreadable.
    """
    checkout = Checkout(project)
    names = [name for name, _ in compute_patch_digests(project, release)]
    return {Path(name).name: digest_changes((checkout.patches / name).read_bytes(), name) for name in names}


def digest_changes(data: bytes, name: str) -> str:
    """Compute 16 hex digits of the SHA-256 over the changes of one patch.

    Blob ids and line numbers are left out. Raises DecoupleError when it is no patch.
    """
    lines = [line.removesuffix(b"\n") for line in split_lines(parse_patch(data, name=name).to_diff())]
    kept = [b"@@" if line.startswith(b"@@ ") else line for line in lines if not line.startswith(b"index ")]
    return hashlib.sha256(b"\n".join(kept)).hexdigest()[:16]


def compute_series_digest(project: Path, release: str) -> str:
    """Compute the SHA-256 over the patches' digests in order.

    Comments and names in the series file do not count.

    The same patches in the same order are the same series, also when a later release lists them from another home.
    """
    return hash_digests(digest for _, digest in compute_patch_digests(project, release))


def hash_patches(patches: Iterable[bytes]) -> str:
    """Compute the same of the patches' bytes, in order."""
    return hash_digests(hashlib.sha256(data).hexdigest() for data in patches)


def hash_digests(digests: Iterable[str]) -> str:
    """Compute the same of the patches' own SHA-256, in order."""
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()
