"""Importing torch under watch: which libraries it opens, asked of the kernel through strace."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.verify.audit import cuda_library

_OPENED = re.compile(r'open(?:at)?\((?:AT_FDCWD, )?"([^"]+)"[^)]*\) = (-?\d+)')


@dataclass(frozen=True)
class Opened:
    """Shared libraries that a process opened, or tried to."""

    opened: tuple[str, ...]
    tried: tuple[str, ...]

    def cuda(self) -> list[str]:
        """Those among both that are CUDA's."""
        return sorted({path for path in (*self.opened, *self.tried) if cuda_library().match(Path(path).name)})


def libraries_opened(prefix: Sequence[str], code: str = "import torch") -> Opened:
    """Run ``code`` behind ``prefix`` (a command line ending in a Python) under strace.

    Raises DecoupleError when the code fails or strace saw nothing, so that an empty answer is never a pass.
    """
    argv = list(prefix)
    traced = [*argv[:-1], "strace", "-f", "-qq", "-e", "trace=open,openat", argv[-1], "-c", code]
    done = subprocess.run(traced, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not _OPENED.search(line) and line.strip()]
        raise DecoupleError(f"{code!r} fails: {said[-1].strip() if said else done.returncode}")
    found = parse(done.stderr)
    if not found.opened:
        raise DecoupleError("strace saw no library being opened", next_step="install strace; ptrace must be allowed")
    return found


def parse(trace: str) -> Opened:
    """The shared libraries in strace's output."""
    opened: list[str] = []
    tried: list[str] = []
    for path, result in _OPENED.findall(trace):
        if re.search(r"\.so(\.\d+)*$", path):
            (tried if result.startswith("-") else opened).append(path)
    return Opened(tuple(dict.fromkeys(opened)), tuple(dict.fromkeys(tried)))
