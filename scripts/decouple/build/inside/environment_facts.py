"""Print as JSON what an environment has for stage 2.

Runs inside it, with nothing but Python's standard library. Argument: the prefix that the core is installed under.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def capture_output(*command: str) -> str:
    """Return a command's standard output, empty when there is no such command."""
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return ""


def find_nvcc() -> tuple[str | None, list[str]]:
    """nvcc's release ("12.4") and the architectures it knows ("90", "90a")."""
    program = os.environ.get("CUDACXX") or shutil.which("nvcc") or ""
    if not Path(program).is_file():
        return None, []
    release = re.search(r"release (\d+\.\d+)", capture_output(program, "--version"))
    return (release.group(1) if release else None), re.findall(
        r"compute_(\d+[af]?)", capture_output(program, "--list-gpu-arch")
    )


def find_host_gcc() -> int | None:
    """Return the major version of the gcc that nvcc uses for the host's code.

    None for another compiler, and where nvcc was told to take any.
    """
    told = " ".join(os.environ.get(name, "") for name in ("TORCH_NVCC_FLAGS", "CUDAFLAGS", "NVCC_PREPEND_FLAGS"))
    program = os.environ.get("CUDAHOSTCXX") or shutil.which("cuda-g++") or os.environ.get("CXX") or "c++"
    if "-allow-unsupported-compiler" in told or "Free Software Foundation" not in capture_output(program, "--version"):
        return None
    major = re.match(r"\d+", capture_output(program, "-dumpversion"))
    return int(major.group()) if major else None


def find_cudnn_version() -> str | None:
    """Return the version in the first ``cudnn_version.h`` where stage 2 looks for it."""
    named = [os.environ.get("CUDNN_INCLUDE_DIR"), f"{os.environ.get('CUDNN_ROOT', '')}/include"]
    for folder in (*named, "/usr/include", "/usr/local/cuda/include"):
        header = Path(folder or "/nowhere", "cudnn_version.h")
        if header.exists():
            numbers = dict(re.findall(r"#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) (\d+)", header.read_text()))
            return ".".join(numbers.get(part, "0") for part in ("MAJOR", "MINOR", "PATCHLEVEL"))
    return None


def find_torch_version(prefix: str) -> str | None:
    """``__version__`` of the torch package under ``prefix``."""
    for pattern in ("torch/version.py", "lib/python3*/*-packages/torch/version.py"):
        for file in sorted(Path(prefix).glob(pattern)):
            match = re.search(r"__version__ *= *'([^']+)'", file.read_text())
            if match:
                return match.group(1)
    return None


if __name__ == "__main__":
    release, archs = find_nvcc()
    compiler = find_host_gcc() if release else None
    found = {
        "nvcc": release,
        "archs": archs,
        "cudnn": find_cudnn_version(),
        "torch": find_torch_version(sys.argv[1]),
        "host_gcc": compiler,
    }
    print(json.dumps(found))
