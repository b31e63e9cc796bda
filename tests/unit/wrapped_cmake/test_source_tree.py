"""Upstream's helper is imported out of PyTorch's source tree: of one that the cache has, everybody reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from wrapped_cmake import upstream

TOOLKIT = Path(upstream.__file__).parents[1]
HELPER = "USE_NINJA = True\n\nclass CMake:\n    def __init__(self, folder):\n        self._cmake_command = 'cmake'\n"
IMPORT = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TOOLKIT)!r})
from wrapped_cmake import upstream
asked = sys.dont_write_bytecode
assert upstream.CMake(Path(sys.argv[1]), Path("build")).has_ninja
assert sys.dont_write_bytecode == asked
"""


def test_what_is_imported_from_a_source_tree_leaves_nothing_in_it(tmp_path: Path) -> None:
    """Python keeps what it compiled beside the source; then relocate, census and reuse refused the tree as changed."""
    tree = tmp_path / "tree"
    folder = tree / "tools/setup_helpers"
    folder.mkdir(parents=True)
    for file in (folder.parent / "__init__.py", folder / "__init__.py"):
        file.touch()
    (folder / "cmake.py").write_text(HELPER)
    before = sorted(tree.rglob("*"))
    users = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", IMPORT, str(tree)], env=users, check=True)
    assert sorted(tree.rglob("*")) == before


def test_a_python_without_setuptools_is_told(tmp_path: Path) -> None:
    """venv installs none from Python 3.12 on, and pip hides it from an isolated build."""
    (tmp_path / "tools/setup_helpers").mkdir(parents=True)
    (tmp_path / "tools/setup_helpers/cmake.py").write_text(HELPER)
    told = subprocess.run([sys.executable, "-S", "-c", IMPORT, str(tmp_path)], capture_output=True, text=True)
    assert "WrappedCMakeError" in told.stderr and "No module named 'setuptools' (install setuptools)" in told.stderr


CACHE_HELPER = """
USE_NINJA = True

class CMake:
    def __init__(self, folder):
        self._cmake_command = "cmake"

    def defines(self, made, **definitions):
        made += [f"-D{name}={value}" for name, value in definitions.items()]

    def get_cmake_cache_variables(self):
        return {"CMAKE_BUILD_TYPE": "Release"}  # without those of type INTERNAL, as upstream's
"""
CONFIGURE_AGAIN = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(TOOLKIT)!r})
from wrapped_cmake.wrapper import WrappedCMake
folder = Path(sys.argv[1])
for _ in range(2):
    made = WrappedCMake(folder / "source", folder / "build", tree=folder / "tree", environ=os.environ)
    assert made.configure(always=True)
    print(made.build(["all"]).edges)
"""


def test_a_build_that_is_configured_again_compiles_nothing_again(project: Path) -> None:
    """All objects were deleted: the folders were looked for among variables that upstream's helper does not give."""
    folder = project / "tree/tools/setup_helpers"
    folder.mkdir(parents=True)
    for file in (folder.parent / "__init__.py", folder / "__init__.py"):
        file.touch()
    (folder / "cmake.py").write_text(CACHE_HELPER)
    told = subprocess.run([sys.executable, "-c", CONFIGURE_AGAIN, str(project)], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    first, second = map(int, told.stdout.split())
    assert first > 6 and second == 0
