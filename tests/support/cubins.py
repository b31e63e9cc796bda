"""Device images made by hand, so that reading them is tried without a file of NVIDIA's and without nvcc."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import lz4.block
import msgspec
import zstandard

from tests.support.tools import require_tool


@dataclass(frozen=True)
class Made:
    """One function of an image: its mangled name, its code, and what else the driver reads of it."""

    name: str
    code: bytes
    constants: bytes = b""
    registers: int = 8
    entry: bool = True


def cubin(functions: Sequence[Made], data: Sequence[tuple[str, bytes]] = ()) -> bytes:
    """An ELF file for CUDA's machine with these functions and initialised variables."""
    names, strings = bytearray(b"\0"), bytearray(b"\0")
    sections: list[tuple[int, int, int, bytes, int, int]] = [(0, 0, 0, b"", 0, 0)]

    def text(table: bytearray, word: str) -> int:
        at = len(table)
        table.extend(word.encode() + b"\0")
        return at

    def add(name: str, kind: int, content: bytes, link: int = 0, info: int = 0, flags: int = 0) -> int:
        sections.append((text(names, name), kind, flags, content, link, info))
        return len(sections) - 1

    symbols = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)]
    info = bytearray()
    code = [add(f".text.{one.name}", 1, one.code, flags=6) for one in functions]
    for one, number in zip(functions, code, strict=True):
        info += struct.pack("<BBHII", 4, 0x2F, 8, len(symbols), one.registers)
        symbols.append(
            struct.pack("<IBBHQQ", text(strings, one.name), 0x12, 0x10 if one.entry else 0, number, 0, len(one.code))
        )
        if one.constants:
            add(f".nv.constant0.{one.name}", 1, one.constants, flags=2)
    content = b"".join(value for _, value in data)
    variables = add(".nv.global.init", 1, content)
    at = 0
    for name, value in data:
        symbols.append(struct.pack("<IBBHQQ", text(strings, name), 1, 0, variables, at, len(value)))
        at += len(value)
    add(".nv.info", 0x70000000, bytes(info))
    add(".strtab", 3, bytes(strings))
    add(".symtab", 2, b"".join(symbols), link=len(sections) - 1)
    add(".shstrtab", 3, b"")
    sections[-1] = (*sections[-1][:3], bytes(names), 0, 0)
    return _elf(sections)


def _elf(sections: Sequence[tuple[int, int, int, bytes, int, int]], machine: int = 190) -> bytes:
    body, table = bytearray(), bytearray()
    for name, kind, flags, content, link, info in sections:
        place = (64 + len(body), len(content))
        table += struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, *place, link, info, 1, 24 if kind == 2 else 0)
        body += content
    ident = b"\x7fELF\x02\x01\x01\x33\x07" + bytes(7)
    count = len(sections)
    return (
        struct.pack("<16sHHIQQQIHHHHHH", ident, 2, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, count, count - 1)
        + bytes(body)
        + bytes(table)
    )


def code_object(functions: Sequence[Made]) -> bytes:
    """An ELF file for AMD's machine: functions, each with its descriptor, and what the notes say of their registers."""
    strings = bytearray(b"\0")
    names = bytearray(b"\0.text\0.rodata\0.note\0.strtab\0.symtab\0.shstrtab\0")
    symbols = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)]
    text, descriptors = bytearray(), bytearray()
    for one in functions:
        for name, kind, section, content, table in (
            (one.name, 2, 1, one.code, text),
            (
                f"{one.name}.kd",
                1,
                2,
                one.constants.ljust(16, b"\0") + bytes([len(text) % 256] * 8) + bytes(40),
                descriptors,
            ),
        ):
            symbols.append(struct.pack("<IBBHQQ", len(strings), 0x10 | kind, 0, section, len(table), len(content)))
            strings += name.encode() + b"\0"
            table += content
    told = msgspec.msgpack.encode(
        {"amdhsa.kernels": [{".name": one.name, ".vgpr_count": one.registers} for one in functions]}
    )
    note = struct.pack("<III", 7, len(told), 32) + b"AMDGPU\0\0" + told + bytes(-len(told) % 4)
    parts = [
        ("", 0, b"", 0),
        (".text", 1, bytes(text), 0),
        (".rodata", 1, bytes(descriptors), 0),
        (".note", 7, note, 0),
    ]
    parts += [
        (".strtab", 3, bytes(strings), 0),
        (".symtab", 2, b"".join(symbols), 4),
        (".shstrtab", 3, bytes(names), 0),
    ]
    rows = [(names.index(f"{name}\0".encode()), kind, 0, content, link, 0) for name, kind, content, link in parts]
    return _elf(rows, 224)


def bundle(images: Sequence[tuple[str, bytes]]) -> bytes:
    """What clang puts into an object: the host's empty entry, then one per (architecture, image)."""
    rows = [
        ("host-x86_64-unknown-linux-gnu-", b""),
        *((f"hipv4-amdgcn-amd-amdhsa--{arch}", one) for arch, one in images),
    ]
    at, head, body = 4096, b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(rows)), b""
    for name, image in rows:
        head += struct.pack("<QQQ", at + len(body), len(image), len(name)) + name.encode()
        body += image + bytes(-len(image) % 4096)
    return head.ljust(at, b"\0") + body


def fatbin(images: Sequence[tuple[str, bytes]], packing: str = "") -> bytes:
    """A container with one entry per (architecture, image); ``packing`` is "", "lz4" or "zstd"."""
    body = bytearray()
    for arch, image in images:
        kind, _, number = arch.partition("_")
        flags, stored = 0x11 | {"a": 0x100000, "f": 0x200000}.get(arch[-1], 0), image
        if packing == "lz4":
            flags, stored = flags | 0x2000, lz4.block.compress(image, store_size=False)
        elif packing == "zstd":
            flags, stored = flags | 0x8000, zstandard.ZstdCompressor().compress(image)
        padded = stored + bytes(-len(stored) % 8)
        packed, whole = (len(stored), len(image)) if packing else (0, 0)
        number = number.rstrip("af")
        body += struct.pack(
            "<HHIQIIHHIIIQQQ", 1 if kind == "compute" else 2, 0x101, 72, len(padded), packed, 0, 7, 1,
            int(number), 0, 0, flags, 0, whole,
        )  # fmt: skip
        body += bytes(72 - 64) + padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + bytes(body)


def library(
    path: Path,
    containers: Sequence[bytes],
    *,
    registers: Sequence[str] = (),
    calls: Sequence[str] = (),
    section: str = ".nv_fatbin",
) -> Path:
    """A host library at ``path`` with these containers, the names it registers, and calls of undefined functions."""
    source = path.with_suffix(".c")
    text = []
    for number, content in enumerate(containers):
        blob = path.with_suffix(f".{number}.fatbin")
        blob.write_bytes(content)
        text.append(f'__asm__(".section {section},\\"a\\"\\n.align 8\\n.incbin \\"{blob}\\"\\n.previous");')
    names = ", ".join(f'"{name}"' for name in registers)
    text.append(f"const char *const names[] = {{{names or '0'}}};")
    text += [f"void {name}(void); void use_{name}(void) {{ {name}(); }}" for name in calls]
    source.write_text("\n".join(text) + "\n")
    require_tool("cc")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return path
