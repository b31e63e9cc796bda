"""Check an index as users see it: pages, links, hashes, metadata and manifests."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256
from decouple.base.progress import SILENT, Progress
from decouple.index import catalog, release_list, wheel
from decouple.index.archive import WHEEL_BOUND
from decouple.index.catalog import CatalogEntry, select_common
from decouple.index.offer import LabelList, Offer, Page, Refusal, parse_local_path, parse_project_name
from decouple.index.remote import STATEMENT_BOUND, Index, NotThereError, RefusedError
from decouple.index.site import (
    METADATA,
    OURS,
    STATEMENT,
    is_statement_of,
    list_stale_pages,
    make_pages,
    share_machine,
)
from decouple.release import variants
from decouple.release.projects import CORE, find_unmodified_core
from decouple.release.wheel_manifest import SUFFIX, WheelManifest
from decouple.release.wheel_name import WheelName


class SiteFault(Struct, frozen=True):
    """One thing that is wrong: the page, file or address, and what was found."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check_index(index: Index, progress: Progress = SILENT, root: Path | None = None) -> list[SiteFault]:
    """Return every fault of the index, in page order.

    An empty list means that it holds. With ``root``, a trusted root file, its signed lists are asked as a client does
    that knows nothing yet. Raises DecoupleError when the front page cannot be read.
    """
    faults: list[SiteFault] = []
    projects = index.list_projects()
    if not projects:
        faults.append(SiteFault(index.address, "the front page names no project"))
    pages: list[Page] = []
    for project in projects:
        if parse_project_name(project) is None:
            faults.append(SiteFault(index.address, f"project {project[:100]!r} is not a normalised name (PEP 503)"))
            continue
        try:
            page, html = index.read_project_json(project), index.read_project_html(project)
        except DecoupleError as error:
            faults.append(SiteFault(project, error.what))
            continue
        pages.append(page)
        faults += _compare_pages(project, page, html)
    offered = {page.project: (*page.offers, *page.variants) for page in pages}
    progress.start("checking projects", len(pages))
    for page in pages:
        faults += _find_label_faults(index, page)
        for package in (*page.offers, *page.variants):
            if _is_own(package):
                faults += _find_file_faults(index, package, offered)
            elif package.sha256 is None:  # a dependency, linked where it is
                faults.append(SiteFault(package.filename, "no sha256 in its link"))
        progress.advance()
    progress.finish()
    if root is not None:
        faults += _find_list_faults(index, root, pages)
    return faults


def check_site(index: Index, progress: Progress = SILENT, root: Path | None = None) -> list[SiteFault]:
    """Return every fault of an index and, of a folder's, of its whole site.

    That has an index for each CUDA beside it, and the catalog that the pages are made of. Of a server the index alone
    is read. ``root`` and what is raised: as `check_index`.
    """
    faults = check_index(index, progress, root)
    site = index.site
    if site is not None and (site / "files").is_dir():
        for simple in (site / "simple", *sorted(site.glob("*/simple"))):
            beside = Index(str(simple))
            if beside.address != index.address:
                try:
                    faults += check_index(beside, progress)
                except DecoupleError as error:
                    faults.append(SiteFault(str(simple), error.what))
        faults += _find_page_faults(site)
    return list(dict.fromkeys(faults))  # a file of several indexes has its faults once


def _find_page_faults(site: Path) -> Iterator[SiteFault]:
    """Find the pages that the catalog does not give, and statements that are lost."""
    if not (site / catalog.FOLDER).is_dir():  # a copy of the pages and the files alone
        return
    try:
        pages, releases = make_pages(site), catalog.read_releases(site)
    except DecoupleError as error:
        yield SiteFault(str(site), error.what)
        return
    for name, text in pages.items():
        path = site / name
        if not path.is_file():
            yield SiteFault(name, "missing; `decouple index build` makes it")
        elif path.read_bytes() != text.encode():
            yield SiteFault(name, "not as it is made of releases/*.json; `decouple index build` makes it anew")
    for name in list_stale_pages(site, pages):
        yield SiteFault(name, "of no file that releases/*.json has; `decouple index build` deletes it")
    for release, entries in releases.items():
        for entry in entries:
            name = f"files/{release}/{entry.filename}{STATEMENT}"
            if entry.signed and not (site / name).is_file():
                yield SiteFault(name, "missing, and the front page says that the wheel is signed")


def _is_own(package: Offer) -> bool:
    """Return whether the file must lie in the index; a dependency is linked."""
    return package.metadata is not None or package.project in OURS


def _find_list_faults(index: Index, root: Path, pages: list[Page]) -> Iterator[SiteFault]:
    """Find what a client that knows ``root`` would stop at.

    Each release's list, and each page against it.
    """
    ours = {page.project: [offer for offer in page.offers if _is_own(offer)] for page in pages}
    if not any(ours.values()):
        yield SiteFault(index.address, "no wheel of this project in it, of which a list could be signed")
    releases = sorted({f"{item.version.major}.{item.version.minor}" for offers in ours.values() for item in offers})
    for release in releases:
        try:
            with tempfile.TemporaryDirectory() as nothing_known:
                listed = release_list.read_current_list(index, root, release, Path(nothing_known))
            there = [page for page in pages if ours[page.project]]
            hidden = {entry.project for entry in select_common(listed.values()) if entry.yanked is None} - {
                page.project for page in there
            }
            yield from (
                SiteFault(project, f"on the signed list of {release}, and the index has no page of it")
                for project in sorted(hidden)
            )
            refused = [item for page in there for item in _narrow_page(page, listed, release)]
        except DecoupleError as error:
            yield SiteFault(f"signed list of {release}", error.what)
            continue
        yield from (SiteFault(item.filename, f"{item.why} of {release}") for item in refused)


def _narrow_page(page: Page, listed: Mapping[str, CatalogEntry], release: str) -> tuple[Refusal, ...]:
    return release_list.narrow_page(page, listed, release).refused[len(page.refused) :]


def _compare_pages(project: str, page: Page, html: Page) -> Iterator[SiteFault]:
    """Compare the JSON page and the HTML page of one project: they must say the same."""

    def list_facts(package: Offer | LabelList) -> tuple[object, ...]:
        of_wheel = (package.requires_python, package.yanked) if isinstance(package, Offer) else ()
        return package.url, package.sha256, *of_wheel

    def list_rows(page: Page) -> tuple[Offer | LabelList, ...]:
        return (*page.offers, *page.variants, *page.labels)

    for refusal in page.refused:
        yield SiteFault(project, f"{refusal.filename}: {refusal.why}")
    left = {package.filename: list_facts(package) for package in list_rows(page)}
    right = {package.filename: list_facts(package) for package in list_rows(html)}
    for name, count in collections.Counter(package.filename for package in list_rows(page)).items():
        if count > 1:
            yield SiteFault(project, f"{name} stands {count} times in index.json")
    for name in sorted(left.keys() ^ right.keys()):
        yield SiteFault(project, f"{name} stands only in index.{'json' if name in left else 'html'}")
    for name in sorted(left.keys() & right.keys()):
        if left[name] != right[name]:
            yield SiteFault(project, f"index.json and index.html disagree about {name}: {left[name]} and {right[name]}")


def _find_label_faults(index: Index, page: Page) -> Iterator[SiteFault]:
    """Check the file that says what the labels of variant wheels stand for.

    Each version that has such wheels must have one (PEP 825, "Index-level metadata"), and it must say what the wheels'
    manifests do.
    """
    wanted: dict[str, dict[str, variants.Properties]] = {}
    for offer in page.variants:
        name = variants.make_list_name(WheelName.parse(offer.filename).distribution, str(offer.version))
        try:
            manifest = WheelManifest.from_json(
                index.read_address(offer.make_sibling_address(SUFFIX), STATEMENT_BOUND), offer.filename
            )
        except DecoupleError as error:
            yield SiteFault(offer.filename, error.what)
            return
        label = str(offer.variant)
        wanted.setdefault(name, {})[label] = variants.make_properties(label, manifest.cuda, manifest.arch_list)
    listed = {labels.filename: labels for labels in page.labels}
    for name in sorted(wanted.keys() ^ listed.keys()):
        yield SiteFault(name, "without a variant wheel" if name in listed else "missing, and there are variant wheels")
    for name in sorted(wanted.keys() & listed.keys()):
        try:
            data = index.read_address(listed[name].url, STATEMENT_BOUND)
        except DecoupleError as error:
            yield SiteFault(name, error.what)
            continue
        if hashlib.sha256(data).hexdigest() != listed[name].sha256:
            yield SiteFault(name, f"its sha256 is not the one in the link ({listed[name].sha256})")
        elif data != variants.encode_document(wanted[name]):
            yield SiteFault(name, f"does not say what the wheels {', '.join(sorted(wanted[name]))} do")


def _find_lost_requirements(read: wheel.Wheel, offered: Mapping[str, Collection[Offer]]) -> Iterator[SiteFault]:
    """Find the wheels of ours that this one needs and the index has no page of.

    ``offered`` are the files of each project. A requirement without a local version, of bindings for an unmodified
    torch, another index may meet.
    """
    name = read.path.name
    for requirement in map(Requirement, read.requires):
        project = canonicalize_name(requirement.name)
        if project not in OURS or "+" not in str(requirement.specifier):
            continue
        if not any(
            requirement.specifier.contains(one.version, prereleases=True) and share_machine(name, one.filename)
            for one in offered.get(project, ())
        ):
            lost = (
                f"needs {requirement}, which no page of the index has for its Python and platform; "
                "`decouple index build FOLDER` publishes it, too"
            )
            yield SiteFault(name, lost)


def _find_wrong_cores(
    read: wheel.Wheel, package: Offer, offered: Mapping[str, Collection[Offer]]
) -> Iterator[SiteFault]:
    """Find the core that pip takes for bindings for an unmodified torch.

    Each of ours is patched.
    """
    need = find_unmodified_core(read.name, map(Requirement, read.requires))
    if need is None or package.yanked is not None:
        return
    for core in offered.get(CORE, ()):  # a yanked one, too: pip takes it where no other index has one (PEP 592)
        if need.specifier.contains(core.version) and share_machine(read.path.name, core.filename):
            wrong = (
                f"for an unmodified torch ({need}), and pip takes {core.filename} of this index, which is patched; "
                f"`decouple index yank {read.path.name} --site SITE`, and publish it in a site of its own"
            )
            yield SiteFault(read.path.name, wrong)
            return


def _find_file_faults(index: Index, package: Offer, offered: Mapping[str, Collection[Offer]]) -> Iterator[SiteFault]:
    name = package.filename
    expected = package.sha256
    if expected is None:
        yield SiteFault(name, "no sha256 in its link")
        return
    try:
        with _open_local_copy(index, package) as (path, copy):
            if copy != expected:
                yield SiteFault(name, f"sha256 is {copy}, the link says {expected}")
                return
            if package.size is not None and path.stat().st_size != package.size:
                yield SiteFault(name, f"{path.stat().st_size} bytes, the page says {package.size}")
            read = wheel.read_wheel(path)
        yield from _find_lost_requirements(read, offered)
        yield from _find_wrong_cores(read, package, offered)
        if (read.requires_python or None) != (package.requires_python or None):
            yield SiteFault(
                name, f"METADATA requires Python {read.requires_python}, the page says {package.requires_python}"
            )
        metadata = index.read_address(package.make_sibling_address(METADATA), STATEMENT_BOUND)
        if metadata != read.metadata:
            yield SiteFault(name + METADATA, "differs from METADATA in the wheel")
        promised = package.metadata
        if promised is None:
            yield SiteFault(name, f"its link does not say that {METADATA} lies beside it (PEP 658)")
        elif promised != hashlib.sha256(metadata).hexdigest():
            yield SiteFault(name + METADATA, f"its sha256 is not the one in the link ({promised})")
        if index.read_address(package.make_sibling_address(SUFFIX), STATEMENT_BOUND) != read.manifest_bytes:
            yield SiteFault(name + SUFFIX, "differs from the manifest in the wheel")
        try:
            signed = index.read_json(package.make_sibling_address(STATEMENT), STATEMENT_BOUND)
        except RefusedError:
            raise
        except NotThereError:  # not signed
            return
        if not is_statement_of(signed, read.sha256):
            yield SiteFault(name + STATEMENT, "a statement of another file, or none")
    except DecoupleError as error:
        yield SiteFault(name, error.what)
    except OSError as error:
        yield SiteFault(name, str(error))


@contextlib.contextmanager
def _open_local_copy(index: Index, package: Offer) -> Iterator[tuple[Path, str]]:
    """Open the file of an index, and give its SHA-256.

    It is the file itself where the index is a folder, a temporary download otherwise. A wheel may be larger than the
    memory, so a download goes straight to the disk, and ends where it exceeds the size that the page gives. Raises
    DecoupleError.
    """
    local = parse_local_path(package.url)
    if local is not None:
        if not local.is_file():
            raise DecoupleError(
                f"{local}: the link leads nowhere",
                next_step=f"`decouple index build FOLDER --site SITE` puts it there from a FOLDER with {local.name}",
            )
        yield local, compute_sha256(local)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / package.filename
        yield path, index.save_file(package.url, path, WHEEL_BOUND if package.size is None else package.size)
