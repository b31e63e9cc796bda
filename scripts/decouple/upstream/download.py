"""Download to the shared cache: resumed, retried, verified, atomic, race-free.

A file is in the cache under its final name only after its size and SHA-256 were checked. Half a download is
``<name>.part`` with ``<name>.part.json`` (where it is from and its ETag), so that the next run can go on with it.

A file whose SHA-256 nobody published can only be trusted on first use: what came the first time is recorded in
``<name>.pin.json`` and everything later has to be the same bytes. The result says so (``verified="first use"``).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import random
import shlex
import stat
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from decouple import __version__
from decouple.base.errors import DecoupleError
from decouple.base.files import NO_SPACE, compute_sha256, create_file, hold_lock, write_atomically
from decouple.base.progress import SILENT, Progress
from decouple.base.steps import mark_step
from decouple.base.transfer_rate import HEAD_SECONDS, RateMeter, SlowServerError, run_within
from decouple.base.untrusted_input import FILE_BOUND, is_basename, is_count, is_sha256, read_json
from decouple.release.manifest import RemoteFile, Sha256
from decouple.upstream.request_faults import RequestError, describe_error, suggest_setting
from decouple.upstream.unpacked_release import VerifiedFile

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

CHUNK = 1 << 20
#: Headers of every request: the bytes as they are.
HEADERS = {"Accept-Encoding": "identity", "User-Agent": f"decouple/{__version__}"}
#: A file of unknown size may not grow past this (PyTorch's release archive is about 0.3 GiB).
LIMIT = FILE_BOUND
#: A page, a list or a signature may not be larger (the compressed package list of Debian's main has 12 MiB).
SMALL = 64 << 20
#: Statuses after which the same request may well succeed.
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
#: Statuses that may be of the range that was asked for: there is none such, or the server takes none.
_OF_RANGES = frozenset({400, 416, 501})
#: What a file must begin with, by the end of its name: a login page must not become a pinned archive.
_MAGIC = {".gz": b"\x1f\x8b", ".tgz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0", ".bz2": b"BZh", ".whl": b"PK\x03\x04"}


class StorageError(DecoupleError):
    """The disk of the cache, not a server: another URL or source would fail as well."""


class RefusalError(Exception):
    """This URL will not give the file; the next one may.

    ``setting`` is what to mend on the user's machine, where that is why.
    """

    def __init__(self, why: str, setting: str | None = None) -> None:
        super().__init__(why)
        self.setting = setting


class ExhaustionError(RefusalError):
    """Asked often enough; what came so far is worth keeping for the next run."""


class ContentError(RefusalError):
    """What came, or what an earlier run kept of it, is not the file: it is of no use."""


class RangeError(RefusalError):
    """The answer does not go on with what is there, of which it says nothing."""


class RetryError(Exception):
    """Say that this URL may give the file later, after ``wait`` seconds if known.

    ``setting`` as of RefusalError.
    """

    def __init__(
        self, why: str, wait: float | None = None, *, connected: bool = True, setting: str | None = None
    ) -> None:
        super().__init__(why)
        self.wait = wait
        self.connected = connected
        self.setting = setting


def make_session() -> requests.Session:
    """Make a session that sends ``.netrc``'s secrets only where they belong.

    It gives what ``.netrc`` has for a host to the address that was asked for, as curl does, and not to another port or
    scheme of that host that a server redirects to, as requests would.
    """
    import requests

    class Session(requests.Session):
        def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
            try:
                return super().prepare_request(request)
            except UnicodeError as error:  # netrc tries UTF-8 and the locale, requests sends Latin-1
                raise DecoupleError(
                    f"~/.netrc (or what NETRC names): {error}",
                    next_step="write it as UTF-8, with names and passwords of Latin-1 letters",
                ) from None

        def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
            before, after = urlsplit(response.request.url or ""), urlsplit(prepared_request.url or "")
            moved = before.scheme != after.scheme or before.port != after.port
            if before.hostname == after.hostname and moved:
                prepared_request.headers.pop("Authorization", None)
            else:
                super().rebuild_auth(prepared_request, response)  # type: ignore[no-untyped-call]

    return Session()


class Downloader(Struct):
    """Download files into ``cache``, with ``attempts`` per URL.

    Waits double from ``first_wait`` seconds with some jitter. ``connect_attempts`` is the same for a host to which no
    connection can be made. ``longest_wait`` (seconds) bounds what a server can ask for with Retry-After; ``timeout`` is
    (connect, read).
    """

    cache: Path
    offline: bool = False
    progress: Progress = SILENT
    attempts: int = 5
    connect_attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 120.0
    timeout: tuple[float, float] = (15.0, 60.0)
    sleep: Callable[[float], None] = time.sleep
    _session: list[requests.Session] = []
    _resumed: bool = False
    """Whether the last request went on with bytes of an earlier one."""

    @property
    def session(self) -> requests.Session:
        """Return one session for all requests.

        It is made, and requests imported, at the first.
        """
        if not self._session:
            self._session.append(make_session())
        return self._session[0]

    def fetch_file(self, file: RemoteFile) -> tuple[Path, VerifiedFile]:
        """Bring the verified file into the cache.

        Raises DecoupleError that names every URL tried and why it failed.
        """
        _check_names(file)
        folder = self.cache / "downloads" / _make_cache_key(file)
        final = folder / file.name
        try:
            verified = self._find_verified(file, final)  # without a lock, so that a read-only cache can serve
            if verified:
                return verified
            with hold_lock(folder / ".lock"):
                _remove_leftovers(final)
                verified = self._find_verified(file, final, discard=True)
                return verified or self._download_file(file, final)
        except OSError as error:
            if error.errno in NO_SPACE:  # give back what half a download holds
                _remove_part(final)
            raise make_storage_error(error, self.cache, f"downloading {file.name}", file.size) from None

    def read_trusted_hash(self, file: RemoteFile) -> str | None:
        """Return the SHA-256 that ``file`` must have.

        The manifest's, else the one recorded at first use, else None.
        """
        return _choose_expectation(
            file,
            _read_pin(_make_sibling_path(self.cache / "downloads" / _make_cache_key(file) / file.name, ".pin.json")),
        )[1]

    def open_response(self, url: str, headers: Mapping[str, str]) -> requests.Response:
        """Return the head of the answer for ``url``.

        Its body is still to be read (`read_piece`, `read_small_body`). Raises RefusalError when that takes longer
        than any server needs, or when this address, or one that a server redirects to, is none that can be asked;
        requests' exceptions.
        """
        import requests

        try:
            return run_within(
                HEAD_SECONDS, lambda: self.session.get(url, headers=headers, stream=True, timeout=self.timeout)
            )
        except SlowServerError as error:
            raise RefusalError(f"too slow: {error}") from None
        except (ValueError, requests.TooManyRedirects) as error:  # requests' own for addresses are ValueErrors
            setting = suggest_setting(error)
            why = describe_error(error) if setting else f"no address to ask: {str(error)[:200]}"
            raise RefusalError(why, setting) from None

    def make_impatient(self) -> Downloader:
        """Return a copy that asks a host that cannot be connected to just once."""
        return replace(self, connect_attempts=1)

    def _find_verified(
        self, file: RemoteFile, final: Path, *, discard: bool = False
    ) -> tuple[Path, VerifiedFile] | None:
        """Return the cached file if it is what it should be.

        With ``discard`` a damaged one is removed.
        """
        pin = _read_pin(_make_sibling_path(final, ".pin.json"))
        try:
            size = final.stat().st_size
        except FileNotFoundError:
            return None
        want_size, want_hash, against = _choose_expectation(file, pin)
        if want_hash is not None and want_size in (None, size) and compute_sha256(final) == want_hash:
            return final, VerifiedFile(file.name, pin.url if pin else file.urls[0], size, want_hash, against)
        if discard:
            mark_step(f"remove damaged {final.name}")
            final.unlink()
        return None

    def _download_file(self, file: RemoteFile, final: Path) -> tuple[Path, VerifiedFile]:
        if self.offline:
            raise DecoupleError(
                f"{file.name} is not in the cache {self.cache} and --offline forbids to download it",
                next_step="run once without --offline, or use --source local:PATH",
            )
        failures: list[str] = []
        settings: list[str] = []
        for url in file.urls:
            try:
                sha256, size = self._download_from(url, file, final)
            except RefusalError as error:
                failures.append(f"{url}: {error}")
                settings += [error.setting] if error.setting else []
                continue
            return self._keep_file(file, final, url, size, sha256)
        raise RequestError(
            f"cannot download {file.name}: " + "; ".join(failures),
            settings[0] if settings else None,
            next_step="try again later, or another --source",
            also=", or --source local:PATH with a file you have",
        )

    def _keep_file(self, file: RemoteFile, final: Path, url: str, size: int, sha256: str) -> tuple[Path, VerifiedFile]:
        """Give a verified .part its final name; pin it first where trust is on first use."""
        pin_file = _make_sibling_path(final, ".pin.json")
        pin = _read_pin(pin_file)
        _, want_hash, against = _choose_expectation(file, pin)
        if want_hash is None:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            record = {"url": url, "size": size, "sha256": sha256, "first_seen": now}
            write_atomically(pin_file, json.dumps(record, indent=2) + "\n")
            against = "first use"
        mark_step(f"rename {final.name} into place")
        _make_part_path(final).replace(final)
        _make_part_record_path(final).unlink(missing_ok=True)
        return final, VerifiedFile(file.name, url, size, sha256, against)

    def _download_from(self, url: str, file: RemoteFile, final: Path) -> tuple[str, int]:
        """Fill ``.part`` from ``url`` and verify it; (sha256, size). Raises RefusalError."""

        def fetch_whole() -> tuple[str, int]:
            self.retry_request(lambda: self._request_once(url, file, final))
            return self._check_part(file, final)

        for last in (False, True):
            self._resumed = False
            try:
                return fetch_whole()
            except ContentError:  # any other refusal says nothing about the bytes that are there
                _remove_part(final)
                if last or not self._resumed:
                    raise
                # what was resumed may have been the beginning of another file: once more from the start
        raise AssertionError("not reached")

    def retry_request(self, request: Callable[[], T]) -> T:
        """Call ``request`` until it does not raise RetryError, waiting in between.

        Raises RefusalError when it never works.
        """
        import requests

        wait = self.first_wait
        attempt = 0
        while True:
            attempt += 1
            try:
                return request()
            except requests.RequestException as error:
                setting = suggest_setting(error)
                if setting and not isinstance(error, requests.exceptions.ProxyError):  # the same at each attempt
                    raise ExhaustionError(describe_error(error), setting) from error
                connected = not isinstance(error, requests.ConnectionError)
                failure = RetryError(describe_error(error), connected=connected, setting=setting)
            except RetryError as error:
                failure = error
            except OSError as error:
                if setting := suggest_setting(error):  # the same at each attempt, and at every address
                    raise ExhaustionError(str(error), setting) from error
                raise
            if attempt >= (self.attempts if failure.connected else min(self.attempts, self.connect_attempts)):
                raise ExhaustionError(f"{failure} ({attempt} attempt{'s' if attempt > 1 else ''})", failure.setting)
            pause = wait * random.uniform(0.75, 1.25) if failure.wait is None else failure.wait
            self.sleep(min(pause, self.longest_wait))
            wait = min(wait * 2, self.longest_wait)

    def _request_once(self, url: str, file: RemoteFile, final: Path) -> None:
        """Send one request; appends to ``.part`` until it is whole.

        Raises RetryError or RefusalError.
        """
        part, have = _make_part_path(final), 0
        record: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, DecoupleError):
            record = read_json(_make_part_record_path(final), dict[str, str], mend="")
        with contextlib.suppress(FileNotFoundError):
            info = part.lstat()
            if stat.S_ISREG(info.st_mode) and info.st_nlink == 1:  # else nothing of ours: it is begun anew
                have = info.st_size
        validator = record.get("validator") if record.get("url") == url else None
        if have and (file.size is None or have < file.size) and (validator or file.sha256):
            ranged = HEADERS | {"Range": f"bytes={have}-"} | ({"If-Range": validator} if validator else {})
            with contextlib.suppress(RangeError):  # the part stays until another body begins: it may be another's
                self._request_body(url, ranged, file, final, have)
                return
        elif have and have == file.size:
            self._resumed = True
            return
        self._request_body(url, HEADERS, file, final, 0)

    def _request_body(self, url: str, headers: Mapping[str, str], file: RemoteFile, final: Path, have: int) -> None:
        """Send these headers and write what comes; ``have`` bytes need not come."""
        with self.open_response(url, headers) as response:
            start = self._find_body_start(response, file, have)
            self._resumed = start > 0
            self._write_body(response, url, file, final, start)

    def _find_body_start(self, response: requests.Response, file: RemoteFile, have: int) -> int:
        """Return where the body of this answer begins in the file.

        Raises RetryError or RefusalError for an answer of no use.
        """
        status = response.status_code
        if have and status in _OF_RANGES:
            raise RangeError(f"asked for bytes from {have}: HTTP {status} {response.reason}")
        check_response(response, file.name)
        start = 0
        if status == 206:
            first = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
            if first != str(have):
                raise RangeError(f"asked for bytes from {have}, got those from {first or 'an unnamed place'}")
            start = have
        length = response.headers.get("Content-Length", "")
        if file.size is not None and is_count(length) and start + int(length) != file.size:
            refused = f"wrong size: {start + int(length)} bytes offered, {file.size} expected"
            raise RangeError(refused) if start else RefusalError(refused)
        return start

    def _write_body(self, response: requests.Response, url: str, file: RemoteFile, final: Path, start: int) -> None:
        part = _make_part_path(final)
        length = response.headers.get("Content-Length", "")
        whole = start + int(length) if is_count(length) else file.size
        got, pace = start, RateMeter()
        data = read_piece(response, pace)
        if start == 0:
            _check_magic(file, data)  # before the part that is there goes
            validator = response.headers.get("ETag", "")
            if validator.startswith("W/") or not validator:
                validator = response.headers.get("Last-Modified", "")
            write_atomically(_make_part_record_path(final), json.dumps({"url": url, "validator": validator}))
        self.progress.start(file.name, float(whole) if whole else None, "bytes")
        self.progress.advance(start)
        mark_step(f"open {part.name}")
        with part.open("r+b") if start else create_file(part) as out:
            out.seek(start)
            while data:
                got += len(data)
                if got > (whole if whole is not None else LIMIT):
                    raise ContentError(f"more than the expected {whole or LIMIT} bytes")
                mark_step(f"write to {part.name}")
                out.write(data)
                self.progress.advance(len(data))
                data = read_piece(response, pace)
        self.progress.finish()
        if whole is not None and got < whole:
            raise RetryError(f"the connection ended after {got} of {whole} bytes")

    def _check_part(self, file: RemoteFile, final: Path) -> tuple[str, int]:
        """Compare ``.part`` with what the manifest, else the pin, says.

        Raises ContentError.
        """
        part = _make_part_path(final)
        size, sha256 = part.stat().st_size, compute_sha256(part)
        want_size, want_hash, against = _choose_expectation(file, _read_pin(_make_sibling_path(final, ".pin.json")))
        if want_size not in (None, size):
            raise ContentError(f"wrong size: {size} bytes, {want_size} expected by the {against}")
        if want_hash not in (None, sha256):
            raise ContentError(f"wrong SHA-256: {sha256}, {want_hash} expected by the {against}")
        return sha256, size


def make_storage_error(error: OSError, where: Path, doing: str, needed: int | None = None) -> StorageError:
    """Make the one line for a full disk, a read-only cache and the like.

    It was met while ``doing`` something below ``where``.
    """
    if error.errno in NO_SPACE:
        size = f"; it needs {needed / 2**20:.0f} MiB" if needed else ""
        return StorageError(
            f"no space left in {where} while {doing}{size}",
            next_step="free some, or set DECOUPLE_CACHE to another disk",
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StorageError(
            f"{where} cannot be written while {doing}: {error.strerror}",
            next_step="set DECOUPLE_CACHE to a folder of yours",
        )
    name = f"{error.filename}: " if error.filename else ""
    return StorageError(f"{name}{error.strerror or error} while {doing}", next_step="run the same command again")


def check_response(response: requests.Response, name: str) -> None:
    """Raise RetryError or RefusalError for what is not (a part of) the file ``name``."""
    status = response.status_code
    if status in _TRY_AGAIN:
        raise RetryError(f"HTTP {status} {response.reason}", _parse_retry_after(response.headers.get("Retry-After")))
    if status not in (200, 206):
        raise RefusalError(f"HTTP {status} {response.reason}")
    kind = response.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        raise RefusalError(f"status {status}, but a web page ({kind}) instead of {name}: a proxy or a login page?")


def _check_names(file: RemoteFile) -> None:
    """Raise DecoupleError for a name or digest whose path would lead out of the cache."""
    if not is_basename(file.name):
        raise DecoupleError(f"{file.name[:100]!r}: not the name of a file", next_step="tell who published it")
    if file.sha256 is not None and not is_sha256(file.sha256):
        raise DecoupleError(
            f"{file.name}: {file.sha256[:100]!r} is no SHA-256, which is 64 hex digits",
            next_step="tell who published it",
        )


def _make_cache_key(file: RemoteFile) -> str:
    """Return the folder of a file in the cache.

    Its content if that is known, else its first URL.
    """
    return file.sha256 or "url-" + hashlib.sha256(file.urls[0].encode()).hexdigest()


def _make_sibling_path(final: Path, suffix: str) -> Path:
    return final.with_name(final.name + suffix)


def _make_part_path(final: Path) -> Path:
    return _make_sibling_path(final, ".part")


def _make_part_record_path(final: Path) -> Path:
    return _make_sibling_path(final, ".part.json")


def _remove_leftovers(final: Path) -> None:
    """Remove temporary files of runs killed in a record's write, with the lock held."""
    for left in final.parent.glob(f".{final.name}.*.part"):
        left.unlink(missing_ok=True)


def _remove_part(final: Path) -> None:
    mark_step(f"remove {final.name}.part")
    _make_part_path(final).unlink(missing_ok=True)
    _make_part_record_path(final).unlink(missing_ok=True)


class _Pin(Struct, frozen=True):
    """What the first use of a file recorded."""

    url: str
    size: int
    sha256: Sha256
    first_seen: str


def _choose_expectation(file: RemoteFile, pin: _Pin | None) -> tuple[int | None, str | None, str]:
    """Return (size, sha256, who says so)."""
    if file.sha256 is not None:
        return file.size, file.sha256, "manifest"
    if pin is not None:
        return pin.size, pin.sha256, f"first use on {pin.first_seen[:10]}"
    return file.size, None, "manifest"


def _read_pin(path: Path) -> _Pin | None:
    """Read what the first use recorded; None when there was none.

    Raises DecoupleError when the record is damaged: without it anything would be taken for a first use.
    """
    try:
        return read_json(path, _Pin, mend="", bound=SMALL)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DecoupleError:
        raise DecoupleError(
            f"{path}: damaged, so what {path.name.removesuffix('.pin.json')} was at its first use is not known",
            next_step=f"rm {shlex.quote(str(path))} takes what comes next for the first use",
        ) from None


def read_piece(response: requests.Response, pace: RateMeter) -> bytes:
    """Read the next bytes of the body as sent; empty at its end.

    Raises requests' exceptions, and RefusalError when it drips.
    """
    import requests
    import urllib3

    pieces: list[bytes] = []
    got = 0
    try:
        while got < CHUNK and (piece := response.raw.read1(CHUNK - got, decode_content=False)):
            pieces.append(piece)
            got += len(piece)
            pace.count_bytes(len(piece))
    except SlowServerError as error:
        raise RefusalError(f"too slow: {error}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        if pieces:
            return b"".join(pieces)  # the next call meets the fault again, or the end
        if isinstance(error, OSError) and error.errno is not None:
            raise requests.ConnectionError(error) from None
        raise requests.exceptions.ChunkedEncodingError(error) from None
    return b"".join(pieces)


def read_small_body(response: requests.Response) -> bytes:
    """Read the whole body, at most `SMALL` bytes, unpacked if sent compressed.

    Raises requests' exceptions, and RefusalError for more or when it drips.
    """
    import requests
    import urllib3

    pieces: list[bytes] = []
    got, pace = 0, RateMeter()
    try:
        while piece := response.raw.read1(1 << 16, decode_content=True):
            pieces.append(piece)
            got += len(piece)
            if got > SMALL:
                raise RefusalError(f"more than {SMALL} bytes, which is all that it should have")
            pace.count_bytes(len(piece))
    except SlowServerError as error:
        raise RefusalError(f"too slow: {error}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise requests.exceptions.ChunkedEncodingError(error) from None
    return b"".join(pieces)


def _check_magic(file: RemoteFile, head: bytes) -> None:
    magic = _MAGIC.get(Path(file.name).suffix)
    if magic and not head.startswith(magic[: len(head)]):
        raise RefusalError(
            f"this is no {Path(file.name).suffix} file (it begins with {head[:16]!r}): a proxy's error page?"
        )


def _parse_retry_after(value: str | None) -> float | None:
    """Return the seconds to wait as the header says (a number or a date).

    None when it says nothing of use.
    """
    if value is None:
        return None
    if is_count(value.strip()):
        return float(value)
    try:
        import email.utils  # only for a server that asks to wait

        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:  # "-0000" as its zone: UTC that does not say so (RFC 5322, 3.3)
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
