"""Read a package index, on a web server or in a folder.

``pypi-simple``'s parsers read it (PEP 503, PEP 691). What a page says leaves this module only as `decouple.index.offer`
let it through.
"""

from __future__ import annotations

import codecs
import hashlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urljoin, urlsplit

import requests
from bs4.builder import ParserRejectedMarkup
from pypi_simple import (
    DistributionPackage,
    IndexPage,
    ProjectPage,
    UnexpectedRepoVersionWarning,
    UnsupportedRepoVersionError,
)
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from decouple.base.errors import DecoupleError
from decouple.base.files import create_file, write_atomically
from decouple.base.paths import find_cache
from decouple.base.transfer_rate import HEAD_SECONDS, RateMeter, SlowServerError, run_within
from decouple.base.untrusted_input import parse_json, read_bounded
from decouple.index.archive import find_dist_info, open_wheel, read_member
from decouple.index.offer import ADDRESS_BOUND, Offer, Page, parse_local_path, parse_page, parse_project_name
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import Downloader, make_session
from decouple.upstream.remote_zip import RemoteZip
from decouple.upstream.request_faults import RequestError, describe_error, find_setting, suggest_next_step

TIMEOUT = 30.0  # seconds without a byte
PIECE = 1 << 16  # bytes read at a time
PAGE_BOUND = 16 << 20  # bytes; PyPI's largest project page has about a third of this
HTML_BOUND = 4 << 20  # bytes; its parser takes some forty times as much memory
STATEMENT_BOUND = 4 << 20  # bytes of a metadata file, a manifest or a signed statement
PROJECTS_BOUND = 10_000  # projects on a front page that are checked; ours has a few dozen
_NOTHING_THERE = (403, 404, 410)  # the first is S3's, of who may not list a folder
_ENCODINGS = ("", "identity", "gzip")  # the one asked for, and what stands for none
T = TypeVar("T")
logging.getLogger("bs4").addHandler(logging.NullHandler())  # what it says of odd bytes is no line of ours
_IS_IT = "is this the index's simple/ address?"
_SITE = "name the folder of a site, which `decouple index build FOLDER --site SITE` makes, or an index's address"


class NotThereError(DecoupleError):
    """Nothing is at this address, as opposed to something that cannot be used."""


class RefusedError(NotThereError):
    """The server gives nothing, and does not say that nothing is there."""


class _Answer(NamedTuple):
    """What came, and from where: a server may have sent the reader on."""

    body: bytes
    address: str


class Index:
    """An index by the address of its ``simple/`` folder.

    The address is ``https://…/simple/``, ``file:///…`` or a path. Credentials come from ``~/.netrc`` and proxies from
    the environment, as requests reads them. Pages that came over the network are kept in ``cache``; with ``offline``
    they are read from there and nothing is asked. Raises DecoupleError for an address of another kind.
    """

    def __init__(self, address: str, *, cache: Path | None = None, offline: bool = False) -> None:
        self.site: Path | None = None
        """The folder of the site that it is in; None of one on a server."""
        scheme = _parse_scheme(address)
        if scheme in ("", "file"):
            path = parse_local_path(address) or Path(address)
            simple = path / "simple"
            simple = (simple if simple.is_dir() else path).resolve()
            # the index of one CUDA lies one folder deeper, and links to the same files
            site = simple.parent if (simple.parent / "files").is_dir() else simple.parent.parent
            address, self.site = simple.as_uri(), site if (site / "files").is_dir() else simple.parent
        elif scheme not in ("http", "https"):
            raise DecoupleError(f"{address}: not the address of an index", next_step="give http, https or a folder")
        self.address = address.rstrip("/") + "/"
        self._cache, self._offline = cache, offline
        self.narrow: Callable[[Page], Page] = lambda page: page
        """What is made of every project's page before it is used, as with a signed list of what is current."""
        self._session = make_session()
        self._session.headers["Accept-Encoding"] = "gzip"
        again = Retry(total=3, connect=1, status_forcelist=(429, 502, 503), backoff_factor=0.5, raise_on_status=False)
        for prefix in ("http://", "https://"):
            self._session.mount(prefix, HTTPAdapter(max_retries=again))

    def list_projects(self) -> tuple[str, ...]:
        """List the names on the front page, normalised or not, each once.

        Raises DecoupleError.
        """
        url = urljoin(self.address, "index.json")
        page = _parse_body(url, lambda: IndexPage.from_json_data(parse_json(self.read_address(url))))
        names = tuple(sorted(set(page.projects)))
        if len(names) > PROJECTS_BOUND:
            raise DecoupleError(f"{url}: {len(names)} projects, more than {PROJECTS_BOUND}", next_step=_IS_IT)
        return names

    def read_project(self, name: str) -> Page:
        """Read the files of a project.

        They are read from JSON where the index has it and from HTML otherwise. Raises DecoupleError.
        """
        try:
            page = self.read_project_json(name)
        except NotThereError as error:
            try:
                page = self.read_project_html(name)
            except NotThereError:
                raise error from None
        return self.narrow(page)

    def read_project_json(self, name: str) -> Page:
        """Read the project's PEP 691 page.

        Raises DecoupleError, NotThere when the index has none.
        """
        url = self._make_folder_address(name) + "index.json"
        body, address = self._read_no_markup(url, PAGE_BOUND)
        return parse_page(
            name, _parse_body(url, lambda: ProjectPage.from_json_data(parse_json(body), base_url=address)), self.site
        )

    def read_project_html(self, name: str) -> Page:
        """Read the project's PEP 503 page.

        Raises DecoupleError, NotThere when the index has none.
        """
        folder = self._make_folder_address(name)
        url = folder + "index.html" if folder.startswith("file:") else folder
        body, address = self._read_answer(url, HTML_BOUND)
        page = _parse_body(url, lambda: ProjectPage.from_html(name, body, base_url=address, from_encoding="utf-8"))
        return parse_page(
            name, replace(page, packages=[_name_by_address(package) for package in page.packages]), self.site
        )

    def read_address(self, url: str, bound: int = PAGE_BOUND) -> bytes:
        """Read the bytes at ``url``, at most ``bound`` of them.

        Raises DecoupleError naming the address and the fault, and NotThere when the server or the folder has no such
        file.
        """
        return self._read_answer(url, bound).body

    def read_json(self, url: str, bound: int = PAGE_BOUND) -> bytes:
        """Read what can only be JSON, as `read_address` does; HTML is not there."""
        return self._read_no_markup(url, bound).body

    def _read_no_markup(self, url: str, bound: int) -> _Answer:
        answer = self._read_answer(url, bound)
        if _is_markup(answer.body):  # such servers have a page for every address
            raise NotThereError(f"{url}: not JSON, but HTML", next_step=_IS_IT)
        return answer

    def _read_answer(self, url: str, bound: int) -> _Answer:
        """Read as `read_address` does, with the address that links in it are relative to."""
        local = parse_local_path(url)
        if local is not None:
            try:
                return _Answer(read_bounded(local, bound), url)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotThereError(f"{url}: {error.strerror}", next_step=_SITE) from error
            except (OSError, ValueError) as error:
                raise DecoupleError(f"{url}: {error}", next_step=_SITE) from error
        kept = self._cache / "pages" / hashlib.sha256(url.encode()).hexdigest() if self._cache else None
        if self._offline:
            if kept is None or not kept.is_file():
                raise NotThereError(
                    f"{url} is not in the cache and --offline forbids to ask for it",
                    next_step="run once without --offline",
                )
            moved = _locate_moved(kept)
            address = read_bounded(moved, ADDRESS_BOUND).decode() if moved.is_file() else url
            return _Answer(read_bounded(kept, bound), address)
        reached = [url]
        body = b"".join(self._read_pieces(url, bound, reached.append))
        answer = _Answer(body, reached[-1])
        if kept is not None:
            if answer.address == url:
                _locate_moved(kept).unlink(missing_ok=True)
            else:
                write_atomically(_locate_moved(kept), answer.address)
            write_atomically(kept, answer.body)
        return answer

    def read_metadata(self, package: Offer) -> bytes:
        """Read the METADATA of a wheel, out of the wheel itself.

        Of a server's the end and that member alone are asked for.

        Raises DecoupleError, also where the server has no ranges.
        """
        local = parse_local_path(package.url)
        if local is not None:
            with open_wheel(local) as archive:
                return read_member(
                    archive, f"{find_dist_info(archive, local.name)}/METADATA", local.name, STATEMENT_BOUND
                )
        downloader = Downloader(self._cache or find_cache(), offline=self._offline)
        file = RemoteFile(package.filename, (package.url,), package.size, package.sha256)
        setting = None
        try:
            remote = RemoteZip(file, downloader)
            names = [name for name in remote.list_names() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
            match = next((item for item in remote.members if [item.info.filename] == names), None)
            if match is not None and match.info.file_size <= STATEMENT_BOUND:
                return remote.read(match)
            why = f"{len(names)} METADATA files in it, or one that is too large"
        except DecoupleError as error:
            why, setting = error.what, find_setting([error])
        raise RequestError(
            f"{package.filename}: {self.address} has no METADATA beside it, and it cannot be read in the wheel: {why}",
            setting,
            next_step="fetch the wheels into a folder by hand, and name that: --index FOLDER",
        )

    def save_file(self, url: str, target: Path, bound: int) -> str:
        """Stream what is at ``url`` into the file ``target``, at most ``bound`` bytes.

        Returns its SHA-256, taken on the way. Neither cache nor ``offline`` matter. Raises DecoupleError, OSError when
        ``target`` cannot be written.
        """
        digest = hashlib.sha256()
        with create_file(target) as out:
            for piece in self._read_pieces(url, bound):
                digest.update(piece)
                out.write(piece)
        return digest.hexdigest()

    def _make_folder_address(self, name: str) -> str:
        """Return the address of a project's folder.

        Raises DecoupleError for what is no normalised name.
        """
        if parse_project_name(name) is None:
            raise DecoupleError(f"project {name[:100]!r} is not a normalised name (PEP 503)", next_step=_IS_IT)
        return urljoin(self.address, f"{name}/")

    def _read_pieces(self, url: str, bound: int, reached: Callable[[str], None] = lambda _: None) -> Iterator[bytes]:
        """Yield the answer piece by piece.

        Never more than ``bound`` bytes and one piece are asked for. ``reached`` is told the address that gave it.
        """
        got, pace = 0, RateMeter()
        try:
            with run_within(HEAD_SECONDS, lambda: self._session.get(url, timeout=TIMEOUT, stream=True)) as reply:
                _check_reply(reply, url)
                reached(reply.url)
                while piece := reply.raw.read1(PIECE, decode_content=True):
                    got += len(piece)
                    if got > bound:
                        raise DecoupleError(
                            f"{url}: more than {bound} bytes, which is all that it should have",
                            next_step="is this the index's simple/ address? then tell its publisher",
                        )
                    pace.count_bytes(len(piece))
                    yield piece
        except SlowServerError as error:
            raise DecoupleError(f"{url}: too slow: {error}", next_step="try again, or a mirror") from error
        except requests.Timeout as error:
            raise DecoupleError(
                f"{url}: no answer within {TIMEOUT:.0f} s", next_step="try again, or a mirror"
            ) from error
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise DecoupleError(f"{url}: {describe_error(error)}", next_step=suggest_next_step(error)) from error


def _parse_scheme(address: str) -> str:
    """Parse the address's scheme, empty for a path.

    Raises DecoupleError for what is neither.
    """
    try:
        return urlsplit(address).scheme.lower() if "://" in address or address.startswith("file:") else ""
    except ValueError as error:
        raise DecoupleError(
            f"{address}: not the address of an index: {error}", next_step="give http, https or a folder"
        ) from error


_NO_PAGE = (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError)


def _parse_body(url: str, parse: Callable[[], T]) -> T:
    """Return what ``parse`` gives.

    Raises DecoupleError for a page that is none: whoever runs the server wrote it.
    """
    try:
        with warnings.catch_warnings():  # a later minor version has all that ours has (PEP 629)
            warnings.simplefilter("ignore", UnexpectedRepoVersionWarning)
            return parse()
    except UnsupportedRepoVersionError as error:
        raise DecoupleError(f"{url}: {error}", next_step="update decouple") from error
    except (ParserRejectedMarkup, *_NO_PAGE) as error:
        why = str(error).split("\n", 1)[0] or type(error).__name__
        raise DecoupleError(
            f"{url}: not a page of an index (PEP 503, PEP 691): {why[:200]}", next_step=_IS_IT
        ) from error


def _locate_moved(kept: Path) -> Path:
    """Return the file of the cache that names the other address a page came from.

    It is there when that was not the address that was asked.
    """
    return kept.with_name(f"{kept.name}.address")


def _is_markup(body: bytes) -> bool:
    """Return whether an answer is HTML, whatever the server calls it.

    No JSON begins so.
    """
    return body.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<")


def _name_by_address(package: DistributionPackage) -> DistributionPackage:
    """Return the row named as its address ends, as installers name it.

    The text of a link may be cut short.
    """
    try:
        name = unquote(urlsplit(package.url).path).rpartition("/")[2]
    except ValueError:  # no address; `offer` says so
        return package
    return replace(package, filename=name)


def _check_reply(reply: requests.Response, url: str) -> None:
    """Raise NotThereError without a page, RefusedError where there may be one.

    Raise DecoupleError for one in an encoding that it was not asked for, or from where anybody on the way could have
    written it although the reader asked for another.
    """
    if url.startswith("https:") and not all(answer.url.startswith("https:") for answer in (*reply.history, reply)):
        raise DecoupleError(
            f"{url}: the server sends on to {reply.url[:ADDRESS_BOUND]}, without encryption",
            next_step="give the index's http address if that is meant, or tell its publisher",
        )
    if len(reply.url) > ADDRESS_BOUND:
        raise DecoupleError(
            f"{url}: the server sends on to an address of {len(reply.url)} characters", next_step=_IS_IT
        )
    if reply.status_code != 200:
        kind = NotThereError if reply.status_code in _NOTHING_THERE else RefusedError
        raise kind(f"{url}: the server answers {reply.status_code} {reply.reason}", next_step=_suggest_next_step(reply))
    encoding = reply.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise DecoupleError(f"{url}: the server sends it as {encoding}, which was not asked for", next_step=_IS_IT)


def _suggest_next_step(reply: requests.Response) -> str:
    """Return what to do after an answer that is no page."""
    if reply.status_code in (401, 403):
        return "put the index's user and password into ~/.netrc"
    if reply.status_code == 404:
        return "is this the index's simple/ address, and does it have this project?"
    return "try again later, or a mirror"
