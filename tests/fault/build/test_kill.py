"""``kill -9`` at every write of a build: the next run finishes, and its wheel is the one an undisturbed run makes."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.build.environment import HostEnvironment
from decouple.build.options import Provenance
from tests.unit.build.conftest import host, provenance, tree  # noqa: F401 - fixtures
from tests.unit.build.test_stages import NO_CACHE

CODE = (
    "import pickle, sys\nfrom pathlib import Path\nfrom tests.support import stopped\nstopped.arm()\n"
    "from decouple.build.stage import BuildJob\nfrom decouple.build.stage1 import Stage1\n"
    "outcome = Stage1(BuildJob(*pickle.loads(Path(sys.argv[1]).read_bytes()))).build_wheel()\n"
    "print(outcome.built, outcome.wheel)\n"
)


def build(call: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", CODE, str(call)]
    project = Path(__file__).parents[3]
    return subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **variables}, cwd=project)


def test_kill_at_every_write(host: HostEnvironment, provenance: Provenance, tmp_path: Path) -> None:  # noqa: F811
    call = tmp_path / "call"
    call.write_bytes(pickle.dumps((host, provenance, NO_CACHE)))
    steps = tmp_path / "steps"
    first = build(call, TRACE_STEPS=str(steps))
    assert first.returncode == 0, first.stderr
    wheel = Path(first.stdout.split()[1])
    whole = wheel.read_bytes()
    names = steps.read_text().splitlines()
    assert len(names) >= 5
    source = host.places.tree / "part0.c"
    for number, name in enumerate(names, 1):
        # Something to do each time: the stamps are gone and a source is newer.
        for left in (host.places.state / "stage1.json", host.places.state / "stage1.configured", wheel):
            left.unlink(missing_ok=True)
        os.utime(source)
        killed = build(call, KILL_AT=str(number))
        assert killed.returncode == -signal.SIGKILL, f"{number}. {name}: {killed.stderr}"
        assert not wheel.exists() or wheel.read_bytes() == whole, f"half a wheel after {name}"
        again = build(call)
        assert again.returncode == 0, f"after a kill at {name}: {again.stderr}"
        assert wheel.read_bytes() == whole, f"another wheel after a kill at {name}"


def test_what_a_killed_build_started_keeps_the_next_one_waiting(
    host: HostEnvironment,  # noqa: F811
    provenance: Provenance,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Its compilers may still be writing: two ninjas in one folder would write the same objects."""
    started, launcher = tmp_path / "started", tmp_path / "launcher"
    launcher.write_text(f'#!/bin/sh\necho $$ >>{started}\nsleep 2\nexec "$@"\n')
    launcher.chmod(0o755)
    choices = replace(NO_CACHE, variables={"CMAKE_C_COMPILER_LAUNCHER": str(launcher)}, jobs=1)
    call = tmp_path / "call"
    call.write_bytes(pickle.dumps((host, provenance, choices)))
    project = Path(__file__).parents[3]
    first = subprocess.Popen([sys.executable, "-c", CODE, str(call)], cwd=project, stderr=subprocess.DEVNULL)
    while not started.exists():
        assert first.poll() is None, "the build ended before it compiled anything"
        time.sleep(0.05)
    first.kill()
    first.wait()
    with (host.places.state / "stage1.lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    again = build(call)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("True ")
