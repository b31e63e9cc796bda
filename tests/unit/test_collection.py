"""Every test in the repository is one that pytest finds."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def test_no_folder_with_tests_has_a_name_that_pytest_leaves_out(pytestconfig: pytest.Config) -> None:
    """By default "build", "dist" and "venv" are, and nobody is told."""
    left_out = pytestconfig.getini("norecursedirs")
    folders = {folder for path in TESTS.rglob("test_*.py") for folder in path.relative_to(TESTS).parts[:-1]}
    assert {name for name in folders for pattern in left_out if fnmatchcase(name, pattern)} == set()


def test_no_file_with_tests_has_a_name_that_pytest_leaves_out(pytestconfig: pytest.Config) -> None:
    patterns = pytestconfig.getini("python_files")
    named = [path for path in TESTS.rglob("*.py") if not any(fnmatchcase(path.name, pattern) for pattern in patterns)]
    assert [path for path in named if re.search(r"^(async )?def test_", path.read_text(), re.MULTILINE)] == []


def test_a_test_for_each_row_of_an_empty_list_fails(tmp_path: Path) -> None:
    """By default it is skipped: of a list that was renamed or moved nobody was told, not in CI either."""
    test = tmp_path / "test_rows.py"
    test.write_text('import pytest\n@pytest.mark.parametrize("row", [])\ndef test_a_row(row): ...\n')
    options = ["-q", "-c", str(TESTS.parent / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, "-m", "pytest", *options, str(test)], capture_output=True, text=True)
    assert done.returncode and "Empty parameter set in 'test_a_row'" in done.stdout + done.stderr
