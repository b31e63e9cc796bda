"""Addresses that cannot be asked are asked once and told in one line; what .netrc has for a host stays with it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import requests

from decouple.base.errors import DecoupleError
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import Downloader, make_session
from tests.support.server import FaultyServer, redirected

NONSENSE = (
    "http://[", "http://", "//", "http:///x", "ftp://example.org/a", "javascript:alert(1)", "http://a b/", "http://\xff/",
    "http://127.0.0.1:99999/a", "http://127.0.0.1:x/a", "data:,x", "file:///etc/passwd", "http://" + "a" * 5000 + "/", "http://xn--/",
)  # fmt: skip


def waiting(cache: Path, seen: list[float]) -> Downloader:
    return Downloader(cache, sleep=seen.append, attempts=4, connect_attempts=4)


@pytest.mark.parametrize("to", NONSENSE)
def test_a_redirect_to_nonsense_is_one_line_and_is_not_tried_again(tmp_path: Path, to: str) -> None:
    slept: list[float] = []
    with FaultyServer({"/a.bin": b"x"}) as server:
        server.fault("/a.bin", redirected(to))
        with pytest.raises(DecoupleError, match=r"cannot download a\.bin") as raised:
            waiting(tmp_path, slept).fetch_file(RemoteFile("a.bin", (server.url("/a.bin"),), 1, None))
        assert "\n" not in str(raised.value)
        if not any(name in to for name in ("aaa", "xn--", "a b")):  # names that nobody has, though somebody may
            assert slept == []


def test_a_redirect_to_itself_ends(tmp_path: Path) -> None:
    slept: list[float] = []
    with FaultyServer({"/a.bin": b"x"}) as server:
        server.fault("/a.bin", redirected("/a.bin"))
        with pytest.raises(DecoupleError, match=r"cannot download a\.bin"):
            waiting(tmp_path, slept).fetch_file(RemoteFile("a.bin", (server.url("/a.bin"),), 1, None))
    assert slept == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/a.bin", "gopher://127.0.0.1/a.bin", "a.bin", "http://[/a.bin"])
def test_a_scheme_that_nobody_speaks_here_is_asked_once(tmp_path: Path, url: str) -> None:
    slept: list[float] = []
    with pytest.raises(DecoupleError, match=r"cannot download a\.bin"):
        waiting(tmp_path, slept).fetch_file(RemoteFile("a.bin", (url,), 1, None))
    assert slept == []


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A .netrc with an entry for 127.0.0.1; returns what a server that may have it is sent."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return "Basic " + base64.b64encode(b"ada:secret").decode()


def test_what_netrc_has_for_a_host_goes_where_a_person_asked(tmp_path: Path, netrc: str) -> None:
    with FaultyServer({"/a.bin": b"x", "/b.bin": b"x"}) as server:
        server.fault("/a.bin", redirected("/b.bin"))
        Downloader(tmp_path).fetch_file(RemoteFile("a.bin", (server.url("/a.bin"),), 1, None))
        assert [request.headers.get("Authorization") for request in server.requests] == [netrc, netrc]


@pytest.mark.parametrize("entry", ["login ada password \u2192", "login \u0105da password x"])
def test_a_password_that_http_cannot_send_is_told(tmp_path: Path, netrc: str, entry: str) -> None:
    (tmp_path / "netrc").write_text(f"machine example.org {entry}\n", encoding="utf-8")
    with pytest.raises(DecoupleError, match="netrc"):
        make_session().prepare_request(requests.Request("GET", "https://example.org/a"))


def test_another_port_of_the_host_gets_none_of_it(tmp_path: Path, netrc: str) -> None:
    with FaultyServer({"/a.bin": b"x"}) as server, FaultyServer({"/a.bin": b"x"}) as other:
        server.fault("/a.bin", redirected(other.url("/a.bin")))
        Downloader(tmp_path).fetch_file(RemoteFile("a.bin", (server.url("/a.bin"),), 1, None))
        assert [request.headers.get("Authorization") for request in server.requests] == [netrc]
        assert [request.headers.get("Authorization") for request in other.requests] == [None]


def test_another_host_gets_what_is_its_own(tmp_path: Path, netrc: str) -> None:
    with FaultyServer({"/a.bin": b"x"}) as server, FaultyServer({"/a.bin": b"x"}) as other:
        server.fault("/a.bin", redirected(other.url("/a.bin").replace("127.0.0.1", "localhost")))
        Downloader(tmp_path).fetch_file(RemoteFile("a.bin", (server.url("/a.bin"),), 1, None))
        assert [request.headers.get("Authorization") for request in other.requests] == [None]
