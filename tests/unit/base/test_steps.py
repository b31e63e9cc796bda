"""What stops a command at one of its writes belongs to the tests: no variable of a person's does it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from decouple.base import steps

WRITING = "from pathlib import Path\nfrom decouple.base.files import write_atomically\nwrite_atomically(Path('a'), 'x')"


def test_whatever_a_person_sets_a_write_is_made(tmp_path: Path) -> None:
    said = {f"{before}{name}": "1" for before in ("", "DECOUPLE_") for name in ("KILL_AT", "TRACE_STEPS")}
    done = subprocess.run([sys.executable, "-c", WRITING], cwd=tmp_path, env={**os.environ, **said}, check=False)
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_who_asks_in_the_same_process_is_told_of_each_change() -> None:
    seen: list[str] = []
    steps.observe_steps(seen.append)
    try:
        steps.mark_step("write a file")
    finally:
        steps.observe_steps(None)
    steps.mark_step("write another")
    assert seen == ["write a file"]
