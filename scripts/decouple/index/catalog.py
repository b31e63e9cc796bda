"""What an index holds, one data file per release: ``releases/<release>.json``.

The pages are made from these files alone, so that a release is added without the wheels of the others at hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins
from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.untrusted_input import JSON_BOUND, parse_json, read_bounded
from decouple.index.offer import parse_wheel_name
from decouple.index.wheel import Wheel
from decouple.release import projects, variants
from decouple.release.manifest import Sha256
from decouple.release.projects import CORE, LIBRARIES, PAIRED

FOLDER = "releases"
SCHEMA = 1
_RELEASE = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
_MEND = "take it from an older copy of the site, or delete it and run `decouple index build` with that release's wheels"


class CatalogEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One published file.

    ``size`` in bytes, digests as SHA-256 hex, ``yanked`` None or the reason (PEP 592).
    """

    filename: str
    project: str
    version: str
    size: int
    sha256: Sha256
    metadata_sha256: Sha256
    manifest_sha256: Sha256
    series_digest: Sha256
    requires_python: str | None
    cuda: str | None
    arch_list: tuple[str, ...] = ()
    yanked: str | None = None
    signed: bool = False

    def __post_init__(self) -> None:
        try:
            name, version, _ = parse_wheel_name(self.filename)
        except DecoupleError as error:
            raise ValueError(error.what) from None
        if (name, str(version)) != (self.project, self.version):
            raise ValueError(f"{self.filename} is not a file of {self.project} {self.version}")

    @property
    def variant(self) -> str | None:
        """The label of a variant wheel, None of another."""
        return variants.split_label(self.filename)[1]

    def make_address(self, release: str) -> str:
        """Return where the file is below the site, ``+`` escaped for strict hosts."""
        return f"files/{release}/{self.filename.replace('+', '%2B')}"

    @classmethod
    def of_wheel(cls, wheel: Wheel, *, metadata_sha256: str, manifest_sha256: str) -> CatalogEntry:
        """Make the entry of a wheel that was just read."""
        return cls(
            filename=wheel.path.name,
            project=wheel.name,
            version=str(wheel.version),
            size=wheel.size,
            sha256=wheel.sha256,
            metadata_sha256=metadata_sha256,
            manifest_sha256=manifest_sha256,
            series_digest=wheel.manifest.series.digest,
            requires_python=wheel.requires_python,
            cuda=wheel.manifest.cuda,
            arch_list=wheel.manifest.arch_list,
        )


def read_toolkit_label(entry: CatalogEntry) -> str | None:
    """Read the toolkit label of a file's version.

    It is ``cu124`` of ``2.6.0+cu124.2``, ``cu124.sm90`` of one for such GPUs alone, ``rocm64`` of ``2.6.0+rocm6.4``.
    None of a file without a vendor's toolkit.
    """
    return projects.parse_toolkit_label(Version(entry.version).local)


def is_paired(entry: CatalogEntry) -> bool:
    """Return whether a file is of a core that brings its CUDA, or bindings for one.

    ``decouple repack pair`` makes them.

    Such are for that CUDA's index.

    In the one for all the bare core serves every CUDA, and no upgrade of torch-cuda is to change it for another.
    """
    local = (Version(entry.version).local or "").split(".")
    return read_toolkit_label(entry) is not None and (entry.project == CORE or PAIRED in local)


def select_common(entries: Collection[CatalogEntry]) -> tuple[CatalogEntry, ...]:
    """Select what the index for all lists: what any installer may take the newest of.

    So no wheel for some GPUs alone (``decouple repack thin``), and no variant wheel (`select_labelled`).
    """
    return tuple(
        entry
        for entry in entries
        if entry.variant is None and not is_paired(entry) and "." not in (read_toolkit_label(entry) or "")
    )


def select_labelled(entries: Collection[CatalogEntry]) -> tuple[CatalogEntry, ...]:
    """Select a release's files that the index with variant wheels lists besides.

    `select_common` selects the others. These are variant wheels, and libraries for some GPUs alone, which they ask for
    and nothing else does. An index of its own, because Poetry 2.5.1 ends with an IndexError where a version has no
    other wheels.
    """
    found = tuple(entry for entry in entries if entry.variant is not None)
    thin = (entry for entry in entries if entry.project == LIBRARIES and "." in (read_toolkit_label(entry) or ""))
    return (*found, *thin) if found else ()


def read_releases(site: Path) -> dict[str, tuple[CatalogEntry, ...]]:
    """Read the entries of each release, in version order.

    Raises DecoupleError naming the file and the key.
    """
    releases: dict[str, tuple[CatalogEntry, ...]] = {}
    for path in (site / FOLDER).glob("*.json"):
        if not _RELEASE.fullmatch(path.stem):
            raise DecoupleError(f"{path}: not named after a release, such as 2.6.json", next_step=_MEND)
        releases[path.stem] = read_entries(path)
    return dict(sorted(releases.items(), key=lambda item: Version(item[0])))


def read_entries(path: Path) -> tuple[CatalogEntry, ...]:
    """Read the entries of one release file.

    Raises DecoupleError.
    """
    try:
        document = parse_json(read_bounded(path, JSON_BOUND))
    except ValueError as error:
        raise DecoupleError(f"{path}: not JSON: {error}", next_step=_MEND) from error
    return parse_entries(document, str(path))


def parse_entries(document: Any, where: str) -> tuple[CatalogEntry, ...]:
    """Parse entries of a release file; ``where`` names it in errors.

    Raises DecoupleError.
    """
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise DecoupleError(
            f"{where}: schema: expected {SCHEMA}; a newer decouple may have written it", next_step="update decouple"
        )
    try:
        listed = convert(document, _ReleaseFile)
        return (*listed.files, *listed.variants)
    except ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        raise DecoupleError(f"{where}: {place.strip('`')[2:]}: {message}", next_step=_MEND) from None


class _ReleaseFile(Struct, frozen=True):
    files: tuple[CatalogEntry, ...] = ()
    variants: tuple[CatalogEntry, ...] = ()  # apart: to an older decouple their names are none of wheels


def write_entries(site: Path, release: str, entries: Iterable[CatalogEntry]) -> None:
    """Replace one release file; the same entries always give the same bytes."""
    ordered = sorted(entries, key=lambda entry: entry.filename)
    document = {
        "schema": SCHEMA,
        "release": release,
        "files": [to_builtins(entry) for entry in ordered if entry.variant is None],
    }
    if labelled := [to_builtins(entry) for entry in ordered if entry.variant is not None]:
        document["variants"] = labelled
    write_atomically(site / FOLDER / f"{release}.json", json.dumps(document, indent=1, sort_keys=True) + "\n")
