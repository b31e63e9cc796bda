"""Checking an index as its users will see it: every page, link, hash, metadata file and manifest."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name
from pypi_simple import DistributionPackage, ProjectPage

from decouple.base.errors import DecoupleError
from decouple.base.files import sha256_of
from decouple.base.progress import SILENT, Progress
from decouple.index import wheel
from decouple.index.remote import Index, local_path
from decouple.index.site import METADATA
from decouple.release.wheel_manifest import SUFFIX

WHEEL_BOUND = 8 << 30  # bytes


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that is wrong: the page, file or address, and what was found."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check(index: Index, progress: Progress = SILENT) -> list[Fault]:
    """Every fault of the index, in page order; an empty list means that it holds. Raises DecoupleError when the
    front page cannot be read."""
    faults: list[Fault] = []
    projects = index.projects()
    if not projects:
        faults.append(Fault(index.address, "the front page names no project"))
    progress.start("checking projects", len(projects))
    for project in projects:
        if project != canonicalize_name(project):
            faults.append(Fault(index.address, f"project {project!r} is not a normalised name (PEP 503)"))
        try:
            page, html = index.project_json(project), index.project_html(project)
        except DecoupleError as error:
            faults.append(Fault(project, error.what))
            continue
        faults += _pages_agree(project, page, html)
        for package in page.packages:
            if package.has_metadata:
                faults += _file_faults(index, package)
            elif not package.digests.get("sha256"):  # a dependency, linked where it is
                faults.append(Fault(package.filename, "no sha256 in its link"))
        progress.advance()
    progress.finish()
    return faults


def _pages_agree(project: str, page: ProjectPage, html: ProjectPage) -> Iterator[Fault]:
    """The JSON page and the HTML page of one project must say the same."""

    def facts(package: DistributionPackage) -> tuple[object, ...]:
        return package.url, package.digests.get("sha256"), package.requires_python, package.is_yanked

    left = {package.filename: facts(package) for package in page.packages}
    right = {package.filename: facts(package) for package in html.packages}
    for name in sorted(left.keys() ^ right.keys()):
        yield Fault(project, f"{name} stands only in index.{'json' if name in left else 'html'}")
    for name in sorted(left.keys() & right.keys()):
        if left[name] != right[name]:
            yield Fault(project, f"index.json and index.html disagree about {name}: {left[name]} and {right[name]}")


def _file_faults(index: Index, package: DistributionPackage) -> Iterator[Fault]:
    name = package.filename
    expected = package.digests.get("sha256")
    if not expected:
        yield Fault(name, "no sha256 in its link")
        return
    try:
        with _local_copy(index, package) as (path, found):
            if found != expected:
                yield Fault(name, f"sha256 is {found}, the link says {expected}")
                return
            if package.size is not None and path.stat().st_size != package.size:
                yield Fault(name, f"{path.stat().st_size} bytes, the page says {package.size}")
            read = wheel.read(path)
        if (read.requires_python or None) != (package.requires_python or None):
            yield Fault(
                name, f"METADATA requires Python {read.requires_python}, the page says {package.requires_python}"
            )
        metadata = index.read(package.url + METADATA)
        if metadata != read.metadata:
            yield Fault(name + METADATA, "differs from METADATA in the wheel")
        promised = (package.metadata_digests or {}).get("sha256")
        if promised != hashlib.sha256(metadata).hexdigest():
            yield Fault(name + METADATA, f"its sha256 is not the one in the link ({promised})")
        if index.read(package.url + SUFFIX) != read.manifest_bytes:
            yield Fault(name + SUFFIX, "differs from the manifest in the wheel")
    except DecoupleError as error:
        yield Fault(name, error.what)
    except (OSError, zipfile.BadZipFile) as error:
        yield Fault(name, str(error))


@contextlib.contextmanager
def _local_copy(index: Index, package: DistributionPackage) -> Iterator[tuple[Path, str]]:
    """The file itself where the index is a folder, a temporary download otherwise, and its SHA-256.

    A wheel may be larger than the memory, so a download goes straight to the disk, and ends where it exceeds the size
    that the page gives. Raises DecoupleError.
    """
    local = local_path(package.url)
    if local is not None:
        if not local.is_file():
            raise DecoupleError(f"{local}: the link leads nowhere", next_step="decouple index build puts it there")
        yield local, sha256_of(local)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / package.filename
        yield path, index.save(package.url, path, WHEEL_BOUND if package.size is None else package.size)
