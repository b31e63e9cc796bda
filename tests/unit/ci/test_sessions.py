"""What nox makes of a session whose command cannot run on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

#: Appended to noxfile.py: plain ``nox`` is one session, and ``decouple`` is beside it.
SMALL = """
nox.options.sessions = ["smoke-2.6"]
make_environment = lambda session, extra="": ROOT
"""


@pytest.mark.parametrize(("words", "code"), [([], 0), (["-s", "smoke-2.6"], 1), (["--session=smoke-2.6"], 1)])
def test_only_plain_nox_skips_what_this_machine_cannot_do(tmp_path: Path, words: list[str], code: int) -> None:
    """Who asks for a session by name, a script for one, has to learn that it did not run."""
    for name in ("scripts", "series", "ci", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "noxfile.py").write_text((ROOT / "noxfile.py").read_text(encoding="utf-8") + SMALL)
    (tmp_path / "decouple").write_text("#!/bin/sh\necho 'no namespaces here'\nexit 75\n")
    (tmp_path / "decouple").chmod(0o755)
    done = subprocess.run([sys.executable, "-m", "nox", *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert "no namespaces here" in done.stdout + done.stderr
