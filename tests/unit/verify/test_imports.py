"""What a process opens, seen by strace."""

from __future__ import annotations

import sys
from pathlib import Path

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
    found = imports.parse_trace(TRACE)
    assert found.opened == ("/usr/lib/libc.so.6", "/usr/lib/libtorch_cuda.so", "/usr/lib/libcustom.so")
    assert found.cuda() == ["/opt/x/libcudart.so.12", "/usr/lib/libtorch_cuda.so"]


def test_a_call_that_another_threads_line_cut_in_two_hides_nothing() -> None:
    """Its end was looked for in the lines behind it, which then were not seen themselves."""
    cut = """\
[pid 7] openat(AT_FDCWD, "/usr/lib/libnccl.so.2", O_RDONLY|O_CLOEXEC <unfinished ...>
[pid 8] openat(AT_FDCWD, "/usr/lib/libcudart.so.12", O_RDONLY|O_CLOEXEC) = 3
[pid 7] <... openat resumed>) = 4
"""
    assert imports.parse_trace(cut).cuda() == ["/usr/lib/libcudart.so.12", "/usr/lib/libnccl.so.2"]


@pytest.mark.usefixtures("strace")
def test_a_real_process() -> None:
    found = imports.trace_libraries(
        [sys.executable], "import ctypes\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError: 0"
    )
    assert found.opened
    assert all("libcuda.so.1" in path for path in found.cuda())
    assert found.cuda()


@pytest.mark.usefixtures("strace")
def test_code_that_fails_is_no_answer() -> None:
    with pytest.raises(DecoupleError, match="ZeroDivisionError"):
        imports.trace_libraries([sys.executable], "1/0")


ASK_FOR_LIBUTIL = "import ctypes\ntry: ctypes.CDLL('libutil.so.1'); print('there')\nexcept OSError: open({!r}, 'w')"


@pytest.mark.usefixtures("strace")
def test_a_library_is_hidden_from_one_process(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    code = ASK_FOR_LIBUTIL.format(str(gone))
    opened = imports.trace_libraries([sys.executable], code).opened
    (there,) = (path for path in opened if path.endswith("/libutil.so.1"))
    assert not gone.exists()
    assert imports.run_without([sys.executable], [there], code) >= 1
    assert gone.exists()


@pytest.mark.usefixtures("strace")
def test_hiding_what_nobody_asks_for_is_no_proof() -> None:
    with pytest.raises(DecoupleError, match=r"/lib/libnever\.so"):
        imports.run_without([sys.executable], ["/lib/libnever.so"], "0")
