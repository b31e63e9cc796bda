"""Where ``check`` reads files from: a folder, an archive, a git tree, or a wheel by range; never more than it needs.

Each is a ``decouple.patch.apply.Source``. An archive is read once, from front to end, because a compressed tar
allows nothing else; what was taken from it is kept in the cache under the archive's SHA-256, so the next check of the
same archive reads only that.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import weakref
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from decouple.base.errors import DecoupleError
from decouple.base.files import sha256_of, write_atomically
from decouple.base.git import EXECUTABLE, REGULAR, SUBMODULE, SYMLINK, TREE, git, start
from decouple.patch.apply import Source
from decouple.upstream.tarheaders import BoundedTarInfo

_MOST_MEMBER = 64 << 20  # bytes of one file that a patch touches
_MOST_DATA = 256 << 20  # bytes of all of them
_MOST_MEMBERS = 400_000  # entries; PyTorch with all submodules has 60,000
_MOST_END = 64 << 20  # bytes behind the end of a tar
_CACHE_VERSION = 1


@dataclass(frozen=True)
class Opened:
    """A source that is ready to be read."""

    source: Source
    described: str
    """What it is, for people."""
    partial: bool = False
    """Whether files of the real tree may be absent from it, as the C++ sources are from a wheel."""


class Folder:
    """The files below a folder as they are on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def mode(self, path: str) -> int | None:
        try:
            found = os.lstat(self.root / path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(found.st_mode):
            return SYMLINK
        if stat.S_ISDIR(found.st_mode):
            return TREE
        return EXECUTABLE if found.st_mode & 0o100 else REGULAR

    def read(self, path: str) -> bytes:
        full = self.root / path
        return os.fsencode(full.readlink()) if full.is_symlink() else full.read_bytes()

    def paths(self) -> list[str]:
        """Every file and link, sorted; no directories."""
        return sorted(
            f"{Path(here).relative_to(self.root).as_posix()}/{name}".removeprefix("./")
            for here, _, names in os.walk(self.root)
            for name in names
        )


def unpacked(provider: str, tree: Path, *, partial: bool) -> Opened:
    """A tree that an earlier fetch left in the cache."""
    return Opened(Folder(tree), f"{provider}, unpacked in the cache", partial=partial)


class Listed:
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

    def paths(self) -> list[str]:
        """Every file, sorted; no directories."""
        return sorted(path for path, mode in self._modes.items() if mode != TREE)


class GitTree(Listed):
    """The tree of a commit in a git repository; one ``git cat-file`` process gives the blobs and ends with it."""

    def __init__(self, repository: Path, revision: str) -> None:
        listing = git(
            *("ls-tree", "-r", "-z", "--full-tree", f"{revision}^{{tree}}"),
            cwd=repository,
            next_step="name a commit, tag or branch that this repository has",
        )
        self._repository = repository
        modes: dict[str, int] = {}
        self._ids: dict[str, bytes] = {}
        for entry in listing.split(b"\0")[:-1]:
            meta, name = entry.split(b"\t", 1)
            mode, _, identity = meta.split(b" ")
            path = name.decode("utf-8", "surrogateescape")
            modes[path] = int(mode, 8)
            self._ids[path] = identity
        super().__init__(modes)
        self._blobs: subprocess.Popen[bytes] | None = None

    def read(self, path: str) -> bytes:
        if self._modes[path] == SUBMODULE:
            raise DecoupleError(f"{path} is a submodule", next_step="a patch must not touch it")
        if self._blobs is None:
            pipe = subprocess.PIPE
            self._blobs = start(["cat-file", "--batch"], cwd=self._repository, stdin=pipe, stdout=pipe)
            weakref.finalize(self, _end, self._blobs)
        assert self._blobs.stdin and self._blobs.stdout
        self._blobs.stdin.write(self._ids[path] + b"\n")
        self._blobs.stdin.flush()
        answer = self._blobs.stdout.readline().split()
        if len(answer) != 3 or answer[1] != b"blob":
            raise DecoupleError(f"git does not give {path}", next_step="`git fsck` in that repository")
        data = self._blobs.stdout.read(int(answer[2]))
        self._blobs.stdout.read(1)
        return data


def _end(process: subprocess.Popen[bytes]) -> None:
    """``git cat-file --batch`` ends when it is asked no more."""
    with process:
        pass


def paths_of(source: Source) -> list[str]:
    """Every file that ``source`` knows by name, sorted. Raises DecoupleError for a source without such a list."""
    if isinstance(source, (Folder, Listed)):
        return source.paths()
    raise DecoupleError("this source has no list of its files", next_step="name a folder, an archive or a wheel")


class Kept(Listed):
    """Files in memory, with the names of the rest."""

    def __init__(self, modes: dict[str, int], data: dict[str, bytes]) -> None:
        super().__init__(modes)
        self._data = data

    def read(self, path: str) -> bytes:
        return self._data[path]


def from_archive(path: Path, wanted: Collection[str], cache: Path | None) -> Kept:
    """The ``wanted`` files of a tar archive (any compression that Python knows) or of a zip file.

    A single top-level folder that everything lies in is taken off. ``cache``: where to keep what was read, None for
    nowhere. Raises DecoupleError if the archive is damaged.
    """
    kept = shelf(cache, sha256_of(path)) if cache else None
    if kept:
        found = from_cache(kept, wanted)
        if found:
            return found
        wanted = {*wanted, *cached_names(kept)}
    try:
        modes, data = _read_zip(path, wanted) if zipfile.is_zipfile(path) else _read_tar(path, wanted)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        lzma.LZMAError,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise DecoupleError(f"{path} cannot be read: {error}", next_step="fetch it again") from None
    if kept:
        to_cache(kept, modes, data)
    return Kept(modes, data)


def _read_tar(path: Path, wanted: Collection[str]) -> tuple[dict[str, int], dict[str, bytes]]:
    """All modes and the wanted contents; whether there is a top-level folder shows at the end, so both names count."""
    names: dict[str, int] = {}
    links: dict[str, str] = {}
    data: dict[str, bytes] = {}
    wanted = frozenset(wanted)
    with (
        _decompressed(path) as stream,
        tarfile.open(fileobj=cast("IO[bytes]", _Window(stream)), mode="r:", tarinfo=BoundedTarInfo) as archive,
    ):
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
                    content = archive.extractfile(member)
                    assert content
                    data[name] = content.read()
                    _refuse_much(data)
    for name, target in links.items():
        names[name] = names.get(target, REGULAR)
        if target in data:
            data[name] = data[target]
        elif name in wanted or name.partition("/")[2] in wanted:
            raise ValueError(f"{name} is a hard link to {target}, which was not read")
    return _without_top(names, data)


class _Window:
    """A stream as the file that tarfile seeks in: forward, and back by a block. Its own stream mode takes 3.5 times as
    long (seen on the 16,631 members of 2.6.0's .orig), nearly all of it in skipping what is not wanted.
    """

    _CHUNK = 1 << 20
    _BACK = 512

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._base = self._at = 0
        self._data = b""

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int) -> int:
        self._at = offset
        return offset

    def read(self, size: int) -> bytes:
        while (missing := self._at + size - self._base - len(self._data)) > 0:
            more = self._stream.read(max(self._CHUNK, missing if self._at < self._base + len(self._data) else 0))
            if not more:
                break
            dropped = max(0, min(self._at - self._BACK - self._base, len(self._data)))
            self._data = self._data[dropped:] + more
            self._base += dropped
        start = self._at - self._base
        if start < 0:
            raise ValueError("the archive is not in order")
        piece = self._data[start : start + size]
        self._at += len(piece)
        return piece


@contextmanager
def _decompressed(path: Path) -> Iterator[IO[bytes]]:
    """The tar inside; xz(1) does the blocks of an .xz file in parallel, Python's lzma does not."""
    with path.open("rb") as raw:
        magic = raw.read(6)
    xz = shutil.which("xz")
    if magic == b"\xfd7zXZ\0" and xz:
        with subprocess.Popen([xz, "-dc", "-T0", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout and process.stderr
            yield process.stdout
            _refuse_long_end(process.stdout)
            if process.wait():
                said = process.stderr.read().decode("utf-8", "replace").strip()
                raise ValueError(said or f"xz ended with {process.returncode}")
        return
    with path.open("rb") as raw:
        yield _opened(raw, magic)


def _refuse_long_end(stream: IO[bytes]) -> None:
    """Read what stands behind the end of the tar. Raises ValueError for more than any program pads with."""
    left = _MOST_END
    while data := stream.read(1 << 20):
        left -= len(data)
        if left < 0:
            raise ValueError(f"more than {_MOST_END} bytes behind the end of the archive")


def _opened(raw: IO[bytes], magic: bytes) -> IO[bytes]:
    import bz2
    import gzip
    import lzma

    if magic.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if magic.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.BZ2File(raw))
    if magic.startswith(b"\xfd7zXZ"):
        return cast("IO[bytes]", lzma.LZMAFile(raw))
    return raw


def _read_zip(path: Path, wanted: Collection[str]) -> tuple[dict[str, int], dict[str, bytes]]:
    names: dict[str, int] = {}
    data: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as archive:
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
                _refuse_much(data)
    return _without_top(names, data)


def _refuse_much(data: dict[str, bytes]) -> None:
    """Raise ValueError when the wanted files have more bytes than memory should be asked for."""
    if sum(map(len, data.values())) > _MOST_DATA:
        raise ValueError(f"more than {_MOST_DATA} bytes in the files that patches touch")


def _without_top(modes: dict[str, int], data: dict[str, bytes]) -> tuple[dict[str, int], dict[str, bytes]]:
    tops = {name.partition("/")[0] for name in modes}
    if len(tops) != 1 or all("/" not in name for name in modes):
        return modes, data
    cut = len(tops.pop()) + 1
    return (
        {name[cut:]: mode for name, mode in modes.items() if len(name) >= cut},
        {name[cut:]: content for name, content in data.items() if len(name) >= cut},
    )


def shelf(cache: Path, key: str) -> Path:
    """Where the cache keeps what was read of the archive whose SHA-256 (or other fixed key) is ``key``."""
    return cache / "check" / f"{key}.zip"


def from_cache(kept: Path, wanted: Collection[str]) -> Kept | None:
    """What an earlier check kept, if it has all that is wanted."""
    try:
        with zipfile.ZipFile(io.BytesIO(kept.read_bytes())) as store:
            listing = json.loads(store.read("modes.json"))
            if listing["version"] != _CACHE_VERSION:
                return None
            modes = {path: int(mode) for path, mode in listing["modes"].items()}
            there = {info.filename.removeprefix("files/"): info for info in store.infolist()}
            needed = [path for path in wanted if modes.get(path, TREE) not in (TREE, SUBMODULE)]
            if any(path not in there for path in needed):
                return None
            return Kept(modes, {path: store.read(there[path]) for path in needed})
    except (FileNotFoundError, zipfile.BadZipFile, ValueError, KeyError):
        return None


def cached_names(kept: Path) -> set[str]:
    """The files whose content an earlier check kept."""
    try:
        with zipfile.ZipFile(kept) as store:
            names = {info.filename for info in store.infolist()}
    except (FileNotFoundError, zipfile.BadZipFile):
        return set()
    return {name.removeprefix("files/") for name in names if name.startswith("files/")}


def to_cache(kept: Path, modes: dict[str, int], data: dict[str, bytes]) -> None:
    """Keep what was read; a cache that cannot be written costs time, never the check."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as store:
        store.writestr("modes.json", json.dumps({"version": _CACHE_VERSION, "modes": modes}))
        for path, content in data.items():
            store.writestr(f"files/{path}", content)
    try:
        write_atomically(kept, buffer.getvalue())
    except OSError:
        return


def is_archive(path: Path) -> bool:
    """Whether a file looks like one that ``from_archive`` reads, by its name."""
    name = path.name
    return name.endswith((".zip", ".tar", ".tgz", ".tbz2", ".txz")) or ".tar." in name


def is_repository(path: Path) -> bool:
    """Whether a folder is a git repository with commits to read: bare, or with a work tree."""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def open_path(path: Path, revision: str | None, wanted: Iterable[str], cache: Path | None) -> Opened:
    """A folder, an archive, or (with a ``revision``, or if it is bare) a commit of a git repository.

    Raises DecoupleError if there is no such thing.
    """
    if not path.exists():
        raise DecoupleError(f"there is no {path}", next_step="name a folder, an archive, or a repository@revision")
    if revision is None and is_repository(path) and not (path / ".git").exists():
        revision = "HEAD"
    if revision is not None:
        return Opened(GitTree(path, revision), f"git tree {revision} of {path}")
    if path.is_dir():
        return Opened(Folder(path), f"folder {path}")
    if not is_archive(path):
        raise DecoupleError(f"{path} is no archive", next_step="name a .tar.* or .zip file, or a folder")
    return Opened(from_archive(path, frozenset(wanted), cache), f"archive {path}")
