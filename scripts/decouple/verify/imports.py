"""Import torch under strace to see which libraries it opens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.interpreter import run_python
from decouple.verify.audit import make_library_pattern

#: A call that another thread's lines cut in two ends in a line of its own; it is taken for one that found the file.
_OPENED = re.compile(r'open(?:at)?\((?:AT_FDCWD, )?"([^"]+)"[^)\n]*(?:\) = (-?\d+)|<unfinished)')


class OpenedLibraries(Struct, frozen=True):
    """Shared libraries that a process opened, or tried to."""

    opened: tuple[str, ...]
    tried: tuple[str, ...]

    def cuda(self) -> list[str]:
        """Return those among both that are CUDA's."""
        return sorted({path for path in (*self.opened, *self.tried) if make_library_pattern().match(Path(path).name)})


def trace_libraries(prefix: Sequence[str], code: str = "import torch") -> OpenedLibraries:
    """Run ``code`` behind ``prefix`` (a command line ending in a Python) under strace.

    Raises DecoupleError when the code fails or strace saw nothing, so that an empty answer is never a pass.
    """
    found = parse_trace(_run_strace(prefix, code, ()))
    if not found.opened:
        raise DecoupleError("strace saw no library being opened", next_step="install strace; ptrace must be allowed")
    return found


def run_without(prefix: Sequence[str], hidden: Sequence[str], code: str = "import torch") -> int:
    """Run ``code`` as if the files ``hidden`` were not on the machine.

    They are paths as the process writes them. strace makes the kernel answer ENOENT for them. Returns how often it did.
    Raises DecoupleError when the code fails, or when nothing asked for any of them: then they were not hidden from
    anybody.
    """
    paths = [part for path in hidden for part in ("-P", path)]
    answered = _run_strace(prefix, code, ["-e", "inject=open,openat:error=ENOENT", *paths]).count("(INJECTED)")
    if not answered:
        raise DecoupleError(
            f"{code!r} never asked for {', '.join(hidden) or 'a hidden file'}",
            next_step="is each path spelt as the process asks for it?",
        )
    return answered


def _run_strace(prefix: Sequence[str], code: str, options: Sequence[str]) -> str:
    """Return strace's output for ``code`` behind ``prefix``.

    Raises DecoupleError when the code fails.
    """
    argv = list(prefix)
    traced = [*argv[:-1], "strace", "-f", "-qq", "-e", "trace=open,openat", *options, argv[-1], "-c", code]
    done = run_python(traced)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not _OPENED.search(line) and line.strip()]
        raise DecoupleError(
            f"{code!r} fails: {said[-1].strip() if said else done.returncode}",
            next_step="run it without strace to see whether it is the code or strace",
        )
    return done.stderr


def parse_trace(trace: str) -> OpenedLibraries:
    """Parse strace's output into the shared libraries that were opened."""
    opened: list[str] = []
    tried: list[str] = []
    for path, result in _OPENED.findall(trace):
        if re.search(r"\.so(\.\d+)*$", path):
            (tried if result.startswith("-") else opened).append(path)
    return OpenedLibraries(tuple(dict.fromkeys(opened)), tuple(dict.fromkeys(tried)))
