"""The build of PyTorch that the stand-ins are put in front of, looked at without importing it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from simcuda import symbols
from simcuda.errors import SimcudaError

ASK = """
import importlib.util, json, sysconfig
def folder(name):
    spec = importlib.util.find_spec(name)
    return spec and list(spec.submodule_search_locations or [])[0]
print(json.dumps({"site": sysconfig.get_paths()["purelib"], "torch": folder("torch"), "cuda": folder("torch_cuda")}))
"""


@dataclass(frozen=True)
class TorchBuild:
    """Folders of headers and libraries, and the C++ ABI (1: C++11 strings)."""

    site: Path
    include: tuple[Path, ...]
    libraries: tuple[Path, ...]
    abi: int

    def library(self, name: str) -> Path:
        """The file of ``lib<name>.so``."""
        for folder in self.libraries:
            for path in (folder / f"lib{name}.so", *sorted(folder.glob(f"lib{name}.so.*"))):
                if path.exists():
                    return path
        raise SimcudaError(
            f"no lib{name}.so in {', '.join(map(str, self.libraries))}",
            next_step="name its folder with --torch-lib; a CPU build has none and needs no simulation",
        )


def look(python: Path, include: tuple[Path, ...] = (), libraries: tuple[Path, ...] = ()) -> TorchBuild:
    """The torch that ``python`` would import; ``include`` and ``libraries`` are searched first."""
    done = subprocess.run([str(python), "-c", ASK], capture_output=True, text=True)
    if done.returncode:
        raise SimcudaError(
            f"{python} does not run: {done.stderr.strip()[-200:]}", next_step="name another with --python"
        )
    found = json.loads(done.stdout)
    if not found["torch"]:
        raise SimcudaError(f"{python} has no torch", next_step="install one, or name another interpreter with --python")
    folders = [Path(found[key]) for key in ("torch", "cuda") if found[key]]
    headers = [
        f for folder in folders for f in (folder / "include", folder / "include/torch/csrc/api/include") if f.is_dir()
    ]
    build = TorchBuild(
        Path(found["site"]),
        (*include, *headers),
        (*libraries, *(folder / "lib" for folder in folders if (folder / "lib").is_dir())),
        abi=0,
    )
    # of a function with a std::string in its name, since the library also defines templates of libstdc++
    abi = any("torchCheckFail" in name and "__cxx11" in name for name in symbols.defined(build.library("c10")))
    return TorchBuild(build.site, build.include, build.libraries, int(abi))
