"""Whatever an index or its server does wrong: one clear line, and nothing in the folder that is installed from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from decouple.base.errors import DecoupleError
from decouple.index import choose, get, provenance, site
from decouple.index.remote import Index
from decouple.index.wheel import Wheel
from decouple.upstream.download import Downloader
from tests.support.server import (
    Fault,
    FaultyServer,
    proxy_page,
    range_ignored,
    redirected,
    slow,
    status,
    too_many,
    truncated,
)
from tests.unit.index.wheels import SERIES_A, make_pair

FILE = "/files/2.6/torch-2.6.0+decoupled.1-py3-none-any.whl"
PADDING = {"torch/data.bin": bytes(range(256)) * 4096}  # 1 MiB, so that a download can break in the middle


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyServer]:
    make_pair(tmp_path / "dist", core_members=PADDING)
    site.build_site(tmp_path / "dist", tmp_path / "site")
    with FaultyServer({"/": tmp_path / "site"}) as running:
        yield running


def fetch(server: FaultyServer, tmp_path: Path, trust: get.Trust | None = None) -> list[Wheel]:
    """What ``decouple wheels 2.6`` does, with short waits."""
    index = Index(server.url("/simple/"))
    chosen = choose.choose_packages(index, "2.6", choose.detect_machine(), "cu124")
    downloader = Downloader(tmp_path / "cache", attempts=3, first_wait=0.01)
    return get.get_wheels(index, chosen.packages, tmp_path / "out", trust or get.Trust(SERIES_A), downloader)


def left_behind(tmp_path: Path) -> list[str]:
    folder = tmp_path / "out"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize(
    "fault",
    [truncated(after=300_000), too_many("0"), slow(0.01), range_ignored(), status(503)],
    ids=["truncated body", "429 with Retry-After", "slow server", "range ignored", "503"],
)
def test_a_passing_fault_is_overcome(server: FaultyServer, tmp_path: Path, fault: Fault) -> None:
    server.fault(FILE, truncated(after=100_000), times=1)
    server.fault(FILE, fault, times=1)
    assert len(fetch(server, tmp_path)) == 2


def test_a_redirect_to_another_host_is_followed_and_verified(server: FaultyServer, tmp_path: Path) -> None:
    with FaultyServer({"/core.whl": (tmp_path / "dist" / Path(FILE).name)}) as other:
        server.fault(FILE, redirected(other.url("/core.whl")))
        assert len(fetch(server, tmp_path)) == 2


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (proxy_page(), "cannot download"),
        (truncated(after=10), "cannot download"),
        (too_many("0"), "429"),
    ],
    ids=["sign-in page with 200", "always truncated", "always 429"],
)
def test_a_lasting_fault_leaves_nothing(server: FaultyServer, tmp_path: Path, fault: Fault, told: str) -> None:
    server.fault(FILE, fault)
    with pytest.raises(DecoupleError, match=told) as raised:
        fetch(server, tmp_path)
    assert "\n" not in str(raised.value)
    assert left_behind(tmp_path) == []


def drop_hash(page: Path) -> None:
    document = json.loads(page.read_bytes())
    document["files"][0]["hashes"] = {}
    page.write_text(json.dumps(document))


def test_no_hash_no_download(server: FaultyServer, tmp_path: Path) -> None:
    drop_hash(tmp_path / "site/simple/torch/index.json")
    with pytest.raises(DecoupleError, match="gives no sha256"):
        fetch(server, tmp_path)
    assert not any(request.path == quote(FILE) for request in server.requests)


def test_an_index_without_hashes_is_named_also_where_its_files_are_there(server: FaultyServer, tmp_path: Path) -> None:
    """The very file was "there already, with other bytes"."""
    fetch(server, tmp_path)
    drop_hash(tmp_path / "site/simple/torch/index.json")
    with pytest.raises(DecoupleError, match="gives no sha256"):
        fetch(server, tmp_path)


def test_only_the_right_signature_is_taken(server: FaultyServer, tmp_path: Path) -> None:
    key = provenance.make_key(tmp_path / "release.key")
    with pytest.raises(DecoupleError, match="404"):  # nothing is signed yet
        fetch(server, tmp_path, get.Trust(SERIES_A, key))
    from decouple.index.wheel import read_wheel

    for path in (tmp_path / "dist").glob("*.whl"):
        provenance.sign_wheel(read_wheel(path), tmp_path / "release.key")
    site.build_site(tmp_path / "dist", tmp_path / "site")
    assert len(fetch(server, tmp_path, get.Trust(SERIES_A, key))) == 2
    stranger = provenance.make_key(tmp_path / "stranger.key")
    with pytest.raises(DecoupleError, match="not signed by stranger"):
        fetch(server, tmp_path / "again", get.Trust(SERIES_A, stranger))
    assert left_behind(tmp_path / "again") == []


def test_offline_serves_what_was_fetched_before(server: FaultyServer, tmp_path: Path) -> None:
    fetch(server, tmp_path)
    seen = len([request for request in server.requests if request.path.endswith(".whl")])
    fetch(server, tmp_path)
    assert len([request for request in server.requests if request.path.endswith(".whl")]) == seen
