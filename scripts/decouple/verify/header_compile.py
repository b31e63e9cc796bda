"""Compile our own units of stage 2 against the headers of an official wheel.

The headers are read by range. Nothing is linked: the compiler checks syntax and types alone. So it sees a release of
which no source can be had.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base import program_output
from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.base.git import REGULAR
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import Downloader
from decouple.upstream.providers.wheel import make_source_text, write_members
from decouple.upstream.remote_zip import TEXT_TAIL, RemoteZip

_INCLUDE, _CONFIG = "torch/include/", "torch/share/cmake/Torch/TorchConfig.cmake"
_INSTALLED = (("torch/", "torch/"), ("aten/src/ATen/", "ATen/"), ("c10/", "c10/"))
"""Where the build installs headers to, below ``include``."""
#: What stage 2 compiles its bindings with, of what changes what their headers say.
_DEFINED = ("-DUSE_CUDA", "-DUSE_DISTRIBUTED", "-DUSE_C10D_NCCL", "-DUSE_KINETO", "-D_GLIBCXX_USE_CXX11_ABI=1")


class Headers(Struct, frozen=True):
    """A wheel's headers on disk, and the C++ standard that they need."""

    include: Path
    standard: int


class CompilerAnswer(Struct, frozen=True):
    """What a compiler said: unit -> its first error, "" where it has none."""

    compiler: str
    cuda: str
    units: Mapping[str, str]


def lay_out_headers(wheel: RemoteFile, folder: Path, downloader: Downloader, progress: Progress = SILENT) -> Headers:
    """Write the headers of ``wheel`` below ``folder``, each checked by its RECORD.

    Raises DecoupleError.
    """
    remote = RemoteZip(wheel, downloader, progress, tail=TEXT_TAIL)
    members = remote.load_members(lambda info: info.filename.startswith(_INCLUDE) and not info.is_dir())
    folder.mkdir(parents=True)
    write_members(remote, members, folder)
    said = re.search(r"(?:CXX_STANDARD +|cxx_std_)(\d+)", remote.read(_CONFIG).decode("utf-8", "replace"))
    if not said:
        raise DecoupleError(
            f"{wheel.name}: {_CONFIG} names no C++ standard", next_step="record this release without --headers"
        )
    return Headers(folder / _INCLUDE, int(said[1]))


class InstalledHeaders:
    """The installed headers at their source paths, for ``patch.apply``."""

    def __init__(self, include: Path) -> None:
        self._include = include

    def locate(self, path: str) -> Path:
        """Return where the build puts a header; for any other a place without file."""
        for origin, installed in _INSTALLED:
            if path.startswith(origin) and path.endswith((".h", ".hpp")):
                return self._include / (installed + path.removeprefix(origin))
        return self._include / "of no wheel"

    def mode(self, path: str) -> int | None:
        """See ``decouple.patch.apply.Source``."""
        return REGULAR if self.locate(path).is_file() else None

    def read(self, path: str) -> bytes:
        """Read a header without the guard that installing puts around it.

        See ``decouple.patch.apply.Source``.
        """
        place = self.locate(path)
        return make_source_text(_INCLUDE + place.relative_to(self._include).as_posix(), place.read_bytes())


def compile_units(
    folder: Path, headers: Headers, cuda: Sequence[Path], compiler: str = "g++", progress: Progress = SILENT
) -> CompilerAnswer:
    """Have each ``.cpp`` below ``folder`` checked.

    ``cuda``: folders with a toolkit's headers somewhere below. Raises DecoupleError without the compiler or the
    headers.
    """
    if shutil.which(compiler) is None:
        raise DecoupleError(
            f"{compiler}: no such command", next_step="install g++, or name another with --compiler", code=CANNOT_HERE
        )
    # a folder of that name inside another is the compiler's own library for kernels
    whole = [path for top in cuda for path in top.rglob("include") if "include" not in path.relative_to(top).parts[:-1]]
    roots = sorted(path for path in (*cuda, *whole, *(folder / "cccl" for folder in whole)) if path.is_dir())
    version = next(filter(None, (_read_cuda_version(root / "cuda.h") for root in roots)), None)
    if version is None:
        raise DecoupleError(
            f"{', '.join(map(str, cuda))}: no cuda.h below it",
            next_step="name a CUDA toolkit, or a folder that pip put NVIDIA's wheels in",
        )
    include = [headers.include, headers.include / "torch/csrc/api/include", headers.include / "kineto"]
    flags = [f"-I{path}" for path in (folder, *include)] + [f"-isystem{path}" for path in roots]
    flags += [f"-isystem{sysconfig.get_paths()['include']}", f"-std=c++{headers.standard}", *_DEFINED]
    flags += [f'-DTORCH_CUDA_VERSION="{version}"', f'-DTORCH_CUDA_SETTINGS={{"CUDA_VERSION", "{version}"}}']
    units = sorted(folder.rglob("*.cpp"))
    found = {}
    progress.start("compile", len(units))
    for unit in units:
        done = program_output.run_program([compiler, "-fsyntax-only", "-w", *flags, str(unit)])
        found[unit.relative_to(folder).as_posix()] = _first_error(done, folder)
        progress.advance()
    progress.finish()
    said = program_output.run_program([compiler, "--version"]).stdout.splitlines()
    return CompilerAnswer(said[0] if said else compiler, version, found)


def _read_cuda_version(header: Path) -> str | None:
    """``13.2`` of ``#define CUDA_VERSION 13020``."""
    if not header.is_file():
        return None
    found = re.search(r"^#define CUDA_VERSION (\d+)", header.read_text(encoding="utf-8", errors="replace"), re.M)
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else None


def _first_error(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if " error: " in line]
    line = lines[0] if lines else f"exit code {done.returncode}"
    return line.replace(f"{folder}/", "").replace(f"{folder.parent}/", "")
