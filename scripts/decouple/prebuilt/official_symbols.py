"""Read the symbols of the official wheel: of its kernels and of its core."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError
from decouple.prebuilt import dynamic_symbols
from decouple.prebuilt.dynamic_symbols import DynamicSymbols
from decouple.prebuilt.member_window import MemberWindow
from decouple.upstream.remote_zip import RemoteZip

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
    libraries = [member for member in wheel.members if member.info.filename.startswith(_FOLDER)]

    def read_matching(pattern: re.Pattern[str]) -> tuple[DynamicSymbols, ...]:
        libraries_read = []
        for member in libraries:
            name = member.info.filename.removeprefix(_FOLDER)
            if pattern.fullmatch(name):
                window = MemberWindow(wheel, member)
                libraries_read.append(
                    dynamic_symbols.read_symbols(window, window.size, name, f"{wheel.url}: {member.info.filename}")
                )
        return tuple(libraries_read)

    kernels = read_matching(KERNELS)
    if not kernels:
        raise DecoupleError(
            f"{wheel.url}: no libtorch_cuda in it: a wheel for CPU only", next_step="name the CUDA wheel of the release"
        )
    return LibrarySymbols(kernels, read_matching(CORE) if core else (), wheel.received)


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
            return tuple(dynamic_symbols.read_file_symbols(path) for path in _drop_links(paths))
    expected = "libtorch_cuda and libc10_cuda" if pattern is KERNELS else "libtorch_cpu and libc10"
    raise UsageError(
        f"{folder}: no {expected} in it", next_step="name the folder of the libraries, or of a torch package"
    )


def _drop_links(paths: Sequence[Path]) -> list[Path]:
    """Return the paths without links to others of them.

    Debian has libc10.so and libc10.so.2.6.
    """
    return list({path.resolve(): path for path in paths}.values())
