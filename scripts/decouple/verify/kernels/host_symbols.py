"""Read the host's half of the device code.

That is which functions a library registers, and which it needs of NVIDIA's libraries.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.elf_files import open_elf
from decouple.verify import audit, elf
from decouple.verify.kernels import cubin, fatbin

#: A mangled name in read-only data, as ``__cudaRegisterFunction`` is handed it. What stands before it may be a number.
_NAME = re.compile(rb"_Z[\w$.]+(?=\0)")


class HostSymbols(Struct, frozen=True):
    """The host's half of a library's device code.

    ``imports`` are the symbols of NVIDIA's libraries; ``unregistered`` kernels that the host cannot launch.
    """

    imports: frozenset[str]
    containers: int
    kernels: int
    unregistered: tuple[str, ...]


def list_cuda_imports(libraries: Sequence[Path]) -> frozenset[str]:
    """Return the symbols that ``libraries`` need of NVIDIA's libraries.

    Nobody else defines them.
    """
    read = [elf.read_library(library) for library in libraries]
    named = frozenset().union(*(library.undefined | library.optional for library in read))
    return frozenset(name for name in named if audit.make_symbol_pattern().match(name) and not name.startswith("_Z"))


def read_host_symbols(library: Path, archs: Sequence[str]) -> HostSymbols:
    """Read one library.

    ``archs`` name the images whose kernels must be registered.
    """
    kernels: set[str] = set()
    containers: set[int] = set()
    for image in (image for arch in archs for image in fatbin.read_images(library, arch)):
        containers.add(image.container)
        kernels.update(function.mangled for function in cubin.read_cubin(image.data).functions if function.kernel)
    left = kernels - find_registered_names(library, kernels)
    return HostSymbols(list_cuda_imports([library]), len(containers), len(kernels), tuple(sorted(left)))


def find_registered_names(library: Path, names: Collection[str]) -> frozenset[str]:
    """Find those of ``names`` that stand in the library's read-only data.

    A kernel in ``extern "C"`` has a name that is not mangled: such are searched one by one.
    """
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        sections = _list_readonly_sections(library)
        found = {match[0].decode() for section in sections for match in _NAME.finditer(text, *section)}
        for name in names:
            if not name.startswith("_Z") and any(
                text.find(f"{name}\0".encode(), *section) >= 0 for section in sections
            ):
                found.add(name)
    return frozenset(found.intersection(names))


def _list_readonly_sections(library: Path) -> list[tuple[int, int]]:
    with open_elf(library, "name a CUDA library") as file:
        sections = [s for s in file.iter_sections() if s.name.startswith(".rodata")]
        return [(int(s["sh_offset"]), int(s["sh_offset"] + s["sh_size"])) for s in sections]
