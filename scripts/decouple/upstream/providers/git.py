"""Clone the tag and its submodules; the commit must be the manifest's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from decouple.base import git as runner
from decouple.base.errors import DecoupleError
from decouple.base.files import remove_folder
from decouple.base.progress import Progress
from decouple.base.steps import mark_step
from decouple.release.manifest import Manifest, ManifestSource, TreeId
from decouple.upstream import pristine
from decouple.upstream.providers.context import FetchContext, Provider, ReleaseFacts, check_version
from decouple.upstream.providers.github import GITHUB
from decouple.upstream.unpacked_release import UnpackedRelease


class GitSource(ManifestSource, frozen=True):
    """Describe the repository of the manifest's tag and commit, with its submodules."""

    url: Annotated[str, Meta(pattern=r"\A(https?|ssh|git|file)://\S+\Z")]
    #: Id of the git tree of the files, submodules in it; None: not pinned.
    tree: TreeId | None = None
    provider: ClassVar[str] = "git"


def make_source(release: ReleaseFacts) -> GitSource:
    """Return upstream's repository."""
    return GitSource(f"{GITHUB}.git")


def find_cached(manifest: Manifest, source: GitSource, context: FetchContext) -> UnpackedRelease | None:
    """Return the checkout if it was made before."""
    return context.find_unpacked(manifest, f"git-{manifest.commit}")


def fetch_source(manifest: Manifest, source: GitSource, context: FetchContext) -> UnpackedRelease:
    """Clone the tag (history cut off), check commit and submodules, keep the files.

    Raises DecoupleError.
    """
    cached = find_cached(manifest, source, context)
    if cached:
        return cached
    if context.offline:
        raise DecoupleError(
            f"tag {manifest.tag} of {source.url} is not in the cache and --offline forbids to clone it",
            next_step="run once without --offline, or use --source local:PATH",
        )

    def clone_release(folder: Path) -> UnpackedRelease:
        tree = folder / "tree"
        mark_step("clone")
        if manifest.tag == manifest.commit:
            _clone_commit(source.url, manifest.tag, tree)
        else:
            runner.clone_repository(
                source.url,
                tree,
                *("--depth=1", "--branch", manifest.tag),
                doing=f"git clone of tag {manifest.tag}",
                next_step="check the network, or try another --source",
                told=_CloneProgress(context.progress, manifest.tag),
            )
        commit = runner.read_git_text("rev-parse", "HEAD", cwd=tree)
        if commit != manifest.commit:
            raise DecoupleError(
                f"{source.url}: tag {manifest.tag} is commit {commit}, the manifest says {manifest.commit}",
                next_step="the tag was moved: find out why before you go on",
            )
        context.progress.start("submodules")
        mark_step("fetch submodules")
        runner.run_git(
            *("submodule", "update", "--quiet", "--init", "--recursive", "--depth=1"),
            cwd=tree,
            env=runner.make_fetch_environment(),
            doing=f"submodules of {source.url}",
            next_step="run again; submodules come from many repositories and one did not answer",
        )
        context.progress.finish()
        _remove_excluded(tree)
        return UnpackedRelease(
            provider="git",
            kind="source",
            path=tree,
            identity=f"git-{manifest.commit}",
            notes=(
                f"commit {commit} of {source.url}, submodules as it names them",
                *check_version(tree, manifest, "git"),
            ),
        )

    return context.unpack(manifest, f"git-{manifest.commit}", clone_release)


def _clone_commit(url: str, commit: str, tree: Path) -> None:
    """Make a work tree of a commit that no tag names.

    ``git clone --branch`` takes names only.
    """
    tree.mkdir()
    fetch_ref(
        tree, url, commit, doing=f"{url}: commit {commit}", next_step="check the network, or try another --source"
    )
    runner.run_git("checkout", "-q", "--detach", "FETCH_HEAD", cwd=tree)


def fetch_ref(here: Path, url: str, ref: str, *options: str, doing: str, next_step: str) -> None:
    """Make ``here`` a repository with ``ref`` of ``url`` as FETCH_HEAD, no history."""
    runner.run_git("init", "-q", cwd=here)
    runner.run_git("remote", "add", "origin", url, cwd=here)
    words = ("fetch", "-q", "--depth=1", *options, "origin", ref)
    runner.run_git(*words, cwd=here, env=runner.make_fetch_environment(), doing=doing, next_step=next_step)


class _CloneProgress:
    """Report a clone's objects: a total once known, then how many more came."""

    def __init__(self, progress: Progress, tag: str) -> None:
        self._progress, self._what, self._seen = progress, f"git clone {tag}", -1.0
        progress.start(self._what)

    def __call__(self, received: float, total: float | None) -> None:
        if self._seen < 0:
            self._progress.start(self._what, total)
            self._seen = 0.0
        self._progress.advance(received - self._seen)
        self._seen = received


def _remove_excluded(tree: Path) -> None:
    """Remove what is no part of a pristine tree, .git folders first of all."""
    mark_step("remove .git folders")
    doomed = []
    for base, folders, files in os.walk(tree):
        folder = Path(base)
        for name in list(folders):
            if pristine.is_left_out((folder / name).relative_to(tree).parts):
                doomed.append(folder / name)
                folders.remove(name)
        doomed += [folder / name for name in files if pristine.is_left_out((folder / name).relative_to(tree).parts)]
    for path in doomed:
        if path.is_dir() and not path.is_symlink():
            remove_folder(path)
        else:
            path.unlink()


PROVIDER = Provider(GitSource, find_cached, fetch_source, read_published=make_source)
