"""What a wheel says about its own making: written by the build, read by the index and by ``decouple explain``.

The same bytes stand inside the wheel (``<name>-<version>.dist-info/decouple.json``) and beside it
(``<wheel>.decouple.json``).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from decouple.base.errors import DecoupleError
from decouple.base.outside import parse_json

SCHEMA = 1
MEMBER = "decouple.json"
SUFFIX = ".decouple.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,60}")
_CUDA = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}")
_TABLES = ("toolchain", "flags", "environment", "times")
_MEND = "build the wheel again, or tell its publisher"


@dataclasses.dataclass(frozen=True)
class WheelManifest:
    """The build manifest of one wheel: what it was made from, as ``decouple.json`` in its dist-info.

    ``series_digest`` is the SHA-256 over the patches of the series in order, ``tree`` the git tree id of the patched
    source, ``cuda`` a version such as ``"12.4"`` or None for a core without it.
    """

    release: str
    project: str
    version: str
    upstream: Mapping[str, str]
    sources: tuple[Mapping[str, Any], ...]
    series_digest: str
    patches: tuple[Mapping[str, str], ...]
    overlay_digest: str
    tree: str
    cuda: str | None = None
    arch_list: tuple[str, ...] = ()
    toolchain: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    times: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> bytes:
        """Sorted keys, two spaces, a newline at the end: the same manifest is always the same bytes."""
        document = {
            "schema": SCHEMA,
            "release": self.release,
            "project": self.project,
            "version": self.version,
            "upstream": dict(self.upstream),
            "sources": [dict(source) for source in self.sources],
            "series": {"digest": self.series_digest, "patches": [dict(patch) for patch in self.patches]},
            "overlay": {"digest": self.overlay_digest},
            "tree": self.tree,
            "cuda": self.cuda,
            "arch_list": list(self.arch_list),
            "toolchain": dict(self.toolchain),
            "flags": dict(self.flags),
            "environment": dict(self.environment),
            "times": dict(self.times),
        }
        return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes, where: str) -> WheelManifest:
        """Parse; ``where`` names the bytes in errors. Raises DecoupleError naming the key that is missing or wrong."""
        try:
            document = parse_json(data)
        except ValueError as error:
            raise DecoupleError(f"{where}: the build manifest is not JSON: {error}", next_step=_MEND) from error
        if not isinstance(document, dict):
            raise DecoupleError(f"{where}: the build manifest is not a JSON object", next_step=_MEND)
        if document.get("schema") != SCHEMA:
            raise DecoupleError(
                f"{where}: schema: expected {SCHEMA}, found {document.get('schema')!r}",
                next_step="a newer decouple wrote this wheel; update the checkout",
            )
        series = _field(document, "series", dict, where)
        digest = _field(series, "digest", str, f"{where}: series")
        if not _DIGEST.fullmatch(digest):
            raise DecoupleError(f"{where}: series.digest: expected 64 hex digits, found {digest!r}", next_step=_MEND)
        release = _field(document, "release", str, where)
        if not _RELEASE.fullmatch(release):
            raise DecoupleError(f"{where}: release: expected such as 2.6, found {release[:100]!r}", next_step=_MEND)
        cuda = document.get("cuda")
        if cuda is not None and not (isinstance(cuda, str) and _CUDA.fullmatch(cuda)):
            raise DecoupleError(f"{where}: cuda: expected a version or null, found {cuda!r}", next_step=_MEND)
        return cls(
            release=release,
            project=_field(document, "project", str, where),
            version=_field(document, "version", str, where),
            upstream=_strings(document, "upstream", where),
            sources=tuple(_all(document, "sources", dict, where)),
            series_digest=digest,
            patches=tuple(
                _strings({"patch": patch}, "patch", f"{where}: series")
                for patch in _all(series, "patches", dict, f"{where}: series")
            ),
            overlay_digest=_field(_field(document, "overlay", dict, where), "digest", str, f"{where}: overlay"),
            tree=_field(document, "tree", str, where),
            cuda=cuda,
            arch_list=tuple(_all({"arch_list": [], **document}, "arch_list", str, where)),
            **{key: _field({key: {}, **document}, key, dict, where) for key in _TABLES},
        )


def _field(document: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = document.get(key)
    if not isinstance(value, kind):
        raise DecoupleError(f"{where}: {key}: expected {kind.__name__}, found {type(value).__name__}", next_step=_MEND)
    return value


def _all(document: Mapping[str, Any], key: str, kind: type, where: str) -> list[Any]:
    values: list[Any] = _field(document, key, list, where)
    for number, value in enumerate(values):
        if not isinstance(value, kind):
            raise DecoupleError(
                f"{where}: {key}[{number}]: expected {kind.__name__}, found {type(value).__name__}", next_step=_MEND
            )
    return values


def _strings(document: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    values: dict[str, str] = _field(document, key, dict, where)
    for name in values:
        _field(values, name, str, f"{where}: {key}")
    return values
