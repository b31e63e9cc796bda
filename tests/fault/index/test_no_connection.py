"""An index that cannot be reached: the line says which of address, certificate and proxy it is, and what to set."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from decouple.base.errors import DecoupleError
from decouple.index.remote import Index
from decouple.release.manifest import RemoteFile
from decouple.upstream import debian_index, pypi
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifest_sources import open_source
from decouple.upstream.providers.github import GithubSource
from tests.support import releases
from tests.support.server import FaultyServer

FRONT = b'{"meta": {"api-version": "1.1"}, "projects": [{"name": "torch"}]}'


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this machine's."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """One of 127.0.0.1, by an authority that nobody knows, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a company's proxy")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def address(certificate: Path) -> Iterator[str]:
    """An index on a server that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with FaultyServer({"/simple/index.json": FRONT}, tls=context) as server:
        yield server.url("/simple/")


def fail(address: str) -> tuple[str, str]:
    """What is said of an index that cannot be read, and the next step."""
    with pytest.raises(DecoupleError) as failed:
        Index(address).list_projects()
    return failed.value.what, str(failed.value.next_step)


def test_a_certificate_that_nobody_knows(address: str, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    what, step = fail(address)
    assert "certificate not trusted" in what and "REQUESTS_CA_BUNDLE" in step
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    assert Index(address).list_projects() == ("torch",)


def test_a_bundle_that_is_not_there(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "lost.pem"))
    what, step = fail(address)
    assert str(tmp_path / "lost.pem") in what and "REQUESTS_CA_BUNDLE" in step


@pytest.mark.parametrize("cut", [0, -40], ids=["empty", "cut off"])
def test_a_bundle_that_holds_no_certificate(
    address: str, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """It said "SSLError … Max retries exceeded", and to check the network."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(certificate.read_text()[:cut])
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    what, step = fail(address)
    assert what.endswith(f"no certificate in PEM can be read from {bundle}") and "REQUESTS_CA_BUNDLE" in step


WAYS_TO_ASK: dict[str, Callable[[str, Downloader], object]] = {
    "fetch --source auto": lambda url, downloader: fetch_source(
        releases.manifest(GithubSource(releases.remote(f"{url}a.tar.gz"))),
        cache=downloader.cache,
        downloader=downloader,
    ),
    "check --source auto": lambda url, downloader: open_source(
        releases.manifest(GithubSource(releases.remote(f"{url}a.tar.gz"))), "auto", {"torch/__init__.py"}, downloader
    ),
    "pypi": lambda url, downloader: pypi.list_wheels("torch", downloader, url.rstrip("/")),
}


@pytest.mark.parametrize("name", WAYS_TO_ASK)
def test_the_setting_to_mend_is_told_whoever_asks(
    name: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step was to check the network, also after several sources; it came after 15 seconds of trying again."""
    naps: list[float] = []
    downloader = Downloader(tmp_path / "cache", sleep=naps.append)
    with pytest.raises(DecoupleError, match="certificate not trusted") as failed:
        WAYS_TO_ASK[name](address, downloader)
    assert "set REQUESTS_CA_BUNDLE to your proxy's" in str(failed.value.next_step)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "lost.pem"))
    with pytest.raises(DecoupleError, match=r"lost\.pem") as failed:
        WAYS_TO_ASK[name](address, downloader)
    assert "set REQUESTS_CA_BUNDLE (or CURL_CA_BUNDLE) to a file" in str(failed.value.next_step)
    assert naps == [], "the same at each attempt"


def test_debians_index_says_which_proxy_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port()}")
    with pytest.raises(DecoupleError, match="the proxy does not answer") as failed:
        next(debian_index.find_packages("2.6.0", Downloader(tmp_path, attempts=1), []))
    assert str(failed.value.next_step).startswith("check HTTP_PROXY")


def unused_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def test_a_proxy_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{unused_port()}")
    what, step = fail("https://wheels.invalid/simple/")
    assert "the proxy does not answer" in what and "HTTPS_PROXY" in step


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY", "http_proxy"])
def test_the_variable_that_names_the_proxy_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step named HTTPS_PROXY, which nobody had set."""
    monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port()}")
    what, step = fail("http://wheels.invalid/simple/")
    assert "the proxy does not answer" in what and step.startswith(f"check {name}, ")


def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer() as proxy:  # to which CONNECT is unknown
        monkeypatch.setenv("HTTPS_PROXY", proxy.base)
        what, step = fail("https://wheels.invalid/simple/")
    assert "the proxy refused the connection" in what and "501" in what and "HTTPS_PROXY" in step


def test_a_proxy_of_a_kind_that_is_not_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks9://127.0.0.1:1080")
    what, step = fail("https://wheels.invalid/simple/")
    assert "SOCKS" in what and "HTTPS_PROXY" in step


@pytest.mark.parametrize("proxy", ["socks5://proxy:1080", "http://:3128", "ftp://proxy", "http://me:word@proxy:port"])
def test_a_download_by_a_proxy_that_is_none_names_its_variable(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that the server's address is none, and to try again later or another source."""
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(DecoupleError) as failed:
        Downloader(tmp_path).fetch_file(RemoteFile("a.whl", ("https://wheels.invalid/a.whl",), None, None))
    assert "no address" not in failed.value.what and "word" not in failed.value.what
    assert " ALL_PROXY, or " in str(failed.value.next_step)


def test_an_address_that_is_none_is_not_a_proxys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    what, step = fail("https://wheels:port/simple/")
    assert "'wheels:port'" in what and step == "check the address"


def test_nobody_listens() -> None:
    what, step = fail(f"http://127.0.0.1:{unused_port()}/simple/")
    assert "connection refused" in what and "the address" in step
