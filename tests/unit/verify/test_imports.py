"""What a process opens, seen by strace."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from decouple.base.errors import DecoupleError
from decouple.verify import imports

TRACE = """\
[pid 7] openat(AT_FDCWD, "/usr/lib/libc.so.6", O_RDONLY|O_CLOEXEC) = 3
openat(AT_FDCWD, "/opt/x/libcudart.so.12", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
openat(AT_FDCWD, "/usr/lib/libtorch_cuda.so", O_RDONLY|O_CLOEXEC) = 4
openat(AT_FDCWD, "/usr/lib/libcustom.so", O_RDONLY|O_CLOEXEC) = 4
openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 4
"""


def test_an_attempt_counts_as_much_as_a_success() -> None:
    found = imports.parse(TRACE)
    assert found.opened == ("/usr/lib/libc.so.6", "/usr/lib/libtorch_cuda.so", "/usr/lib/libcustom.so")
    assert found.cuda() == ["/opt/x/libcudart.so.12", "/usr/lib/libtorch_cuda.so"]


def strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not strace_works(), reason="strace is not installed or not allowed here")
def test_a_real_process() -> None:
    found = imports.libraries_opened(
        [sys.executable], "import ctypes\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError: 0"
    )
    assert found.opened
    assert all("libcuda.so.1" in path for path in found.cuda())
    assert found.cuda()


@pytest.mark.skipif(not strace_works(), reason="strace is not installed or not allowed here")
def test_code_that_fails_is_no_answer() -> None:
    with pytest.raises(DecoupleError, match="ZeroDivisionError"):
        imports.libraries_opened([sys.executable], "1/0")
