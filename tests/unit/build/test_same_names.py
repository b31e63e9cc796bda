"""``same_names.sh``, which runs compilers as process 2 of a namespace of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from decouple.base.paths import find_project

SCRIPT = find_project() / "scripts/decouple/build/inside/same_names.sh"
MARKER = f"{os.getpid()}.5"  # a duration in seconds that no other sleep has
may = subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0
allowed = pytest.mark.skipif(not may, reason="this user may make no namespace of process numbers; root may")


def run(command: list[str], temporary: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@allowed
def test_number_two_and_a_folder_of_its_own(tmp_path: Path) -> None:
    done = run([str(SCRIPT), "sh", "-c", 'echo $$ "$0"; touch "$TMPDIR/left"; exit 3', "two words"], tmp_path)
    assert (done.stdout, done.returncode) == ("2 two words\n", 3)
    assert list(tmp_path.iterdir()) == []


@allowed
def test_a_killed_compiler_is_told_as_such(tmp_path: Path) -> None:
    """By the number that wrapped_cmake knows for a compiler that ran out of memory."""
    process = subprocess.Popen([str(SCRIPT), "sleep", MARKER], env={**os.environ, "TMPDIR": str(tmp_path)})
    os.kill(wait_for_sleep(), signal.SIGKILL)
    assert process.wait(20) == 137


@allowed
def test_an_interrupted_build_leaves_neither_compiler_nor_files(tmp_path: Path) -> None:
    command, environment = [str(SCRIPT), "sleep", MARKER], {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    compiler = wait_for_sleep()
    os.killpg(process.pid, signal.SIGTERM)  # what ninja does
    assert process.wait(20) == 130
    deadline = time.monotonic() + 120
    while Path(f"/proc/{compiler}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{compiler}").exists() and list(tmp_path.iterdir()) == []


def wait_for_sleep() -> int:
    """The process number, seen from here, of the ``sleep`` of this test, as soon as it runs."""
    wanted = f"sleep\0{MARKER}\0".encode()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it may have ended since
                if path.read_bytes() == wanted:
                    return int(path.parent.name)
        time.sleep(0.05)
    raise AssertionError("nothing was started")


@pytest.mark.skipif(os.geteuid() != 0, reason="to become another user takes root")
def test_without_the_right_to_a_namespace_the_compiler_runs_as_ever(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    nobody = ["setpriv", "--reuid", "65534", "--clear-groups", "--", "sh", "-s", "sh", "-c", "echo $$; exit 4"]
    done = subprocess.run(nobody, stdin=SCRIPT.open("rb"), capture_output=True, text=True, check=False)
    assert done.returncode == 4 and int(done.stdout) > 2
