"""What lint is told to pass over as unused is there, and is used by nothing that it sees."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_name_that_vulture_passes_over_would_be_reported(tmp_path: Path) -> None:
    """A name that is gone from the code hides the next dead function of that name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["vulture"]
    (tmp_path / "empty.toml").write_text("[tool.vulture]\n")
    command = [sys.executable, "-m", "vulture", "--config", str(tmp_path / "empty.toml")]
    command += ["--ignore-decorators", ",".join(settings["ignore_decorators"]), *settings["paths"]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    reported = re.findall(r": unused \w+ '(\w+)'", done.stdout)
    assert [name for name in settings["ignore_names"] if not fnmatch.filter(reported, name)] == []
