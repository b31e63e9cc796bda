"""``kill -9`` at every write of a build: the next run finishes, and its wheel is the one an undisturbed run makes."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

from decouple.build.environment import HostEnvironment
from decouple.build.stages import Provenance
from tests.unit.build.conftest import host, provenance, tree  # noqa: F401 - fixtures
from tests.unit.build.test_stages import NO_CACHE

CODE = (
    "import pickle, sys\nfrom pathlib import Path\nfrom decouple.build.stages import build_stage1\n"
    "outcome = build_stage1(*pickle.loads(Path(sys.argv[1]).read_bytes()))\nprint(outcome.built, outcome.wheel)\n"
)


def build(call: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", CODE, str(call)]
    project = Path(__file__).parents[3]
    return subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **variables}, cwd=project)


def test_kill_at_every_write(host: HostEnvironment, provenance: Provenance, tmp_path: Path) -> None:  # noqa: F811
    call = tmp_path / "call"
    call.write_bytes(pickle.dumps((host, provenance, NO_CACHE)))
    steps = tmp_path / "steps"
    first = build(call, DECOUPLE_TRACE_STEPS=str(steps))
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
        killed = build(call, DECOUPLE_KILL_AT=str(number))
        assert killed.returncode == -signal.SIGKILL, f"{number}. {name}: {killed.stderr}"
        assert not wheel.exists() or wheel.read_bytes() == whole, f"half a wheel after {name}"
        again = build(call)
        assert again.returncode == 0, f"after a kill at {name}: {again.stderr}"
        assert wheel.read_bytes() == whole, f"another wheel after a kill at {name}"
