"""Read the symbols of the official wheel: of its kernels and of its core."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError
from decouple.prebuilt import dynamic_symbols
from decouple.prebuilt.deflate_tail import Tail, inflate_end
from decouple.prebuilt.dynamic_symbols import DynamicSymbols
from decouple.upstream.remote_zip import Member, RemoteZip

#: How much of the beginning comes at once, and how much of the end at first.
_STEP = 1 << 20
_LOCAL = struct.Struct("<4s5H3I2H")


class MemberWindow:
    """``window(position, size)`` onto one deflated member of a wheel on a server.

    Only the ends of the member are fetched. Raises DecoupleError when the server or the data fail.
    """

    def __init__(self, remote: RemoteZip, member: Member) -> None:
        self._remote = remote
        self.name = member.info.filename
        self.size = member.info.file_size
        local = remote.read_at(member.first, _LOCAL.size)
        *_, name, extra = _LOCAL.unpack(local)
        if local[:4] != b"PK\x03\x04" or member.info.compress_type != zipfile.ZIP_DEFLATED:
            raise self._damage_error("not a deflated member")
        self._begin = member.first + _LOCAL.size + name + extra
        self._end = self._begin + member.info.compress_size
        self._front = bytearray()
        self._read = self._begin
        self._decoder = zlib.decompressobj(-15)
        self._raw_tail = b""
        self._tail: Tail | None = None

    def __call__(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from ``position``, read from the nearer end."""
        if position < 0 or position + size > self.size:
            raise self._damage_error(f"has {self.size} bytes, those up to {position + size} are asked for")
        while position + size > len(self._front):
            content = self._tail.at(position, size) if self._tail else None
            if content is not None:
                return content
            if position > self.size // 2 and len(self._raw_tail) < (self._end - self._begin) // 2:
                self._extend_tail()
            else:
                self._extend_front()
        return bytes(self._front[position : position + size])

    def _extend_front(self) -> None:
        count = min(_STEP, self._end - self._read)
        if count <= 0:
            raise self._damage_error(f"ends after {len(self._front)} of {self.size} bytes")
        try:
            self._front += self._decoder.decompress(self._remote.read_at(self._read, count))
        except zlib.error as error:
            raise self._damage_error(str(error)) from None
        self._read += count

    def _extend_tail(self) -> None:
        known = len(self._raw_tail)
        count = min(max(known, _STEP), self._end - self._begin - known)
        first = self._end - known - count
        self._raw_tail = self._remote.read_at(first, count) + self._raw_tail
        self._tail = inflate_end(self._raw_tail, self.size) or self._tail

    def _damage_error(self, why: str) -> DecoupleError:
        return DecoupleError(f"{self._remote.url}: {self.name}: {why}", next_step="try again later")


#: The libraries that a CUDA build has and a CPU build has not, and those of the core that they ask. libtorch and
#: libtorch_python hold no kernels.
KERNELS = re.compile(r"lib(c10_cuda|torch_cuda|torch_cuda_\w+|caffe2_nvrtc|torch_nvshmem)\.so(\.[\d.]+)?")
CORE = re.compile(r"lib(c10|torch_cpu)\.so(\.[\d.]+)?")
_FOLDER = "torch/lib/"


class LibrarySymbols(Struct, frozen=True):
    """The symbols of libraries with kernels and of those of a core.

    ``received`` bytes came over the network for it.
    """

    kernels: tuple[DynamicSymbols, ...]
    core: tuple[DynamicSymbols, ...]
    received: int = 0


def read_wheel_symbols(wheel: RemoteZip, *, core: bool = True) -> LibrarySymbols:
    """Read the symbols of both halves of an official wheel, by range requests.

    Raises DecoupleError when it has no CUDA in it.
    """
    kernels = _read_members(wheel, KERNELS)
    if not kernels:
        raise DecoupleError(
            f"{wheel.url}: no libtorch_cuda in it: a wheel for CPU only", next_step="name the CUDA wheel of the release"
        )
    return LibrarySymbols(kernels, _read_members(wheel, CORE) if core else (), wheel.received)


def _read_members(wheel: RemoteZip, pattern: re.Pattern[str]) -> tuple[DynamicSymbols, ...]:
    found = []
    for member in wheel.members:
        name = member.info.filename.removeprefix(_FOLDER)
        if name != member.info.filename and pattern.fullmatch(name):
            window = MemberWindow(wheel, member)
            found.append(
                dynamic_symbols.read_symbols(window, window.size, name, f"{wheel.url}: {member.info.filename}")
            )
    return tuple(found)


def read_folder_symbols(folder: Path, pattern: re.Pattern[str]) -> tuple[DynamicSymbols, ...]:
    """Read the symbols of the libraries of a folder whose names match ``pattern``.

    They are in the folder, in its ``lib`` or in the torch package in it. Raises UsageError when there are none.
    """
    for candidate in (folder, folder / "lib", folder / "torch" / "lib", *sorted(folder.glob("lib/*-linux-gnu"))):
        paths = (
            sorted(path for path in candidate.glob("*.so*") if pattern.fullmatch(path.name))
            if candidate.is_dir()
            else []
        )
        if paths:
            files = {path.resolve(): path for path in paths}  # Debian has libc10.so and libc10.so.2.6, one file
            return tuple(map(dynamic_symbols.read_file_symbols, files.values()))
    expected = "libtorch_cuda and libc10_cuda" if pattern is KERNELS else "libtorch_cpu and libc10"
    raise UsageError(
        f"{folder}: no {expected} in it", next_step="name the folder of the libraries, or of a torch package"
    )
