"""Make a manifest for what nobody published.

That is a release candidate, ``main`` at a date, a vendor's fork, a release to come. Its facts are read off the tree or
the repository; nothing is published of its toolchain, so that is not known.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from packaging.version import InvalidVersion, Version

from decouple.base import git as runner
from decouple.base.checkout import CANDIDATE
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import expand_home
from decouple.release.manifest import Manifest, ManifestSource, Toolchain, is_released
from decouple.upstream import source_specifier
from decouple.upstream.providers.git import GitSource, fetch_ref
from decouple.upstream.readers import open_path

_UNKNOWN = Toolchain(python=(), cuda=None, libraries=(), gcc=None, cuda_max_gcc=None)


def describe_tree(name: str, tree: Path) -> Manifest:
    """Make the manifest of a tree on disk.

    Its ``version.txt``, and its commit where it is a clone without edits. Raises UsageError where ``name`` is a
    release that the tree is not of; DecoupleError.
    """
    try:
        text = (tree / "version.txt").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{tree}: no version.txt to read: {error}", next_step="name a PyTorch source tree") from None
    commit = None
    if (tree / ".git").exists() and runner.is_unedited(tree):
        commit = runner.read_git_text("rev-parse", "HEAD", cwd=tree)
    return _make_manifest(name, text, commit or name, commit, ())


def describe_local(name: str, path: Path, cache: Path) -> Manifest:
    """Make the manifest of what a person has.

    A tree on disk, an archive, or the commit that ``REPOSITORY@REVISION`` names. Raises UsageError where there is no
    such thing, or no PyTorch in it; DecoupleError as `describe_tree` does.
    """
    path, revision = source_specifier.split_revision(expand_home(path).resolve())
    if not path.exists():
        raise UsageError(
            f"{path}: no such file or folder", next_step="name a folder, an archive or REPOSITORY@REVISION"
        )
    if revision is None and runner.is_repository(path) and not (path / ".git").exists():
        revision = "HEAD"
    if revision is None and path.is_dir():
        return describe_tree(name, path)
    opened = open_path(path, revision, {"version.txt"}, cache)
    if opened.source.mode("version.txt") is None:
        raise UsageError(f"{opened.described}: no version.txt in it", next_step="name PyTorch's source")
    commit = None
    if revision is not None:
        commit_id = runner.try_git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", cwd=path)
        commit = commit_id.out.decode().strip() or None
    return _make_manifest(
        name, opened.source.read("version.txt").decode("utf-8", "replace"), commit or name, commit, ()
    )


def describe_repository(name: str, url: str, ref: str) -> Manifest:
    """Make the manifest of ``ref`` in the repository at ``url``.

    ``ref`` is a tag, a branch or a commit. Raises as `describe_tree` does.
    """
    with tempfile.TemporaryDirectory(prefix="decouple-ref-") as folder:
        here = Path(folder)
        step = "check the network and the address, or name a tag, a branch or a whole commit id that it has"
        fetch_ref(here, url, ref, "--filter=blob:none", doing=f"{url}: {ref}", next_step=step)
        commit = runner.read_git_text("rev-parse", "FETCH_HEAD^{commit}", cwd=here)
        shown = runner.run_git(
            *("show", "FETCH_HEAD:version.txt"),
            cwd=here,
            env=runner.make_fetch_environment(),
            doing=f"{url}: {ref} has no version.txt",
            next_step="is this a PyTorch repository?",
        )
        tagged = runner.run_git(
            "ls-remote", "--tags", "origin", f"refs/tags/{ref}", cwd=here, env=runner.make_fetch_environment()
        )
    # A release's own tag says more than this does: that the release is out.
    tag = ref if tagged.strip() and not is_released(name) else commit
    return _make_manifest(name, shown.decode("utf-8", "replace"), tag, commit, (GitSource(url),))


def make_candidate_tag(name: str) -> str:
    """Return upstream's tag of a release candidate.

    "v2.7.0-rc3" of "2.7.0rc3". Raises UsageError for another name.
    """
    match = CANDIDATE.fullmatch(name)
    if not match:
        raise UsageError(
            f"{name} is no upstream release, so PyPI says nothing of it",
            next_step=f"decouple manifest fill {name} --write with --tree DIR, or with --git URL --ref REF",
        )
    return f"v{match[1]}-rc{match[2]}"


def _make_manifest(
    name: str, version: str, tag: str, commit: str | None, sources: tuple[ManifestSource, ...]
) -> Manifest:
    text = version.strip()
    try:
        release = ".".join(map(str, Version(text).release[:2]))
    except InvalidVersion:
        raise DecoupleError(
            f"{name}: version.txt holds no version: {text[:40]!r}", next_step="name a PyTorch tree"
        ) from None
    if is_released(name) and name != release:
        raise UsageError(
            f"{name} is a release, and version.txt of this source says {text}",
            next_step=f"call it what it is: {release}, or a name that no release has, such as mine-{release}",
        )
    return Manifest(name, text, tag, commit, sources, _UNKNOWN)
