"""What a wheel says about its own making.

It is written by the build, read by the index and by ``decouple verify WHEEL --explain``. The same bytes stand inside
the wheel (``<name>-<version>.dist-info/decouple.json``) and beside it (``<wheel>.decouple.json``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, field, to_builtins

from decouple.base.errors import DecoupleError
from decouple.base.path_names import PathPart
from decouple.base.untrusted_input import parse_json

SCHEMA = 1
MEMBER = "decouple.json"
SUFFIX = ".decouple.json"
_MEND = "build the wheel again, or tell its publisher"


class SeriesContent(Struct, frozen=True):
    """The patches in order, and the SHA-256 over them."""

    digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    patches: tuple[Mapping[str, str], ...]


class OverlayContent(Struct, frozen=True):
    """The SHA-256 over the overlay's files."""

    digest: str


class WheelManifest(Struct, frozen=True):
    """The build manifest of one wheel: what it was made from.

    It is ``decouple.json`` in the wheel's dist-info.

    ``tree`` is the git tree id of the patched source, ``cuda`` a version such as ``"12.4"`` or None for a core without
    it.
    """

    release: PathPart
    project: PathPart
    version: PathPart
    upstream: Mapping[str, str]
    sources: tuple[Mapping[str, Any], ...]
    series: SeriesContent
    overlay: OverlayContent
    tree: str
    cuda: Annotated[str, Meta(pattern=r"\A[0-9]{1,4}(\.[0-9]{1,4}){0,3}\Z")] | None = None
    arch_list: tuple[str, ...] = ()
    toolchain: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Write the manifest as JSON.

        Sorted keys, two spaces, a newline at the end: the same manifest is always the same bytes.
        """
        document = {"schema": SCHEMA, **to_builtins(self)}
        return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes, where: str) -> WheelManifest:
        """Parse a manifest; ``where`` names the bytes in errors.

        Raises DecoupleError naming the key that is missing or wrong.
        """
        try:
            document = parse_json(data)
        except ValueError as error:
            raise DecoupleError(f"{where}: the build manifest is not JSON: {error}", next_step=_MEND) from error
        if isinstance(document, dict) and document.get("schema") != SCHEMA:
            raise DecoupleError(
                f"{where}: schema: expected {SCHEMA}, found {document.get('schema')!r}",
                next_step="a newer decouple wrote this wheel; update the checkout",
            )
        try:
            return convert(document, cls)
        except ValidationError as error:
            raise DecoupleError(f"{where}: the build manifest: {error}", next_step=_MEND) from None
