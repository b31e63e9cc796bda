"""Stand-ins for AMD's HIP: the simulated runtime under HIP's names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simcuda import compile, declarations, generate, symbols, tables
from simcuda.errors import SimcudaError
from simcuda.library import FillRule, Library

HERE = Path(__file__).parent
NATIVE = HERE / "native"
FLAGS = ("-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1")
"""What HIP's headers, and PyTorch's that name them, are compiled with."""
RUNTIME_HEADER = "hip/hip_runtime_api.h"
VERSION_HEADER = "hip/hip_version.h"


@dataclass(frozen=True)
class HipLibrary:
    """One library of HIP.

    ``names`` is a pattern for those that it has, ``forwards`` HIP's functions that are one of CUDA's. ``headers``
    declare the others, and those that fit ``success`` answer so without computing anything.
    """

    name: str
    names: str
    sources: tuple[str, ...]
    not_supported: int
    forwards: dict[str, str]
    headers: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    success: tuple[str, ...] = ()

    def find_soname(self, needed: Iterable[str]) -> str:
        """Return its SONAME among those that a library needs, empty if it is not."""
        return next((soname for soname in needed if soname.startswith(f"lib{self.name}.so")), "")

    def choose_names(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of ``names`` that this library has."""
        return frozenset(name for name in names if re.fullmatch(self.names, name))

    def read_declared(self, headers: Path) -> dict[str, declarations.Function]:
        """Read the functions that its headers below ``headers`` declare, by name.

        Raises SimcudaError where a header is not there, or the compiler does not take it.
        """
        if not self.headers:
            return {}
        for name in self.headers:
            if not (headers / name).is_file():
                raise SimcudaError(
                    f"no {name} in {headers}, and torch needs lib{self.name}",
                    next_step=f"install its headers (Debian: lib{self.name.lower()}-dev), or set ROCM_PATH",
                )
        defines = [flag.removeprefix("-D") for flag in FLAGS] + list(self.defines)
        text = declarations.preprocess_headers(self.headers, [headers], defines)
        return {function.name: function for function in declarations.parse_functions(text)}

    def as_library(self, soname: str) -> Library:
        """Return it as the rest of the package knows a stand-in."""
        return Library(self.name, soname, "", self.headers, self.sources, self.not_supported, self.success, ())


def list_headers(headers: Path) -> list[Path]:
    """List the files below ``headers`` that decide what is made, where they are.

    The version's, and of each library its own.
    """
    names = [VERSION_HEADER, *(name for library in load_libraries()[0] for name in library.headers)]
    return [path for path in map(headers.joinpath, names) if path.is_file()]


def load_fill_rules(path: Path = HERE / "hip.toml") -> tuple[FillRule, ...]:
    """Read what functions that compute nothing write: HIP's rules, then CUDA's."""
    return tuple(
        FillRule(**entry) for file in (path, HERE / "libraries.toml") for entry in tables.read_table(file)["fill"]
    )


def load_libraries(path: Path = HERE / "hip.toml") -> tuple[tuple[HipLibrary, ...], tuple[str, ...]]:
    """Read HIP's libraries, and the names of CUDA's stand-ins below them."""
    table = tables.read_table(path)
    forwards = {name: re.sub(r"^(__)?hip", r"\1cuda", name) for name in table["same"]} | table["other"]
    return tuple(make_library(entry, forwards) for entry in table["library"]), tuple(table["stand_ins"])


def make_library(entry: dict[str, Any], forwards: dict[str, str]) -> HipLibrary:
    """Make a library of its row, with those of ``forwards`` that it has."""
    own = {name: target for name, target in sorted(forwards.items()) if re.fullmatch(entry["names"], name)}
    lists = {key: tuple(entry.get(key, ())) for key in ("sources", "headers", "defines", "success")}
    return HipLibrary(entry["name"], entry["names"], not_supported=entry["not_supported"], forwards=own, **lists)


def find_headers() -> Path:
    """Return the folder of HIP's headers: of ``ROCM_PATH``, else /opt/rocm, else /usr.

    Raises SimcudaError where none has them.
    """
    chosen = os.environ.get("ROCM_PATH")
    folders = [Path(prefix) / "include" for prefix in ([chosen] if chosen else ["/opt/rocm", "/usr"])]
    for folder in folders:
        if (folder / RUNTIME_HEADER).is_file():
            return folder
    raise SimcudaError(
        f"no {RUNTIME_HEADER} in {', '.join(map(str, folders))}",
        next_step="install HIP's headers (Debian: libamdhip64-dev), or set ROCM_PATH to the prefix of ROCm",
    )


def compile_stand_ins(
    libraries: Iterable[Path], headers: Path, below: Iterable[str], out: Path, say: Callable[[str], None] = print
) -> list[str]:
    """Compile and link HIP's libraries that ``libraries`` of torch need into ``out``.

    ``below`` are the SONAMEs of CUDA's stand-ins, which are in ``out``. Returns the SONAMEs of those made, in the order
    in which they are preloaded.
    """
    paths = tuple(libraries)
    needed = {soname for path in paths for soname in symbols.read_needed_libraries(path)}
    imported = frozenset[str]().union(*(symbols.read_imported_functions(path) for path in paths))
    made = []
    for library in load_libraries()[0]:
        if soname := library.find_soname(sorted(needed)):
            say(f"{soname}: {compile_library(library, soname, imported, headers, tuple(below), out)}")
            made.append(soname)
    return made


def compile_library(
    library: HipLibrary, soname: str, imported: frozenset[str], headers: Path, below: tuple[str, ...], out: Path
) -> str:
    """Compile and link one of them.

    Returns how many functions are CUDA's, written by hand, recorded only, not supported.
    """
    work = out / "work" / soname
    work.mkdir(parents=True, exist_ok=True)
    defines = [f"-D{name}" for name in library.defines]
    flags = ["-O2", "-Wall", *FLAGS, *defines, f"-I{NATIVE}", f"-I{headers}"]
    parts = compile.compile_objects([NATIVE / source for source in library.sources], work, flags)
    own = library.choose_names(name for part in parts for name in symbols.read_defined_functions(part, dynamic=False))
    rest = library.choose_names(imported) - own - library.forwards.keys()
    stand_in = library.as_library(soname)
    declared = library.read_declared(headers)
    texts = generate.generate_sources(stand_in, declared, rest, load_fill_rules())
    generated = {work / name: text for name, text in texts.items()}
    generated[work / "forwards.cpp"] = generate.define_forwards(library.forwards)
    for path, text in generated.items():
        path.write_text(text, encoding="utf-8")
    quiet = ["-Wno-deprecated-declarations", "-Wno-unused"]
    parts += compile.compile_objects(list(generated), work, [*flags, *quiet])
    script = work / "exports.map"
    exported = "".join(f" {name};" for name in sorted(own | rest | library.forwards.keys()))
    wanted = f" global:{exported}" if exported else ""  # no linker takes an empty list
    script.write_text(f"{{{wanted} local: *; }};\n", encoding="utf-8")
    links = [f"-L{out}", *(f"-l:{name}" for name in below), f"-Wl,--version-script={script}", "-Wl,--no-undefined"]
    compile.link_shared_library(soname, parts, out / soname, [*links, *compile.OWN_RUNTIME])
    success = sum(stand_in.answers_success(name) for name in rest & declared.keys())
    return (
        f"{len(library.forwards)} functions of CUDA's, {len(own)} written, {success} recorded only, "
        f"{len(rest) - success} not supported"
    )
