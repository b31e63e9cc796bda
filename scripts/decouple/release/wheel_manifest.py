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

SCHEMA = 1
MEMBER = "decouple.json"
SUFFIX = ".decouple.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MEND = "build the wheel again, or tell its publisher"


@dataclasses.dataclass(frozen=True)
class WheelManifest:
    """The build manifest of one wheel (DESIGN section 4; issue 4 calls it the build manifest).

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
            document = json.loads(data)
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
        cuda = document.get("cuda")
        if cuda is not None and not isinstance(cuda, str):
            raise DecoupleError(f"{where}: cuda: expected a version or null, found {cuda!r}", next_step=_MEND)
        return cls(
            release=_field(document, "release", str, where),
            project=_field(document, "project", str, where),
            version=_field(document, "version", str, where),
            upstream=_field(document, "upstream", dict, where),
            sources=tuple(_field(document, "sources", list, where)),
            series_digest=digest,
            patches=tuple(_field(series, "patches", list, f"{where}: series")),
            overlay_digest=_field(_field(document, "overlay", dict, where), "digest", str, f"{where}: overlay"),
            tree=_field(document, "tree", str, where),
            cuda=cuda,
            arch_list=tuple(document.get("arch_list", ())),
            toolchain=document.get("toolchain", {}),
            flags=document.get("flags", {}),
            environment=document.get("environment", {}),
            times=document.get("times", {}),
        )


def _field(document: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = document.get(key)
    if not isinstance(value, kind):
        raise DecoupleError(f"{where}: {key}: expected {kind.__name__}, found {type(value).__name__}", next_step=_MEND)
    return value
