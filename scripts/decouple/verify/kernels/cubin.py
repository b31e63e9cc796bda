"""Read the functions in a cubin.

It is an ELF file for NVIDIA's machine with one ``.text.<name>`` section per function. What decides how a function
behaves lies in sections named after it: its machine code, its constants, the sizes of its arguments and of its shared
memory; registers and stack stand in ``.nv.info``.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from decouple.base import elf_files
from decouple.base.elf_files import Symbol
from decouple.base.errors import DecoupleError
from decouple.verify.kernels import sections as elf
from decouple.verify.kernels.sections import Section

_CUDA = "EM_CUDA"
#: STO_CUDA_ENTRY in st_other: the host can launch it
_ENTRY = 0x10
#: ``_GLOBAL__N__<hash>_<length>_<file>_cu_<hash>_<number>``: the anonymous namespace of one source, after its length.
_OWN = re.compile(r"(\d+)(_GLOBAL__N__|_INTERNAL_)(?=[0-9a-f]{8}_\d+_)")
_STATIC = re.compile(r"__nv_static_\d+__[0-9a-f]{8}_\d+_(\w+?)_cu_[0-9a-f]{8}(?:_\d+)?_")
#: The inline namespace of CUB and Thrust: version, then every architecture of the build.
_NAMESPACE = re.compile(r"\d+(CUB|THRUST)_(\d+)_[\d_]*NS")


class DeviceFunction(Struct, frozen=True):
    """One function of a cubin.

    ``name`` is without what differs between builds by nature, ``code`` its machine code. ``launch`` is a digest of what
    else the driver reads: registers, stack, barriers, shared memory, sizes of arguments, attributes, constants and
    relocations. ``kernel`` says whether the host can launch it.
    """

    name: str
    mangled: str
    code: bytes
    launch: bytes
    kernel: bool


class DeviceVariable(Struct, frozen=True):
    """One initialised variable in device memory or constant memory.

    Normalised name and content. Where that is the path of a source, which an assertion's message names, the name is
    `PATH_OF` and that file's name.
    """

    name: str
    content: bytes


class Cubin(Struct, frozen=True):
    """What one image holds.

    ``file`` is what it was compiled from ("SummaryOps.cu"), empty when not known.
    """

    file: str
    functions: tuple[DeviceFunction, ...]
    data: tuple[DeviceVariable, ...]


def read_cubin(image: bytes) -> Cubin:
    """Read one image. Raises DecoupleError when it is no 64-bit ELF file for CUDA."""
    try:
        return _parse_cubin(image)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise DecoupleError(
            f"a device image is no cubin: {error}", next_step="fetch or build the library again"
        ) from None


def _parse_cubin(image: bytes) -> Cubin:
    sections = elf.list_sections(image, _CUDA)
    symbols = elf.read_symbols(image, sections)
    by_name = {section.name: section for section in sections}
    relocated = {section.info: section for section in sections if section.kind in (elf.RELA, elf.REL)}
    names = [symbol.name for symbol in symbols]
    kernels = {symbol.name for symbol in symbols if symbol.other & _ENTRY}
    needs = _read_needs(image, by_name.get(".nv.info"), names)
    functions = []
    for number, section in enumerate(sections):
        if section.name.startswith(".text."):
            mangled = section.name.removeprefix(".text.")
            code = section.read(image)
            told = [f"flags {section.flags:x}", *sorted(needs.get(mangled, ()))]
            launch = _describe_launch(image, mangled, told, by_name)
            if (found := relocated.get(number)) is not None:
                launch += b"\nrelocations " + _render_relocations(image, found, names)
            digest = hashlib.sha256(launch).digest()
            functions.append(DeviceFunction(normalise_name(mangled), mangled, code, digest, mangled in kernels))
    return Cubin(_find_source(names, sections), tuple(functions), tuple(_read_data(image, sections, symbols)))


def _describe_launch(image: bytes, mangled: str, told: list[str], by_name: Mapping[str, Section]) -> bytes:
    """Return what the driver reads of a function besides its code.

    As bytes that are the same for the same function.
    """
    for bank in ("shared", "local"):
        if (found := by_name.get(f".nv.{bank}.{mangled}")) is not None:
            told.append(f"{bank} {found.size}")
    pieces = ["\n".join(told).encode()]
    for prefix in (".nv.constant0.", ".nv.constant2.", ".nv.constant5."):
        if (found := by_name.get(prefix + mangled)) is not None:
            pieces.append(f"{prefix} {found.size} ".encode() + found.read(image))
    if (found := by_name.get(f".nv.info.{mangled}")) is not None:
        pieces.append(b"info " + b"".join(_read_attributes(image, found)))
    return b"\n".join(pieces)


#: Attributes of `.nv.info` that say of a function (by the index of its symbol) what it takes on the device.
_NEEDS = {0x11: "frame", 0x12: "least stack", 0x23: "stack", 0x2F: "registers"}


def _read_needs(image: bytes, section: Section | None, symbols: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in _read_attributes(image, section) if section else ():
        if row[0] == _SIZED and row[1] in _NEEDS and len(row) == 12:
            index, amount = struct.unpack_from("<II", row, 4)
            found.setdefault(symbols[index], []).append(f"{_NEEDS[row[1]]} {amount}")
    return found


#: The format of an attribute whose two bytes of value say how many bytes follow.
_SIZED = 4
#: EIATTR_PARAM_CBANK: a symbol's index, then where the arguments begin; the index depends on the neighbours.
_PARAM_CBANK = 0x0A


def _read_attributes(image: bytes, section: Section) -> Iterator[bytes]:
    """Yield each attribute of a section.

    Format, number, 2 bytes of value or size, what follows (without the index of a symbol).
    """
    at, end = section.offset, section.offset + section.size
    while at + 4 <= end:
        form, number, value = struct.unpack_from("<BBH", image, at)
        size = value if form == _SIZED else 0
        payload = image[at + 4 : at + 4 + size]
        yield image[at : at + 4] + (payload[4:] if number == _PARAM_CBANK else payload)
        at += 4 + size


def _render_relocations(image: bytes, section: Section, symbols: list[str]) -> bytes:
    """Render where, of which type and to which symbol each relocation is.

    Without the numbers that the compiler gave to nameless ones.
    """
    told = []
    for offset, kind, number, addend in elf.iterate_relocations(image, section):
        name = normalise_name(symbols[number])
        name = _NAMELESS.sub(r"\1", name)
        told.append(f"{offset:x} {kind:x} {name} {addend}")
    return "\n".join(sorted(told)).encode()


PATH_OF = "__FILE__:"
_INITIALISED = re.compile(r"\.nv\.(constant3|global\.init)$")
#: What the compiler calls a text, or another constant without a name.
_NAMELESS = re.compile(r"^(__unnamed_|\$str\$?)\d*$")
_SOURCE_PATH = re.compile(rb"/?(?:[\w.+~-]+/)+([\w.+-]+\.(?:cuh?|h|hpp|hh|inl|inc|cpp|cc))\0")


def _read_data(image: bytes, sections: list[Section], symbols: list[Symbol]) -> Iterator[DeviceVariable]:
    for symbol in symbols:
        if symbol.kind == elf_files.OBJECT and symbol.size and symbol.section < len(sections):
            home = sections[symbol.section]
            if _INITIALISED.match(home.name):
                content = image[home.offset + symbol.value : home.offset + symbol.value + symbol.size]
                yield DeviceVariable(_name_variable(symbol.name, content), content)


def _name_variable(name: str, content: bytes) -> str:
    if _NAMELESS.match(name) and (path := _SOURCE_PATH.fullmatch(content)):
        return PATH_OF + path[1].decode()
    return _NAMELESS.sub(r"\1", normalise_name(name))


def _find_source(names: list[str], sections: list[Section]) -> str:
    """Find the source file by the names of what is local to it.

    The one that most of them say.
    """
    found: Counter[str] = Counter()
    for name in [*names, *(section.name for section in sections)]:
        for _, own in _find_own_names(name):
            found[own] += 1
        found.update(match[1] for match in _STATIC.finditer(name))
    return f"{found.most_common(1)[0][0]}.cu" if found else ""


_PARTS = re.compile(r"(?:_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}_\d+_(\w+)_cu_[0-9a-f]{8}(?:_\d+)?")


def _find_own_names(name: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Find in a mangled name the identifiers of its own source.

    Where each stands, and that source without its suffix.
    """
    at = 0
    while match := _OWN.search(name, at):
        at, end = match.end(), match.start(2) + int(match[1])
        if parts := _PARTS.fullmatch(name, match.start(2), end):
            yield (match.start(), end), parts[1]
            at = end  # the digits after it are the length of what follows, never part of a second such identifier


def normalise_name(name: str) -> str:
    """Return a mangled name without what differs between builds by nature.

    Hashes of the source, CUB's architectures. What stays is still a mangled name, so that a demangler reads it.

    >>> normalise_name("_ZN2at46_GLOBAL__N__780f21a8_13_SummaryOps_cu_68b272b83fooEv")
    '_ZN2at12_GLOBAL__N_13fooEv'
    >>> normalise_name("_ZN3cub22CUB_200302_500_600_NS3fooEv")
    '_ZN3cub13CUB_200302_NS3fooEv'
    """
    pieces, at = [], 0
    for (start, end), _ in _find_own_names(name):
        pieces += [name[at:start], "12_GLOBAL__N_1"]
        at = end
    name = "".join([*pieces, name[at:]])
    return _NAMESPACE.sub(_shorten_namespace, name)


def _shorten_namespace(match: re.Match[str]) -> str:
    name = f"{match[1]}_{match[2]}_NS"
    return f"{len(name)}{name}"
