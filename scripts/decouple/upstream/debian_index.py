"""Find Debian's source package in the ``Sources`` index signed by ``InRelease``."""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.program_output import make_english_variables
from decouple.release.manifest import RemoteFile
from decouple.upstream import dsc
from decouple.upstream.download import HEADERS, Downloader, RefusalError, check_response, read_small_body
from decouple.upstream.request_faults import RequestError

DEBIAN = "http://deb.debian.org/debian"
#: Suites that may carry a source package of PyTorch, most stable first.
SUITES = ("bookworm", "trixie", "forky", "sid")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def find_packages(
    version: str, downloader: Downloader, remarks: list[str]
) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield each suite that lists the source package of this upstream version.

    With its fields, and how far the index is trusted. ``remarks`` grows by the suites that there are not. Raises
    DecoupleError.
    """
    for suite in SUITES:
        release = _download_text(f"{DEBIAN}/dists/{suite}/InRelease", downloader)
        if release is None:
            remarks.append(f"Debian {suite}: no such suite")
            continue
        signed, trusted = check_signature(release)
        index = dsc.parse_source_files(next(dsc.parse_paragraphs(signed), {}), f"{suite}/InRelease")
        path = "main/source/Sources.xz"
        entry = index.get(path)
        if entry is None:
            raise DecoupleError(f"{suite}/InRelease lists no {path}", next_step="try another mirror, or later")
        file = RemoteFile("Sources.xz", (f"{DEBIAN}/dists/{suite}/{path}",), entry.size, entry.sha256)
        local, _ = downloader.fetch_file(file)
        fields = find_paragraph(local, "pytorch", version)
        if fields is not None:
            yield suite, fields, trusted


def find_paragraph(sources: Path, package: str, version: str) -> dict[str, str] | None:
    """Find the paragraph of ``package`` in the file ``Sources.xz``.

    Raises DecoupleError when that is damaged.
    """
    try:
        with lzma.open(sources, "rt", encoding="utf-8") as text:
            return _read_paragraph(text, package, version)
    except (lzma.LZMAError, EOFError, ValueError) as error:
        raise DecoupleError(f"{sources}: damaged: {error}", next_step="try another mirror, or later") from error


def _read_paragraph(lines: Iterable[str], package: str, version: str) -> dict[str, str] | None:
    """Read the paragraph of ``package`` in an upstream version equal to ``version``.

    It reads no further than it must.
    """
    block: list[str] = []
    wanted = f"Package: {package}\n"
    for line in lines:
        if line.strip():
            block.append(line)
            continue
        if wanted in block:
            fields = next(dsc.parse_paragraphs("".join(block)), {})
            upstream = re.sub(r"[+~].*", "", fields.get("version", "").rsplit("-", 1)[0].split(":")[-1])
            if upstream == version and fields.get("package") == package:  # a field may stand there twice
                return fields
        block = []
    return None


def check_signature(text: str) -> tuple[str, str]:
    """Return an inline-signed text, and in words how far it can be trusted.

    What it says is what gpgv took out of the signed block: bytes around the block, which nobody signed, are never read
    as its content, however they are dressed up. Raises DecoupleError when the signature is bad.
    """
    if not shutil.which("gpgv") or not KEYRING.is_file():
        return dsc.remove_signature(text), "not checked for its signature (needs gpgv and debian-archive-keyring)"
    with tempfile.NamedTemporaryFile(suffix=".asc") as signed:
        signed.write(text.encode())
        signed.flush()
        command = ["gpgv", "--quiet", "--keyring", str(KEYRING), "--output", "-", signed.name]
        done = subprocess.run(command, capture_output=True, check=False, env=make_english_variables())
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise DecoupleError(
            f"the signature of Debian's InRelease does not hold: {message.rpartition(chr(10))[2]}",
            next_step="update debian-archive-keyring; do not trust this mirror otherwise",
        )
    return done.stdout.decode(), "signed by Debian's archive key"


def _download_text(url: str, downloader: Downloader) -> str | None:
    """Download a small text; None when there is none. Raises DecoupleError."""

    def ask_server() -> str | None:
        with downloader.open_response(url, HEADERS) as response:
            if response.status_code == 404:
                return None
            check_response(response, url)
            try:
                return read_small_body(response).decode()
            except UnicodeDecodeError as error:
                raise RefusalError(f"no text: {error}") from None

    try:
        return downloader.retry_request(ask_server)
    except RefusalError as error:
        raise RequestError(f"{url}: {error}", error.setting, next_step="check the network and run again") from None


def is_served(file: RemoteFile, downloader: Downloader) -> bool:
    """Return whether the first URL answers with the right size."""

    def ask_server() -> bool:
        url, timeout = file.urls[0], downloader.timeout
        with downloader.session.head(url, headers=HEADERS, timeout=timeout, allow_redirects=True) as response:
            return response.status_code == 200 and response.headers.get("Content-Length") == str(file.size)

    try:
        return downloader.retry_request(ask_server)
    except RefusalError:
        return False
