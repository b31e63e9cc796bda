"""Look at the PyTorch that the stand-ins go before, without importing it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from simcuda import symbols
from simcuda.errors import SimcudaError, explain_os_error

PROBE_PROGRAM = """
import importlib.util, json, sysconfig
def folder(name):
    spec = importlib.util.find_spec(name)
    return spec and list(spec.submodule_search_locations or [])[0]
names = {"torch": "torch", "cuda": "torch_cuda", "hip": "torch_hip"}
print(json.dumps({"site": sysconfig.get_paths()["purelib"], **{key: folder(name) for key, name in names.items()}}))
"""


@dataclass(frozen=True)
class TorchBuild:
    """Folders of headers and libraries, and the C++ ABI (1: C++11 strings).

    ``word`` is the one in its libraries' names: "cuda", or "hip" where ROCm built it.
    """

    site: Path
    include: tuple[Path, ...]
    libraries: tuple[Path, ...]
    abi: int
    word: str = "cuda"

    def find_library(self, name: str) -> Path:
        """Return the file of ``lib<name>.so``."""
        for folder in self.libraries:
            for path in (folder / f"lib{name}.so", *sorted(folder.glob(f"lib{name}.so.*"))):
                if path.exists():
                    return path
        raise SimcudaError(
            f"no lib{name}.so in {', '.join(map(str, self.libraries))}",
            next_step="name its folder with --torch-lib; a CPU build has none and needs no simulation",
        )


def make_python_environment() -> dict[str, str]:
    """Return this process's variables with ``PYTHONPATH``'s folders made absolute."""
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))  # an empty one is the current folder
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in folders)
    return {**os.environ, "PYTHONPATH": path} if path else {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


def find_torch_build(python: Path, include: tuple[Path, ...] = (), libraries: tuple[Path, ...] = ()) -> TorchBuild:
    """Find ``python``'s torch, searching ``include`` and ``libraries`` first."""
    name = str(python.absolute()) if python.parent != Path() else str(python)
    another = "name another with --python"
    with explain_os_error(f"{python} does not run", another):
        # not in the current folder, which -c would put first on the path of modules
        done = subprocess.run(
            [name, "-c", PROBE_PROGRAM], capture_output=True, text=True, cwd="/", env=make_python_environment()
        )
    if done.returncode:
        raise SimcudaError(f"{python} does not run: {done.stderr.strip()[-200:]}", next_step=another)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise SimcudaError(f"{python} is no Python: it says {done.stdout[:40]!r}", next_step=another) from None
    if not answer["torch"]:
        raise SimcudaError(f"{python} has no torch", next_step="install one, or name another interpreter with --python")
    # the backend's headers first where there is HIP's: an unmodified core's differ (docs/split.md)
    both = answer["cuda"] and answer["hip"]
    absent = {"cuda" if os.environ.get("TORCH_CUDA_BACKEND") == "hip" else "hip"} if both else set()
    folders = [Path(answer[key]) for key in ("hip", "torch", "cuda") if answer[key] and key not in absent]
    headers = [
        f for folder in folders for f in (folder / "include", folder / "include/torch/csrc/api/include") if f.is_dir()
    ]
    build = TorchBuild(
        Path(answer["site"]),
        (*include, *headers),
        (*libraries, *(folder / "lib" for folder in folders if (folder / "lib").is_dir())),
        abi=0,
    )
    # of a function with a std::string in its name, since the library also defines templates of libstdc++
    abi = any(
        "torchCheckFail" in name and "__cxx11" in name
        for name in symbols.read_defined_functions(build.find_library("c10"))
    )
    word = "hip" if any(any(folder.glob("libc10_hip.so*")) for folder in build.libraries) else "cuda"
    return TorchBuild(build.site, build.include, build.libraries, int(abi), word)
