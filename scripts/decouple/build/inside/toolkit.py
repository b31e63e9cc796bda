"""Lay a CUDA toolkit out in one folder, as NVIDIA's own installer does.

Runs in a root, with Python's own library. Argument: a JSON object with ``prefix``, ``packages`` (a folder of unpacked
Debian packages), ``wheels``, and ``take``: pairs of a pattern and a place in ``prefix``. The first pattern that fits
the beginning of a name decides; what lies below goes to the place, and to none where that is empty. Of a shared library
only what a linker reads is written, but for names in ``whole``: the libraries of one CUDA have 1.7 GiB, most of it GPU
code, and a build runs none of it.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
import struct
import sys
import zipfile
from pathlib import Path

SUMS = ".decouple-sha256"
_ALLOCATED, _STRINGS = 2, 3
#: ELF's section types that a linker reads of a shared library: hash, dynamic, note, dynsym, GNU's hash and versions.
_LINKED = {5, 6, 7, 11, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF}


def place_of(name: str, take: list[tuple[str, str]]) -> str | None:
    """Return where a file of that name goes, relative to the prefix; None: nowhere."""
    parts = name.split("/")
    for pattern, place in take:
        wanted = pattern.split("/")
        if len(parts) < len(wanted) or not all(map(fnmatch.fnmatchcase, parts, wanted)):
            continue
        below = parts[len(wanted) :] or parts[-1:]
        return "/".join([place, *below]) if place and parts[-1] != "__init__.py" else None
    return None


def thin(path: Path) -> None:
    """Leave of a shared library what a linker reads; the rest becomes holes.

    No process can load it by mistake. Without program headers the dynamic linker says "no loadable segments"; ld goes
    by sections (ELF, chapter 4).
    """
    if path.is_symlink():
        return
    with path.open("rb") as file:
        header = bytearray(file.read(64))
        if header[:6] != b"\x7fELF\x02\x01":
            return
        offset, (entry, count, names) = struct.unpack_from("<Q", header, 40)[0], struct.unpack_from("<3H", header, 58)
        file.seek(offset)
        table = file.read(entry * count)
        kept = [(offset, entry * count)]
        for number in range(count):
            kind, flags, _, start, size = struct.unpack_from("<IQQQQ", table, number * entry + 4)
            if kind in _LINKED or (kind == _STRINGS and (flags & _ALLOCATED or number == names)):
                kept.append((start, size))
        struct.pack_into("<H", header, 56, 0)
        thinned = path.with_name(f"{path.name}.thin")
        with thinned.open("wb") as made:
            made.truncate(path.stat().st_size)
            made.write(header)
            for start, size in kept:
                file.seek(start)
                made.seek(start)
                made.write(file.read(size))
    shutil.copymode(path, thinned)
    thinned.replace(path)


def profile(prefix: Path) -> str:
    """Return what nvcc reads from a file beside itself.

    Where the rest of the toolkit in ``prefix`` is.
    """
    folders = {"PATH": ["bin", "nvvm/bin"], "INCLUDES": ["include"], "LIBRARIES": ["lib64", "lib64/stubs"]}
    at = {key: [f"{prefix}/{name}" for name in names] for key, names in folders.items()}
    lines = [
        f"TOP = {prefix}",
        f"NVVMIR_LIBRARY_DIR = {prefix}/nvvm/libdevice",
        f"PATH += {':'.join(at['PATH'])}:",
        "INCLUDES += " + " ".join(f'"-I{one}"' for one in at["INCLUDES"]) + " $(_SPACE_)",
        "LIBRARIES =+ $(_SPACE_) " + " ".join(f'"-L{one}"' for one in at["LIBRARIES"]),
    ]
    return "\n".join(lines) + "\n"


def lay_out(
    prefix: Path, packages: Path, wheels: list[str], take: list[tuple[str, str]], whole: list[str], final: Path
) -> None:
    """Fill ``prefix``, which is to be empty and becomes ``final``."""
    libraries: list[Path] = []

    def target(name: str) -> Path | None:
        place = place_of(name, take)
        if place is None:
            return None
        path = prefix / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if ".so" in path.name and not any(fnmatch.fnmatchcase(path.name, kept) for kept in whole):
            libraries.append(path)
        return path

    for source in sorted(packages.rglob("*")):
        if (source.is_symlink() or source.is_file()) and (path := target(source.relative_to(packages).as_posix())):
            shutil.copy2(source, path, follow_symlinks=False)
    _thin_all(libraries)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.is_dir() or (path := target(member.filename)) is None:
                    continue
                with archive.open(member) as content, path.open("wb") as made:
                    shutil.copyfileobj(content, made, 1 << 20)
                path.chmod(0o755 if member.external_attr >> 16 & 0o100 else 0o644)
                _thin_all(libraries)  # at once: several whole ones would fill the disk
    for library in sorted(prefix.glob("lib64/*.so.*")):  # the name that -l looks for
        unversioned = library.with_name(f"{library.name.partition('.so.')[0]}.so")
        if not unversioned.is_symlink() and not unversioned.exists():
            unversioned.symlink_to(library.name)
    # nvcc and CMake name both in links. Nothing here calls the first; for the second the shared runtime answers, by a
    # script of ld.
    (prefix / "lib64/libcudadevrt.a").write_bytes(b"!<arch>\n")
    (prefix / "lib64/libcudart_static.a").write_text("INPUT(-lcudart)\n")
    (prefix / "bin/nvcc.profile").write_text(profile(final))


def _thin_all(libraries: list[Path]) -> None:
    while libraries:
        thin(libraries.pop())


def main(said: str) -> None:
    """Lay out beside ``prefix`` and put it in its place when it is whole."""
    asked = json.loads(said)
    prefix, packages = Path(asked["prefix"]), Path(asked["packages"])
    unfinished = prefix.with_name(f"{prefix.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    lay_out(unfinished, packages, asked["wheels"], asked["take"], asked["whole"], prefix)
    if (packages / SUMS).exists():
        shutil.copy(packages / SUMS, unfinished / SUMS)
    shutil.rmtree(prefix, ignore_errors=True)
    unfinished.rename(prefix)
    shutil.rmtree(packages)


if __name__ == "__main__":
    main(sys.argv[1])
