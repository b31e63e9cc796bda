"""A full disk, a cache that cannot be written, two runs at once."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.release.manifest import Manifest
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from tests.support import server as http
from tests.support.releases import GithubSource, manifest, remote, sample_tree, tar_of
from tests.support.server import FaultyServer, http_server
from tests.support.small_disk import small_disk

__all__ = ["http_server", "small_disk"]  # fixtures

ARCHIVE = "/pytorch-v2.6.0.tar.gz"


def release(server: FaultyServer, tmp_path: Path, filler: int) -> Manifest:
    """A release with one more file of ``filler`` incompressible bytes."""
    tree = sample_tree(tmp_path / "source")
    (tree / "filler").write_bytes(os.urandom(filler))
    server.files[ARCHIVE] = data = tar_of(tree, "top")
    return manifest(GithubSource(remote(server.url(ARCHIVE), data)))


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


@pytest.mark.disk(1)
class TestFullDisk:
    @pytest.mark.parametrize(
        ("filler", "during"), [(2 << 20, "downloading pytorch-v2.6.0.tar.gz"), (600 << 10, "unpacking")]
    )
    def test_while(self, tmp_path: Path, small_disk: Path, http_server: FaultyServer, filler: int, during: str) -> None:
        item = release(http_server, tmp_path, filler)
        with pytest.raises(DecoupleError, match=f"no space.*{during}") as caught:
            fetch_source(item, "github", cache=small_disk)
        assert "DECOUPLE_CACHE" in (caught.value.next_step or "")
        whole = ["pytorch-v2.6.0.tar.gz"] if during == "unpacking" else []
        assert files_in(small_disk) == whole
        assert not [path for path in small_disk.rglob("*") if path.name.endswith(".part")]

    def test_while_making_the_baseline(self, tmp_path: Path, small_disk: Path, http_server: FaultyServer) -> None:
        item = release(http_server, tmp_path, 2 << 20)
        fetched = fetch_source(item, "github", cache=tmp_path / "roomy")
        with pytest.raises(DecoupleError, match=r"fast-import|no space"):
            ensure_baseline(small_disk, item, fetched)
        assert files_in(small_disk) == []


class TestReadOnlyCache:
    def test_serves_what_it_has(self, tmp_path: Path, small_disk: Path, http_server: FaultyServer) -> None:
        item = release(http_server, tmp_path, 1000)
        first = fetch_source(item, "github", cache=small_disk)
        base = ensure_baseline(small_disk, item, first)
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        assert fetch_source(item, "github", cache=small_disk) == first
        assert ensure_baseline(small_disk, item, first) == base
        assert Downloader(small_disk).fetch_file(item.sources[0].archive)[0].is_file()  # type: ignore[union-attr]

    def test_says_what_to_do_otherwise(self, tmp_path: Path, small_disk: Path, http_server: FaultyServer) -> None:
        item = release(http_server, tmp_path, 1000)
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        with pytest.raises(DecoupleError, match="while downloading") as caught:
            fetch_source(item, "github", cache=small_disk)
        assert caught.value.next_step == "set DECOUPLE_CACHE to a folder of yours"
        assert files_in(small_disk) == []


def _run(item: Manifest, cache: Path, barrier: object, results: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    base = ensure_baseline(cache, item, fetch_source(item, "github", cache=cache))
    results.put(base.commit)  # type: ignore[attr-defined]


def test_runs_that_race_download_once_and_agree(tmp_path: Path, http_server: FaultyServer) -> None:
    item = release(http_server, tmp_path, 300_000)
    http_server.fault(ARCHIVE, http.slow(0.05))
    fork = multiprocessing.get_context("fork")
    barrier, results = fork.Barrier(4), fork.Queue()
    runs = [fork.Process(target=_run, args=(item, tmp_path / "cache", barrier, results)) for _ in range(4)]
    for run in runs:
        run.start()
    commits = {results.get(timeout=300) for _ in runs}
    for run in runs:
        run.join(60)
        assert run.exitcode == 0
    assert len(commits) == 1
    assert len(http_server.requests) == 1
    assert not [path for path in (tmp_path / "cache").rglob("*") if ".part" in path.name]


def test_a_tree_that_vanished_is_made_again(tmp_path: Path, http_server: FaultyServer) -> None:
    item = release(http_server, tmp_path, 1000)
    fetched = fetch_source(item, "github", cache=tmp_path / "cache")
    shutil.rmtree(fetched.path.parent)
    assert fetch_source(item, "github", cache=tmp_path / "cache") == fetched
