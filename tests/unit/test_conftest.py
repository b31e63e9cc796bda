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
    """Run them in ``folder`` where ``variables`` are set, and none of proxies besides; what they say, empty when they
    pass."""
    pytests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "child")]
    done = subprocess.run(
        [*pytests, str(tests)],
        cwd=UNIT.parents[1],
        env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")} | variables,
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


@pytest.mark.parametrize("here", ["", "intranet.example"])
def test_a_server_of_a_tests_own_is_not_asked_for_at_the_machines_proxy(tmp_path: Path, here: str) -> None:
    """The proxy of a company does not know the 127.0.0.1 of who asks."""
    variables = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": here}
    name = "test_a_download_is_verified_and_then_comes_from_the_cache"
    assert run_tests(f"{UNIT}/upstream/test_download.py::{name}", tmp_path, **variables) == ""


@pytest.mark.tools("git")
def test_git_makes_up_no_name_for_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    words = ["git", "commit", "-q", "--allow-empty", "-m", "whose?"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "Please tell me who you are" in done.stderr


@pytest.mark.tools("git")
def test_a_machine_that_has_a_name_for_commits_lends_it_to_no_test(tmp_path: Path) -> None:
    """Else a test that gives none is green on a company's machine, and red on the bare root of CI."""
    names = {f"GIT_{side}_{part}": "x" for side in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    test = f"{__file__}::test_git_makes_up_no_name_for_a_commit"
    assert run_tests(test, tmp_path, EMAIL="person@company.example", **names) == ""
