"""kill -9 right before each change on disk of a fetch and its unpacking, then the same command again.

Each stop leaves the old state or the new one: what has its final name is whole. And the rerun ends as if nothing had
happened, with nothing left over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base.files import compute_sha256
from decouple.release.manifest import Manifest
from decouple.upstream.baseline import Baseline, ensure_baseline
from decouple.upstream.fetch import fetch_source
from decouple.upstream.unpacked_release import RECORD, read_record
from tests.support import stopped
from tests.support.releases import (
    DEBIAN_PATCH,
    GithubSource,
    GitSource,
    WheelSource,
    debian_files,
    debian_source,
    git_repository,
    manifest,
    remote,
    sample_tree,
    tar_of,
    wheel_of,
)
from tests.support.server import FaultyServer, http_server  # noqa: F401 - a fixture


def debian(tmp_path: Path, server: FaultyServer) -> Manifest:
    files = debian_files(sample_tree(tmp_path / "source"), tmp_path, DEBIAN_PATCH)
    server.files.update({f"/{name}": data for name, data in files.items()})
    return manifest(debian_source(server.base, files))


def github(tmp_path: Path, server: FaultyServer) -> Manifest:
    server.files["/a.tar.gz"] = tar_of(sample_tree(tmp_path / "source"), "top")
    return manifest(GithubSource(remote(server.url("/a.tar.gz"))))  # hash not known: pinned at first use


def git(tmp_path: Path, server: FaultyServer) -> Manifest:
    (tmp_path / "repo").mkdir()
    commit = git_repository(sample_tree(tmp_path / "source"), tmp_path / "repo")
    return manifest(GitSource((tmp_path / "repo").as_uri()), commit=commit)


def wheel(tmp_path: Path, server: FaultyServer) -> Manifest:
    server.files["/t.whl"] = data = wheel_of({"torch/__init__.py": b"import os\n"})
    return manifest(WheelSource(remote(server.url("/t.whl"), data)))


PREPARED: dict[str, Callable[[Path, FaultyServer], Manifest]] = {
    "debian": debian,
    "github": github,
    "git": git,
    "wheel": wheel,
}


def work(release: Manifest, source: str, cache: Path) -> Baseline:
    """What ``decouple fetch`` does."""
    fetched = fetch_source(release, source, cache=cache)
    return ensure_baseline(cache, release, fetched, debian_patches=source == "debian")


def killed_at(number: int, release: Manifest, source: str, cache: Path) -> bool:
    """Do the work in a child that is killed at its ``number``-th step; False when it had fewer."""
    child = os.fork()
    if child == 0:
        try:
            os.environ["KILL_AT"] = str(number)
            stopped.arm()
            work(release, source, cache)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def assert_nothing_is_half_done(cache: Path) -> None:
    """Everything in the cache that has a final name is whole."""
    for file in (cache / "downloads").glob("*/*"):
        if file.suffix in (".gz", ".xz", ".dsc") and len(file.parent.name) == 64:
            assert compute_sha256(file) == file.parent.name
    for folder in (cache / "trees").glob("2.6/[!.]*"):
        record = read_record(folder)
        assert record is not None, f"{folder} has no {RECORD}"
        assert record.path.is_dir() and any(record.path.iterdir())
    for repo in (cache / "baselines").glob("2.6/[!.]*"):
        subprocess.run(["git", "fsck", "--strict", "--no-dangling"], cwd=repo, check=True, capture_output=True)
        subprocess.run(["git", "rev-parse", "--verify", "-q", "upstream"], cwd=repo, check=True, capture_output=True)


@pytest.mark.parametrize("source", PREPARED)
def test_kill_at_every_step(tmp_path: Path, http_server: FaultyServer, source: str) -> None:  # noqa: F811
    release = PREPARED[source](tmp_path, http_server)
    whole = work(release, source, tmp_path / "whole")
    number = 0
    while True:
        number += 1
        cache = tmp_path / f"cache-{number}"
        if not killed_at(number, release, source, cache):
            break
        assert_nothing_is_half_done(cache)
        again = work(release, source, cache)
        assert (again.commit, again.tree) == (whole.commit, whole.tree), f"killed at step {number}"
        assert_nothing_is_half_done(cache)
        left = [path.name for path in cache.rglob("*") if ".part" in path.name]
        assert left == [], f"killed at step {number}"
    assert number > {"debian": 25, "github": 10, "git": 5, "wheel": 5}[source]  # so the steps are really there
