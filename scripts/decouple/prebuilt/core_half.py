"""Make a test core of the CPU half of an official wheel.

Libraries with kernels are left out, ``torch.version.cuda`` is None, and the CUDA bindings inside the wheel's own
libtorch_python are kept out of ``torch._C`` by a small library that is asked before them (``half/without_cuda.cpp``).
That works while libtorch_python exports them: that of 2.6 does, that of 2.15 keeps them to itself and is refused.
It is for tests of torch_cuda only: that libtorch_python does not load without libtorch_cuda.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from decouple.base import program_output, zips
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import make_work_folder, write_atomically
from decouple.base.interpreter import run_python
from decouple.base.mounts import remove_tree
from decouple.base.progress import SILENT, Progress
from decouple.prebuilt import dynamic_symbols, fetch, official_symbols
from decouple.prebuilt.pairing import Pair
from decouple.upstream.download import Downloader

PACKAGE = "torch_core_half"
_HALF = Path(__file__).with_name("half")
_ENTRY = f"[torch.backends.preload]\ncuda_core_half = {PACKAGE}:preload\n"
_CUDA = re.compile(r"^cuda: Optional\[str\] = '[\d.]+'$", re.MULTILINE)


def make_core_half(pair: Pair, folder: Path, downloader: Downloader, progress: Progress = SILENT) -> int:
    """Make ``folder``, laid out as site-packages; return the bytes fetched for it.

    ``folder`` appears when it is complete. Raises DecoupleError, UsageError.
    """
    if folder.exists():
        raise UsageError(f"{folder}: is there already", next_step="name a new folder")
    _find_compiler()  # before hundreds of MiB are fetched
    with make_work_folder(folder.parent, folder.name) as unfinished:
        site = unfinished / "site"

        def place_member(name: str) -> Path | None:
            base = name.rpartition("/")[2]
            return None if name.startswith("torch/lib/") and official_symbols.KERNELS.fullmatch(base) else site / name

        _, received = fetch.fetch_members(pair.wheel, place_member, downloader, progress)
        finish_core(site)
        site.rename(folder)
    return received


def make_environment(python: Path, folder: Path, backend: Path | None = None) -> Path:
    """Make a virtual environment with the official torch without its kernels.

    That torch is the one of ``python``, whose other packages are on the path too; the wheel ``backend`` is unpacked
    beside it. Files are linked, not copied, where the file system allows it. Returns the new Python. Raises
    DecoupleError, UsageError.
    """
    if folder.exists():
        raise UsageError(f"{folder}: is there already", next_step="name a new folder")
    question = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    process = run_python([str(python), "-c", question])
    torch = Path(process.stdout.strip())
    if process.returncode or not (torch / "lib/libtorch_cuda.so").is_file():
        raise UsageError(
            f"{python}: has no torch with CUDA in it", next_step="name a Python that has the official wheel"
        )
    try:
        venv = run_python([str(python), "-m", "venv", "--without-pip", str(folder.absolute())])
        if venv.returncode:
            raise DecoupleError(
                f"{folder}: no virtual environment: {venv.stderr.strip()}", next_step="mend that Python"
            )
        site = next((folder / "lib").glob("python3*/site-packages"))
        for package in ("torch", "torchgen", "functorch"):
            if (torch.parent / package).is_dir():
                shutil.copytree(
                    torch.parent / package, site / package, ignore=_ignore_kernels, copy_function=_link_or_copy
                )
        finish_core(site)
        (site / "beside.pth").write_text(f"{torch.parent}\n", encoding="utf-8")
        if backend:
            with zips.open_zip(backend) as wheel:
                wheel.extractall(site)
    except BaseException:
        remove_tree(folder)
        raise
    return folder / "bin" / "python"


def _ignore_kernels(folder: str, names: list[str]) -> list[str]:
    kernels = official_symbols.KERNELS.fullmatch if folder.endswith("torch/lib") else (lambda _: None)
    return [name for name in names if name == "__pycache__" or kernels(name)]


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def finish_core(site: Path) -> None:
    """Make a core of an unpacked wheel without kernels at ``site``.

    Raises DecoupleError.
    """
    version = site / "torch" / "version.py"
    text, count = _CUDA.subn("cuda: Optional[str] = None", version.read_text(encoding="utf-8"))
    if count != 1:
        raise DecoupleError(f"{version}: says nothing of CUDA", next_step="name the wheel that has CUDA in it")
    write_atomically(version, text)  # a new file: that one may be a link to somebody's own
    package = site / PACKAGE
    package.mkdir()
    shutil.copy(_HALF / "package.py", package / "__init__.py")
    library = package / "libwithout_cuda.so"
    options = ["-std=c++17", "-O1", "-shared", "-fPIC"]
    command = [_find_compiler(), *options, str(_HALF / "without_cuda.cpp"), "-o", str(library)]
    process = program_output.run_program([*command, "-ldl"])
    if process.returncode:
        raise DecoupleError(f"{_HALF / 'without_cuda.cpp'}: {process.stderr.strip()}", next_step="look at the compiler")
    _refuse_hidden_bindings(site / "torch/lib/libtorch_python.so", library)
    info = site / f"{PACKAGE}-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(_ENTRY, encoding="utf-8")


def _find_compiler() -> str:
    compiler = shutil.which("c++")
    if compiler is None:
        raise DecoupleError("no C++ compiler (c++)", next_step="install g++")
    return compiler


def _refuse_hidden_bindings(theirs: Path, ours: Path) -> None:
    """Raise DecoupleError where ``theirs`` asks itself for its bindings.

    They would then be taken for ours.
    """
    asked = {name for name in dynamic_symbols.read_file_symbols(ours).defined if name.startswith("_Z")}
    hidden = sorted(asked - dynamic_symbols.read_file_symbols(theirs).defined.keys())
    if hidden:
        raise DecoupleError(
            f"{theirs}: does not export {', '.join(hidden)}: its CUDA bindings cannot be kept out of torch._C",
            next_step="compare with a core that was built without CUDA: decouple build RELEASE --stage 1, "
            "then --core built",
        )
