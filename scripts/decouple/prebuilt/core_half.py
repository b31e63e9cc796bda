"""The CPU half of an official wheel as a core to try torch_cuda on: the same bytes, with CUDA's taken away.

Libraries with kernels are left out, ``torch.version.cuda`` is None, and the CUDA bindings inside the wheel's own
libtorch_python are kept out of ``torch._C`` by a small library that is asked before them (``half/without_cuda.cpp``).
It is a test bed and no core for anybody: that libtorch_python does not load without libtorch_cuda.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.progress import SILENT, Progress
from decouple.prebuilt import fetch, official
from decouple.prebuilt.pairing import Pair
from decouple.upstream.download import Downloader

PACKAGE = "torch_core_half"
_HALF = Path(__file__).with_name("half")
_ENTRY = f"[torch.backends.preload]\ncuda_core_half = {PACKAGE}:preload\n"
_CUDA = re.compile(r"^cuda: Optional\[str\] = '[\d.]+'$", re.MULTILINE)


def make(pair: Pair, folder: Path, downloader: Downloader, progress: Progress = SILENT) -> int:
    """Make ``folder``, laid out as site-packages; the bytes fetched for it. Raises DecoupleError, UsageError.

    ``folder`` appears when it is whole.
    """
    if folder.exists():
        raise UsageError(f"{folder}: is there already", next_step="name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as unfinished:
        site = Path(unfinished) / "site"

        def place(name: str) -> Path | None:
            base = name.rpartition("/")[2]
            return None if name.startswith("torch/lib/") and official.KERNELS.fullmatch(base) else site / name

        _, received = fetch.members(pair.wheel, place, downloader, progress)
        finish(site)
        site.rename(folder)
    return received


def finish(site: Path) -> None:
    """Make a core of an unpacked wheel without kernels at ``site``. Raises DecoupleError."""
    version = site / "torch" / "version.py"
    text, count = _CUDA.subn("cuda: Optional[str] = None", version.read_text(encoding="utf-8"))
    if count != 1:
        raise DecoupleError(f"{version}: says nothing of CUDA", next_step="name the wheel that has CUDA in it")
    version.write_text(text, encoding="utf-8")
    package = site / PACKAGE
    package.mkdir()
    shutil.copy(_HALF / "package.py", package / "__init__.py")
    compiler = shutil.which("c++")
    if compiler is None:
        raise DecoupleError("no C++ compiler (c++)", next_step="install g++")
    library = package / "libwithout_cuda.so"
    command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", str(_HALF / "without_cuda.cpp"), "-o", str(library)]
    done = subprocess.run([*command, "-ldl"], capture_output=True, text=True)
    if done.returncode:
        raise DecoupleError(f"{_HALF / 'without_cuda.cpp'}: {done.stderr.strip()}", next_step="look at the compiler")
    info = site / f"{PACKAGE}-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(_ENTRY, encoding="utf-8")
