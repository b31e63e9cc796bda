"""Describe a wheel's source in the wheel: the release, series and overlay."""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec.structs import astuple

from decouple.base.git import Repository, run_git, split_names
from decouple.build import tree_status
from decouple.build.environment import Places
from decouple.build.inputs import read_head_tree
from decouple.build.options import Provenance
from decouple.release.manifest import NOT_KNOWN
from decouple.series.digest import compute_patch_digests, hash_digests
from decouple.stack.journal import Journal
from decouple.upstream.manifests import load_release


def read_provenance(places: Places) -> Provenance:
    """Read the provenance of what is built from the applied tree of ``places``.

    Raises DecoupleError outside a git checkout, and without an applied tree.
    """
    tree = read_head_tree(places.tree)  # first: where the tree moves after this, the stage sees it
    manifest = load_release(places.project, places.release)
    sources = []
    for source in manifest.sources:
        for file in astuple(source):
            if hasattr(file, "sha256") and file.sha256:
                sources.append({"name": file.name, "url": file.urls[0], "size": file.size, "sha256": file.sha256})
    patches = list_built_patches(places)
    return Provenance(
        version=manifest.version,
        upstream={"version": manifest.version, "tag": manifest.tag, "commit": manifest.commit or NOT_KNOWN},
        sources=tuple(sources),
        series_digest=hash_digests(digest for _, digest in patches),
        patches=tuple({"path": path, "sha256": digest} for path, digest in patches),
        overlay_digest=compute_overlay_digest(places.project, places.tree),
        cuda=manifest.toolchain.cuda,
        tree=tree,
        series_tree=find_series_tree(places.tree),
    )


def list_built_patches(places: Places) -> tuple[tuple[str, str], ...]:
    """Return the path below ``patches/`` and the SHA-256 of each patch that is built.

    They are those that the tree has, which lacks some where a person popped them. Of a tree that ``apply`` did not make
    nothing says which they are: then they are the checkout's. Raises DecoupleError where one of these is missing.
    """
    if not tree_status.is_applied(places.tree):
        return compute_patch_digests(places.project, places.release)
    return tuple((entry.name, entry.sha256) for entry in Journal(Repository(places.tree)).load_state().applied)


def find_series_tree(tree: Path) -> str:
    """Return the git tree that the applied patches and the overlay made.

    A commit by hand is in HEAD's and not in that. "" of a tree that ``apply`` did not make.
    """
    if not tree_status.is_applied(tree):
        return ""
    repository = Repository(tree)
    return repository.read_tree_id(Journal(repository).load_state().head)


def compute_overlay_digest(project: Path, tree: Path) -> str:
    """Return the SHA-256 of the overlay's files as the tree has them.

    It is over path, mode and content. The tree's files are those that are built; which ones they are is what git knows,
    or would add, in the project's third_device/.
    """
    total = hashlib.sha256()
    for name in sorted(name for name in list_overlay_files(project) if (tree / name).is_file()):
        path = tree / name
        total.update(
            f"{name}\0{path.stat().st_mode & 0o100:o}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
        )
    return total.hexdigest()


def list_overlay_files(project: Path) -> set[str]:
    """Return what git knows, or would add, in the project's third_device/.

    Raises DecoupleError outside a git checkout.
    """
    listed = run_git(
        *("ls-files", "-z", "--cached", "--others", "--exclude-standard", "third_device"),
        cwd=project,
        doing=f"{project}: git does not list third_device/",
        next_step="build from a git checkout of this repository",
    )
    return set(split_names(listed))
