"""Describe a library's device code as hashes.

They are made from the library, kept as a file, read again. A dump is text, one line per function, packed with xz; the
official library of a release with 19,000 functions for one architecture takes some hundred kilobytes. The file holds no
byte of anybody's machine code.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.progress import SILENT, Progress
from decouple.verify.kernels import cubin, fatbin

FORMAT = 2
"""Of a dump's file. 1 did not tell the paths of sources among the variables."""
_TITLE = f"decouple-kernels {FORMAT}"
#: Hex digits kept of a SHA-256: 80 bits of 20,000 functions collide by chance once in 10^15.
_CODE, _LAUNCH = 20, 10


class Kernel(Struct, frozen=True):
    """One function: its normalised mangled name, and digests in hex.

    The digests are of its machine code and of what is launched with it. ``size`` is that of the machine code in bytes;
    ``kernel`` says whether the host can launch it.
    """

    name: str
    code: str
    launch: str
    size: int
    kernel: bool


class KernelUnit(Struct, frozen=True):
    """What was compiled from one file for one architecture.

    ``data`` are (name, digest) of initialised variables.
    """

    arch: str
    file: str
    kernels: tuple[Kernel, ...]
    data: tuple[tuple[str, str], ...]


class KernelDump(Struct, frozen=True):
    """The device code of one or several libraries.

    ``images`` counts all images by architecture, dumped or not.
    """

    label: str
    libraries: tuple[str, ...]
    images: Mapping[str, int]
    units: tuple[KernelUnit, ...]

    def architectures(self) -> tuple[str, ...]:
        """Return those whose functions are in the dump, sorted."""
        return tuple(sorted({unit.arch for unit in self.units}))

    def keep_archs(self, archs: Sequence[str]) -> KernelDump:
        """Return the dump of what `select_archs` selects, and raise as it does."""
        wanted = select_archs(self.architectures(), archs, self.label)
        return replace(self, units=tuple(unit for unit in self.units if unit.arch in wanted))


def select_archs(there: Iterable[str], archs: Sequence[str], where: str) -> list[str]:
    """Select from the architectures that are ``there`` those of ``archs``.

    An architecture stands with its variants: "sm_90" means "sm_90a" and "sm_90f" too. Raises DecoupleError, about
    ``where``, when one of ``archs`` is not there: what nobody compares would count as equal.
    """
    known = sorted(there)
    lacking = sorted({*archs} - {*known} - {fatbin.drop_variant(arch) for arch in known})
    if lacking:
        raise DecoupleError(
            f"{where}: no machine code for {' or '.join(lacking)}, only {', '.join(known) or 'none at all'}",
            next_step="--arch one that is in it, another library, or build the wheel that should have it again",
        )
    return [arch for arch in known if arch in archs or fatbin.drop_variant(arch) in archs]


def dump_libraries(
    libraries: Sequence[Path], label: str, archs: Sequence[str] | None = None, *, progress: Progress = SILENT
) -> KernelDump:
    """Dump the machine code of ``libraries`` (shared libraries or objects).

    For all architectures or only ``archs``, as `select_archs` selects them. Raises DecoupleError when a file cannot be
    read, or when there is no machine code for one that was asked for, or for any.
    """
    counts: dict[str, int] = {}
    present = [fatbin.count_images(library) for library in libraries]
    for found in present:
        for arch, count in found.items():
            counts[arch] = counts.get(arch, 0) + count
    named = ", ".join(map(str, libraries))
    chosen = sorted(arch for arch in counts if arch.startswith("sm_"))
    if not chosen:
        raise DecoupleError(
            f"{named}: no machine code, only {', '.join(counts) or 'none at all'}",
            next_step="name the library with the kernels (libtorch_cuda.so)",
        )
    if archs is not None:
        chosen = select_archs(chosen, archs, named)
    units: dict[tuple[str, str], list[KernelUnit]] = {}
    progress.start(f"machine code of {label}", float(sum(counts[arch] for arch in chosen)))
    for library, found in zip(libraries, present, strict=True):
        for arch in chosen:
            for image in fatbin.read_images(library, arch) if arch in found else ():
                unit = _make_unit(arch, cubin.read_cubin(image.data))
                units.setdefault((unit.arch, unit.file), []).append(unit)
                progress.advance()
    progress.finish()
    merged = tuple(_merge_units(units[key]) for key in sorted(units))
    return KernelDump(label, tuple(library.name for library in libraries), dict(sorted(counts.items())), merged)


def _make_unit(arch: str, read: cubin.Cubin) -> KernelUnit:
    kernels = [
        Kernel(
            function.name,
            hash_code(function.code),
            function.launch.hex()[:_LAUNCH],
            len(function.code),
            function.kernel,
        )
        for function in read.functions
    ]
    data = sorted((item.name, hash_code(item.content)) for item in read.data)
    return KernelUnit(arch, read.file, tuple(sorted(kernels, key=_make_sort_key)), tuple(data))


def _merge_units(units: Sequence[KernelUnit]) -> KernelUnit:
    """Merge two files of one name in different folders into one unit.

    Their functions have different names.
    """
    kernels = sorted((kernel for unit in units for kernel in unit.kernels), key=_make_sort_key)
    return replace(units[0], kernels=tuple(kernels), data=tuple(sorted(item for unit in units for item in unit.data)))


def _make_sort_key(kernel: Kernel) -> tuple[str, str, str]:
    return kernel.name, kernel.code, kernel.launch


def hash_code(content: bytes) -> str:
    """Return the digest to compare machine code or a variable's content by."""
    return hashlib.sha256(content).hexdigest()[:_CODE]


def hash_launch(described: bytes) -> str:
    """Return the digest of what is launched with a function."""
    return hashlib.sha256(described).hexdigest()[:_LAUNCH]


def pack_dump(dump: KernelDump) -> bytes:
    """Return the bytes of the file of ``dump``; of the same dump always the same."""
    text = "".join(f"{line}\n" for line in _render_lines(dump))
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def _render_lines(dump: KernelDump) -> Iterator[str]:
    about = {"label": dump.label, "libraries": list(dump.libraries), "images": dict(dump.images)}
    yield _TITLE
    yield json.dumps(about, sort_keys=True, ensure_ascii=False)
    for unit in dump.units:
        yield f"= {unit.arch} {unit.file}"
        for kernel in unit.kernels:
            yield f"{kernel.name} {kernel.size:x} {'k' if kernel.kernel else 'f'} {kernel.code} {kernel.launch}"
        for name, digest in unit.data:
            yield f"* {name} {digest}"


def read_dump(path: Path) -> KernelDump:
    """Read a file of the bytes of `pack_dump`. Raises DecoupleError when it is none."""
    try:
        lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        if lines[0] != _TITLE:
            raise ValueError(f"begins with {lines[0][:40]!r}, not with {_TITLE!r}")
        about: dict[str, Any] = json.loads(lines[1])
        units = tuple(_parse_units(lines[2:]))
    except (OSError, lzma.LZMAError, ValueError, IndexError) as error:
        raise DecoupleError(
            f"{path}: no dump of kernels: {error}", next_step="make it anew: decouple kernels dump LIB… -o FILE"
        ) from error
    return KernelDump(about["label"], tuple(about["libraries"]), about["images"], units)


def _parse_units(lines: Sequence[str]) -> Iterator[KernelUnit]:
    unit: tuple[str, str] | None = None
    kernels: list[Kernel] = []
    data: list[tuple[str, str]] = []
    for line in lines:
        words = line.split(" ")
        if words[0] == "=":
            if unit:
                yield KernelUnit(*unit, tuple(kernels), tuple(data))
            unit, kernels, data = (words[1], words[2]), [], []
        elif words[0] == "*":
            data.append((words[1], words[2]))
        else:
            name, size, kind, code, launch = words
            kernels.append(Kernel(name, code, launch, int(size, 16), kind == "k"))
    if unit:
        yield KernelUnit(*unit, tuple(kernels), tuple(data))


def is_dump(path: Path) -> bool:
    """Return whether the file is a dump rather than a library."""
    with path.open("rb") as file:
        return file.read(6) == b"\xfd7zXZ\0"
