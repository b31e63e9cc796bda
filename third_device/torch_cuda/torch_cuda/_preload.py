"""Load the CUDA libraries before ``torch._C`` is created.

This is the entry point ``torch.backends.preload``.

The moment matters. ATen remembers at its first query whether there is a CUDA backend, and that query happens while
``torch._C`` is created (``aten/src/ATen/detail/CUDAHooksInterface.cpp``). Bindings need ``libtorch_python`` and come
after: whoever calls `preload` imports the module that it names, puts its names into ``torch._C``, and only then lets
``torch.cuda`` be imported. In the patched core that is ``torch._decoupled.preload``; for a stock core see
``_autoload``.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import _libraries, build_info, library_dir
from ._autoload import is_patched
from ._extensions import extend_paths
from ._import_hook import before_body, when_imported
from ._wheel_conflicts import list_overwritten, site_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MODULE", "VersionError", "check_abi", "check_kind", "check_version", "check_whole", "is_chosen", "preload"]

MODULE = f"{__package__}._CUDAC"
CHOICE = "TORCH_CUDA_BACKEND"
"""Names the backend, where several are installed that bring torch.cuda: by its word, "cuda" or "hip"."""
NVTX = "libnvToolsExt.so.1"
"""What the bindings link and libtorch_cuda may not: whoever imports them asks the dynamic linker alone for it."""
OPT_OUT = "TORCH_DEVICE_BACKEND_AUTOLOAD=0"


class VersionError(ImportError):
    """The installed torch is not the one that this package was built for."""


def preload() -> str | None:
    """Open libc10_cuda and libtorch_cuda for everyone.

    Returns the name of the module with the bindings. It is None where the user has chosen another vendor's backend for
    torch.cuda. Raises VersionError on another torch than the one built for, or where two backends are installed and
    none is chosen, LibraryError when a library of the vendor is missing.
    """
    core: Any = importlib.import_module(f"{__package__}._core_preload")
    if not is_chosen(build_info(), core.installed_folders(), os.environ.get(CHOICE, "")):
        return None
    version: Any = importlib.import_module("torch.version")
    check_version(build_info(), str(version.__version__), _name_inside(version))
    torch_folder = Path(next(iter(sys.modules["torch"].__path__)))
    folders = _libraries.search_folders(torch_folder, core.installed_folders())
    check_whole(build_info(), library_dir())
    check_kind(build_info(), library_dir().parent, torch_folder)
    _warn_of_overwritten(build_info(), folders)
    word = word_of(build_info())
    for name in (f"libc10_{word}.so", f"libtorch_{word}.so", *_list_patched(word)):
        try:
            _libraries.open_library(library_dir() / name, folders)
        except _libraries.LibraryError as error:
            check_abi(build_info(), folders[0].parent if folders else Path(), error)
            raise
    _libraries.open_first(NVTX, folders)
    _open_nvrtc(folders)
    _open_kineto(folders)
    before_body("torch.cuda", _set_alias)
    if apart := _list_apart(word):
        when_imported("torch.cuda", lambda module: module._lazy_call(lambda: _open_apart(apart, folders)))
    when_imported("torch.utils.cpp_extension", extend_paths)
    return MODULE


def word_of(built: Mapping[str, Any]) -> str:
    """Return the word in this vendor's libraries: "cuda", or "hip" as in libtorch_hip."""
    return str(built.get("word", "cuda"))


def project_of(built: Mapping[str, Any]) -> str:
    """Return the project that pip knows us by: another vendor's package is another."""
    return str(built.get("package", "torch_cuda")).replace("_", "-")


def is_chosen(built: Mapping[str, Any], folders: Iterable[str], choice: str) -> bool:
    """Return whether we, of the backends in *folders*, are to bring torch.cuda.

    *choice* is the word that the user named, or empty. Raises VersionError when it is, and there are two of us; or when
    it is nobody's.
    """
    words = {str(word) for folder in folders for word in _words_in(Path(folder))} | {word_of(built)}
    if not choice and len(words) == 1:
        return True
    listed = " or ".join(f"{CHOICE}={word}" for word in sorted(words))
    if not choice:
        raise VersionError(
            f"{len(words)} backends that bring torch.cuda are installed ({', '.join(sorted(words))}), and a process "
            f"has one; uninstall all but one, or choose with {listed}"
        )
    if choice not in words:
        raise VersionError(f"{CHOICE}={choice}: no such backend is installed; choose with {listed}, or set {OPT_OUT}")
    return choice == word_of(built)


def _words_in(folder: Path) -> list[str]:
    """List the words of the backends for this key in *folder*.

    They are packages with bindings called as ours.
    """
    found = []
    for bindings in folder.glob("torch_*/_CUDAC.*"):
        try:
            info = json.loads((bindings.parent / "build_info.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        found.append(word_of(info))
    return found


def _name_inside(version: Any) -> str:
    """Name the CUDA or ROCm inside the torch of *version*; empty for none."""
    named = {"CUDA": version.cuda, "ROCm": getattr(version, "hip", None)}
    return next((f"{toolkit} {number}" for toolkit, number in named.items() if number), "")


def check_version(built: Mapping[str, Any], torch_version: str, inside: str) -> None:
    """Compare what we were *built* for with the torch that is being imported.

    *inside* names the toolkit in it ("CUDA 12.4"), or is empty. Raises VersionError, naming both and the way out.
    """
    wanted = str(built["torch"])
    found = _cut_release(torch_version)
    if found != wanted:
        raise VersionError(
            f"{_name_build(built)} was built for torch {wanted}, but torch {torch_version} is installed; "
            f"install {_name_core(built)} or the {project_of(built)} of {found}, "
            f"or set {OPT_OUT} to use torch without it"
        )
    if inside:
        raise VersionError(
            f"torch {torch_version} already contains {inside}, "
            f"and {_name_build(built)} brings torch.cuda a second time; "
            f"uninstall {project_of(built)}, or install {_name_core(built)}, or set {OPT_OUT}"
        )


def _name_build(built: Mapping[str, Any]) -> str:
    """Say which build of which project we are."""
    return f"{project_of(built)} {built['version']}"


def _name_core(built: Mapping[str, Any]) -> str:
    """Say which torch we go with; PyPI's of that release has CUDA in it."""
    if built.get("core") == "built":
        return f"torch=={built['core_version']}"
    return f"a torch {built['torch']} without CUDA, such as {built['torch']}+cpu"


def check_whole(built: Mapping[str, Any], folder: Path) -> None:
    """Check that the libraries are installed, which may be a wheel of their own.

    Raises LibraryError naming it.
    """
    library = f"libtorch_{word_of(built)}.so"
    if not (folder / library).is_file():
        raise _libraries.LibraryError(
            f"{_name_build(built)} is installed without its libraries: no {library} in {folder}; "
            f"pip install --force-reinstall --no-deps {project_of(built)}-libraries=={built['version']}, or "
            f"{project_of(built)} itself where no such wheel is to be had, or set {OPT_OUT}"
        )


def check_kind(built: Mapping[str, Any], folder: Path, torch_folder: Path) -> None:
    """Check that *folder* is one build's, and for this kind of core.

    Neither shows before something does not work. Raises VersionError: files of two builds of us in one place, or
    kernels of upstream's that lack what the patched core asks of libtorch_cuda.
    """
    compiled = built.get("kernels", "compiled") == "compiled"
    strangers = ["kernels.json"] if (folder / "kernels.json").exists() else []
    strangers += sorted(path.name for path in (folder / "lib").glob("libtorch_cuda_*.so"))
    if compiled and strangers:
        raise VersionError(
            f"{_name_build(built)} in {folder} has files of another build in it ({', '.join(strangers)}); "
            f"delete that folder and install {project_of(built)} again, or set {OPT_OUT}"
        )
    if not compiled and built.get("core") == "stock" and is_patched(torch_folder):
        raise VersionError(
            f"{_name_build(built)} is for an unmodified torch, that in {torch_folder} is the patched one; "
            f"install the {project_of(built)} that was built for it, or set {OPT_OUT}"
        )


def check_abi(built: Mapping[str, Any], torch_folder: Path, error: Exception) -> None:
    """Say that a library does not open because of the C++ ABI.

    torch has another ABI than we were *built* for. Raises VersionError then. torch's own CMake file says which it has.
    """
    config = torch_folder / "share/cmake/Torch/TorchConfig.cmake"
    found = re.search(r"_GLIBCXX_USE_CXX11_ABI=([01])", config.read_text("utf-8")) if config.is_file() else None
    wanted = str(built.get("cxx11_abi", ""))
    if found and wanted and found.group(1) != wanted:
        names = {"0": "pre-C++11", "1": "C++11"}
        raise VersionError(
            f"{_name_build(built)} is of the {names.get(wanted, wanted)} ABI of libstdc++, the torch in "
            f"{torch_folder} of the {names[found.group(1)]} ABI; "
            f"install torch and {project_of(built)} of one ABI, or set {OPT_OUT}"
        ) from error


def _cut_release(version: str) -> str:
    """Return the X.Y.Z of a PEP 440 version with whatever suffix."""
    found = re.match(r"\d+\.\d+\.\d+", version)
    return found.group() if found else version


def _warn_of_overwritten(built: Mapping[str, Any], folders: list[Path]) -> None:
    """Say which of NVIDIA's wheels have another CUDA's files.

    It is said before one of those is opened or found missing.
    """
    if "cuda" not in built:
        return
    for site in site_folders(folders):
        if again := list_overwritten(site, str(built["cuda"])):
            warnings.warn(
                f"{_name_build(built)} finds files of another CUDA in {site / 'nvidia'}, or none, where these "
                f"wheels have theirs; pip install --force-reinstall --no-deps {' '.join(again)}",
                RuntimeWarning,
                stacklevel=2,
            )


def _list_patched(word: str) -> list[str]:
    """List what the patched core asks beside upstream's libtorch_cuda.

    Empty for a libtorch_cuda that we compiled, and for a stock core.

    It stands before the hooks that libtorch_cuda registers, so it must be there before ATen first asks for them.
    """
    name = f"libtorch_{word}_patched.so"
    return [name] if (library_dir() / name).is_file() else []


def _list_apart(word: str) -> list[str]:
    """List the libraries that upstream's builds have apart from libtorch_cuda.

    An example is libtorch_cuda_linalg. Empty for one that we compiled.

    ATen opens it by its bare name on first use, from libtorch_cpu, whose run path does not lead here.
    """
    found = {path.name for path in library_dir().glob(f"libtorch_{word}_*.so")}
    return sorted(found.difference(_list_patched(word)))


def _open_apart(names: list[str], folders: list[Path]) -> None:
    """Open those libraries when torch.cuda is initialised; none is used before.

    Not with torch: MAGMA in libtorch_cuda_linalg asks for the devices when it is opened (``magma_init``), and CUDA is
    refused to a child forked after that. One that cannot be opened leaves torch.cuda without its operators alone.
    """
    for name in names:
        try:
            _libraries.open_library(library_dir() / name, folders)
        except _libraries.LibraryError as error:
            warnings.warn(f"operators of {name} will fail: {error}", RuntimeWarning, stacklevel=2)


def _open_nvrtc(folders: list[Path]) -> None:
    """Open libcaffe2_nvrtc where there is a driver.

    ATen opens it by its bare name on first use too; a library that is in the process already is found by that name.
    Without a driver it cannot be opened, and will not be asked for.
    """
    try:
        _libraries.open_library(library_dir() / "libcaffe2_nvrtc.so", folders)
    except _libraries.LibraryError as error:
        if "libcuda.so.1" not in str(error):
            raise


def _open_kineto(folders: list[Path]) -> None:
    """Open libtorch_kineto_cuda where this build has it.

    Its profiler then takes the place of the core's. It alone needs CUPTI. Without that torch works, and profiles have
    no CUDA activities.
    """
    library = library_dir() / "libtorch_kineto_cuda.so"
    if not library.is_file():
        return
    try:
        _libraries.open_library(library, folders)
    except _libraries.LibraryError as error:
        warnings.warn(f"torch.profiler will record no CUDA activities: {error}", RuntimeWarning, stacklevel=2)


def _set_alias(torch_cuda_module: ModuleType) -> None:
    """Set ``torch.cuda._CUDAC``, the RFC's name for the bindings.

    Whoever imported them has put it into sys.modules.
    """
    bindings = sys.modules.get("torch.cuda._CUDAC")
    if bindings is not None:
        torch_cuda_module._CUDAC = bindings  # type: ignore[attr-defined]
