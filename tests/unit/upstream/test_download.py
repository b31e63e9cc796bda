"""Downloads: what is tried, what is refused, and what is in the cache afterwards."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.upstream.download import Downloader
from tests.support import server as http
from tests.support.releases import remote
from tests.support.server import FaultyServer

DATA = b"\x1f\x8b" + bytes(range(256)) * 2000  # begins as a .gz does
PATH = "/a/file.tar.gz"


@pytest.fixture
def server(http_server: FaultyServer) -> FaultyServer:
    http_server.files[PATH] = DATA
    return http_server


def leftovers(downloader: Downloader) -> list[str]:
    """Names of all files in the cache, locks apart."""
    return sorted(path.name for path in downloader.cache.rglob("*") if path.is_file() and path.name != ".lock")


def test_a_download_is_verified_and_then_comes_from_the_cache(server: FaultyServer, downloader: Downloader) -> None:
    file = remote(server.url(PATH), DATA)
    path, verified = downloader.fetch_file(file)
    assert path.read_bytes() == DATA
    assert verified.verified == "manifest"
    assert (verified.size, verified.sha256, verified.url) == (len(DATA), file.sha256, file.urls[0])
    assert downloader.fetch_file(file)[0] == path
    assert len(server.requests) == 1
    assert leftovers(downloader) == ["file.tar.gz"]


@pytest.mark.parametrize("after", [1, 100_000, len(DATA) - 1])
def test_what_broke_off_is_resumed(server: FaultyServer, downloader: Downloader, after: int) -> None:
    server.fault(PATH, http.truncated(after), times=1)
    path, _ = downloader.fetch_file(remote(server.url(PATH), DATA))
    assert path.read_bytes() == DATA
    assert [request.range for request in server.requests] == [None, f"bytes={after}-"]


def test_another_run_resumes_too(server: FaultyServer, downloader: Downloader) -> None:
    server.fault(PATH, http.truncated(1000), times=1)
    file = remote(server.url(PATH), DATA)
    with pytest.raises(DecoupleError, match="the connection ended"):
        replace(downloader, attempts=1).fetch_file(file)
    assert leftovers(downloader) == ["file.tar.gz.part", "file.tar.gz.part.json"]
    assert downloader.fetch_file(file)[0].read_bytes() == DATA
    assert server.requests[-1].range == "bytes=1000-"


NOTHING_OF_IT: dict[str, tuple[http.Fault | bytes, str]] = {
    "not there": (http.not_found(), "HTTP 404"),
    "forbidden": (http.status(403), "HTTP 403"),
    "a proxy that wants a password": (http.status(407), "HTTP 407"),
    "proxy page": (http.proxy_page(), "a web page"),
    "proxy page that hides": (http.proxy_page("application/gzip"), "wrong size: 99 bytes offered"),
    "an address that is none": (http.redirected("http://[1/x"), "no address to ask"),
    "an ended link": (http.status(400), "HTTP 400"),
    "a method that it does not have": (http.status(501), "HTTP 501"),
    "a small file, with ranges": (b"{}", "wrong size: 2 bytes offered"),
    "a longer file, with ranges": (DATA + b"x", "wrong size: 512003 bytes offered"),
    "a range that nobody asked for": (http.status(206, b"x", Content_Range="bytes 7-7/9"), "got those from 7"),
}


@pytest.mark.parametrize("name", NOTHING_OF_IT)
@pytest.mark.parametrize("known", [True, False], ids=["with a hash", "at first use"])
def test_another_run_resumes_from_the_second_address_though_the_first_refuses(
    server: FaultyServer, downloader: Downloader, name: str, known: bool
) -> None:
    """The refusal of the first removed the half that had come from the second, at every run."""
    answer, said = NOTHING_OF_IT[name]
    server.files["/mirror/file.tar.gz"] = answer if isinstance(answer, bytes) else DATA
    if isinstance(answer, http.Fault):
        server.fault("/mirror/file.tar.gz", answer)
    server.fault(PATH, http.truncated(1000), times=1)
    file = remote(server.url("/mirror/file.tar.gz"), DATA, server.url(PATH))
    if not known:
        file = replace(file, sha256=None)
    with pytest.raises(DecoupleError, match="the connection ended early") as first:
        replace(downloader, attempts=1).fetch_file(file)
    assert said in first.value.what
    assert downloader.fetch_file(file)[0].read_bytes() == DATA
    assert server.requests[-1].range == "bytes=1000-"


def test_another_run_resumes_though_the_first_address_has_no_such_file(
    server: FaultyServer, downloader: Downloader
) -> None:
    """Without a size only its first bytes tell."""
    server.files["/mirror/file.tar.gz"] = b"{}"
    server.fault(PATH, http.truncated(1000), times=1)
    file = replace(remote(server.url("/mirror/file.tar.gz"), DATA, server.url(PATH)), size=None)
    with pytest.raises(DecoupleError, match=r"this is no \.gz file"):
        replace(downloader, attempts=1).fetch_file(file)
    assert downloader.fetch_file(file)[0].read_bytes() == DATA
    assert server.requests[-1].range == "bytes=1000-"


@pytest.mark.parametrize("status", [400, 416, 501])
def test_a_server_that_refuses_ranges_gives_the_file_from_the_start(
    server: FaultyServer, downloader: Downloader, status: int
) -> None:
    server.fault(PATH, http.truncated(1000), times=1)
    server.fault(PATH, http.status(status), times=1)
    assert downloader.fetch_file(remote(server.url(PATH), DATA))[0].read_bytes() == DATA
    assert [request.range for request in server.requests] == [None, "bytes=1000-", None]


def test_a_server_that_gives_another_range_gives_the_file_from_the_start(
    server: FaultyServer, downloader: Downloader
) -> None:
    server.fault(PATH, http.truncated(1000), times=1)
    server.fault(PATH, http.status(206, DATA, Content_Range=f"bytes 0-{len(DATA) - 1}/{len(DATA)}"), times=1)
    assert downloader.fetch_file(remote(server.url(PATH), DATA))[0].read_bytes() == DATA
    assert [request.range for request in server.requests] == [None, "bytes=1000-", None]


def test_a_server_that_ignores_ranges(server: FaultyServer, downloader: Downloader) -> None:
    server.fault(PATH, http.truncated(1000), times=1)
    server.fault(PATH, http.range_ignored())
    assert downloader.fetch_file(remote(server.url(PATH), DATA))[0].read_bytes() == DATA


def test_a_file_that_changed_is_not_glued_to_the_old_part(server: FaultyServer, downloader: Downloader) -> None:
    old = DATA[::-1]
    server.files[PATH] = b"\x1f\x8b" + old[2:]
    server.fault(PATH, http.truncated(1000), times=1)
    with pytest.raises(DecoupleError):
        replace(downloader, attempts=1).fetch_file(remote(server.url(PATH), DATA))
    server.files[PATH] = DATA
    assert downloader.fetch_file(remote(server.url(PATH), DATA))[0].read_bytes() == DATA
    assert server.requests[-1].headers["If-Range"]  # so the server sent the whole file, not its end


def test_a_part_of_another_file_is_thrown_away_without_an_etag(server: FaultyServer, downloader: Downloader) -> None:
    file = remote(server.url(PATH), DATA)
    folder = downloader.cache / "downloads" / (file.sha256 or "")
    folder.mkdir(parents=True)
    (folder / "file.tar.gz.part").write_bytes(b"something else")
    assert downloader.fetch_file(file)[0].read_bytes() == DATA
    assert [request.range for request in server.requests] == ["bytes=14-", None]


def test_retry_after_and_backoff(server: FaultyServer, downloader: Downloader, naps: list[float]) -> None:
    server.fault(PATH, http.too_many("7"), times=1)
    server.fault(PATH, http.status(503), times=2)
    downloader.fetch_file(remote(server.url(PATH), DATA))
    assert naps[0] == 7
    assert 1.5 <= naps[1] <= 2.5 and 3 <= naps[2] <= 5  # doubled each time, jitter of a quarter


def test_a_server_cannot_ask_for_a_day(server: FaultyServer, downloader: Downloader, naps: list[float]) -> None:
    server.fault(PATH, http.too_many("86400"), times=1)
    downloader.fetch_file(remote(server.url(PATH), DATA))
    assert naps == [downloader.longest_wait]


@pytest.mark.parametrize("zone", ["GMT", "-0000"])
def test_retry_after_as_a_date(server: FaultyServer, downloader: Downloader, naps: list[float], zone: str) -> None:
    server.fault(PATH, http.too_many(f"Wed, 21 Oct 2015 07:28:00 {zone}"), times=1)
    downloader.fetch_file(remote(server.url(PATH), DATA))
    assert naps == [0]


def test_a_redirect_is_followed(server: FaultyServer, downloader: Downloader) -> None:
    server.fault("/moved.tar.gz", http.redirected(PATH))
    assert downloader.fetch_file(remote(server.url("/moved.tar.gz"), DATA))[0].read_bytes() == DATA


def test_the_next_mirror_is_taken(server: FaultyServer, downloader: Downloader) -> None:
    _, verified = downloader.fetch_file(remote(server.url("/gone/file.tar.gz"), DATA, server.url(PATH)))
    assert verified.url == server.url(PATH)


REFUSALS = {
    "wrong hash": (http.wrong_bytes(), "wrong SHA-256"),
    "not there": (http.not_found(), "HTTP 404 Not Found"),
    "forbidden": (http.status(403), "HTTP 403 Forbidden"),
    "proxy page": (http.proxy_page(), "a web page (text/html)"),
    "proxy page that hides": (http.proxy_page("application/gzip"), "wrong size: 99 bytes offered, 512002 expected"),
    "too long": (http.status(200, DATA + b"x"), "wrong size"),
    "server error for good": (http.status(500), "HTTP 500 Internal Server Error (5 attempts)"),
    "ends early for good": (http.truncated(0), "the connection ended"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_leave_nothing_that_looks_whole(server: FaultyServer, downloader: Downloader, name: str) -> None:
    fault, said = REFUSALS[name]
    server.fault(PATH, fault)
    with pytest.raises(DecoupleError) as caught:
        downloader.fetch_file(remote(server.url(PATH), DATA))
    assert said in caught.value.what
    assert caught.value.what.startswith("cannot download file.tar.gz: http://127.0.0.1:")
    assert "\n" not in caught.value.what and caught.value.next_step
    assert "file.tar.gz" not in leftovers(downloader)


def test_every_url_and_its_reason_is_named(server: FaultyServer, downloader: Downloader) -> None:
    server.fault(PATH, http.wrong_bytes())
    with pytest.raises(DecoupleError) as caught:
        downloader.fetch_file(remote(server.url("/gone.tar.gz"), DATA, server.url(PATH)))
    assert f"{server.url('/gone.tar.gz')}: HTTP 404" in caught.value.what
    assert f"{server.url(PATH)}: wrong SHA-256" in caught.value.what


def test_a_host_that_is_not_there(downloader: Downloader, naps: list[float]) -> None:
    file = remote("http://127.0.0.1:9/file.tar.gz", DATA)
    with pytest.raises(DecoupleError, match=r"refused \(5 attempts"):
        downloader.fetch_file(file)
    naps.clear()
    with pytest.raises(DecoupleError, match=r"refused \(1 attempt\)"):
        downloader.make_impatient().fetch_file(file)
    assert naps == []


def test_without_content_length(server: FaultyServer, downloader: Downloader) -> None:
    server.fault(PATH, http.without_length())
    assert downloader.fetch_file(remote(server.url(PATH), DATA))[0].read_bytes() == DATA


def test_without_content_length_and_cut_off(server: FaultyServer, downloader: Downloader) -> None:
    server.fault(PATH, dataclasses.replace(http.without_length(), after=500), times=1)
    assert downloader.fetch_file(remote(server.url(PATH), DATA))[0].read_bytes() == DATA


def test_a_damaged_file_in_the_cache_is_fetched_again(server: FaultyServer, downloader: Downloader) -> None:
    file = remote(server.url(PATH), DATA)
    path, _ = downloader.fetch_file(file)
    path.write_bytes(DATA[:-1])
    assert downloader.fetch_file(file)[0].read_bytes() == DATA
    path.write_bytes(DATA[:-1] + b"x")
    assert downloader.fetch_file(file)[0].read_bytes() == DATA


def test_offline(server: FaultyServer, downloader: Downloader) -> None:
    file = remote(server.url(PATH), DATA)
    with pytest.raises(DecoupleError, match=r"cache.*--offline"):
        replace(downloader, offline=True).fetch_file(file)
    assert server.requests == []
    downloader.fetch_file(file)
    assert replace(downloader, offline=True).fetch_file(file)[0].read_bytes() == DATA


class TestFirstUse:
    """A file whose hash nobody published."""

    def test_is_trusted_once_and_says_so(self, server: FaultyServer, downloader: Downloader) -> None:
        file = remote(server.url(PATH))
        path, verified = downloader.fetch_file(file)
        assert verified.verified == "first use"
        pin = json.loads(path.with_name(path.name + ".pin.json").read_text())
        assert (pin["sha256"], pin["size"], pin["url"]) == (verified.sha256, len(DATA), server.url(PATH))
        assert downloader.fetch_file(file)[1].verified.startswith("first use on 20")

    def test_other_bytes_are_refused_later(self, server: FaultyServer, downloader: Downloader) -> None:
        file = remote(server.url(PATH))
        path, _ = downloader.fetch_file(file)
        path.unlink()
        server.files[PATH] = DATA + b"changed"
        with pytest.raises(DecoupleError, match=r"512009.*512002"):
            downloader.fetch_file(file)
        assert not path.exists()

    @pytest.mark.parametrize("content_type", ["text/html", "application/octet-stream"])
    def test_a_proxy_page_is_not_pinned(self, server: FaultyServer, downloader: Downloader, content_type: str) -> None:
        server.fault(PATH, http.proxy_page(content_type), times=1)
        with pytest.raises(DecoupleError, match="proxy"):
            downloader.fetch_file(remote(server.url(PATH)))
        assert leftovers(downloader) == []
        assert downloader.fetch_file(remote(server.url(PATH)))[0].read_bytes() == DATA

    def test_a_cut_off_file_is_not_pinned(self, server: FaultyServer, downloader: Downloader) -> None:
        server.fault(PATH, http.truncated(500))
        with pytest.raises(DecoupleError):
            downloader.fetch_file(remote(server.url(PATH)))
        assert "file.tar.gz.pin.json" not in leftovers(downloader)


def test_a_cache_that_cannot_be_made(server: FaultyServer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DecoupleError, match="while downloading") as caught:
        Downloader(tmp_path / "file").fetch_file(remote(server.url(PATH), DATA))
    assert caught.value.next_step
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208
