"""What an index holds, one data file per release: ``releases/<release>.json``.

The pages are made from these files alone, so that a release is added without the wheels of the others at hand.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.outside import JSON_BOUND, is_sha256, parse_json, read_bounded
from decouple.index.offer import parse_name
from decouple.index.wheel import Wheel

FOLDER = "releases"
SCHEMA = 1
_RELEASE = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
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
            series_digest=wheel.manifest.series.digest,
            requires_python=wheel.requires_python,
            cuda=wheel.manifest.cuda,
            arch_list=wheel.manifest.arch_list,
        )


def read_all(site: Path) -> dict[str, tuple[Entry, ...]]:
    """Release -> its entries, releases in version order. Raises DecoupleError naming the file and the key."""
    found: dict[str, tuple[Entry, ...]] = {}
    for path in (site / FOLDER).glob("*.json"):
        if not _RELEASE.fullmatch(path.stem):
            raise DecoupleError(f"{path}: not named after a release, such as 2.6.json", next_step=_MEND)
        found[path.stem] = read(path)
    return dict(sorted(found.items(), key=lambda item: Version(item[0])))


def read(path: Path) -> tuple[Entry, ...]:
    """The entries of one release file. Raises DecoupleError."""
    try:
        document = parse_json(read_bounded(path, JSON_BOUND))
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
    files = document.get("files", [])
    if not isinstance(files, list):
        raise DecoupleError(f"{where}: files: not a list", next_step=_MEND)
    for number, item in enumerate(files):
        if not isinstance(item, Mapping) or not known >= set(item):
            unknown = sorted(set(item) - known) if isinstance(item, Mapping) else item
            raise DecoupleError(f"{where}: files[{number}]: unknown or misspelt keys {unknown}", next_step=_MEND)
        try:
            entry = Entry(**{**item, "arch_list": tuple(item.get("arch_list", ()))})
            fault = _fault(entry)
        except TypeError as error:
            fault = str(error)
        if fault:
            raise DecoupleError(f"{where}: files[{number}]: {fault}", next_step=_MEND)
        entries.append(entry)
    return tuple(entries)


def _fault(entry: Entry) -> str | None:
    """What is wrong with an entry that a file gave, None when nothing is: pages and paths are made of it."""
    for field in dataclasses.fields(Entry):
        value, kinds = getattr(entry, field.name), _KINDS[str(field.type)]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            return f"{field.name}: {value!r} is no {field.type}"
    for key in ("sha256", "metadata_sha256", "manifest_sha256", "series_digest"):
        if not is_sha256(getattr(entry, key)):
            return f"{key}: not 64 hex digits"
    if not all(isinstance(arch, str) for arch in entry.arch_list):
        return "arch_list: not a list of names"
    try:
        name, version, _ = parse_name(entry.filename)
    except DecoupleError as error:
        return error.what
    if (name, str(version)) != (entry.project, entry.version):
        return f"{entry.filename} is not a file of {entry.project} {entry.version}"
    return None


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "tuple[str, ...]": (tuple,),
}
"""What a field of `Entry` may hold, by its annotation."""


def write(site: Path, release: str, entries: Iterable[Entry]) -> None:
    """Replace one release file; the same entries always give the same bytes."""
    document = {
        "schema": SCHEMA,
        "release": release,
        "files": [dataclasses.asdict(entry) for entry in sorted(entries, key=lambda entry: entry.filename)],
    }
    write_atomically(site / FOLDER / f"{release}.json", json.dumps(document, indent=1, sort_keys=True) + "\n")
