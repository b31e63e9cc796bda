"""The device images that nvcc put into a host library or object.

``fatbinary`` writes containers into the ELF section ``.nv_fatbin``: a header (magic, version, its size, size of what
follows), then entries, each with a header of its own that says what it is, for which architecture, and whether
it is compressed. The layout is not documented by NVIDIA; what stands here was read off the libraries themselves, and a
container of another version is an error and not skipped.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from decouple.base.elf_files import open_elf
from decouple.base.errors import DecoupleError
from decouple.base.extras import explain_missing

MAGIC = 0xBA55ED50
_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_CONTAINER = struct.Struct("<IHHQ")
#: kind, version, header size, padded size, compressed size, options, minor, major, arch, name offset and length, flags,
#: 8 bytes that are 0, size after decompression
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _ELF = 1, 2
_VARIANTS = {0x100000: "a", 0x200000: "f"}
"""Flag -> the letter that nvcc adds: of one architecture alone, of its family."""
_LZ4, _ZSTD = 0x2000, 0x8000


class Image(Struct, frozen=True):
    """One device image.

    ``arch`` is as nvcc names it ("sm_90", "sm_90a", "compute_90"); ``container`` counts from 0.
    """

    container: int
    arch: str
    ptx: bool
    compressed: bool
    data: bytes


def count_images(library: Path) -> dict[str, int]:
    """Map each architecture to its number of images.

    "sm_90", "compute_90" for PTX. Raises DecoupleError as `read_images`.
    """
    found: dict[str, int] = {}
    with _MappedFile(library) as text:
        for _, _, arch, _ in _list_entries(library, text):
            found[arch] = found.get(arch, 0) + 1
    return dict(sorted(found.items()))


def read_images(library: Path, arch: str | None = None) -> Iterator[Image]:
    """Yield every image in ``library``, or those for ``arch``, decompressed.

    In order; a library without any has none. Raises DecoupleError when the file is no ELF file, or a container or entry
    is not of the known layout.
    """
    with _MappedFile(library) as text:
        for container, at, name, fields in _list_entries(library, text):
            if arch is None or name == arch:
                start, stored = at + fields[2], fields[3]
                data, packed = _decompress_image(library, text[start : start + stored], fields)
                yield Image(container, name, fields[0] == _PTX, packed, data)


def drop_variant(arch: str) -> str:
    """Return ``arch`` without the letter of a variant.

    >>> drop_variant("sm_90a"), drop_variant("sm_100f"), drop_variant("sm_80")
    ('sm_90', 'sm_100', 'sm_80')
    """
    return arch.rstrip("".join(_VARIANTS.values()))


class FatbinContainer(Struct, frozen=True):
    """Where a container lies in its file.

    The field with the size of its images, the images' begin and end, and of each (architecture, offset, size), header
    and all.
    """

    size_at: int
    begin: int
    end: int
    images: tuple[tuple[str, int, int], ...]


def list_containers(library: Path) -> Iterator[FatbinContainer]:
    """Yield every container in ``library``. Raises DecoupleError as `read_images`."""
    with _MappedFile(library) as text:
        yield from _list_containers(library, text)


class _MappedFile:
    """A file's bytes, mapped."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> mmap.mmap:
        try:
            with self._path.open("rb") as file:
                self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise DecoupleError(f"{self._path}: cannot be read: {error}", next_step="name a CUDA library") from error
        return self._text

    def __exit__(self, *error: object) -> None:
        self._text.close()


def _list_entries(library: Path, text: mmap.mmap) -> Iterator[tuple[int, int, str, tuple[int, ...]]]:
    """Yield container number, offset, architecture and header of each entry."""
    for number, container in enumerate(_list_containers(library, text)):
        for arch, at, _ in container.images:
            yield number, at, arch, _ENTRY.unpack_from(text, at)


def _list_containers(library: Path, text: mmap.mmap) -> Iterator[FatbinContainer]:
    for start, end in _list_sections(library):
        if end > len(text):
            raise DecoupleError(
                f"{library}: cut short: it has {len(text)} bytes, not {end}", next_step="fetch it again"
            )
        at = start
        while at + _CONTAINER.size <= end:
            magic, version, header, size = _CONTAINER.unpack_from(text, at)
            if magic == 0:  # padding between the objects that were linked
                at += 8
                continue
            if magic != MAGIC or version != 1 or header < _CONTAINER.size or at + header + size > end:
                raise DecoupleError(
                    f"{library}: at byte {at}: no fatbin container of version 1",
                    next_step="a newer nvcc? teach decouple/verify/kernels/fatbin.py its layout",
                )
            begin, stop = at + header, at + header + size
            yield FatbinContainer(
                at + _CONTAINER.size - 8, begin, stop, tuple(_list_images(library, text, begin, stop))
            )
            at = (stop + 7) & ~7


def _list_images(library: Path, text: mmap.mmap, entry: int, stop: int) -> Iterator[tuple[str, int, int]]:
    while entry < stop:
        if entry + _ENTRY.size > stop:
            raise DecoupleError(f"{library}: at byte {entry}: an entry cut short", next_step="fetch or build it again")
        fields = _ENTRY.unpack_from(text, entry)
        if fields[0] not in (_PTX, _ELF) or fields[2] < _ENTRY.size or entry + fields[2] + fields[3] > stop:
            raise DecoupleError(
                f"{library}: at byte {entry}: an entry of kind {fields[0]} that is neither PTX nor ELF",
                next_step="a newer nvcc? teach decouple/verify/kernels/fatbin.py its layout",
            )
        yield _name_architecture(fields), entry, fields[2] + fields[3]
        entry += fields[2] + fields[3]


def _list_sections(library: Path) -> list[tuple[int, int]]:
    with open_elf(library, "name a CUDA library") as file:
        found = [s for s in file.iter_sections() if s.name in _SECTIONS]
        return [(int(s["sh_offset"]), int(s["sh_offset"] + s["sh_size"])) for s in found]


def _name_architecture(fields: tuple[int, ...]) -> str:
    suffix = "".join(letter for flag, letter in _VARIANTS.items() if fields[11] & flag)
    return f"{'compute' if fields[0] == _PTX else 'sm'}_{fields[8]}{suffix}"


def _decompress_image(library: Path, stored: bytes, fields: tuple[int, ...]) -> tuple[bytes, bool]:
    """Return the image, and whether it was compressed."""
    packed, flags, whole = fields[4], fields[11], fields[13]
    if not packed or not flags & (_LZ4 | _ZSTD):
        return stored, False
    try:
        if flags & _ZSTD:
            import zstandard

            return zstandard.ZstdDecompressor().decompress(stored[:packed], max_output_size=whole), True
        import lz4.block

        return bytes(lz4.block.decompress(stored[:packed], uncompressed_size=whole)), True
    except ImportError as error:
        raise explain_missing(str(error.name), "verify") from error
    except Exception as error:  # each of the two has a base class of its own
        raise DecoupleError(f"{library}: a damaged image: {error}", next_step="fetch or build it again") from error
