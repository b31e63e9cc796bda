"""Check what an index's page says.

Each row becomes an `Offer` or a `Refusal`, nothing raw goes further. A page is written by whoever runs the server. So a
file name is one name, and that of a wheel of the very project that was asked for, a digest is 64 hex digits, a version
and an address have a sane length, and a page that came over the network links only to http and https. Sources: PEP 427
(file names), PEP 503 and PEP 691 (pages).
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urlsplit, urlunsplit
from urllib.request import url2pathname

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import BuildTag, InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import NAME_BOUND, is_sha256
from decouple.index.archive import WHEEL_BOUND
from decouple.release import variants

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage, ProjectPage

VERSION_BOUND = 100
"""Characters of a version."""
PROJECT_BOUND = 100
"""Characters of a project's name."""
ADDRESS_BOUND = 2000
"""Characters of an address; presigned ones of object stores have several hundred."""
ROWS_BOUND = 100_000
"""Files on one page; PyPI's longest pages have some ten thousand."""

_PROJECT = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl")
_ADDRESS = re.compile(r"[!-~]+")  # ASCII without space and controls

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Offer(Struct, frozen=True):
    """One wheel that an index offers.

    ``sha256`` None: its link has none; ``size`` in bytes, None: not given. ``yanked`` None: it is not; else the reason,
    which may be empty (PEP 592). ``metadata`` None: the index has no METADATA file beside the wheel; else that file's
    SHA-256, empty when the page gives none (PEP 658). ``variant``: the label of a variant wheel
    (`decouple.release.variants`).
    """

    filename: str
    project: str
    version: Version
    tags: frozenset[Tag]
    url: str
    sha256: str | None
    build: BuildTag = ()
    size: int | None = None
    requires_python: str | None = None
    yanked: str | None = None
    metadata: str | None = None
    variant: str | None = None

    def make_sibling_address(self, suffix: str) -> str:
        """Return the address of the file of this name and ``suffix`` in the same folder."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(path=parts.path + suffix))


class Refusal(Struct, frozen=True):
    """One row of a page that goes no further: what it calls itself, and why.

    ``of_wheel`` is set where it seems to mean one, and no source archive or other thing that pages have too.
    """

    filename: str
    why: str
    of_wheel: bool = True


class LabelList(Struct, frozen=True):
    """The file of a page that says what labels of a version's variant wheels mean."""

    filename: str
    url: str
    sha256: str | None


class Page(Struct, frozen=True):
    """A project's page: ``project`` is the normalised name that was asked for.

    ``variants`` are wheels that only who knows variants may take; they are not among the ``offers``.
    """

    project: str
    offers: tuple[Offer, ...]
    refused: tuple[Refusal, ...]
    variants: tuple[Offer, ...] = ()
    labels: tuple[LabelList, ...] = ()


def parse_project_name(text: object) -> str | None:
    """``text`` if it is a normalised project name (PEP 503) of sane length, else None."""
    good = isinstance(text, str) and len(text) <= PROJECT_BOUND and _PROJECT.fullmatch(text)
    return text if good and isinstance(text, str) else None


def parse_page(project: str, page: ProjectPage, site: Path | None) -> Page:
    """Parse and check the page's rows.

    ``site`` is the folder that a local index may link into, None for one on a server.

    Raises DecoupleError when there are more than `ROWS_BOUND`.
    """
    if len(page.packages) > ROWS_BOUND:
        raise DecoupleError(
            f"{project}: its page has {len(page.packages)} files, more than {ROWS_BOUND}",
            next_step="is this the index's simple/ address?",
        )
    offers: list[Offer] = []
    refused: list[Refusal] = []
    labels: list[LabelList] = []
    for package in page.packages:
        try:
            if variants.parse_list_name(package.filename):
                labels.append(_parse_label_list(project, package, site))
            else:
                offers.append(_parse_offer(project, package, site))
        except _RefusedRowError as error:
            of_wheel = any(".whl" in text[:ADDRESS_BOUND] for text in (package.filename, package.url))
            refused.append(Refusal(package.filename[:NAME_BOUND], str(error), of_wheel))
    return Page(
        project,
        tuple(offer for offer in offers if offer.variant is None),
        tuple(refused),
        tuple(offer for offer in offers if offer.variant is not None),
        tuple(labels),
    )


class _RefusedRowError(Exception):
    """Why a row goes no further."""


def parse_wheel_name(filename: str) -> tuple[str, Version, frozenset[Tag]]:
    """Parse a wheel's file name (PEP 427) into normalised name, version and tags.

    It must be a sane one; it may have a variant's label (PEP 825).

    Raises DecoupleError.
    """
    try:
        name, version, _, tags = _parse_file_name(filename)
    except _RefusedRowError as error:
        raise DecoupleError(
            f"{filename[:NAME_BOUND]}: {error}", next_step="a wheel keeps the name that it was built with"
        ) from error
    return name, version, tags


def _parse_file_name(filename: str) -> tuple[str, Version, BuildTag, frozenset[Tag]]:
    if len(filename) > NAME_BOUND or not _FILE.fullmatch(filename):
        raise _RefusedRowError("not a wheel's file name")
    try:
        name, version, build, tags = parse_wheel_filename(variants.split_label(filename)[0])
    except (InvalidWheelFilename, InvalidVersion, ValueError) as error:
        raise _RefusedRowError(f"not a wheel's file name: {error}") from error
    if len(str(version)) > VERSION_BOUND or len(name) > PROJECT_BOUND:
        raise _RefusedRowError(f"a version or name of more than {VERSION_BOUND} characters")
    return name, version, build, tags


def _parse_label_list(project: str, package: DistributionPackage, site: Path | None) -> LabelList:
    url = _parse_address(package.url, site)
    if canonicalize_name(variants.parse_list_name(package.filename) or "") != canonicalize_name(project):
        raise _RefusedRowError(f"labels of another project on the page of {project}")
    return LabelList(package.filename, url, _parse_sha256(package))


def _parse_offer(project: str, package: DistributionPackage, site: Path | None) -> Offer:
    url = _parse_address(package.url, site)
    name, version, build, tags = _parse_file_name(package.filename)
    if name != canonicalize_name(project):
        raise _RefusedRowError(f"a wheel of {name} on the page of {project}")
    sha256 = _parse_sha256(package)
    if package.size is not None and not 0 <= package.size <= WHEEL_BOUND:
        raise _RefusedRowError(f"a size of {package.size} bytes")
    try:
        SpecifierSet(package.requires_python or "")
    except (InvalidSpecifier, ValueError):
        raise _RefusedRowError("requires-python is no version specifier") from None
    metadata: str | None = None
    if package.has_metadata:
        metadata = (package.metadata_digests or {}).get("sha256") or ""
        if metadata:
            metadata = _parse_digest(metadata, "its metadata's sha256")
    return Offer(
        filename=package.filename,
        project=name,
        version=version,
        build=build,
        tags=tags,
        url=url,
        sha256=sha256,
        size=package.size,
        requires_python=package.requires_python or None,
        yanked=(package.yanked_reason or "") if package.is_yanked else None,
        metadata=metadata,
        variant=variants.split_label(package.filename)[1],
    )


def _parse_sha256(package: DistributionPackage) -> str | None:
    """Parse the row's digest.

    It stands in its own field or in the address's fragment (PEP 503), where other fields may stand too.
    """
    fields = [f"{name}={value}" for name, value in package.digests.items()] + [urlsplit(package.url).fragment]
    parts = (part.partition("=") for text in fields for part in text.split("&"))
    digests = {_parse_digest(value, "its sha256") for name, _, value in parts if name == "sha256"}
    if len(digests) > 1:
        raise _RefusedRowError("two sha256 that differ")
    return digests.pop() if digests else None


def _parse_digest(text: str, what: str) -> str:
    lower = text.lower()
    if not is_sha256(lower):
        raise _RefusedRowError(f"{what} is not 64 hex digits")
    return lower


def _parse_address(url: str, site: Path | None) -> str:
    """``url`` without its fragment, which is of the page and not of the file."""
    _check_address(url, site)
    return urldefrag(url).url


def _check_address(url: str, site: Path | None) -> None:
    if len(url) > ADDRESS_BOUND or not _ADDRESS.fullmatch(url) or _CONTROL.search(unquote(url)):
        raise _RefusedRowError(f"an address with odd characters or of more than {ADDRESS_BOUND}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _RefusedRowError(f"no address: {error}") from None
    if parts.scheme in ("http", "https") and host:
        return
    if parts.scheme != "file" or site is None:
        raise _RefusedRowError(f"a link to {parts.scheme or 'nothing'}:, where only http and https may stand")
    path = parse_local_path(url)
    inside = path is not None and Path(os.path.normpath(path)).is_relative_to(site)
    if parts.netloc or not inside:
        raise _RefusedRowError(f"a link out of the site's folder {site}")


def parse_local_path(url: str) -> Path | None:
    """Return the path of a ``file:`` URL, None for any other."""
    return Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
