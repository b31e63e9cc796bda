"""Fetch third-party code for a source that comes without upstream's submodules.

Debian's has none. ``series/third_party/<release>.toml`` names an archive for each component that the build wants:
mostly what Debian has of it as a source package, by size and SHA-256. Its version is near what the tag's submodule
names, seldom the same; every row says both, and the rows go into the manifest of the wheel.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from decouple.base import toml
from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import compute_sha256, hold_lock, make_work_folder, remove_folder
from decouple.base.path_names import RelativePath
from decouple.base.paths import expand_home
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import NOT_KNOWN, RemoteFile
from decouple.upstream import tree_record
from decouple.upstream.deb import open_data
from decouple.upstream.download import Downloader, make_storage_error
from decouple.upstream.unpack import make_new_folder, unpack_tar

_RECORD = "components.json"


class Component(Struct, frozen=True):
    """One folder below third_party and the archive that fills it.

    ``version`` is the archive's (a git snapshot's ends in the commit); ``pin`` the commit that the tag's submodule
    names, "not known" where it could not be read. ``part`` is the folder of the archive that is wanted; ``top`` says
    how many leading folders all its entries share; entries below ``without`` stay away (tests with large data, say).
    """

    folder: RelativePath
    version: str
    pin: str
    name: str
    urls: tuple[str, ...]
    size: int
    sha256: str
    top: int = 1
    part: RelativePath | Literal[""] = ""
    without: tuple[RelativePath, ...] = ()
    why: str = ""
    licence: str = ""

    @property
    def file(self) -> RemoteFile:
        """Return the archive."""
        return RemoteFile(self.name, self.urls, self.size, self.sha256)

    def make_row(self) -> dict[str, Any]:
        """Return what the manifest of a wheel says of it."""
        made = {"folder": self.folder, "version": self.version, "pin": self.pin, "name": self.name, "url": self.urls[0]}
        return {
            **made,
            "size": self.size,
            "sha256": self.sha256,
            "differs": self.compare_commit(),
            "licence": self.licence,
        }

    def compare_commit(self) -> bool | str:
        """Return whether the archive is of another commit than the tag's.

        "not known" where the pin is not.
        """
        if self.pin == NOT_KNOWN:
            return NOT_KNOWN
        return not any(
            len(part) >= 7 and self.pin.startswith(part) for part in self.version.replace("-", ".").split(".")
        )


class MissingComponent(Struct, frozen=True):
    """Name what no reachable registry has, and upstream's switch that stays off."""

    folder: str
    switch: str
    why: str


class ComponentList(Struct, frozen=True, rename={"components": "component"}):
    """All of a release, by the keys of its file."""

    release: str
    components: tuple[Component, ...]
    absent: tuple[MissingComponent, ...] = ()


class ThirdParty(Struct, frozen=True):
    """Hold a folder like upstream's third_party: path, digest, a row per component."""

    path: Path
    digest: str
    rows: tuple[dict[str, Any], ...]

    def list_folders(self) -> list[str]:
        """Return the names that belong into third_party."""
        return sorted(entry.name for entry in self.path.iterdir() if entry.is_dir())


def load_components(project: Path, release: str) -> ComponentList:
    """Read the components of ``release``.

    Raises DecoupleError when nobody has listed them, or the list is wrong.
    """
    path = Checkout(project).locate_third_party(release)
    try:
        return toml.read_toml(path, ComponentList, mend="compare with series/third_party/2.6.toml")
    except FileNotFoundError:
        raise DecoupleError(
            f"{path}: no list of third-party components for release {release}",
            next_step="name a folder laid out as upstream's third_party with --third-party, or a source that has it",
        ) from None


def ensure_components(listed: ComponentList, downloader: Downloader, *, progress: Progress = SILENT) -> ThirdParty:
    """Bring the components into the cache, fetched and unpacked as needed.

    A second call compares them with what was unpacked. Raises DecoupleError naming the archive that cannot be had or
    is not what the list says, or a file that changed.
    """
    rows = tuple(component.make_row() for component in listed.components)
    records = [{**asdict(component), "urls": (), "pin": "", "why": ""} for component in listed.components]
    for record in records:
        del record["licence"]  # says something of the bytes and is none of them: no build is another for it
    digest = hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()
    shelf = downloader.cache / "components" / digest[:16]
    if not tree_record.is_ours(shelf):
        files = [downloader.fetch_file(component.file)[0] for component in listed.components]
        try:
            with hold_lock(shelf.with_name(f".{shelf.name}.lock")):
                there = (shelf / _RECORD).exists()
                if not tree_record.is_ours(shelf):  # another run may have been quicker
                    with make_work_folder(shelf.parent, shelf.name) if there else make_new_folder(shelf) as temporary:
                        _unpack_components(temporary, listed.components, files, progress)
                        (temporary / _RECORD).write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
                        if there:
                            tree_record.renew_records(shelf, temporary)
                        else:
                            tree_record.record_files(temporary, of=shelf)
        except OSError as error:
            raise make_storage_error(error, shelf, "unpacking third-party components") from None
    tree_record.check_tree(shelf / "third_party")
    return ThirdParty(shelf / "third_party", digest, rows)


def open_folder(folder: Path) -> ThirdParty:
    """Read a folder of the user's own, laid out as upstream's third_party.

    Raises UsageError when it is none. The digest covers path, executable bit and content of every file, so that a
    changed one is another build.
    """
    folder = expand_home(folder).resolve()
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    if not names:
        raise UsageError(
            f"{folder}: no folder with components in it",
            next_step="name the third_party of an unpacked release, with its submodules",
        )
    whole, rows = hashlib.sha256(), []
    for name in names:
        digest = _hash_folder(folder / name)
        whole.update(f"{name}\0{digest}\n".encode())
        rows.append({"folder": name, "version": NOT_KNOWN, "pin": NOT_KNOWN, "name": str(folder / name)})
        rows[-1] |= {"sha256": digest, "differs": NOT_KNOWN}
    return ThirdParty(folder, whole.hexdigest(), tuple(rows))


def _unpack_components(shelf: Path, components: Sequence[Component], files: Sequence[Path], progress: Progress) -> None:
    """Unpack every archive into ``shelf/third_party``, inner components last."""
    pairs = sorted(zip(components, files, strict=True), key=lambda pair: pair[0].folder.count("/"))
    for component, file in pairs:
        part = tuple(component.part.split("/")) if component.part else ()
        without = [(*part, *path.split("/")) for path in component.without]

        def leave_out(
            parts: Sequence[str], part: tuple[str, ...] = part, without: list[tuple[str, ...]] = without
        ) -> bool:
            below = tuple(parts)
            outside = below[: len(part)] != part and part[: len(below)] != below
            return outside or any(below[: len(path)] == path for path in without)

        target, scratch = shelf / "third_party" / component.folder, shelf / "unpacked"
        with open_data(file, shelf / "data.tar") as archive:
            unpack_tar(archive, scratch, strip=component.top, leave_out=leave_out, progress=progress)
        source = scratch.joinpath(*part)
        if not source.is_dir():
            raise DecoupleError(
                f"{component.name}: no folder {component.part!r} in it",
                next_step=f"correct `part` of {component.folder} in the list of components",
            )
        if target.is_dir() and not any(target.iterdir()):  # the empty folder of a submodule
            target.rmdir()
        if target.exists():
            raise DecoupleError(
                f"{component.name}: third_party/{component.folder} is there already",
                next_step="name that folder under `without` of the component that brings it",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        remove_folder(scratch, ignore_errors=True)


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            digest.update(f"{name}\0link\0{path.readlink()}\n".encode())
        elif path.is_file():
            digest.update(f"{name}\0{path.stat().st_mode & 0o100}\0{compute_sha256(path)}\n".encode())
    return digest.hexdigest()
