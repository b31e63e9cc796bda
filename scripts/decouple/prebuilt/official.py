"""The official wheel of a release: which of its libraries hold kernels, and what they show of themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError
from decouple.prebuilt import dynamic
from decouple.prebuilt.dynamic import Face
from decouple.prebuilt.remote import MemberWindow
from decouple.upstream.ranges import RemoteZip

#: The libraries that a CUDA build has and a CPU build has not, and those of the core that they ask. libtorch and
#: libtorch_python hold no kernels.
KERNELS = re.compile(r"lib(c10_cuda|torch_cuda|torch_cuda_\w+|caffe2_nvrtc|torch_nvshmem)\.so(\.[\d.]+)?")
CORE = re.compile(r"lib(c10|torch_cpu)\.so(\.[\d.]+)?")
_FOLDER = "torch/lib/"


class Faces(Struct, frozen=True):
    """What libraries with kernels and those of a core show; ``received`` bytes came over the network for it."""

    kernels: tuple[Face, ...]
    core: tuple[Face, ...]
    received: int = 0


def of_wheel(wheel: RemoteZip, *, core: bool = True) -> Faces:
    """Both halves of an official wheel, by range. Raises DecoupleError when it has no CUDA in it."""
    libraries = [member for member in wheel.members if member.info.filename.startswith(_FOLDER)]

    def faces(pattern: re.Pattern[str]) -> tuple[Face, ...]:
        found = []
        for member in libraries:
            name = member.info.filename.removeprefix(_FOLDER)
            if pattern.fullmatch(name):
                window = MemberWindow(wheel, member)
                found.append(dynamic.read(window, window.size, name, f"{wheel.url}: {member.info.filename}"))
        return tuple(found)

    kernels = faces(KERNELS)
    if not kernels:
        raise DecoupleError(
            f"{wheel.url}: no libtorch_cuda in it: a wheel for CPU only", next_step="name the CUDA wheel of the release"
        )
    return Faces(kernels, faces(CORE) if core else (), wheel.received)


def of_folder(folder: Path, pattern: re.Pattern[str]) -> tuple[Face, ...]:
    """The libraries of a folder, of its ``lib`` or of the torch package in it, whose names match.

    Raises UsageError when there are none.
    """
    for place in (folder, folder / "lib", folder / "torch" / "lib", *sorted(folder.glob("lib/*-linux-gnu"))):
        found = sorted(path for path in place.glob("*.so*") if pattern.fullmatch(path.name)) if place.is_dir() else []
        if found:
            return tuple(dynamic.of_file(path) for path in _distinct(found))
    wanted = "libtorch_cuda and libc10_cuda" if pattern is KERNELS else "libtorch_cpu and libc10"
    raise UsageError(
        f"{folder}: no {wanted} in it", next_step="name the folder of the libraries, or of a torch package"
    )


def _distinct(paths: Sequence[Path]) -> list[Path]:
    """Without links to others of them: Debian has libc10.so and libc10.so.2.6."""
    return list({path.resolve(): path for path in paths}.values())
