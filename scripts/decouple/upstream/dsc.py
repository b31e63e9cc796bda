"""Parse Debian's control files: ``.dsc`` and ``Sources`` index (deb822 syntax)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import is_count


class DscFile(Struct, frozen=True):
    """Hold a file: ``size`` in bytes; ``sha1`` only finds it at snapshot.debian.org."""

    name: str
    size: int
    sha256: str
    sha1: str | None


def parse_paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield the paragraphs of deb822 text.

    Field names in lower case, continuation lines joined with newlines.
    """
    fields: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, ""
        elif line[0] in " \t":
            if name:
                fields[name] += "\n" + line.strip()
        elif not line.startswith("#"):
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    if fields:
        yield fields


def remove_signature(text: str) -> str:
    """Return the text inside an inline OpenPGP signature.

    The text itself when there is none. The signature is not checked.
    """
    match = re.search(
        r"^-----BEGIN PGP SIGNED MESSAGE-----\n(?:[^\n]+\n)*\n(.*?)^-----BEGIN PGP SIGNATURE-----", text, re.S | re.M
    )
    return re.sub(r"^- ", "", match[1], flags=re.M) if match else text


def parse_source_files(fields: Mapping[str, str], where: str) -> dict[str, DscFile]:
    """Parse the list of files of a .dsc, a paragraph of Sources or a Release file.

    Raises DecoupleError when the list is no list.
    """
    sha1 = {name: digest for digest, _, name in _parse_checksums(fields.get("checksums-sha1", ""), where)}
    listed = _parse_checksums(fields.get("checksums-sha256") or fields.get("sha256", ""), where)
    if not listed:
        raise DecoupleError(f"{where}: no list of SHA-256 sums", next_step="delete it and fetch again")
    return {name: DscFile(name, size, digest, sha1.get(name)) for digest, size, name in listed}


def _parse_checksums(value: str, where: str) -> list[tuple[str, int, str]]:
    result = []
    for line in value.splitlines():
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or not is_count(words[1]) or not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", words[0]):
            raise DecoupleError(f"{where}: not a checksum line: {line[:100]!r}", next_step="delete it and fetch again")
        result.append((words[0], int(words[1]), words[2]))
    return result
