"""Read one wheel: name, metadata, manifest, and whether it is safe and whole."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path

from msgspec import Struct
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256
from decouple.base.untrusted_input import parse_json
from decouple.index import archive
from decouple.index.offer import parse_wheel_name
from decouple.release import projects, variants
from decouple.release.manifest import is_released
from decouple.release.wheel_manifest import MEMBER, WheelManifest

_AGAIN = "build it again, or tell its publisher"


class Wheel(Struct, frozen=True):
    """One wheel file as it was read.

    ``metadata`` and ``manifest_bytes`` are the exact bytes of the members.
    """

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


def read_wheel(path: Path) -> Wheel:
    """Read and verify one wheel.

    Raises DecoupleError when the name, the metadata, ``RECORD`` or the build manifest is missing, wrong or does not
    agree with the others, or when a member would be written outside the folder it is installed to.
    """
    name, version, tags = parse_wheel_name(path.name)
    with archive.open_wheel(path) as members:
        info = archive.find_dist_info(members, path.name)
        metadata = archive.read_member(members, f"{info}/METADATA", path.name)
        manifest_bytes = archive.read_member(members, f"{info}/{MEMBER}", path.name)
        headers = _parse_headers(metadata, path.name)
        manifest = WheelManifest.from_json(manifest_bytes, f"{path.name}: {MEMBER}")
        if (canonicalize_name(headers["Name"]), headers["Version"]) != (name, str(version)):
            raise DecoupleError(
                f"{path.name}: METADATA says {headers['Name']} {headers['Version']}, the file name {name} {version}",
                next_step="a wheel keeps the name that it was built with; build it again",
            )
        release = f"{version.major}.{version.minor}"
        if not is_released(manifest.release):  # the name of a candidate, a branch, somebody's own tree is no version's
            release = manifest.release
        if (canonicalize_name(manifest.project), manifest.version, manifest.release) != (name, str(version), release):
            raise DecoupleError(
                f"{path.name}: its build manifest is of {manifest.project} {manifest.version} for {manifest.release}, "
                f"not of {name} {version}",
                next_step=_AGAIN,
            )
        if label := variants.split_label(path.name)[1]:
            labels = archive.read_member(members, f"{info}/{variants.MEMBER}", path.name)
            _refuse_other_variant(labels, label, manifest, path.name)
        archive.check_record(members, info, path.name)
    return Wheel(
        path=path,
        name=name,
        version=version,
        tags=tags,
        size=path.stat().st_size,
        sha256=compute_sha256(path),
        metadata=metadata,
        requires=tuple(headers.get_all("Requires-Dist") or ()),
        requires_python=headers["Requires-Python"],
        manifest_bytes=manifest_bytes,
        manifest=manifest,
    )


def _refuse_other_variant(said: bytes, label: str, manifest: WheelManifest, where: str) -> None:
    """Raise DecoupleError if ``variant.json`` contradicts the manifest on its label."""
    try:
        found = parse_json(said)["variants"]
    except (ValueError, KeyError, TypeError) as error:
        raise DecoupleError(f"{where}: {variants.MEMBER}: not one of a variant: {error!r}", next_step=_AGAIN) from error
    stands_for = variants.make_properties(label, manifest.cuda, manifest.arch_list)
    expected = parse_json(variants.encode_document({label: stands_for}))["variants"]
    if found != expected or (label == variants.NULL) != (manifest.cuda is None):
        raise DecoupleError(
            f"{where}: {variants.MEMBER} says {json.dumps(found)[:200]}, by its build manifest it is for "
            f"{json.dumps(stands_for)}",
            next_step="make it again: decouple repack variants WHEEL",
        )


def _parse_headers(metadata: bytes, where: str) -> Message:
    """Parse the header fields of METADATA, those of use checked.

    Raises DecoupleError naming the field.
    """
    try:
        headers = projects.parse_metadata(metadata)
    except ValueError as error:
        raise DecoupleError(f"{where}: METADATA: {error}", next_step=_AGAIN) from error
    for field in ("Name", "Version"):
        if len(headers.get_all(field) or ()) != 1:
            raise DecoupleError(f"{where}: METADATA: not one {field}", next_step=_AGAIN)
    try:
        SpecifierSet(headers["Requires-Python"] or "")
        projects.parse_requirements(headers)
    except ValueError as error:  # InvalidSpecifier and InvalidRequirement are such
        raise DecoupleError(f"{where}: METADATA: {error}", next_step=_AGAIN) from error
    return headers
