"""The differential corpus: patches that other people wrote, applied by us, by GNU patch and by git apply.

Packages are data (``corpus.toml``), fetched once into the shared cache from Debian and checked by hash. Each series is
applied in order; for each patch the three see the same files. GNU patch runs as dpkg-source would run it but for
``-F0``: no fuzz.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from decouple.base.git import REGULAR, TREE
from decouple.base.paths import find_cache
from decouple.patch import parse as patch
from decouple.patch import series_file
from decouple.patch.apply import File, PatchResult, Source, Tree, apply_patch
from decouple.patch.parse import FilePatch, Hunk, Patch
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import Downloader
from decouple.upstream.readers import read_archive
from tests.long.fuzz import Files
from tests.support import reference

DATA = Path(__file__).with_name("corpus.toml")


@dataclass(frozen=True)
class Package:
    """One source package."""

    name: str
    version: str
    dsc: RemoteFile
    orig: RemoteFile
    debian: RemoteFile


@dataclass(frozen=True)
class Row:
    """What the three made of one patch."""

    package: str
    patch: str
    variant: str
    """Empty for the patch as it is; see :func:`variants`."""
    ours: bool
    same_as_git: bool
    """Whether both apply with the same bytes and modes, or neither applies."""
    same_as_gnu: bool
    back_again: bool
    """Whether the reverse gives back the files there were, by ours and by git apply -R; True if it does not apply."""
    why: str
    """Why ours refuses."""
    traits: str


def packages() -> list[Package]:
    """What ``corpus.toml`` lists."""
    return [
        Package(
            entry["name"],
            entry["version"],
            *(
                RemoteFile(
                    entry[key]["name"],
                    (entry["folder"] + entry[key]["name"],),
                    entry[key]["size"],
                    entry[key]["sha256"],
                )
                for key in ("dsc", "orig", "debian")
            ),
        )
        for entry in tomllib.loads(DATA.read_text())["package"]
    ]


def fetch(package: Package) -> tuple[Path, Path, Path]:
    """The three files of a package, verified, from the cache or from Debian. Raises DecoupleError."""
    downloader = Downloader(find_cache())
    dsc, orig, debian = (downloader.fetch_file(file)[0] for file in (package.dsc, package.orig, package.debian))
    return dsc, orig, debian


def series_of(debian: Path) -> list[Patch]:
    """The patches of a ``.debian`` archive in the order of their series."""
    listing = read_archive(debian, (), None)
    names = [path for path in listing.list_paths() if path.startswith("patches/")]
    folder = read_archive(debian, names, None)
    if "patches/series" not in names:
        return []
    series = series_file.parse_series(folder.read("patches/series").decode(), name=f"{debian.name}: series")
    return [
        patch.parse_patch(folder.read(f"patches/{entry.name}"), name=entry.name, strip=entry.strip)
        for entry in series.entries
    ]


def rows(package: Package) -> Iterator[Row]:
    """Fetch a package and judge its series."""
    _, orig, debian = fetch(package)
    series = series_of(debian)
    wanted = {path.lstrip("/") for one in series for path in one.touched_paths}
    yield from judge(package.name, series, read_archive(orig, wanted, None))


def judge(name: str, series: list[Patch], source: Source) -> Iterator[Row]:
    """Apply ``series`` in order to ``source`` in all three ways, each patch also as its variants."""
    tree = Tree(source)
    for one in series:
        before = _files(one, tree)
        row, after = _row(name, one, before)
        yield row
        for label, variant, files in variants(one, before):
            yield _row(name, variant, files, label)[0]
        if after is None:  # go on as if it had applied, so that the patches behind it are judged, too
            after = reference.gnu_patch(one.to_text(), before, strip=one.strip, fuzz=2).files
        tree.update({path: after.get(path) for path in {*before, *after}})


def _row(name: str, one: Patch, before: dict[str, File], variant: str = "") -> tuple[Row, dict[str, File] | None]:
    """Judge one patch on ``before``; also the files afterwards if ours applies."""
    result = apply_patch(one, Tree(Files(before)))
    git = reference.git_apply(one.to_text(), before, strip=one.strip)
    gnu = reference.gnu_patch(one.to_text(), before, strip=one.strip)
    ours = result.applies
    after = _changed(before, result) if ours else None
    back_again = True
    if after is not None:
        undone = apply_patch(one, Tree(Files(after)), reverse=True)
        back_again = undone.applies and _bytes(_changed(after, undone)) == _bytes(before)
        theirs = reference.git_apply(one.to_text(), after, strip=one.strip, reverse=True)
        back_again = back_again and theirs.applied and _bytes(theirs.files) == _bytes(before)
    row = Row(
        package=name,
        patch=one.name,
        variant=variant,
        ours=ours,
        same_as_git=ours == git.applied and (after is None or after == git.files),
        same_as_gnu=ours == gnu.applied and (after is None or after == gnu.files),
        back_again=back_again,
        why="; ".join(found.failure.message for found in result.files if found.failure),
        traits=traits(one, before),
    )
    return row, after


def _changed(before: dict[str, File], result: PatchResult) -> dict[str, File]:
    after = {**before, **result.changes}
    return {path: file for path, file in after.items() if file is not None}


def _bytes(files: dict[str, File]) -> dict[str, bytes]:
    """Contents alone: git up to 2.39 changes modes when it reverses an index line with a mode."""
    return {path: file.data for path, file in files.items()}


def variants(one: Patch, before: dict[str, File]) -> Iterator[tuple[str, Patch, dict[str, File]]]:
    """The same hunks in habits that few packages have today: -p0, CR LF, a rename with a change of mode.

    Made from the real patch, line by line; what a variant cannot say is left out.
    """
    if one.strip == 1:
        text = b"".join(_without_prefix(section) for section in one.files)
        yield "-p0", patch.parse_patch(text, name=one.name, strip=0), before
    text = b"".join(section.raw_header + b"".join(map(_with_crlf, section.hunks)) for section in one.files)
    if b"\r\n" not in text.replace(b"\n", b"").replace(b"\r", b""):
        crlf = {path: File(file.mode, re.sub(rb"\r?\n", b"\r\n", file.data)) for path, file in before.items()}
        yield "CRLF", patch.parse_patch(text, name=one.name, strip=one.strip), crlf
    moved = [section for section in one.files if section.hunks and section.old_path == section.new_path in before]
    moved = [section for section in moved if before[section.path].mode == REGULAR and " " not in section.path]
    if moved and len({section.path for section in one.files}) == len(one.files):
        text = b"".join(map(_moved, moved))
        yield "rename", patch.parse_patch(text, name=one.name), before


def _without_prefix(section: FilePatch) -> bytes:
    header = re.sub(rb"(?m)^(--- |\+\+\+ )(?!/dev/null)[^/\s]+/", rb"\1", section.raw_header)
    header = re.sub(rb"(?m)^diff --git a/(\S+) b/(\S+)$", rb"diff --git \1 \2", header)
    return header + b"".join(hunk.raw for hunk in section.hunks)


def _with_crlf(hunk: Hunk) -> bytes:
    lines = hunk.raw.split(b"\n")[:-1]
    ends = [
        b"\n" if line.startswith((b"@@", b"\\")) or line.endswith(b"\r") or following.startswith(b"\\") else b"\r\n"
        for line, following in zip(lines, [*lines[1:], b""], strict=True)
    ]
    # an empty context line stays an empty line of a CR LF file: " \r\n"
    return b"".join((line or b" ") + end for line, end in zip(lines, ends, strict=True))


def _moved(section: FilePatch) -> bytes:
    path = section.path.encode()
    return (
        b"diff --git a/%(p)s b/moved/%(p)s\nold mode 100644\nnew mode 100755\nsimilarity index 90%%\n"
        b"rename from %(p)s\nrename to moved/%(p)s\n--- a/%(p)s\n+++ b/moved/%(p)s\n" % {b"p": path}
    ) + b"".join(hunk.raw for hunk in section.hunks)


def _files(one: Patch, tree: Tree) -> dict[str, File]:
    """The files that a patch names, also by the names that GNU patch reads in it: to it ``a//x`` is ``x``."""
    before = reference.files_for(one, tree)
    for path in one.touched_paths:
        plain = path.lstrip("/")
        found = tree.get(plain)
        if found is not None and found.mode != TREE:
            before[plain] = found
    return before


def traits(one: Patch, before: dict[str, File]) -> str:
    """What is special about a patch, as short words."""
    text = one.to_text()
    sections = one.files
    found = {
        "git": any(section.git for section in sections),
        "Index:": b"\nIndex: " in b"\n" + text,
        f"-p{one.strip}": one.strip != 1,
        "CRLF": b"\r\n" in text,
        "no-newline": b"\n\\ No newline" in text,
        "rename": any(section.rename for section in sections),
        "mode": any(section.has_mode_change for section in sections),
        "new": any(section.creates or (section.creates is None and section.path not in before) for section in sections),
        "deleted": any(section.deletes for section in sections),
        "header": bool(one.header.fields),
        "trailer": bool(one.trailer.strip()),
    }
    return " ".join(word for word, true in found.items() if true)
