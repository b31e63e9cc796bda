"""Read files for ``check`` from a folder, archive, git tree, or wheel by range.

No more is read than it needs. Each is a ``decouple.patch.apply.Source``. An archive is read once, from front to end,
because a compressed tar allows nothing else; what was taken from it is kept in the cache under the archive's SHA-256,
so the next check of the same archive reads only that. It has this user's seal (``base.seal``): what others put there is
not believed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import weakref
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import Struct

from decouple.base import seal, zips
from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, walk_files, write_atomically
from decouple.base.git import EXECUTABLE, REGULAR, SUBMODULE, SYMLINK, TREE, is_repository, run_git
from decouple.base.objects import ObjectReader
from decouple.base.untrusted_input import read_bounded
from decouple.patch.apply import Source
from decouple.upstream import tree_record
from decouple.upstream.archive import DAMAGE, open_tar
from decouple.upstream.unpacked_release import UnpackedRelease

_MOST_MEMBER = 64 << 20  # bytes of one file that a patch touches
_MOST_DATA = 256 << 20  # bytes of all of them
_MOST_MEMBERS = 400_000  # entries; PyTorch with all submodules has 60,000
_MOST_END = 64 << 20  # bytes behind the end of a tar
_MOST_KEPT = 2 * _MOST_DATA + (64 << 20)  # bytes of what is kept of an archive, names and all
_CACHE_VERSION = 1


class OpenedSource(Struct, frozen=True):
    """A source that is ready to be read."""

    source: Source
    described: str
    """What it is, for people."""
    partial: bool = False
    """Whether files of the real tree may be absent from it, as the C++ sources are from a wheel."""
    published: str = ""
    """Provider and file of a published release, wherever it was read this time; empty where it is a person's own."""


class FolderSource:
    """The files below a folder as they are on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}/"

    def mode(self, path: str) -> int | None:
        try:
            info = os.lstat(self._prefix + path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(info.st_mode):
            return SYMLINK
        if stat.S_ISDIR(info.st_mode):
            return TREE
        if not stat.S_ISREG(info.st_mode):  # git could not hold it, and reading a pipe may never end
            return None
        return EXECUTABLE if info.st_mode & 0o100 else REGULAR

    def read(self, path: str) -> bytes:
        full = self.root / path
        return os.fsencode(full.readlink()) if full.is_symlink() else full.read_bytes()

    def list_paths(self) -> list[str]:
        """Return every file and link, sorted; no directories."""
        return sorted(name for name, _ in walk_files(self.root))


class UnpackedSource(FolderSource):
    """Read a tree in the cache; raise DecoupleError for what changed since unpacking."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._known = tree_record.read_known_files(root)

    def list_paths(self) -> list[str]:
        """Return every file and link that was unpacked or came later, sorted.

        No directories, nothing of Python's cache.
        """
        known = self._known or {}
        return [path for path in super().list_paths() if not tree_record.is_leftover(path, known)]

    def mode(self, path: str) -> int | None:
        bits = super().mode(path)
        if self._known is not None and bits != TREE and not self._is_known(path, bits):
            raise tree_record.make_change_error(self.root / path, self.root)
        return bits

    def _is_known(self, path: str, bits: int | None) -> bool:
        """Return whether the record has ``path`` with this mode; None: nothing there."""
        assert self._known is not None
        state = self._known.get(path)
        return state is None if bits is None else state is not None and state.startswith(f"{bits:o} ")

    def read(self, path: str) -> bytes:
        data = super().read(path)
        if self._known is not None and not self._known.get(path, "").endswith(f" {hashlib.sha256(data).hexdigest()}"):
            raise tree_record.make_change_error(self.root / path, self.root)
        return data


def open_unpacked(fetched: UnpackedRelease) -> OpenedSource:
    """Open a tree that an earlier fetch left in the cache."""
    return OpenedSource(
        UnpackedSource(fetched.path),
        f"{fetched.provider}, unpacked in the cache",
        partial=fetched.kind != "source",
        published=", ".join([fetched.provider, *(file.name for file in fetched.files[:1])]),
    )


class ListedSource:
    """A Source with a table of all its paths; subclasses give the bytes."""

    def __init__(self, modes: dict[str, int]) -> None:
        self._modes = modes
        for path in list(modes):
            parent = path.rpartition("/")[0]
            while parent and parent not in modes:
                modes[parent] = TREE
                parent = parent.rpartition("/")[0]

    def mode(self, path: str) -> int | None:
        return self._modes.get(path)

    def list_paths(self) -> list[str]:
        """Return every file, sorted; no directories."""
        return sorted(path for path, mode in self._modes.items() if mode != TREE)


class GitTree(ListedSource):
    """Read a commit's tree through one ``git cat-file`` process that ends with it."""

    def __init__(self, repository: Path, revision: str) -> None:
        listing = run_git(
            *("ls-tree", "-r", "-z", "--full-tree", f"{revision}^{{tree}}"),
            cwd=repository,
            next_step="name a commit, tag or branch that this repository has",
        )
        self._repository = repository
        modes: dict[str, int] = {}
        self._ids: dict[str, str] = {}
        for entry in listing.split(b"\0")[:-1]:
            meta, name = entry.split(b"\t", 1)
            mode, _, identity = meta.split(b" ")
            path = name.decode("utf-8", "surrogateescape")
            modes[path] = int(mode, 8)
            self._ids[path] = identity.decode()
        super().__init__(modes)
        self._blobs: ObjectReader | None = None

    def read(self, path: str) -> bytes:
        if self._modes[path] == SUBMODULE:
            raise DecoupleError(f"{path} is a submodule", next_step="a patch must not touch it")
        if self._blobs is None:
            self._blobs = ObjectReader(self._repository)
            weakref.finalize(self, self._blobs.close)
        (blob,) = self._blobs.read_objects([self._ids[path]])
        if blob is None or blob.kind != "blob":
            raise DecoupleError(f"git does not give {path}", next_step="`git fsck` in that repository")
        return blob.data


def list_paths(source: Source) -> list[str]:
    """Return every file that ``source`` knows by name, sorted.

    Raises DecoupleError for a source without such a list.
    """
    if isinstance(source, (FolderSource, ListedSource)):
        return source.list_paths()
    raise DecoupleError("this source has no list of its files", next_step="name a folder, an archive or a wheel")


class MemorySource(ListedSource):
    """Files in memory, and the names of the rest, which ``read`` refuses."""

    def __init__(self, modes: dict[str, int], data: dict[str, bytes]) -> None:
        super().__init__(modes)
        self._data = data

    def read(self, path: str) -> bytes:
        if path not in self._data:
            raise DecoupleError(
                f"{path}: the source has it, and it was not asked for when the source was read",
                next_step="unpack the source and name that folder",
            )
        return self._data[path]


def read_archive(path: Path, wanted: Collection[str], cache: Path | None) -> MemorySource:
    """Read the ``wanted`` files of a tar archive or of a zip file.

    Any compression that Python knows. A single top-level folder that everything lies in is taken off. ``cache``: where
    to keep what was read, None for nowhere. Raises DecoupleError if the archive is damaged.
    """
    kept = make_shelf_path(cache, compute_sha256(path)) if cache else None
    if kept:
        cached = read_cache(kept, wanted)
        if cached:
            return cached
        wanted = {*wanted, *read_cached_names(kept)}
    try:
        modes, data = _read_zip(path, wanted) if zipfile.is_zipfile(path) else _read_tar(path, wanted)
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise DecoupleError(f"{path} cannot be read: {error}", next_step="fetch it again") from None
    if kept:
        write_cache(kept, modes, data)
    return MemorySource(modes, data)


def _read_tar(path: Path, wanted: Collection[str]) -> tuple[dict[str, int], dict[str, bytes]]:
    """Read all modes and the wanted contents.

    Whether there is a top-level folder shows at the end, so both names count.
    """
    names: dict[str, int] = {}
    links: dict[str, str] = {}
    data: dict[str, bytes] = {}
    wanted = frozenset(wanted)
    with open_tar(path, most_after=_MOST_END) as archive:
        for count, member in enumerate(archive):
            if count > _MOST_MEMBERS:
                raise ValueError(f"more than {_MOST_MEMBERS} members")
            name = member.name.removeprefix("./").rstrip("/")
            if not name or name == ".":
                continue
            if member.isdir():
                names[name] = TREE
            elif member.issym():
                names[name] = SYMLINK
                data[name] = os.fsencode(member.linkname)
            elif member.islnk():
                links[name] = member.linkname.removeprefix("./")
            elif member.isreg():
                names[name] = EXECUTABLE if member.mode & 0o100 else REGULAR
                if name in wanted or name.partition("/")[2] in wanted:
                    if member.size > _MOST_MEMBER:
                        raise ValueError(f"{name} has {member.size} bytes")
                    data[name] = archive.read(member)
                    _check_size(data)
    for name, target in links.items():
        names[name] = names.get(target, REGULAR)
        if target in data:
            data[name] = data[target]
        elif name in wanted or name.partition("/")[2] in wanted:
            raise ValueError(f"{name} is a hard link to {target}, which was not read")
    return _remove_top_folder(names, data)


def _read_zip(path: Path, wanted: Collection[str]) -> tuple[dict[str, int], dict[str, bytes]]:
    names: dict[str, int] = {}
    data: dict[str, bytes] = {}
    with zips.open_zip(path, mend="fetch it again") as archive:
        for info in archive.infolist():
            name = info.filename.rstrip("/")
            unix = info.external_attr >> 16
            if info.is_dir():
                names[name] = TREE
                continue
            names[name] = SYMLINK if stat.S_ISLNK(unix) else EXECUTABLE if unix & 0o100 else REGULAR
            if name in wanted or name.partition("/")[2] in wanted:
                if info.file_size > _MOST_MEMBER:
                    raise ValueError(f"{name} has {info.file_size} bytes")
                data[name] = archive.read(info)
                _check_size(data)
    return _remove_top_folder(names, data)


def _check_size(data: dict[str, bytes]) -> None:
    """Raise ValueError when wanted files have more bytes than memory should hold."""
    if sum(map(len, data.values())) > _MOST_DATA:
        raise ValueError(f"more than {_MOST_DATA} bytes in the files that patches touch")


def _remove_top_folder(modes: dict[str, int], data: dict[str, bytes]) -> tuple[dict[str, int], dict[str, bytes]]:
    tops = {name.partition("/")[0] for name in modes}
    if len(tops) != 1 or all("/" not in name for name in modes):
        return modes, data
    cut = len(tops.pop()) + 1
    return (
        {name[cut:]: mode for name, mode in modes.items() if len(name) >= cut},
        {name[cut:]: content for name, content in data.items() if len(name) >= cut},
    )


def make_shelf_path(cache: Path, key: str) -> Path:
    """Return where the cache keeps what was read of an archive.

    ``key`` is the archive's SHA-256 or another fixed key.
    """
    return cache / "check" / f"{key}.zip"


def read_cache(kept: Path, wanted: Collection[str]) -> MemorySource | None:
    """Return what an earlier check kept, if it has all that is wanted."""
    try:
        with _open_cache(kept) as store:
            listing = json.loads(store.read("modes.json"))
            if listing["version"] != _CACHE_VERSION:
                return None
            modes = {path: int(mode) for path, mode in listing["modes"].items()}
            there = {info.filename.removeprefix("files/"): info for info in store.infolist()}
            needed = [path for path in wanted if modes.get(path, TREE) not in (TREE, SUBMODULE)]
            if any(path not in there for path in needed):
                return None
            return MemorySource(modes, {path: store.read(there[path]) for path in needed})
    except (FileNotFoundError, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_cached_names(kept: Path) -> set[str]:
    """Return the files whose content an earlier check kept."""
    try:
        with _open_cache(kept) as store:
            names = {info.filename for info in store.infolist()}
    except (FileNotFoundError, zipfile.BadZipFile):
        return set()
    return {name.removeprefix("files/") for name in names if name.startswith("files/")}


def write_cache(kept: Path, modes: dict[str, int], data: dict[str, bytes]) -> None:
    """Keep what was read; a cache that cannot be written costs time, never the check."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as store:
        store.writestr("modes.json", json.dumps({"version": _CACHE_VERSION, "modes": modes}))
        for path, content in data.items():
            store.writestr(f"files/{path}", content)
    whole = seal.add_seal(kept.name, buffer.getvalue())
    if whole is not None:
        with contextlib.suppress(OSError):
            write_atomically(kept, whole)


def _open_cache(kept: Path) -> zipfile.ZipFile:
    """Open what an earlier check of this user's kept.

    Raises FileNotFoundError, BadZipFile where it is nobody's of ours.
    """
    try:
        data = read_bounded(kept, _MOST_KEPT)
    except DecoupleError as error:  # a pipe, say
        raise zipfile.BadZipFile(error.what) from None
    whole = seal.remove_seal(kept.name, data)
    if whole is None:
        raise zipfile.BadZipFile("not sealed by this user")
    return zipfile.ZipFile(io.BytesIO(whole))


def is_archive(path: Path) -> bool:
    """Return whether a file looks, by its name, like one that `read_archive` reads."""
    name = path.name
    return name.endswith((".zip", ".tar", ".tgz", ".tbz2", ".txz")) or ".tar." in name


def open_path(path: Path, revision: str | None, wanted: Iterable[str], cache: Path | None) -> OpenedSource:
    """Open a folder, an archive, or a commit of a git repository.

    The commit where there is a ``revision``, or where the repository is bare. Raises DecoupleError if there is no such
    thing.
    """
    if not path.exists():
        raise DecoupleError(f"there is no {path}", next_step="name a folder, an archive, or a repository@revision")
    if revision is None and is_repository(path) and not (path / ".git").exists():
        revision = "HEAD"
    if revision is not None:
        return OpenedSource(GitTree(path, revision), f"git tree {revision} of {path}")
    if path.is_dir():
        return OpenedSource(FolderSource(path), f"folder {path}")
    if not is_archive(path):
        raise DecoupleError(f"{path} is no archive", next_step="name a .tar.* or .zip file, or a folder")
    return OpenedSource(read_archive(path, frozenset(wanted), cache), f"archive {path}")
