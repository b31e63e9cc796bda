"""Reading a package index, on a web server or in a folder, through ``pypi-simple``'s parsers (PEP 503, PEP 691)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import url2pathname

import requests
from pypi_simple import IndexPage, ProjectPage, UnsupportedRepoVersionError
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically

TIMEOUT = 30.0  # seconds without a byte
PIECE = 1 << 20  # bytes read at a time
PAGE_BOUND = 64 << 20  # bytes; PyPI's largest project page is about a tenth of this


def local_path(url: str) -> Path | None:
    """The path of a ``file:`` URL, None for any other."""
    return Path(url2pathname(unquote(urlsplit(url).path))) if url.startswith("file:") else None


class Index:
    """An index by the address of its ``simple/`` folder: ``https://…/simple/``, ``file:///…`` or a path.

    Credentials come from ``~/.netrc`` and proxies from the environment, as requests reads them. Pages that came over
    the network are kept in ``cache``; with ``offline`` they are read from there and nothing is asked.
    """

    def __init__(self, address: str, *, cache: Path | None = None, offline: bool = False) -> None:
        if urlsplit(address).scheme in ("", "file"):
            path = local_path(address) or Path(address)
            simple = path / "simple"
            address = (simple if simple.is_dir() else path).resolve().as_uri()
        self.address = address.rstrip("/") + "/"
        self._cache, self._offline = cache, offline
        self._session = requests.Session()
        again = Retry(total=3, connect=1, status_forcelist=(429, 502, 503), backoff_factor=0.5, raise_on_status=False)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=again))

    def projects(self) -> tuple[str, ...]:
        """Normalised names on the front page. Raises DecoupleError."""
        url = urljoin(self.address, "index.json")
        page = IndexPage.from_json_data(self._json(url))
        return tuple(sorted(page.projects))

    def project(self, name: str) -> ProjectPage:
        """The files of a project, from JSON where the index has it and from HTML otherwise. Raises DecoupleError."""
        folder = urljoin(self.address, f"{name}/")
        try:
            body = self.read(urljoin(folder, "index.json"))
        except DecoupleError:
            return self.project_html(name)
        return self._parse_json(body, urljoin(folder, "index.json"))

    def project_json(self, name: str) -> ProjectPage:
        """The project's PEP 691 page. Raises DecoupleError."""
        url = urljoin(self.address, f"{name}/index.json")
        return self._parse_json(self.read(url), url)

    def project_html(self, name: str) -> ProjectPage:
        """The project's PEP 503 page. Raises DecoupleError."""
        folder = urljoin(self.address, f"{name}/")
        local = folder.startswith("file:")
        body = self.read(urljoin(folder, "index.html") if local else folder)
        try:
            return ProjectPage.from_html(name, body, base_url=folder)
        except UnsupportedRepoVersionError as error:
            raise DecoupleError(f"{folder}: {error}", next_step="update decouple") from error

    def read(self, url: str, bound: int = PAGE_BOUND) -> bytes:
        """The bytes at ``url``, at most ``bound`` of them. Raises DecoupleError naming the address and the fault."""
        local = local_path(url)
        if local is not None:
            try:
                return local.read_bytes()
            except OSError as error:
                raise DecoupleError(f"{url}: {error.strerror}", next_step="is this the index's folder?") from error
        kept = self._cache / "pages" / hashlib.sha256(url.encode()).hexdigest() if self._cache else None
        if self._offline:
            if kept is None or not kept.is_file():
                raise DecoupleError(
                    f"{url} is not in the cache and --offline forbids to ask for it",
                    next_step="run once without --offline",
                )
            return kept.read_bytes()
        body = b"".join(self._pieces(url, bound))
        if kept is not None:
            write_atomically(kept, body)
        return body

    def save(self, url: str, target: Path, bound: int) -> str:
        """Stream what is at ``url`` into the file ``target``, at most ``bound`` bytes; returns its SHA-256, taken on
        the way. Neither cache nor ``offline`` matter. Raises DecoupleError, OSError when ``target`` cannot be written.
        """
        digest = hashlib.sha256()
        with target.open("wb") as out:
            for piece in self._pieces(url, bound):
                digest.update(piece)
                out.write(piece)
        return digest.hexdigest()

    def _pieces(self, url: str, bound: int) -> Iterator[bytes]:
        """The answer piece by piece; never more than ``bound`` bytes and one piece are asked for."""
        got = 0
        try:
            with self._session.get(url, timeout=TIMEOUT, stream=True) as reply:
                if reply.status_code != 200:
                    raise DecoupleError(
                        f"{url}: the server answers {reply.status_code} {reply.reason}", next_step=_after(reply)
                    )
                for piece in reply.raw.stream(PIECE, decode_content=True):
                    got += len(piece)
                    if got > bound:
                        raise DecoupleError(
                            f"{url}: more than {bound} bytes, which is all that it should have",
                            next_step="is this the index's simple/ address? then tell its publisher",
                        )
                    yield piece
        except requests.exceptions.ProxyError as error:
            raise DecoupleError(
                f"{url}: the proxy does not answer", next_step="check HTTPS_PROXY and NO_PROXY"
            ) from error
        except requests.Timeout as error:
            raise DecoupleError(
                f"{url}: no answer within {TIMEOUT:.0f} s", next_step="try again, or a mirror"
            ) from error
        except requests.ConnectionError as error:
            raise DecoupleError(f"{url}: no connection", next_step="check the address and the network") from error
        except (requests.RequestException, HTTPError, OSError) as error:
            raise DecoupleError(
                f"{url}: the answer broke off ({type(error).__name__})", next_step="try again, or a mirror"
            ) from error

    def _json(self, url: str) -> object:
        try:
            return json.loads(self.read(url))
        except ValueError as error:
            raise DecoupleError(
                f"{url}: not JSON: {error}", next_step="is this the index's simple/ address?"
            ) from error

    def _parse_json(self, body: bytes, url: str) -> ProjectPage:
        try:
            return ProjectPage.from_json_data(json.loads(body), base_url=url)
        except (ValueError, KeyError, TypeError) as error:
            raise DecoupleError(
                f"{url}: not a PEP 691 page: {error}", next_step="is this the index's simple/ address?"
            ) from error
        except UnsupportedRepoVersionError as error:
            raise DecoupleError(f"{url}: {error}", next_step="update decouple") from error


def _after(reply: requests.Response) -> str:
    """What to do after an answer that is no page."""
    if reply.status_code in (401, 403):
        return "put the index's user and password into ~/.netrc"
    if reply.status_code == 404:
        return "is this the index's simple/ address, and does it have this project?"
    return "try again later, or a mirror"
