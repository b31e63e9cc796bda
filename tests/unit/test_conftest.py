"""What the machine, or whoever starts the tests, has set reaches no test: each runs a file's tests in a child."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.series import git

UNIT = Path(__file__).parent


def run_tests(tests: Path | str, folder: Path, **variables: str) -> str:
    """Run them in ``folder`` where ``variables`` are set; what they say, empty when they pass."""
    pytests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "child")]
    done = subprocess.run(
        [*pytests, str(tests)],
        cwd=UNIT.parents[1],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    return (done.stdout + done.stderr)[-4000:] if done.returncode else ""


@pytest.mark.tools("git")
def test_tests_that_a_git_hook_starts_leave_its_repository_alone(tmp_path: Path) -> None:
    """Git tells a hook in a linked work tree where the repository is, and before a commit also the index."""
    theirs = tmp_path / "theirs"
    git(tmp_path, "init", "-q", "theirs")
    git(theirs, "commit", "-q", "--allow-empty", "-m", "theirs")
    before = git(theirs, "for-each-ref"), git(theirs, "config", "--list", "--local")
    variables = {"GIT_DIR": str(theirs / ".git"), "GIT_INDEX_FILE": str(theirs / ".git/index")}
    said = run_tests(UNIT / "base/test_clone.py", tmp_path, **variables)
    assert (git(theirs, "for-each-ref"), git(theirs, "config", "--list", "--local")) == before
    assert said == ""
