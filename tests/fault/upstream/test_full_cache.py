"""A full cache disk is told as one, whichever source was being fetched, and damaged records are never forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.rebase import rebase_state
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from decouple.upstream.providers.git import GitSource
from tests.support.releases import GithubSource, git_repository, manifest, remote, sample_tree, tar_of
from tests.support.server import FaultyServer
from tests.support.small_disk import fill, small_disk

__all__ = ["small_disk"]


@pytest.mark.parametrize("leave", [0, 64 << 10, 1 << 20])
def test_git_and_an_archive_say_that_the_disk_is_full(small_disk: Path, tmp_path: Path, leave: int) -> None:
    tree = sample_tree(tmp_path / "source")
    (tree / "large.bin").write_bytes(bytes(range(256)) * 8192)  # 2 MiB
    (tmp_path / "repo").mkdir()
    commit = git_repository(tree, tmp_path / "repo")
    with FaultyServer({"/a.tar.gz": tar_of(tree, "top")}) as server:
        archive = GithubSource(remote(server.url("/a.tar.gz")))
        release = manifest(archive, GitSource((tmp_path / "repo").as_uri()), commit=commit)
        cache = small_disk / "cache"
        cache.mkdir()
        filler = fill(small_disk, leave)
        for source in ("auto", "git", "github"):
            with pytest.raises(DecoupleError, match="no space left in") as raised:
                fetch_source(release, source, cache=cache)
            assert "network" not in str(raised.value)
        filler.unlink()
        assert fetch_source(release, "auto", cache=cache).provider == "github"


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"{", b'{"sha256": "x", "size": 1}', b"\xff", b"[" * 100_000])
def test_a_pin_that_was_emptied_is_no_first_use(tmp_path: Path, data: bytes) -> None:
    with FaultyServer({"/a.bin": b"first\n"}) as server:
        file = RemoteFile("a.bin", (server.url("/a.bin"),), None, None)
        path, _ = Downloader(tmp_path).fetch_file(file)
        pin = path.with_name("a.bin.pin.json")
        assert json.loads(pin.read_bytes())["size"] == 6
        pin.write_bytes(data)
        server.files["/a.bin"] = b"evil!\n"
        path.unlink()
        with pytest.raises(DecoupleError, match=r"a\.bin\.pin\.json") as raised:
            Downloader(tmp_path).fetch_file(file)
        assert (raised.value.next_step or "").startswith(f"rm {pin} ")
        assert not path.exists()


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"{", b'{"version": 1}', b'{"version": 1, "decisions": 3}', b"\xff"]
)
def test_a_damaged_rebase_file_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "rebase.json"
    path.write_bytes(data)
    with pytest.raises(DecoupleError, match=r"rebase\.json"):
        rebase_state.load_state(path)
