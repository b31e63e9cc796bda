"""A small CUDA program in Python: the simulated runtime through ctypes, with a kernel in a fat binary made here.

Used by tests in this folder and by the test files that they hand to pytest; needs the stand-ins preloaded.
"""

from __future__ import annotations

import ctypes as c
import struct


def cubin(kernel: str, sizes: list[int], registers: int = 0, shared: int = 0) -> bytes:
    """An ELF image that tells of one kernel the sizes of its arguments, its registers and its shared memory."""
    arguments, offset = b"", 0
    for ordinal, size in enumerate(sizes):
        arguments += struct.pack("<BBHIHHI", 4, 0x17, 12, 0, ordinal, offset, size << 18)
        offset += size
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 0, 0, 0)
    sections = [  # name, type, what is in it, size, section of its strings
        (".nv.info." + kernel, 1, arguments, len(arguments), 0),
        (".strtab", 3, b"\0" + kernel.encode() + b"\0", len(kernel) + 2, 0),
        (".symtab", 2, symbols, len(symbols), 2),
        (".nv.info", 1, struct.pack("<BBHII", 4, 0x2F, 8, 1, registers), 12, 0),
        (".nv.shared." + kernel, 8, b"", shared, 0),
    ]
    names, content, table = b"\0.shstrtab\0", b"", bytes(64)
    for name, kind, text, size, strings in sections:
        table += struct.pack("<IIQQQQIIQQ", len(names), kind, 0, 0, 64 + len(content), size, strings, 0, 1, 0)
        names += name.encode() + b"\0"
        content += text
    table += struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64 + len(content), len(names), 0, 0, 1, 0)
    count = len(sections) + 2
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(content + names), 0, 64, 0, 0, 64, count, count - 1)
    return head + content + names + table


def fat_binary(image: bytes, architecture: int) -> bytes:
    """The image as nvcc puts it into a host's object file."""
    entry = struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, 64, len(image), 0, 0, 0, 0, architecture, 0, 0, 0, 0, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(image)) + entry + image


class Wrapper(c.Structure):
    """What the host's code gives to __cudaRegisterFatBinary."""

    _fields_ = (("magic", c.c_int), ("version", c.c_int), ("data", c.c_void_p), ("name", c.c_void_p))


class Dim(c.Structure):
    """dim3."""

    _fields_ = (("x", c.c_uint), ("y", c.c_uint), ("z", c.c_uint))


class Runtime:
    """The runtime with one kernel, ``axpy(double*, double*, int, struct of 24 bytes)``, mangled as ``symbol``."""

    def __init__(self, symbol: str = "axpy") -> None:
        self.rt = c.CDLL(None)  # what is preloaded
        image = fat_binary(cubin(symbol, [8, 8, 4, 24], registers=70, shared=9216), 90)
        self.data = c.create_string_buffer(image)
        self.wrapper = Wrapper(0x466243B1, 1, c.addressof(self.data), None)
        getattr(self.rt, "__cudaRegisterFatBinary").restype = c.c_void_p
        self.handle = c.c_void_p(getattr(self.rt, "__cudaRegisterFatBinary")(c.byref(self.wrapper)))
        self.function = c.create_string_buffer(8)  # its address stands for the kernel, as a host's stub does
        register = getattr(self.rt, "__cudaRegisterFunction")
        self.name = symbol.encode()  # the runtime keeps its address, as of a literal
        register(self.handle, self.function, self.name, self.name, -1, None, None, None, None, None)

    def check(self, code: int) -> None:
        """Any error is one of this program."""
        assert code == 0, code

    def malloc(self, size: int) -> c.c_void_p:
        """Device memory."""
        at = c.c_void_p()
        self.check(self.rt.cudaMalloc(c.byref(at), c.c_size_t(size)))
        return at

    def stream(self) -> c.c_void_p:
        """A stream that does not block."""
        at = c.c_void_p()
        self.check(self.rt.cudaStreamCreateWithFlags(c.byref(at), 1))
        return at

    def axpy(
        self,
        x: c.c_void_p,
        y: c.c_void_p,
        n: int,
        *,
        grid: int = 4,
        stream: c.c_void_p | None = None,
        rest: bytes | int = b"",
    ) -> None:
        """Launch it; ``rest`` is its structure, of 24 bytes, or where that lies."""
        values = [x, y, c.c_int(n)]
        own = c.create_string_buffer(rest.ljust(24, b"\0"), 24) if isinstance(rest, bytes) else None
        where = c.addressof(own) if own else rest
        arguments = (c.c_void_p * 4)(*(c.addressof(value) for value in values), where)
        launch = self.rt.cudaLaunchKernel
        launch.argtypes = [c.c_void_p, Dim, Dim, c.c_void_p, c.c_size_t, c.c_void_p]
        self.check(launch(c.addressof(self.function), Dim(grid, 1, 1), Dim(32, 1, 1), arguments, 0, stream))
