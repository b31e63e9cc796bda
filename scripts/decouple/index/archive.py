"""Open the zip of a wheel from anywhere, within bounds.

Every member must be safe to install, ``RECORD`` true and whole. Installers differ in what they make of a doubtful
archive (which of two members of one name, what a missing row means), so everything doubtful is refused. Sources: PEP
427, the PyPA specification "Recording installed projects".
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from decouple.base import zips
from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import FILE_BOUND

WHEEL_BOUND = FILE_BOUND
"""Bytes of a wheel: what a page may offer, what is fetched, and what is opened."""
TEXT_BOUND = 4 << 20
"""Bytes of METADATA, WHEEL or the build manifest."""
RECORD_BOUND = 64 << 20
"""Bytes of RECORD; PyTorch's has about 1 MiB."""
_AGAIN = "build it again, or tell its publisher"
_DANGEROUS = "do not install it; build it again, or tell its publisher"
_PIECE = 1 << 20
_SYMLINK, _REGULAR, _FOLDER = 0o120000, 0o100000, 0o040000
_DIGESTS = ("sha256", "sha384", "sha512")
_ENCRYPTED = 0x1
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@contextlib.contextmanager
def open_wheel(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the zip of a wheel, with its members checked (`refuse_unsafe_members`).

    Raises DecoupleError for those, and for anything that the archive turns out to be while it is read.
    """
    with zips.open_zip(path) as archive:
        refuse_unsafe_members(archive, path.name)
        yield archive


def read_member(archive: zipfile.ZipFile, name: str, where: str, bound: int = TEXT_BOUND) -> bytes:
    """Read the bytes of one member, at most ``bound``.

    Raises DecoupleError when it is missing or larger.
    """
    if name not in archive.NameToInfo:
        raise DecoupleError(
            f"{where}: {name} is missing", next_step="only wheels built by `decouple build` can be published"
        )
    info = archive.getinfo(name)
    if info.file_size > bound:
        raise DecoupleError(f"{where}: {name} has {info.file_size} bytes, more than {bound}", next_step=_DANGEROUS)
    return archive.read(info)


def find_dist_info(archive: zipfile.ZipFile, where: str) -> str:
    """Return the name of the one ``*.dist-info`` folder.

    Raises DecoupleError when there is none or several.
    """
    folders = {name.split("/", 1)[0] for name in archive.namelist() if re.match(r"[^/]+\.dist-info/", name, re.I)}
    if len(folders) != 1 or not next(iter(folders)).endswith(".dist-info"):
        raise DecoupleError(
            f"{where}: expected one .dist-info folder, found {sorted(folders) or 'none'}", next_step=_AGAIN
        )
    return folders.pop()


def refuse_unsafe_members(archive: zipfile.ZipFile, where: str) -> None:
    """Raise DecoupleError when a member could surprise an installer.

    That is: its path is absolute, leaves its folder or is not spelled plainly; it is a link or a device, encrypted, or
    packed in a way other than "deflated"; it stands in the archive twice under any spelling; or it is below a file.
    """
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for info in archive.infolist():
        name = info.filename
        if why := _find_name_fault(info.orig_filename.removesuffix("/")) or _find_kind_fault(info):
            raise DecoupleError(f"{where}: member {name!r} {why}", next_step=_DANGEROUS)
        key = fold_name(name.removesuffix("/"))
        if name.endswith("/"):
            folders[key] = name
        elif key in files:
            raise DecoupleError(
                f"{where}: member {name!r} stands in the wheel twice, also as {files[key]!r}", next_step=_DANGEROUS
            )
        else:
            files[key] = name
        above = key.rpartition("/")[0]
        while above and above not in folders:
            folders[above] = name
            above = above.rpartition("/")[0]
    for key in files.keys() & folders.keys():
        raise DecoupleError(
            f"{where}: member {files[key]!r} is a file, and {folders[key]!r} has it as a folder", next_step=_DANGEROUS
        )


def fold_name(name: str) -> str:
    """Return what two names have in common that a file system may take for one.

    It may be without case, or have its own normalisation.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def check_record(archive: zipfile.ZipFile, info: str, where: str) -> None:
    """Compare ``RECORD`` with the members, both ways and by content.

    Raises DecoupleError naming the first fault.
    """

    def make_error(message: str) -> DecoupleError:
        return DecoupleError(f"{where}: RECORD does not hold: {message}", next_step="build it again")

    own = f"{info}/RECORD"
    rows = _parse_rows(read_member(archive, own, where, RECORD_BOUND), make_error)
    members = {item.filename: item for item in archive.infolist() if not item.is_dir()}
    for name in rows:
        if name not in members:
            raise make_error(f"{name!r} is listed and not in the wheel")
    signatures = {f"{info}/{name}" for name in _SIGNATURES}
    for name, item in members.items():
        if name in signatures:
            continue
        if name not in rows:
            raise make_error(f"{name!r} is not listed")
        digest, size = rows[name]
        if name == own:
            if digest or size:
                raise make_error("it has a hash or size of itself")
            continue
        algorithm, _, value = digest.partition("=")
        if algorithm not in _DIGESTS or not size.isdecimal() or len(size) > 20:
            raise make_error(f"{name!r} has no {', '.join(_DIGESTS)} or no size")
        if int(size) != item.file_size:
            raise make_error(f"{name!r} has {item.file_size} bytes, not {size}")
        found = hashlib.new(algorithm)
        with archive.open(item) as source:
            while piece := source.read(_PIECE):
                found.update(piece)
        if base64.urlsafe_b64encode(found.digest()).rstrip(b"=").decode() != value.rstrip("="):
            raise make_error(f"{name!r} has another {algorithm}")


def _parse_rows(data: bytes, wrong: Callable[[str], DecoupleError]) -> dict[str, tuple[str, str]]:
    """Parse ``RECORD``'s rows by path.

    Raises what ``wrong`` makes.
    """
    from installer.records import InvalidRecordEntry, parse_record_file  # of an extra

    rows: dict[str, tuple[str, str]] = {}
    spelled: dict[str, str] = {}
    try:
        for path, digest, size in parse_record_file(data.decode("utf-8").splitlines()):
            if why := _find_name_fault(path):
                raise wrong(f"{path!r} {why}")
            if fold_name(path) in spelled:
                raise wrong(f"{path!r} is listed twice, also as {spelled[fold_name(path)]!r}")
            spelled[fold_name(path)] = path
            rows[path] = (digest, size)
    except (InvalidRecordEntry, ValueError, csv.Error) as error:
        raise wrong(f"not rows of path, hash and size: {error}") from error
    return rows


def _find_name_fault(name: str) -> str | None:
    """Return what is wrong with a path inside a wheel, None when nothing is."""
    if _CONTROL.search(name):
        return "has a control character in its name"
    if "\\" in name or re.match(r"[A-Za-z]:", name) or name.startswith("/") or ".." in name.split("/"):
        return "leaves the folder a wheel is installed to"
    if not name or any(part in ("", ".") for part in name.split("/")):
        return "is not spelled plainly"
    if len(name) > 4000 or any(len(part.encode()) > 255 for part in name.split("/")):
        return "is too long a name"
    return None


def _find_kind_fault(info: zipfile.ZipInfo) -> str | None:
    kind = info.external_attr >> 16 & 0o170000
    if kind == _SYMLINK:
        return "is a symbolic link, which no wheel may hold"
    if kind not in (0, _REGULAR, _FOLDER):
        return "is neither a file nor a folder"
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is packed with method {info.compress_type}, which not every installer knows"
    if info.is_dir() and info.file_size:
        return "is a folder with content"
    return None
