"""What an index holds, one data file per release: ``releases/<release>.json``.

The pages are made from these files alone, so that a release is added without the wheels of the others at hand.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.index.wheel import Wheel

FOLDER = "releases"
SCHEMA = 1
_MEND = "take it from an older copy of the site, or delete it and run `decouple index build` with that release's wheels"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One published file. ``size`` in bytes, digests as SHA-256 hex, ``yanked`` None or the reason (PEP 592)."""

    filename: str
    project: str
    version: str
    size: int
    sha256: str
    metadata_sha256: str
    manifest_sha256: str
    series_digest: str
    requires_python: str | None
    cuda: str | None
    arch_list: tuple[str, ...] = ()
    yanked: str | None = None
    signed: bool = False

    @classmethod
    def of(cls, wheel: Wheel, *, metadata_sha256: str, manifest_sha256: str) -> Entry:
        """The entry of a wheel that was just read."""
        return cls(
            filename=wheel.path.name,
            project=wheel.name,
            version=str(wheel.version),
            size=wheel.size,
            sha256=wheel.sha256,
            metadata_sha256=metadata_sha256,
            manifest_sha256=manifest_sha256,
            series_digest=wheel.manifest.series_digest,
            requires_python=wheel.requires_python,
            cuda=wheel.manifest.cuda,
            arch_list=wheel.manifest.arch_list,
        )


def read_all(site: Path) -> dict[str, tuple[Entry, ...]]:
    """Release -> its entries, releases in version order. Raises DecoupleError naming the file and the key."""
    found = {path.stem: read(path) for path in (site / FOLDER).glob("*.json")}
    return dict(sorted(found.items(), key=lambda item: Version(item[0])))


def read(path: Path) -> tuple[Entry, ...]:
    """The entries of one release file. Raises DecoupleError."""
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise DecoupleError(f"{path}: not JSON: {error}", next_step=_MEND) from error
    return parse(document, str(path))


def parse(document: Any, where: str) -> tuple[Entry, ...]:
    """Entries of a parsed release file; ``where`` names it in errors. Raises DecoupleError."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise DecoupleError(
            f"{where}: schema: expected {SCHEMA}; a newer decouple may have written it", next_step="update decouple"
        )
    known = {field.name for field in dataclasses.fields(Entry)}
    entries = []
    for number, item in enumerate(document.get("files", [])):
        if not isinstance(item, Mapping) or not known >= set(item):
            raise DecoupleError(
                f"{where}: files[{number}]: unknown or misspelt keys {sorted(set(item) - known)}", next_step=_MEND
            )
        try:
            entries.append(Entry(**{**item, "arch_list": tuple(item.get("arch_list", ()))}))
        except TypeError as error:
            raise DecoupleError(f"{where}: files[{number}]: {error}", next_step=_MEND) from error
    return tuple(entries)


def write(site: Path, release: str, entries: Iterable[Entry]) -> None:
    """Replace one release file; the same entries always give the same bytes."""
    document = {
        "schema": SCHEMA,
        "release": release,
        "files": [dataclasses.asdict(entry) for entry in sorted(entries, key=lambda entry: entry.filename)],
    }
    write_atomically(site / FOLDER / f"{release}.json", json.dumps(document, indent=1, sort_keys=True) + "\n")
