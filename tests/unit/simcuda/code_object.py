"""Code objects of AMD's, made here: the note with the kernels' arguments alone, in a bundle as clang registers it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence


def pack(value: object) -> bytes:
    """MessagePack of small values."""
    if isinstance(value, str):
        data = value.encode()
        head = bytes([0xA0 | len(data)]) if len(data) < 32 else struct.pack(">BB", 0xD9, len(data))
        return head + data
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return bytes([value]) if value < 128 else struct.pack(">BH", 0xCD, value)
    if isinstance(value, Mapping):
        return bytes([0x80 | len(value)]) + b"".join(pack(key) + pack(item) for key, item in value.items())
    assert isinstance(value, Sequence)
    return struct.pack(">BH", 0xDC, len(value)) + b"".join(pack(item) for item in value)


def make_note(kernels: Mapping[str, Sequence[int]]) -> bytes:
    """The note of kernels with arguments of these sizes, and a hidden one behind them."""
    listed = []
    for name, sizes in kernels.items():
        offsets = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        arguments: list[dict[str, object]] = [
            {".offset": at, ".size": size, ".value_kind": "by_value"} for at, size in zip(offsets, sizes, strict=False)
        ]
        arguments.append({".offset": offsets[-1], ".size": 256, ".value_kind": "hidden_block_count_x"})
        listed.append({".args": arguments, ".name": name, ".symbol": f"{name}.kd", ".uses_dynamic_stack": False})
    text = pack({"amdhsa.kernels": listed, "amdhsa.target": "amdgcn-amd-amdhsa--gfx90a", "amdhsa.version": [1, 2]})
    return struct.pack("<III8s", 7, len(text), 32, b"AMDGPU") + text + bytes(-len(text) % 4)


def make_code_object(kernels: Mapping[str, Sequence[int]]) -> bytes:
    """An ELF image with one section, the note."""
    note = make_note(kernels)
    section = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64, len(note), 0, 0, 4, 0)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, 64 + len(note), 0, 64, 0, 0, 64, 1, 0)
    return head + note + section


def make_bundle(*images: bytes) -> bytes:
    """The images for gfx90a, gfx91a, ... behind the host's entry, which is empty, as clang bundles them."""
    begin, rows = 4096, [(0, b"host-x86_64-unknown-linux--")]
    rows += [(len(image), b"hipv4-amdgcn-amd-amdhsa--gfx9%da" % number) for number, image in enumerate(images)]
    table, at = b"", begin
    for size, name in rows:
        table += struct.pack("<QQQ", at, size, len(name)) + name
        at += size
    return (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(rows)) + table).ljust(begin, b"\0") + b"".join(images)
