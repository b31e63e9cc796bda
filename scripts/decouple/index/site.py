"""Build a static package index.

PEP 503 pages and PEP 691 JSON stand side by side, with PEP 658 metadata and relative links.

Layout of a site, which any static host can serve::

    index.html                       for people
    releases/<release>.json          what is published (decouple.index.catalog); the pages are made from it
    dependencies.json                what is linked elsewhere (decouple.index.dependencies); likewise
    files/<release>/<wheel>          with <wheel>.metadata (PEP 658), <wheel>.decouple.json, <wheel>.intoto.json
    simple/index.{html,json}         the projects
    simple/<project>/index.{html,json}
    cu124/simple/…, cpu/simple/…     the same, of one CUDA's files and of those without CUDA
    cu124.sm90/simple/…              of one CUDA for one kind of GPU
    variants/simple/…                that for all, with variant wheels beside the others (PEP 825), and which of them
                                     is for which machine: <project>/<name>-<version>-variants.json

Files are written first and pages last, so that a page never names what is not there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.version import Version

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import compute_sha256, create_file, hold_lock, refuse_file, write_atomically
from decouple.base.progress import SILENT, Progress
from decouple.base.steps import mark_step
from decouple.base.untrusted_input import parse_json, read_bounded
from decouple.index import catalog, dependencies, landing
from decouple.index.archive import TEXT_BOUND
from decouple.index.catalog import CatalogEntry
from decouple.index.dependencies import LinkedFile
from decouple.index.offer import parse_wheel_name
from decouple.index.wheel import Wheel, read_wheel
from decouple.release import variants
from decouple.release.installed_wheels import EDITED, name_series
from decouple.release.projects import (
    BACKENDS,
    CORE,
    LIBRARIES,
    find_unmodified_core,
    name_libraries,
    parse_metadata,
    parse_requirements,
)
from decouple.release.wheel_manifest import SUFFIX
from decouple.release.wheel_name import WheelName

API_VERSION = "1.1"  # PEP 700
METADATA = ".metadata"  # PEP 658
STATEMENT = ".intoto.json"
_LABEL = re.compile(r"cpu|variants|(cu|rocm)[0-9]+(\.[a-z0-9]+)?")
"""The folders beside ``simple`` that `make_pages` makes."""
_ANY_ABI = {"none", "abi3"}
_LINUX = re.compile(r"(many|musl)?linux(\d+|(_\d+){2})?_")
"""How the platforms of Linux begin, whatever C library they ask for (PEP 600, PEP 656)."""
OURS = (CORE, *BACKENDS, *map(name_libraries, BACKENDS))


class PublishResult(Struct, frozen=True):
    """What one call published: new files, present files, and every changed page.

    ``edited`` are those of the files whose tree had edits that are in no patch.
    """

    added: tuple[str, ...]
    kept: tuple[str, ...]
    pages: tuple[str, ...]
    edited: tuple[str, ...] = ()


def build_site(
    wheels: Path,
    site: Path,
    progress: Progress = SILENT,
    resolve: Callable[[Sequence[str], str | None], Sequence[LinkedFile]] | None = None,
) -> PublishResult:
    """Publish every wheel of the folder ``wheels`` into ``site``.

    Releases that have none there stay as they are.

    With ``resolve`` (``dependencies.resolve``) the site also gets pages for what the wheels need from elsewhere, each
    for its Python.
    Raises UsageError when there is no wheel, DecoupleError when a wheel cannot be trusted or when a file of that name
    was published with other bytes: a published name never changes its bytes; it is yanked and a new version is built.
    """
    if wheels.is_file():
        raise UsageError(f"{wheels}: a file", next_step=f"name the folder of the wheels: {wheels.absolute().parent}")
    paths = sorted(wheels.glob("*.whl"))
    if not paths:
        raise UsageError(f"{wheels}: no wheel in it", next_step="build one first: nox -s build-RELEASE")
    refuse_file(site, "name the site's folder: --site FOLDER")
    progress.start("reading wheels", len(paths))
    published: list[Wheel] = []
    for path in paths:
        published.append(read_wheel(path))
        refuse_loose_pin(published[-1])
        progress.advance()
    progress.finish()
    site.mkdir(parents=True, exist_ok=True)
    with hold_lock(site):  # of two at once one would lose what the other published
        return _publish_wheels(published, site, resolve)


def _publish_wheels(
    found: Sequence[Wheel], site: Path, resolve: Callable[[Sequence[str], str | None], Sequence[LinkedFile]] | None
) -> PublishResult:
    """Publish wheels that were read; the site is locked."""
    published = catalog.read_releases(site)
    known = {entry.filename: entry for entries in published.values() for entry in entries}
    _refuse_changed_files(found, known, site)
    _refuse_mixed_cores(found, published, site)
    for wheel in found:
        _refuse_other_statement(wheel)
    linked = None if resolve is None else _resolve_links(found, published, site, resolve)  # before anything is written
    added: list[str] = []
    kept: list[str] = []
    fresh: dict[str, dict[str, CatalogEntry]] = {}
    for wheel in found:
        entry = _publish_wheel(wheel, site)
        before = known.get(entry.filename)
        (kept if before else added).append(entry.filename)
        if before:
            entry = replace(entry, yanked=before.yanked)
        fresh.setdefault(wheel.release, {})[entry.filename] = entry
    for release, entries in fresh.items():
        merged = {entry.filename: entry for entry in published.get(release, ())} | entries
        catalog.write_entries(site, release, merged.values())
    if linked is not None:
        dependencies.write_links(site, linked)
    edited = (one.path.name for one in found if name_series("", one.manifest.tree) == EDITED)
    return PublishResult(tuple(added), tuple(kept), write_pages(site), tuple(edited))


def _refuse_changed_files(found: Sequence[Wheel], known: Mapping[str, CatalogEntry], site: Path) -> None:
    """Raise DecoupleError where a published name has other bytes by now."""
    changed = [(known[wheel.path.name], wheel) for wheel in found if wheel.path.name in known]
    changed = [(before, wheel) for before, wheel in changed if before.sha256 != wheel.sha256]
    if not changed:
        return
    steps = [
        f"`{shlex.join(['decouple', 'index', 'yank', wheel.path.name, '--site', str(site)])}`"
        for before, wheel in changed
        if before.yanked is None
    ]
    steps.append(f"take these files out of {changed[0][1].path.parent}")
    for release in sorted({wheel.manifest.release for _, wheel in changed}):
        steps.append(f"`decouple build {release} --revision N` makes the next version")
    facts = (f"{wheel.path.name} (sha256 {before.sha256[:12]}…, now {wheel.sha256[:12]}…)" for before, wheel in changed)
    raise DecoupleError(f"{', '.join(facts)}: published before with other bytes", next_step="; ".join(steps))


def _refuse_mixed_cores(found: Sequence[Wheel], published: Mapping[str, Sequence[CatalogEntry]], site: Path) -> None:
    """Raise DecoupleError where pip would take a core that bindings do not go on.

    Bindings for an unmodified torch, as over the official kernels, ask for any torch of the release, and of those in
    the site pip takes the one with our patches; also one that was yanked, where no other index has one (PEP 592).
    """
    known = {entry.filename: (release, entry) for release, entries in published.items() for entry in entries}
    asked, cores = dict[str, Requirement](), dict[str, Version]()
    for wheel in found:
        if wheel.name == CORE:
            cores[wheel.path.name] = wheel.version
        elif wheel.path.name in known and known[wheel.path.name][1].yanked is not None:
            continue
        elif need := find_unmodified_core(wheel.name, map(Requirement, wheel.requires)):
            asked[wheel.path.name] = need
    new = {*asked, *cores}
    for name, (release, entry) in known.items():
        if name in new:
            continue
        if entry.project == CORE:
            cores[name] = Version(entry.version)
        elif entry.yanked is None and (
            need := _read_unmodified_core(site / "files" / release / f"{name}{METADATA}", entry.project)
        ):
            asked[name] = need
    for name, need in sorted(asked.items()):
        for core, version in sorted(cores.items()):
            if not {name, core}.isdisjoint(new) and need.specifier.contains(version) and share_machine(name, core):
                apart = f"take it out of {found[0].path.parent}"
                if name in known:
                    apart = f"`{shlex.join(['decouple', 'index', 'yank', name, '--site', str(site)])}`"
                raise DecoupleError(
                    f"{name}: for an unmodified torch ({need}), and pip would take {core} of this site, a patched one",
                    next_step=f"{apart}, and publish it in a site of its own",
                )


def _read_unmodified_core(metadata: Path, project: str) -> Requirement | None:
    """Read the same of a published file.

    None where its METADATA is lost or damaged, which `index check` names and publishing the wheel again mends.
    """
    if project not in BACKENDS or not metadata.is_file():
        return None
    try:
        return find_unmodified_core(project, parse_requirements(parse_metadata(read_bounded(metadata, TEXT_BOUND))))
    except ValueError:
        return None


def share_machine(one: str, other: str) -> bool:
    """Return whether some machine takes both wheels of these names.

    That is one with a Python, its C API and a platform that both are for.

    >>> share_machine("a-1-cp314-cp314-linux_x86_64.whl", "b-1-cp314-cp314t-manylinux_2_28_x86_64.whl")
    False
    """
    mine, others = (parse_wheel_name(name)[2] for name in (one, other))
    return any(
        _share_python(tag, its) and _share_platform(tag.platform, its.platform) for tag in mine for its in others
    )


def _share_python(one: Tag, other: Tag) -> bool:
    return not _ANY_ABI.isdisjoint((one.abi, other.abi)) or (one.interpreter, one.abi) == (other.interpreter, other.abi)


def _share_platform(one: str, other: str) -> bool:
    return "any" in (one, other) or _LINUX.sub("linux_", one) == _LINUX.sub("linux_", other)


def _resolve_links(
    found: Sequence[Wheel],
    published: Mapping[str, Sequence[CatalogEntry]],
    site: Path,
    resolve: Callable[[Sequence[str], str | None], Sequence[LinkedFile]],
) -> list[LinkedFile]:
    """Return what the site links to elsewhere, with what the wheels need.

    Of one file there is one link, the newest: it may have been found on a mirror before.
    """
    own = {wheel.name for wheel in found} | {entry.project for entries in published.values() for entry in entries}
    linked = [*dependencies.read_links(site)]
    by_python: dict[str | None, list[Wheel]] = {}
    for wheel in found:
        by_python.setdefault(dependencies.find_python(wheel.tags), []).append(wheel)
    for python, wheels_of in by_python.items():
        needed = dependencies.collect_requirements((wheel.requires for wheel in wheels_of), own, python)
        linked += resolve(needed, python)
    return list({(file.project, file.filename): file for file in linked}.values())


def refuse_loose_pin(wheel: Wheel) -> None:
    """Raise DecoupleError when a wheel for a patched core has a loose pin on torch.

    It would be content with another torch of the same release. ``torch==2.6.0`` takes any local version (PEP 440), so
    also PyTorch's own CUDA build, if that is installed already.
    """
    if wheel.manifest.flags.get("core") != "built" or wheel.name == LIBRARIES:  # whose bindings pin the core
        return
    requirements = [Requirement(text) for text in wheel.requires]
    pins = [str(requirement.specifier) for requirement in requirements if requirement.name == CORE]
    if len(pins) != 1 or not (pins[0].startswith("==") and "+" in pins[0]):
        asked = f"torch{pins[0] if pins else ''}"
        raise DecoupleError(
            f"{wheel.path.name}: asks for {asked}, not for the one core that it was built against",
            next_step=f"build it again: decouple build {wheel.manifest.release} --stage 2",
        )


def is_statement_of(signed: bytes, sha256: str) -> bool:
    """Return whether a signed statement is of that one file. No signature is checked."""
    try:
        payload = parse_json(base64.b64decode(parse_json(signed)["payload"]))
        return [subject["digest"]["sha256"] for subject in payload["subject"]] == [sha256]
    except (ValueError, KeyError, TypeError):
        return False


def _refuse_other_statement(wheel: Wheel) -> None:
    """Raise DecoupleError where the signed statement beside the wheel is not of it.

    It may be of the file that a build replaced. The signature is not checked: whoever publishes need not have a key.
    """
    path = wheel.path.with_name(wheel.path.name + STATEMENT)
    if path.exists() and not is_statement_of(read_bounded(path, TEXT_BOUND), wheel.sha256):
        raise DecoupleError(
            f"{path}: a statement of another file, or none",
            next_step=f"delete it, or sign again: decouple index sign {shlex.quote(str(wheel.path))} --key KEY",
        )


def yank_file(site: Path, filename: str, reason: str) -> tuple[str, ...]:
    """Mark a published file as yanked (PEP 592): pip takes it only when pinned.

    Returns the pages that changed.
    """
    if not site.is_dir():
        raise UsageError(f"{site}: no such folder", next_step="name the site's folder: --site FOLDER")
    with hold_lock(site):
        for release, entries in catalog.read_releases(site).items():
            if any(entry.filename == filename for entry in entries):
                changed = [replace(entry, yanked=reason) if entry.filename == filename else entry for entry in entries]
                catalog.write_entries(site, release, changed)
                return write_pages(site)
    raise UsageError(f"{filename}: not published in {site}", next_step=f"see {site / 'simple'}")


def write_pages(site: Path) -> tuple[str, ...]:
    """Write every page anew that is another, and delete those of what is gone.

    Returns their paths below the site.
    """
    changed = []
    pages = make_pages(site)
    for name, text in pages.items():
        path = site / name
        if not path.exists() or path.read_bytes() != text.encode():
            write_atomically(path, text)
            changed.append(name)
    for name in list_stale_pages(site, pages):
        (site / name).unlink()
        changed.append(name)
        for folder in PurePosixPath(name).parents[:-1]:
            if not any((site / folder).iterdir()):
                (site / folder).rmdir()
    return tuple(changed)


def list_stale_pages(site: Path, pages: Collection[str]) -> list[str]:
    """List the pages of indexes in ``site`` that are none of ``pages``.

    They are of a project, or of a whole index, that has no file any more. Folders that are not called as ours may be
    another site.
    """
    beside = (folder for folder in site.glob("*/simple") if _LABEL.fullmatch(folder.parent.name))
    there = (
        path.relative_to(site).as_posix()
        for simple in (site / "simple", *beside)
        if (simple / "index.json").is_file()
        for name in ("index.html", "index.json", "*/index.html", "*/index.json", "*/*-variants.json")
        for path in simple.glob(name)
    )
    # an index's own pages last: without its front page a later call finds none of it
    return sorted(set(there).difference(pages), key=lambda name: (-name.count("/"), name))


def make_pages(site: Path) -> dict[str, str]:
    """Make every page from the catalog: path below the site -> text."""
    releases = catalog.read_releases(site)
    rows = [(release, entry) for release, entries in releases.items() for entry in entries]
    linked = dependencies.read_links(site)
    for_all = [(release, entry) for release, entries in releases.items() for entry in catalog.select_common(entries)]
    labelled = [(release, entry) for release, entries in releases.items() for entry in catalog.select_labelled(entries)]
    pages = _make_index("simple", for_all, linked)
    if labelled:
        pages |= _make_index("variants/simple", [*for_all, *labelled], linked)
    rows = [row for row in rows if row[1].variant is None]
    for label in sorted({label for _, entry in rows if (label := catalog.read_toolkit_label(entry))}):
        pages |= _make_index(f"{label}/simple", _select_toolkit(rows, label), linked)
    if bare := [row for row in rows if catalog.read_toolkit_label(row[1]) is None]:
        pages |= _make_index("cpu/simple", bare, linked)
    pages["index.html"] = landing.render_page(releases)
    return pages


def _select_toolkit(rows: Sequence[tuple[str, CatalogEntry]], label: str) -> list[tuple[str, CatalogEntry]]:
    """Select what the index of one CUDA, or of another vendor's toolkit, holds.

    Of a release whose core brings its CUDA along: that one, its bindings and their libraries; of another the bare core,
    and what goes with it. Never both: pip would take the bare core, whose local version sorts behind.
    """
    own = [row for row in rows if catalog.read_toolkit_label(row[1]) == label]
    paired = {release for release, entry in own if entry.project == CORE}
    return [
        *(row for row in own if row[0] not in paired or row[1].project == LIBRARIES or catalog.is_paired(row[1])),
        *(
            row
            for row in rows
            if catalog.read_toolkit_label(row[1]) is None and row[0] in {name for name, _ in own} - paired
        ),
    ]


def _make_index(base: str, rows: Sequence[tuple[str, CatalogEntry]], linked: Iterable[LinkedFile]) -> dict[str, str]:
    """Return the pages of one index in the folder ``base`` of the site: path -> text."""
    up = "../" * (base.count("/") + 2)
    projects: dict[str, list[tuple[str, CatalogEntry]]] = {}
    for row in rows:
        projects.setdefault(row[1].project, []).append(row)
    pages: dict[str, str] = {}
    for project, of_project in sorted(projects.items()):
        ordered = sorted(of_project, key=lambda row: (Version(row[1].version), row[1].filename))
        files = [_make_own_row(release, entry, up) for release, entry in ordered]
        for name, text in _make_label_lists(entry for _, entry in ordered).items():
            pages[f"{base}/{project}/{name}"] = text.decode()
            files.append(_make_row(name, name.replace("+", "%2B"), hashlib.sha256(text).hexdigest(), None, len(text)))
        versions = sorted({entry.version for _, entry in of_project}, key=Version)
        pages[f"{base}/{project}/index.html"] = _make_page(f"Links for {project}", map(_make_anchor, files))
        pages[f"{base}/{project}/index.json"] = _format_json({"name": project, "versions": versions, "files": files})
    elsewhere: dict[str, list[LinkedFile]] = {}
    for file in linked:
        if file.project not in projects and file.project not in OURS:  # never beside our own files, nor instead of them
            elsewhere.setdefault(file.project, []).append(file)
    for project, others in sorted(elsewhere.items()):
        files = [_make_row(file.filename, file.url, file.sha256, file.requires_python) for file in others]
        pages[f"{base}/{project}/index.html"] = _make_page(f"Links for {project}", map(_make_anchor, files))
        # PEP 691's 1.0: from 1.1 on a size is mandatory, and pip's report has none
        pages[f"{base}/{project}/index.json"] = _format_json({"name": project, "files": files}, "1.0")
    names = sorted({*projects, *elsewhere})
    pages[f"{base}/index.html"] = _make_page("Simple index", [f'<a href="{name}/">{name}</a>' for name in names])
    pages[f"{base}/index.json"] = _format_json({"projects": [{"name": name} for name in names]})
    return pages


def _make_label_lists(entries: Iterable[CatalogEntry]) -> dict[str, bytes]:
    """Return what the labels of each version's variant wheels stand for, by file name."""
    found: dict[str, dict[str, variants.Properties]] = {}
    for entry in entries:
        if entry.variant is not None:
            name = variants.make_list_name(WheelName.parse(entry.filename).distribution, entry.version)
            stands_for = variants.make_properties(entry.variant, entry.cuda, entry.arch_list)
            found.setdefault(name, {})[entry.variant] = stands_for
    return {name: variants.encode_document(labels) for name, labels in found.items()}


def _publish_wheel(wheel: Wheel, site: Path) -> CatalogEntry:
    """Put the wheel and the files beside it into ``files/<release>``."""
    folder = site / "files" / wheel.release
    target = folder / wheel.path.name
    write_atomically(folder / f"{target.name}{METADATA}", wheel.metadata)
    write_atomically(folder / f"{target.name}{SUFFIX}", wheel.manifest_bytes)
    statement = wheel.path.with_name(wheel.path.name + STATEMENT)
    if statement.exists():
        write_atomically(folder / statement.name, statement.read_bytes())
    if not (target.exists() and compute_sha256(target) == wheel.sha256):
        mark_step(f"copy {target.name}")
        part = target.with_name(f".{target.name}.part")
        with wheel.path.open("rb") as source, create_file(part) as out:
            shutil.copyfileobj(source, out)
        mark_step(f"rename {target.name} into place")
        part.replace(target)
    return replace(
        CatalogEntry.of_wheel(
            wheel,
            metadata_sha256=hashlib.sha256(wheel.metadata).hexdigest(),
            manifest_sha256=hashlib.sha256(wheel.manifest_bytes).hexdigest(),
        ),
        signed=(folder / statement.name).exists(),  # also of an earlier call: a published name keeps its bytes
    )


def _make_row(
    filename: str, url: str, sha256: str, requires_python: str | None, size: int | None = None
) -> dict[str, Any]:
    """Format a file as a page's JSON has it (PEP 691)."""
    row = {"filename": filename, "url": url, "hashes": {"sha256": sha256}}
    row |= {"requires-python": requires_python} if requires_python else {}
    return row | ({"size": size} if size is not None else {})


def _make_own_row(release: str, entry: CatalogEntry, up: str) -> dict[str, Any]:
    metadata = {"sha256": entry.metadata_sha256}
    return _make_row(entry.filename, up + entry.make_address(release), entry.sha256, entry.requires_python) | {
        "size": entry.size,
        "core-metadata": metadata,
        "dist-info-metadata": metadata,
        "yanked": False if entry.yanked is None else entry.yanked or True,  # PEP 691: an empty reason is none
    }


def _make_anchor(row: Mapping[str, Any]) -> str:
    """Format the same file in a page's HTML (PEP 503)."""
    metadata = f"sha256={row['core-metadata']['sha256']}" if "core-metadata" in row else None
    yanked = row.get("yanked", False)
    attributes = {
        "href": f"{row['url']}#sha256={row['hashes']['sha256']}",
        "data-requires-python": row.get("requires-python"),
        "data-dist-info-metadata": metadata,
        "data-core-metadata": metadata,
        "data-yanked": {False: None, True: ""}.get(yanked, yanked),
    }
    text = " ".join(f'{key}="{escape(value)}"' for key, value in attributes.items() if value is not None)
    return f"<a {text}>{escape(row['filename'])}</a>"


def _format_json(body: Mapping[str, object], version: str = API_VERSION) -> str:
    return json.dumps({"meta": {"api-version": version}, **body}, indent=1, sort_keys=True) + "\n"


def _make_page(title: str, anchors: Iterable[str]) -> str:
    lines = "".join(f"    {anchor}<br>\n" for anchor in anchors)
    return (
        "<!DOCTYPE html>\n<html>\n  <head>\n"
        f'    <meta charset="utf-8">\n    <meta name="pypi:repository-version" content="{API_VERSION}">\n'
        f"    <title>{escape(title)}</title>\n  </head>\n"
        f"  <body>\n    <h1>{escape(title)}</h1>\n{lines}  </body>\n</html>\n"
    )
