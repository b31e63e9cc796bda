"""The simple index of PyPI: which files a project has (PEP 691 JSON where the server offers it, PEP 503 HTML else)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import HEADERS, Downloader, Refused, refuse_useless

INDEX = "https://pypi.org/simple"
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True)
class Wheel:
    """One wheel of a project; ``tags`` as "cp312-cp312-manylinux_2_28_x86_64" strings."""

    file: RemoteFile
    version: Version
    tags: frozenset[str]
    yanked: bool


def wheels(project: str, downloader: Downloader, index: str = INDEX) -> list[Wheel]:
    """All wheels that the index lists for ``project``. Raises DecoupleError."""
    url = f"{index}/{project}/"

    def ask() -> list[Wheel]:
        headers = HEADERS | {"Accept": _ACCEPT, "Accept-Encoding": "gzip"}
        with downloader.session.get(url, headers=headers, timeout=downloader.timeout) as response:
            if "json" in response.headers.get("Content-Type", ""):
                refuse_useless(response, url)
                return _from_json(response.text, url)
            if response.status_code != 200:
                refuse_useless(response, url)
            return _from_html(response.text, url)

    try:
        return downloader.patiently(ask)
    except Refused as error:
        raise DecoupleError(f"{url}: {error}", next_step="check the network and run again") from None


def _wheel(url: str, sha256: str | None, size: int | None, yanked: bool) -> Wheel | None:
    name = url.rsplit("/", 1)[1]
    try:
        _, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None  # a source archive, an egg
    return Wheel(RemoteFile(name, (url,), size, sha256), version, frozenset(map(str, tags)), yanked)


def _from_json(text: str, base: str) -> list[Wheel]:
    found = []
    for item in json.loads(text)["files"]:
        url = urljoin(base, item["url"])
        found.append(_wheel(url, item.get("hashes", {}).get("sha256"), item.get("size"), bool(item.get("yanked"))))
    return [wheel for wheel in found if wheel]


def _from_html(text: str, base: str) -> list[Wheel]:
    class Links(HTMLParser):
        found: list[Wheel]

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            attributes = dict(attrs)
            href = attributes.get("href")
            if tag != "a" or not href:
                return
            url, fragment = urldefrag(urljoin(base, href))
            match = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment)
            wheel = _wheel(url, match[1] if match else None, None, "data-yanked" in attributes)
            if wheel:
                self.found.append(wheel)

    links = Links()
    links.found = []
    links.feed(text)
    if not links.found:
        raise DecoupleError(f"{base}: lists no wheel", next_step="is this the index, or a proxy's page?")
    return links.found
