"""Writes assembler stubs for the functions that a slice of libtorch_cuda lacks.

``python -m torch_cuda_build.slice_stubs --out STUBS.S --library LIB... OBJECT...``. A stub is a weak function of the
missing name that jumps to ``torch_cuda_missing`` (``cmake/slice_missing.cpp``), which throws. Only functions, and only
of PyTorch's own namespaces: anybody else's missing symbol is a link error as always, and so is missing data.
``--others REGEX`` adds functions of a vendor's libraries that are not there.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_OURS = re.compile(r"^_ZN[KVRO]*(2at|3c10|4c10d|5torch|3sdp|13pytorch_flash)[0-9A-Z]|^THC|^aoti_torch_")
_DATA = re.compile(r"^_ZT[VTIS]|^_ZGV")

_X86_64 = """\
    .weak {name}
    .type {name}, @function
{name}:
    leaq .Lname{index}(%rip), %rdi
    jmp torch_cuda_missing
    .section .rodata
.Lname{index}: .asciz "{name}"
    .text
"""
_HEAD = "    .text\n"
_TAIL = '    .section .note.GNU-stack,"",@progbits\n'


def read_symbols(nm: str, files: Iterable[Path], *flags: str) -> set[str]:
    """Return the names that ``nm FLAGS`` prints for *files*, versions cut off.

    Raises subprocess.CalledProcessError.
    """
    names: set[str] = set()
    paths = [str(path) for path in files]
    for start in range(0, len(paths), 100):
        output = subprocess.run(
            [nm, "--format=posix", *flags, *paths[start : start + 100]],
            check=True,
            stdout=subprocess.PIPE,  # what it complains of goes to the build's log
            text=True,
        ).stdout
        names.update(line.split(" ", 1)[0].split("@", 1)[0] for line in output.splitlines() if " " in line)
    return names


def list_missing(undefined: set[str], defined: set[str], others: str = "") -> list[str]:
    """List, sorted, the functions that are used and defined nowhere.

    They are functions of ours, or named by the expression *others*.
    """
    wanted = re.compile(f"{_OURS.pattern}|{others}") if others else _OURS
    return sorted(name for name in undefined - defined if wanted.match(name) and not _DATA.match(name))


def format_stubs(names: Iterable[str]) -> str:
    """Write the assembler text (GNU as, x86-64)."""
    return _HEAD + "".join(_X86_64.format(name=name, index=index) for index, name in enumerate(names)) + _TAIL


def main(arguments: list[str] | None = None) -> int:
    """Command line for CMake."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--library", dest="libraries", type=Path, action="append", default=[])
    parser.add_argument("--others", default="", help="which functions besides PyTorch's may be missing")
    parser.add_argument("objects", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    undefined = read_symbols(options.nm, options.objects, "--undefined-only")
    defined = read_symbols(options.nm, options.objects, "--defined-only")
    defined |= read_symbols(options.nm, options.libraries, "--dynamic", "--defined-only")
    names = list_missing(undefined, defined, options.others)
    options.out.write_text(format_stubs(names), encoding="utf-8")
    sys.stdout.write(f"{len(names)} functions are not part of this slice\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
