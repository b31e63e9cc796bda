"""Reading one wheel: its name, its metadata, its build manifest, and whether it is safe and whole."""

from __future__ import annotations

import dataclasses
import re
import zipfile
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath

from installer.exceptions import InstallerError
from installer.sources import WheelFile
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.files import sha256_of
from decouple.index.offer import parse_name
from decouple.release.wheel_manifest import MEMBER, WheelManifest

_AGAIN = "build it again, or tell its publisher"
_DANGEROUS = "do not install it; build it again, or tell its publisher"
_SYMLINK = 0o120000


@dataclasses.dataclass(frozen=True)
class Wheel:
    """One wheel file as it was read. ``metadata`` and ``manifest_bytes`` are the exact bytes of the members."""

    path: Path
    name: str
    version: Version
    tags: frozenset[Tag]
    size: int
    sha256: str
    metadata: bytes
    requires: tuple[str, ...]
    """``Requires-Dist`` values."""
    requires_python: str | None
    manifest_bytes: bytes
    manifest: WheelManifest

    @property
    def release(self) -> str:
        """``major.minor`` of the PyTorch release, e.g. ``2.6``."""
        return f"{self.version.major}.{self.version.minor}"


def read(path: Path) -> Wheel:
    """Read and verify one wheel.

    Raises DecoupleError when the name, the metadata, ``RECORD`` or the build manifest is missing, wrong or does not
    agree with the others, or when a member would be written outside the folder it is installed to.
    """
    name, version, tags = parse_name(path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            refuse_unsafe_members(archive, path.name)
            info = dist_info(archive, path.name)
            metadata = _member(archive, f"{info}/METADATA", path.name)
            manifest_bytes = _member(archive, f"{info}/{MEMBER}", path.name)
    except (zipfile.BadZipFile, EOFError) as error:
        raise DecoupleError(
            f"{path.name}: not a whole wheel: {error}", next_step="build or download it again"
        ) from error
    headers = BytesHeaderParser().parsebytes(metadata)
    if canonicalize_name(str(headers["Name"])) != name or str(headers["Version"]) != str(version):
        raise DecoupleError(
            f"{path.name}: METADATA says {headers['Name']} {headers['Version']}, the file name {name} {version}",
            next_step="a wheel keeps the name that it was built with; build it again",
        )
    manifest = WheelManifest.from_json(manifest_bytes, f"{path.name}: {MEMBER}")
    if canonicalize_name(manifest.project) != name or manifest.version != str(version):
        raise DecoupleError(
            f"{path.name}: its build manifest is of {manifest.project} {manifest.version}, not of {name} {version}",
            next_step=_AGAIN,
        )
    _check_record(path)
    return Wheel(
        path=path,
        name=name,
        version=version,
        tags=tags,
        size=path.stat().st_size,
        sha256=sha256_of(path),
        metadata=metadata,
        requires=tuple(str(value) for value in headers.get_all("Requires-Dist") or ()),
        requires_python=headers["Requires-Python"],
        manifest_bytes=manifest_bytes,
        manifest=manifest,
    )


def refuse_unsafe_members(archive: zipfile.ZipFile, where: str) -> None:
    """Raise DecoupleError when a member is absolute, leaves its folder, is a link, or stands in the archive twice."""
    seen: set[str] = set()
    for member in archive.infolist():
        path = PurePosixPath(member.filename)
        outside = path.is_absolute() or ".." in path.parts or "\\" in member.filename
        if outside or re.match(r"[A-Za-z]:", member.filename):
            raise DecoupleError(
                f"{where}: member {member.filename!r} leaves the folder a wheel is installed to", next_step=_DANGEROUS
            )
        if member.external_attr >> 16 & 0o170000 == _SYMLINK:
            raise DecoupleError(
                f"{where}: member {member.filename!r} is a symbolic link, which no wheel may hold", next_step=_DANGEROUS
            )
        if member.filename in seen:
            raise DecoupleError(f"{where}: member {member.filename!r} stands in the wheel twice", next_step=_DANGEROUS)
        seen.add(member.filename)


def dist_info(archive: zipfile.ZipFile, where: str) -> str:
    """The name of the one ``*.dist-info`` folder. Raises DecoupleError when there is none or several."""
    folders = {name.split("/", 1)[0] for name in archive.namelist() if re.match(r"[^/]+\.dist-info/", name)}
    if len(folders) != 1:
        raise DecoupleError(
            f"{where}: expected one .dist-info folder, found {sorted(folders) or 'none'}", next_step=_AGAIN
        )
    return folders.pop()


def _member(archive: zipfile.ZipFile, member: str, where: str) -> bytes:
    try:
        return archive.read(member)
    except KeyError:
        raise DecoupleError(
            f"{where}: {member} is missing", next_step="only wheels built by `decouple build` can be published"
        ) from None


def _check_record(path: Path) -> None:
    """Each member against ``RECORD`` (the PyPA ``installer`` does the reading)."""
    try:
        with WheelFile.open(path) as source:
            source.validate_record(validate_contents=True)
    except (InstallerError, zipfile.BadZipFile) as error:
        issues = getattr(error, "issues", None) or [str(error)]
        raise DecoupleError(f"{path.name}: RECORD does not hold: {issues[0]}", next_step="build it again") from error
