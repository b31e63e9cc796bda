"""Audit the ELF files of wheels.

No CUDA in the core, no driver and no Python where they must not be, nothing defined twice.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from decouple.base import toml, zips
from decouple.base.errors import DecoupleError
from decouple.base.mangled_names import OWN_SYMBOL
from decouple.verify import elf
from decouple.verify.elf import Library

_FILE = Path(__file__).with_name("elf.toml")
_SUFFIX = re.compile(r"\.so(\.\d+)*$")
#: Of the core's own C++ API (torch/csrc/api/src/cuda.cpp), which asks whatever CUDA is there.
_TORCH_CUDA = ("_ZN5torch4cuda", "_ZNK5torch4cuda")
_REGISTRY = re.compile(rb"__pybind11_internals_v\w+__")


class ElfFault(Struct, frozen=True):
    """One broken promise: which file, which rule, and what was found.

    ``symbols`` are all that break it, of which ``detail`` names the first; empty where none do.
    """

    file: str
    rule: str
    detail: str
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}: {self.detail}"


class ElfAudit(Struct, frozen=True):
    """The result of one audit: files and symbols examined, and every fault."""

    what: str
    files: int
    symbols: int
    faults: tuple[ElfFault, ...]


class ElfRules(Struct, frozen=True):
    """``elf.toml``, which explains its keys."""

    cuda_libraries: tuple[str, ...]
    cuda_symbols: tuple[str, ...]
    driver_libraries: re.Pattern[str]
    may_need_driver: frozenset[str]
    python_libraries: re.Pattern[str]
    must_not_need_python: frozenset[str]
    everywhere: frozenset[str]
    own_libraries: Mapping[str, tuple[str, ...]]


@cache
def load_rules() -> ElfRules:
    """Return the parsed rules."""
    return toml.read_own_table(_FILE, ElfRules)


@cache
def make_library_pattern() -> re.Pattern[str]:
    """Return the pattern of a CUDA library's file name or soname.

    With or without a version.
    """
    return re.compile(rf"lib({'|'.join(load_rules().cuda_libraries)})\.so(\.\d+)*$")


@cache
def make_symbol_pattern() -> re.Pattern[str]:
    """Return the pattern of a symbol that only a CUDA library can define."""
    return re.compile(rf"({'|'.join(load_rules().cuda_symbols)})$")


def list_libraries(folder: Path) -> list[Library]:
    """Return every distinct ELF file below ``folder``.

    Raises DecoupleError when there is none: a check of nothing is none.
    """
    found: dict[Path, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and elf.is_elf(path):
            found.setdefault(path.resolve(), path)
    if not found:
        raise DecoupleError(
            f"{folder}: no ELF file in it", next_step="name a wheel, or the folder it was unpacked into"
        )
    return [elf.read_library(path) for path in found.values()]


@contextlib.contextmanager
def open_folder(place: Path) -> Iterator[Path]:
    """Yield the folder to audit: ``place`` itself, or the unpacked wheel.

    A wheel stays unpacked for as long as the context lasts. Raises DecoupleError when ``place`` is neither.
    """
    if place.is_dir():
        yield place
        return
    if not zipfile.is_zipfile(place):
        raise DecoupleError(
            f"{place}: neither a folder nor a wheel",
            next_step="name a wheel file, or the folder that one was unpacked to",
        )
    with tempfile.TemporaryDirectory(prefix="decouple-audit-") as folder:
        with zips.open_zip(place) as wheel:
            members = [name for name in wheel.namelist() if _SUFFIX.search(name) or "/bin/" in name]
            wheel.extractall(folder, members)
        yield Path(folder)


def audit_core(found: Sequence[Library]) -> ElfAudit:
    """Check that no file of the core needs a CUDA library or names its symbols."""
    faults = []
    for library in found:
        faults += [
            ElfFault(library.path.name, "needs a CUDA library", name)
            for name in library.needed
            if make_library_pattern().match(name)
        ]
        foreign = (library.undefined | library.optional) - collect_defined(found)
        symbols = sorted(name for name in foreign if make_symbol_pattern().match(name))
        if symbols:
            faults.append(ElfFault(library.path.name, "names CUDA symbols", _shorten_list(symbols)))
        own = sorted(
            name
            for name in library.defined | library.vague
            if make_symbol_pattern().match(name) and not name.startswith(_TORCH_CUDA)
        )
        if own:
            faults.append(ElfFault(library.path.name, "has CUDA inside it", _shorten_list(own), tuple(own)))
    return _make_report("core without CUDA", found, faults)


def audit_backend(found: Sequence[Library]) -> ElfAudit:
    """Check what the backend's libraries need.

    Only libcaffe2_nvrtc needs the driver; what loads before torch._C needs no libtorch_python; what another vendor's
    toolkit built needs no library of CUDA's. Needs are followed through the backend's own libraries: whatever they pull
    in is loaded with them.
    """
    by_name = {library.name: library for library in found} | {library.path.name: library for library in found}
    faults = []
    for library in found:
        base = _SUFFIX.sub(".so", library.path.name)
        needs = _follow_needs(library, by_name)
        if base not in load_rules().may_need_driver:
            faults += [
                ElfFault(library.path.name, "needs the driver", f"{name} (by {via})")
                for name, via in needs.items()
                if load_rules().driver_libraries.match(name)
            ]
        if base in load_rules().must_not_need_python:
            faults += [
                ElfFault(library.path.name, "needs libtorch_python", f"{name} (by {via})")
                for name, via in needs.items()
                if load_rules().python_libraries.match(name)
            ]
        faults += [
            ElfFault(library.path.name, "needs another vendor's library", name) for name in list_foreign(library, found)
        ]
    return _make_report("backend's needs", found, faults)


def list_foreign(library: Library, found: Sequence[Library]) -> list[str]:
    """Return what ``library`` needs of CUDA's and its backend's toolkit has not.

    Empty for a backend that is CUDA's.
    """
    bases = {_SUFFIX.sub("", other.path.name).removeprefix("lib") for other in found}
    own = next((names for backend, names in load_rules().own_libraries.items() if backend in bases), None)
    if own is None:
        return []
    needed = [name for name in library.needed if make_library_pattern().match(name)]
    return [name for name in needed if _SUFFIX.sub("", name).removeprefix("lib") not in own]


def audit_layout(found: Sequence[Library]) -> ElfAudit:
    """Check the layout of the libraries within a wheel.

    Each library is there once, finds its neighbours by its own run path, and can be opened.
    """
    faults = []
    names: dict[str, list[Library]] = {}
    for library in found:
        if library.soname:
            names.setdefault(library.soname, []).append(library)
    for soname, same in sorted(names.items()):
        if len(same) > 1:
            shown = ", ".join(library.path.name for library in same)
            faults.append(ElfFault(shown, "are one library several times", f"soname {soname}; a wheel holds no links"))
    for library in found:
        if library.executable_stack:
            why = "glibc 2.41 (Debian 13) opens none such; link with -z noexecstack"
            faults.append(ElfFault(library.path.name, "asks for an executable stack", why))
        origin = str(library.path.parent)
        folders = [Path(os.path.normpath(path.replace("$ORIGIN", origin))) for path in library.runpath]
        for name in library.needed:
            if name in names and not any((folder / name).is_file() for folder in folders):
                where = ":".join(library.runpath) or "none"
                faults.append(ElfFault(library.path.name, "does not find its neighbour", f"{name} (run path: {where})"))
    return _make_report("one of each, found by its neighbours", found, faults)


def audit_pair(core: Sequence[Library], backend: Sequence[Library]) -> ElfAudit:
    """Check that no strong global symbol is defined in both wheels.

    Extension modules' own entry points differ by name anyway.
    """
    everywhere = load_rules().everywhere
    faults = []
    for library in core:
        for other in backend:
            both = sorted((library.defined & other.defined) - everywhere)
            if both:
                faults.append(
                    ElfFault(
                        other.path.name, f"defines what {library.path.name} defines", _shorten_list(both), tuple(both)
                    )
                )
    return _make_report("nothing defined in both", [*core, *backend], faults)


def audit_registry(core: Sequence[Library], backend: Sequence[Library]) -> ElfAudit:
    """Check that both wheels name the same registry of pybind11.

    pybind11 shares types only between modules whose registry has one name, which tells of compilers and their ABI. Of
    another registry's classes a binding cannot derive: importing it is a null pointer's end, not an error.
    """
    shared = frozenset().union(*(find_registries(library.path) for library in core))
    named = [(library.path.name, find_registries(library.path)) for library in backend]
    faults = [
        ElfFault(
            name,
            "has another registry of pybind11",
            f"{', '.join(sorted(found))}; the core has {', '.join(sorted(shared)) or 'none'}",
        )
        for name, found in named
        if not found <= shared
    ]
    return _make_report("one registry of pybind11", [*core, *backend], faults)


def find_registries(path: Path) -> frozenset[str]:
    """Return the registries of pybind11 that a library names, e.g.

    ``__pybind11_internals_v5_gcc_libstdcpp_cxxabi1011__``.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return frozenset(name.decode() for name in _REGISTRY.findall(content))


def audit_resolved(asking: Sequence[Library], others: Sequence[Library] = ()) -> ElfAudit:
    """Check that every symbol of PyTorch's namespaces is defined.

    What ``asking`` needs is defined there or by ``others``. The linker makes a shared library with a symbol that nobody
    defines; only loading it fails.
    """
    defined = collect_defined([*asking, *others])
    faults = []
    for library in asking:
        missing = sorted(name for name in library.undefined - defined if OWN_SYMBOL.match(name))
        if missing:
            where = "undefined in both wheels" if others else "undefined"
            faults.append(ElfFault(library.path.name, where, _shorten_list(missing)))
    return _make_report("PyTorch's own symbols resolved", [*asking, *others], faults)


def _shorten_list(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def collect_defined(found: Sequence[Library]) -> frozenset[str]:
    return frozenset().union(*(library.defined | library.vague for library in found))


def _follow_needs(library: Library, by_name: Mapping[str, Library]) -> dict[str, str]:
    """Map each needed library to the library that needs it.

    Those in ``by_name`` are followed; the needs of others are their own affair. libcaffe2_nvrtc is opened lazily, so
    what it needs counts for nobody who does not list it.
    """
    needs: dict[str, str] = {}
    waiting = [library]
    seen = {library.path}
    while waiting:
        current = waiting.pop()
        for name in current.needed:
            needs.setdefault(name, current.path.name)
            if name in by_name and by_name[name].path not in seen:
                seen.add(by_name[name].path)
                waiting.append(by_name[name])
    return needs


def _make_report(what: str, found: Sequence[Library], faults: Sequence[ElfFault]) -> ElfAudit:
    symbols = sum(
        len(library.defined) + len(library.vague) + len(library.undefined) + len(library.optional) for library in found
    )
    return ElfAudit(what, len(found), symbols, tuple(faults))
