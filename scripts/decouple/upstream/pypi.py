"""List a project's files by PyPI's simple index (PEP 691 JSON, else PEP 503 HTML)."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from msgspec import Struct
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import is_basename, is_sha256, parse_json
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import HEADERS, Downloader, RefusalError, check_response, read_small_body
from decouple.upstream.request_faults import RequestError

INDEX = "https://pypi.org/simple"
_ADDRESS_BOUND = 2000  # characters
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class PypiWheel(Struct, frozen=True):
    """One wheel of a project; ``tags`` as "cp312-cp312-manylinux_2_28_x86_64" strings."""

    file: RemoteFile
    version: Version
    tags: frozenset[str]
    yanked: bool


def list_wheels(project: str, downloader: Downloader, index: str = INDEX) -> list[PypiWheel]:
    """Return all wheels that the index lists for ``project``. Raises DecoupleError."""
    url = f"{index}/{project}/"

    def ask_index() -> list[PypiWheel]:
        headers = HEADERS | {"Accept": _ACCEPT, "Accept-Encoding": "gzip"}
        with downloader.open_response(url, headers) as response:
            json_page = "json" in response.headers.get("Content-Type", "")
            if json_page or response.status_code != 200:
                check_response(response, url)
            body, address = read_small_body(response), response.url  # of where it came from, its links are relative to
        try:
            return (_parse_json if json_page else _parse_html)(body.decode(), address)
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:  # whoever runs it wrote it
            raise RefusalError(f"no page of an index: {str(error)[:200] or type(error).__name__}") from None

    try:
        return downloader.retry_request(ask_index)
    except RefusalError as error:
        raise RequestError(f"{url}: {error}", error.setting, next_step="check the network and run again") from None


def _make_wheel(url: str, sha256: str | None, size: int | None, yanked: bool) -> PypiWheel | None:
    name = unquote(urlsplit(url).path).rpartition("/")[2]
    try:
        _, version, _, tags = parse_wheel_filename(name)
    except ValueError:
        return None  # a source archive, an egg, no name at all
    if urlsplit(url).scheme not in ("http", "https") or not is_basename(name) or len(url) > _ADDRESS_BOUND:
        return None
    if not (sha256 is None or is_sha256(sha256)) or not (size is None or isinstance(size, int)):
        return None
    return PypiWheel(RemoteFile(name, (url,), size, sha256), version, frozenset(map(str, tags)), yanked)


def _parse_digest(fragment: str) -> str | None:
    """Return the SHA-256 in a link's fragment (PEP 503).

    Other fields may stand there too.
    """
    match = re.search(r"(?:^|&)sha256=([0-9a-f]{64})(?:&|$)", fragment)
    return match[1] if match else None


def _parse_json(text: str, base: str) -> list[PypiWheel]:
    wheels = []
    for item in parse_json(text)["files"]:
        url, fragment = urldefrag(urljoin(base, item["url"]))
        sha256 = item.get("hashes", {}).get("sha256") or _parse_digest(fragment)
        wheels.append(_make_wheel(url, sha256, item.get("size"), bool(item.get("yanked"))))
    return [wheel for wheel in wheels if wheel]


class _LinkParser(HTMLParser):
    """Collects the wheels that a page links to; ``base`` is the page's address."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.found: list[PypiWheel] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        href = attributes.get("href")
        if tag != "a" or not href:
            return
        url, fragment = urldefrag(urljoin(self.base, href))
        wheel = _make_wheel(url, _parse_digest(fragment), None, "data-yanked" in attributes)
        if wheel:
            self.found.append(wheel)


def _parse_html(text: str, base: str) -> list[PypiWheel]:
    links = _LinkParser(base)
    links.feed(text)
    if not links.found:
        raise DecoupleError(f"{base}: lists no wheel", next_step="is this the index, or a proxy's page?")
    return links.found
