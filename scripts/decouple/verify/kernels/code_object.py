"""AMD's device code in an object: the functions of each image in it.

What decides how a kernel behaves: its machine code, the kernel descriptor (64 bytes: registers, memory, modes), and
what the image's notes say of its arguments and resources (LLVM's AMDGPU backend guide, "Kernel Descriptor", "Code
Object Metadata"). Images are linked, so that places of variables stand in the code itself.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgspec

from decouple.base import elf_files
from decouple.base.elf_files import Symbol
from decouple.base.errors import DecoupleError
from decouple.verify.kernels import bundles
from decouple.verify.kernels import sections as elf
from decouple.verify.kernels.dump import Kernel, KernelUnit, hash_code, hash_launch
from decouple.verify.kernels.host_code import normalise_name
from decouple.verify.kernels.sections import Section

_HOST, _AMDGPU = "EM_X86_64", "EM_AMDGPU"
_NOTE, _METADATA = struct.Struct("<III"), 32
_DESCRIPTOR = 64
#: In a descriptor: how far it is to the code, which depends on what stands between.
_DISTANCE = slice(16, 24)


def read_device_objects(path: Path, file: str) -> list[KernelUnit]:
    """Read the device code in the object at ``path``, compiled from ``file``.

    Returns one unit per architecture. None where it has no device code. Raises DecoupleError when it is no object, or
    its device code of another layout.
    """
    image = path.read_bytes()
    try:
        sections = elf.list_sections(image, _HOST)
        return [
            _read_image(entry.arch, image[bundle.begin + entry.offset :][: entry.size], file)
            for section in sections
            if section.name == bundles.SECTION
            for bundle in bundles.list_bundles(image, section.offset, section.offset + section.size)
            for entry in bundle.entries
            if entry.arch
        ]
    except (struct.error, IndexError, ValueError, OverflowError, msgspec.DecodeError) as error:
        raise DecoupleError(f"{path}: its device code: {error}", next_step="compile it again") from None


def _read_image(arch: str, image: bytes, file: str) -> KernelUnit:
    sections = elf.list_sections(image, _AMDGPU)
    symbols = elf.read_symbols(image, sections) or elf.read_symbols(image, sections, ".dynsym")
    told = _read_metadata(image, sections)
    descriptors = {symbol.name.removesuffix(".kd"): symbol for symbol in symbols if symbol.name.endswith(".kd")}
    kernels, data = [], []
    for symbol in symbols:
        if not symbol.size or symbol.section >= len(sections):
            continue
        content = _read_content(image, sections[symbol.section], symbol)
        if symbol.kind == elf_files.FUNCTION:
            launch = msgspec.msgpack.encode(told.get(symbol.name), order="sorted")
            if (found := descriptors.get(symbol.name)) is not None:
                row = _read_content(image, sections[found.section], found)
                launch += row[: _DISTANCE.start] + row[_DISTANCE.stop : _DESCRIPTOR]
            name = normalise_name(symbol.name)
            kernels.append(Kernel(name, hash_code(content), hash_launch(launch), symbol.size, found is not None))
        elif symbol.kind == elf_files.OBJECT and not symbol.name.endswith(".kd"):
            data.append((normalise_name(symbol.name), hash_code(content)))
    kernels.sort(key=lambda one: (one.name, one.code))
    return KernelUnit(arch, file, tuple(kernels), tuple(sorted(data)))


def _read_content(image: bytes, home: Section, one: Symbol) -> bytes:
    """Return what stands under a symbol; its value is an address in a linked image."""
    return home.read(image)[one.value - home.address :][: one.size]


def _read_metadata(image: bytes, sections: list[Section]) -> dict[str, Any]:
    """Return name of a kernel -> what the notes say of it."""
    found: dict[str, Any] = {}
    for section in sections:
        content, at = (section.read(image), 0) if section.kind == elf.NOTE else (b"", 0)
        while at + _NOTE.size <= len(content):
            named, size, kind = _NOTE.unpack_from(content, at)
            begin = at + _NOTE.size + (named + 3 & ~3)
            if kind == _METADATA and content[at + _NOTE.size :][:6] == b"AMDGPU":
                document = msgspec.msgpack.decode(content[begin : begin + size])
                found.update({row[".name"]: row for row in document.get("amdhsa.kernels", ())})
            at = begin + (size + 3 & ~3)
    return found
