"""Read ``series/<release>.toml``: common keys, and each provider's for a source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from packaging.version import InvalidVersion, Version

from decouple.base import toml
from decouple.base.checkout import Checkout, format_fill, is_name, make_version_key
from decouple.base.errors import DecoupleError, UsageError
from decouple.release.manifest import NOT_KNOWN, Manifest, ManifestSource, Toolchain, derive_release, is_released
from decouple.upstream.providers.table import PROVIDERS

_TAG = re.compile(r"v\d+\.\d+\.\d+(-rc\d+)?")


def load_manifest(path: Path) -> Manifest:
    """Read one manifest.

    Raises DecoupleError that names file, key and what was expected there.
    """
    try:
        return parse_manifest(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        have = ", ".join(sorted((other.stem for other in path.parent.glob("*.toml")), key=make_version_key)) or "none"
        raise UsageError(
            f"no manifest {path}: releases with one: {have}",
            next_step=f"make it with: {format_fill(path.stem)}",
        ) from None
    except UnicodeDecodeError as error:
        raise DecoupleError(f"{path}: not TOML: {error}", next_step=_make_refill_step(path)) from None


def load_release(project: Path, release: str) -> Manifest:
    """Read the manifest of ``release`` ("2.6", also "2.6.0") from a checkout.

    Raises DecoupleError. Of a tree that a series is being carried to, the one that was read off it.
    """
    have = Checkout(project)
    exact = is_name(release) and have.locate_manifest(release).is_file()
    name = release if exact else derive_release(release)
    being_carried = not have.locate_manifest(name).is_file() and have.locate_draft_manifest(name).is_file()
    return load_manifest(have.locate_draft_manifest(name) if being_carried else have.locate_manifest(name))


class _ManifestFile(Struct, frozen=True):
    """The keys of the file; a source's are those of its provider."""

    release: str
    version: str
    tag: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._+/-]*\Z")]
    commit: Annotated[str, Meta(pattern=r"\A[0-9a-f]{40}\Z")] | None
    toolchain: Toolchain
    source: tuple[Mapping[str, Any], ...] = ()


def parse_manifest(text: str, path: Path) -> Manifest:
    """Parse a manifest from text not on disk yet; ``path`` is only for messages."""
    mend = _make_refill_step(path)
    data = toml.parse_tables(text, path, mend=mend)
    file = toml.convert_tables(_replace_unknown(data), _ManifestFile, path, mend=mend)
    if file.release != path.stem:
        raise DecoupleError(
            f'{path}: release: expected the file\'s own name, "{path.stem}", got {file.release!r}', next_step=mend
        )
    _check_names(file, path, mend)
    sources: list[ManifestSource] = []
    for number, table in enumerate(file.source):
        at, provider = f"$.source[{number}]", str(table.get("provider"))
        if provider not in PROVIDERS:
            raise DecoupleError(
                f"{path}: {at}.provider: expected one of {', '.join(PROVIDERS)}, got {provider!r}", next_step=mend
            )
        if any(provider == other.provider for other in sources):
            raise DecoupleError(f"{path}: source: provider {provider!r} is listed twice", next_step=mend)
        keys = {key: value for key, value in table.items() if key != "provider"}
        sources.append(toml.convert_tables(keys, PROVIDERS[provider].keys, path, mend=mend, at=at))
    return Manifest(file.release, file.version, file.tag, file.commit, tuple(sources), file.toolchain)


def _check_names(file: _ManifestFile, path: Path, mend: str) -> None:
    """Check version, tag, commit and sources.

    A release must have more of them than another tree.
    """
    if not is_released(file.release):
        wanted, good = "a PEP 440 version", _is_version(file.version)
    elif file.tag in (file.release, file.commit):  # read off a tree, before the release was out
        wanted = f"a PEP 440 version of release {file.release}"
        good = _is_version(file.version) and derive_release(Version(file.version).base_version) == file.release
    else:
        wanted = f"a PEP 440 version of release {file.release}"
        good = bool(re.fullmatch(re.escape(file.release) + r"\.\d+(rc\d+)?", file.version))
        if not _TAG.fullmatch(file.tag):
            raise DecoupleError(f"{path}: $.tag: expected such as v2.6.0, got {file.tag!r}", next_step=mend)
        if not (file.commit and file.source):
            lacks = "source" if file.commit else "commit"
            raise DecoupleError(f"{path}: {lacks}: a release has one", next_step=mend)
    if not good:
        raise DecoupleError(f"{path}: version: expected {wanted}, got {file.version!r}", next_step=mend)


def _is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except InvalidVersion:
        return False


def _replace_unknown(value: Any) -> Any:
    """Put None for each fact that is not known."""
    if isinstance(value, dict):
        return {key: _replace_unknown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_unknown(item) for item in value]
    return None if value == NOT_KNOWN else value


def _make_refill_step(path: Path) -> str:
    return f"restore it from git, or write it anew with: {format_fill(path.stem)}"
