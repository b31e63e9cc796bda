"""Unpack an untrusted archive: all of it lands in a new folder or nothing does.

The rules are ours and come on top of tarfile's ``data`` filter, which Python has from 3.11.4 (Debian 12's is 3.11.2)
and which asks the disk (``realpath``). Alone it lets through more than half of the archives in
tests/unit/upstream/test_unpack.py: links that leave the tree once all entries are there, entries over others.
:class:`TreeWriter` knows every entry it wrote; nothing is ever written through a link, and after the last entry each
link is resolved in memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.files import remove_folder
from decouple.base.progress import SILENT, Progress
from decouple.base.steps import mark_step
from decouple.base.untrusted_input import DEPTH_BOUND
from decouple.upstream.archive import DAMAGE, ByteStream, TarReader, open_tar
from decouple.upstream.download import make_storage_error

_BLOCK = 1 << 20
#: What no name in a source tree has: a backslash, a control character.
_ODD = re.compile(r"[\\\x00-\x1f\x7f]")


class Limits(Struct, frozen=True):
    """Bound an archive: ``size`` in bytes over all files, ``members`` in entries.

    PyTorch with all submodules is about 1.4 GB in 60,000 files.
    """

    size: int = 6 << 30
    members: int = 400_000


LIMITS = Limits()


class TreeWriter:
    """Write files below ``root``, refusing names that no source tree has.

    ``root`` is an empty folder of ours. ``archive`` and ``next_step`` are only for messages. Every method raises
    DecoupleError.
    """

    def __init__(
        self,
        root: Path,
        archive: str,
        limits: Limits = LIMITS,
        next_step: str = "get the archive from the place that the manifest names",
    ) -> None:
        self.root = str(root)
        self.archive = archive
        self.limits = limits
        self.next_step = next_step
        self.bytes = 0
        self.members = 0
        self._kinds: dict[tuple[str, ...], str] = {(): "folder"}
        self._links: dict[tuple[str, ...], str] = {}

    def make_refusal(self, name: str, why: str) -> DecoupleError:
        """Make the error for one entry."""
        return DecoupleError(
            f"{self.archive}: refused: entry {name[:200]!r} {why}",
            next_step=f"nothing was unpacked; {self.next_step}",
        )

    def split_name(self, name: str) -> tuple[str, ...]:
        """Split an entry's name into path components.

        Raises DecoupleError for one that leaves the tree.
        """
        if name.startswith("/"):
            raise self.make_refusal(name, "has an absolute path")
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if ".." in parts:
            raise self.make_refusal(name, "has '..' in its path")
        if _ODD.search(name):
            raise self.make_refusal(name, "has a backslash or a control character in its name")
        if len(parts) > DEPTH_BOUND:
            raise self.make_refusal(name, f"lies {len(parts)} folders deep, more than {DEPTH_BOUND}")
        if parts and len(parts[0]) == 2 and parts[0][1] == ":":
            raise self.make_refusal(name, "begins with a drive letter")
        return parts

    def count_entry(self, name: str, size: int) -> None:
        """Take one entry of ``size`` bytes into account."""
        self.members += 1
        self.bytes += size
        if size < 0:
            raise self.make_refusal(name, "has a negative size")
        if self.members > self.limits.members:
            raise self.make_refusal(name, f"is one more than the {self.limits.members} entries that are allowed")
        if self.bytes > self.limits.size:
            raise self.make_refusal(name, f"exceeds the {self.limits.size} bytes that are allowed in all")

    def make_folder(self, name: str, parts: tuple[str, ...]) -> None:
        """Make a folder and those above it; one that is there already is fine."""
        kind = self._kinds.get(parts)
        if kind == "folder":
            return
        if kind is not None:
            raise self.make_refusal(name, f"is below {'/'.join(parts)!r}, which is a {kind}")
        self.make_folder(name, parts[:-1])
        os.mkdir(f"{self.root}/{'/'.join(parts)}", 0o755)  # noqa: PTH102 - thousands of times
        self._kinds[parts] = "folder"

    def write_file(self, name: str, parts: tuple[str, ...], size: int, content: ByteStream, executable: bool) -> None:
        """Write a file of exactly ``size`` bytes from ``content``."""
        self._add_entry(name, parts, "file")
        path = f"{self.root}/{'/'.join(parts)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(path, flags, 0o755 if executable else 0o644)
        try:
            left = size
            while left:
                data = content.read(min(left, _BLOCK))
                if not data:
                    raise DecoupleError(
                        f"{self.archive}: cut off in the middle of {name}", next_step="delete it and fetch again"
                    )
                left -= len(data)
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view) :]
        finally:
            os.close(handle)

    def make_link(self, name: str, parts: tuple[str, ...], target: str) -> None:
        """Make a symbolic link.

        Whether it stays inside is decided in :meth:`check_links`, when all entries are known.
        """
        if target.startswith("/"):
            raise self.make_refusal(name, f"is a link to the absolute path {target[:200]!r}")
        if not target or "\0" in target or len(target) > 4096:
            raise self.make_refusal(name, "is a link to nowhere")
        self._add_entry(name, parts, "link")
        self._links[parts] = target
        os.symlink(target, f"{self.root}/{'/'.join(parts)}")  # noqa: PTH211 - keeps the target as it is

    def copy_file(self, name: str, parts: tuple[str, ...], original: tuple[str, ...]) -> None:
        """Write the file ``original``, which must be in the tree already, a second time.

        For a hard link: with two names for one file, an edit of one would change the other.
        """
        if self._kinds.get(original) != "file":
            raise self.make_refusal(name, f"is a hard link to {'/'.join(original)!r}, no earlier file of the archive")
        path = Path(self.root, *original)
        info = path.stat()
        self.count_entry(name, info.st_size)
        with path.open("rb") as content:
            self.write_file(name, parts, info.st_size, content, bool(info.st_mode & 0o100))

    def check_links(self) -> None:
        """Resolve every link through all others.

        Raises DecoupleError when one leaves the tree or goes in circles.
        """
        for parts, target in self._links.items():
            self._resolve_link(parts, target)

    def _add_entry(self, name: str, parts: tuple[str, ...], kind: str) -> None:
        if not parts:
            raise self.make_refusal(name, f"is a {kind} with no name")
        if parts in self._kinds:
            raise self.make_refusal(name, f"is there already as a {self._kinds[parts]}")
        self.make_folder(name, parts[:-1])
        self._kinds[parts] = kind

    def _resolve_link(self, parts: tuple[str, ...], target: str) -> None:
        here = list(parts[:-1])
        pending = target.split("/")[::-1]
        hops = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not here:
                    raise self.make_refusal("/".join(parts), f"is a link that leaves the tree: {target[:200]!r}")
                here.pop()
                continue
            here.append(part)
            further = self._links.get(tuple(here))
            if further is not None:
                hops += 1
                if hops > 40:
                    raise self.make_refusal("/".join(parts), "is a link that never ends")
                here.pop()
                pending.extend(further.split("/")[::-1])


def unpack_tar(
    archive: Path,
    into: Path,
    *,
    strip: int = 1,
    leave_out: Callable[[Sequence[str]], bool] | None = None,
    limits: Limits = LIMITS,
    progress: Progress = SILENT,
) -> TreeWriter:
    """Unpack a tar archive (plain, gz, xz, bz2) into the new folder ``into``.

    ``strip`` leading path components are dropped and must be the same for all entries; ``leave_out`` says which
    entries (by what is left of their path) are not written. Modes become 644 or 755, owner and times are not restored.
    Raises DecoupleError; ``into`` is not there then. The caller makes it atomic (:func:`make_new_folder`).
    """
    mark_step(f"unpack {archive.name}")
    into.mkdir(parents=True)
    writer = TreeWriter(into, archive.name, limits)
    total = archive.stat().st_size
    progress.start(f"unpack {archive.name}", float(total), "bytes")
    try:
        with open_tar(archive, most_after=limits.size) as tar:
            _write_members(tar, writer, str(into), strip, leave_out, progress)
        writer.check_links()
    except DAMAGE as error:
        remove_folder(into, ignore_errors=True)
        raise DecoupleError(
            f"{archive}: damaged or no tar archive: {error}", next_step="delete it and fetch again"
        ) from None
    except OSError as error:
        remove_folder(into, ignore_errors=True)
        if error.errno is None:  # gzip.BadGzipFile
            raise DecoupleError(f"{archive}: damaged: {error}", next_step="delete it and fetch again") from None
        raise make_storage_error(error, into.parent, f"unpacking {archive.name}") from None
    except BaseException:
        remove_folder(into, ignore_errors=True)
        raise
    progress.finish()
    return writer


def _write_members(
    tar: TarReader,
    writer: TreeWriter,
    root: str,
    strip: int,
    leave_out: Callable[[Sequence[str]], bool] | None,
    progress: Progress,
) -> None:
    """Write every member of ``tar``."""
    tops: set[tuple[str, ...]] = set()
    seen = 0
    data_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4; our own rules hold without it too
    for member in tar:
        name = member.name
        writer.count_entry(name, member.size)
        parts = writer.split_name(name)
        if data_filter is not None and not member.isreg():  # for plain files it would only ask the disk what we know
            try:
                data_filter(member, root)
            except tarfile.FilterError as error:
                raise writer.make_refusal(name, f"is not allowed: {error}") from None
        if len(parts) < strip or (len(parts) == strip and not member.isdir()):
            if member.isdir():
                continue
            raise writer.make_refusal(name, "is not below the archive's one top folder")
        tops.add(parts[:strip])
        if len(tops) > 1:
            raise writer.make_refusal(name, "is below a second top folder")
        parts = parts[strip:]
        if not parts or (leave_out and leave_out(parts)):
            continue
        if member.isdir():
            writer.make_folder(name, parts)
        elif member.issym():
            writer.make_link(name, parts, member.linkname)
        elif member.islnk():
            original = writer.split_name(member.linkname)
            if (original[:strip],) != tuple(tops):
                raise writer.make_refusal(name, f"is a hard link out of the tree: {member.linkname[:200]!r}")
            writer.copy_file(name, parts, original[strip:])
        elif member.isreg():
            if member.issparse():
                raise writer.make_refusal(name, "is a sparse file")
            writer.write_file(name, parts, member.size, tar.open_content(member), bool(member.mode & 0o100))
        else:
            raise writer.make_refusal(name, "is a device, a pipe or of a kind that no source tree has")
        position = tar.position
        progress.advance(position - seen)
        seen = position


@contextlib.contextmanager
def make_new_folder(final: Path) -> Iterator[Path]:
    """Make a temporary sibling that becomes ``final`` when the block ends well.

    It is removed when the block does not. Left-overs of killed runs are removed first, so the caller holds a lock on
    ``final``.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    for left in final.parent.glob(f".{final.name}.*.part"):
        remove_folder(left, ignore_errors=True)
    mark_step(f"create a temporary folder for {final.name}")
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".part", dir=final.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        mark_step(f"rename {final.name} into place")
        temporary.rename(final)
    except BaseException:
        remove_folder(temporary, ignore_errors=True)
        raise
