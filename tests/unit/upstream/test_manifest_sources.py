"""The sources of a manifest, read just where the series touches them, from a real server on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.patch.parse import Patch, parse_patch
from decouple.release.manifest import Manifest
from decouple.series.check import Fit, check_series
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifest_sources import open_source
from decouple.upstream.named_sources import read_series
from decouple.upstream.providers.github import GithubSource
from decouple.upstream.providers.wheel import WheelSource
from tests.support import releases
from tests.support.server import FaultyServer, range_ignored

OURS = parse_patch(
    b"--- a/torch/__init__.py\n+++ b/torch/__init__.py\n@@ -98,7 +98,7 @@\n line 97\n line 98\n line 99\n-line 100\n"
    b"+line hundred\n line 101\n line 102\n line 103\n",
    name="2.6/0001-hundred.patch",
)
WANTED = {"torch/__init__.py"}


@pytest.fixture
def downloader(tmp_path: Path) -> Downloader:
    return Downloader(tmp_path / "cache", attempts=1, connect_attempts=1, sleep=lambda seconds: None)


def debian(server: FaultyServer, tmp_path: Path) -> Manifest:
    files = releases.debian_files(releases.sample_tree(tmp_path / "tree"), tmp_path, releases.DEBIAN_PATCH)
    server.files.update({f"/{name}": data for name, data in files.items()})
    return releases.manifest(releases.debian_source(server.base, files))


def test_a_manifest_that_was_read_off_a_tree_asks_for_that_tree(downloader: Downloader) -> None:
    """It said that no source could be had, and to check the network."""
    bare = releases.manifest()
    with pytest.raises(UsageError, match="names no source"):
        open_source(bare, "auto", WANTED, downloader)
    with pytest.raises(UsageError, match="names no source"):
        fetch_source(bare, downloader=downloader, cache=downloader.cache)


def statuses(series: list[Patch], manifest: Manifest, word: str, downloader: Downloader) -> list[Fit]:
    opened, _ = open_source(manifest, word, WANTED, downloader)
    return [verdict.status for verdict in check_series(series, opened.source, partial=opened.partial)]


def test_the_archive_is_read_without_unpacking_it(
    http_server: FaultyServer,
    tmp_path: Path,
    downloader: Downloader,
) -> None:
    manifest = debian(http_server, tmp_path)
    opened, patches = open_source(manifest, "debian", WANTED, downloader)
    assert patches is None and not opened.partial and "orig.tar.xz" in opened.described
    assert [verdict.status for verdict in check_series([OURS], opened.source)] == [Fit.CLEAN]
    assert not (downloader.cache / "trees").exists()
    fetch_source(manifest, "debian", cache=downloader.cache, downloader=downloader)
    opened, _ = open_source(manifest, "auto", WANTED, downloader)
    assert "unpacked in the cache" in opened.described


def test_debians_patches_come_first(http_server: FaultyServer, tmp_path: Path, downloader: Downloader) -> None:
    manifest = debian(http_server, tmp_path)
    opened, folder = open_source(manifest, "auto", WANTED, downloader, debian_patches=True)
    assert folder
    theirs = read_series(folder)
    assert [patch.name for patch in theirs] == ["first.patch"]
    again = check_series(theirs, opened.source, under=theirs)
    assert [verdict.status for verdict in again] == [Fit.UPSTREAM], "they lie under the series"


def test_a_wheel_is_read_by_range(http_server: FaultyServer, downloader: Downloader) -> None:
    text = b"".join(b"line %d\n" % number for number in range(200))
    bulk = {"torch/lib/libtorch.so": b"\x7fELF" + bytes(range(256)) * 40_000}
    data = releases.wheel_of({"torch/__init__.py": text, **bulk}, releases.COMMIT)
    http_server.files["/torch-2.6.0.whl"] = data
    manifest = releases.manifest(WheelSource(releases.remote(http_server.url("/torch-2.6.0.whl"), data)))
    opened, _ = open_source(manifest, "wheel", WANTED, downloader)
    assert opened.partial and "by range" in opened.described
    elsewhere = parse_patch(
        OURS.to_text().replace(b"torch/__init__.py", b"torch/csrc/Module.cpp"), name="2.6/0002-cpp.patch"
    )
    verdicts = check_series([OURS, elsewhere], opened.source, partial=True)
    assert [verdict.status for verdict in verdicts] == [Fit.CLEAN, Fit.UNSEEN]


def test_what_was_read_of_a_wheel_is_kept(http_server: FaultyServer, downloader: Downloader) -> None:
    # A forecast over ten releases asked for the same 5 MiB of each wheel again on every run.
    data = releases.wheel_of({"torch/__init__.py": b"x\n", "torch/more.py": b"y\n"}, releases.COMMIT)
    http_server.files["/torch-2.6.0.whl"] = data
    manifest = releases.manifest(WheelSource(releases.remote(http_server.url("/torch-2.6.0.whl"), data)))
    open_source(manifest, "wheel", WANTED, downloader)
    asked = len(http_server.requests)
    opened, _ = open_source(manifest, "wheel", WANTED, downloader)
    assert len(http_server.requests) == asked
    assert "kept in the cache" in opened.described
    assert opened.source.mode("torch/more.py") is not None, "the names of the rest are known"
    opened, _ = open_source(manifest, "wheel", {"torch/more.py"}, downloader)
    assert opened.source.read("torch/more.py") == b"y\n"
    assert opened.source.read("torch/__init__.py") == b"x\n", "what was kept before stays"


def test_a_header_is_read_without_the_guard_that_installing_adds(
    http_server: FaultyServer,
    downloader: Downloader,
) -> None:
    # From 2.10 on installed headers are wrapped; every patch of a header looked like a conflict.
    bare = b"#pragma once\nint a;\n"
    condition = b"!defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)\n"
    error = (
        b'\n#else\n#error "This file should not be included when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is '
        b'defined."\n#endif  // '
    )
    wrapped = b"#if " + condition + bare + error + condition
    files = {"torch/include/c10/a.h": wrapped, "torch/csrc/b.h": bare, "torch/include/torch/csrc/b.h": wrapped}
    data = releases.wheel_of(files, releases.COMMIT)
    http_server.files["/torch-2.6.0.whl"] = data
    manifest = releases.manifest(WheelSource(releases.remote(http_server.url("/torch-2.6.0.whl"), data)))
    opened, _ = open_source(manifest, "wheel", {"c10/a.h", "torch/csrc/b.h"}, downloader)
    assert opened.source.read("c10/a.h") == bare
    assert opened.source.read("torch/csrc/b.h") == bare
    # 2.10.0 could not be unpacked at all: two members have one place in the source
    tree = fetch_source(manifest, "wheel", cache=downloader.cache, downloader=downloader).path
    assert (tree / "torch/csrc/b.h").read_bytes() == bare


def test_a_server_that_ignores_ranges_is_told(http_server: FaultyServer, downloader: Downloader) -> None:
    data = releases.wheel_of({"torch/__init__.py": b"x\n"})
    http_server.files["/torch-2.6.0.whl"] = data
    http_server.fault("/torch-2.6.0.whl", range_ignored())
    manifest = releases.manifest(WheelSource(releases.remote(http_server.url("/torch-2.6.0.whl"), data)))
    with pytest.raises(DecoupleError, match="ignores ranges"):
        open_source(manifest, "wheel", WANTED, downloader)


def test_auto_goes_on_to_the_next_source_and_tells_all_that_failed(
    http_server: FaultyServer,
    tmp_path: Path,
    downloader: Downloader,
) -> None:
    (packaged,) = debian(http_server, tmp_path).sources
    nowhere = GithubSource(releases.remote(http_server.url("/nowhere.tar.gz")))
    assert statuses([OURS], releases.manifest(nowhere, packaged), "auto", downloader) == [Fit.CLEAN]
    with pytest.raises(DecoupleError, match=r"nowhere\.tar\.gz.*404"):
        open_source(releases.manifest(nowhere), "auto", WANTED, downloader)
    with pytest.raises(UsageError, match="no source 'git'"):
        open_source(releases.manifest(nowhere), "git", WANTED, downloader)
    with pytest.raises(UsageError, match="no patches of Debian's"):
        http_server.files["/ours.tar.gz"] = data = releases.tar_of(tmp_path / "tree", "pytorch-v2.6.0")
        ours = GithubSource(releases.remote(http_server.url("/ours.tar.gz"), data))
        open_source(releases.manifest(ours), "github", WANTED, downloader, debian_patches=True)
