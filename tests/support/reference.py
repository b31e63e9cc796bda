"""What ``git apply`` and GNU ``patch`` make of a patch: the yardsticks that ``patch.apply`` is measured with.

Each runs in a scratch folder that holds just the files the patch names. Used by the differential corpus, the fuzzers
and the benches; nothing of the product depends on it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from decouple.base.git import EXECUTABLE, REGULAR, SYMLINK, TREE
from decouple.patch.apply import File, Tree
from decouple.patch.parse import Patch
from tests.support.tools import require_tool

_TIMEOUT = 60.0


@dataclass(frozen=True)
class Answer:
    """What a tool did."""

    applied: bool
    files: dict[str, File]
    """The files of the scratch folder afterwards; meaningless if it did not apply (patch leaves half of it done)."""
    said: str


def files_for(patch: Patch, tree: Tree) -> dict[str, File]:
    """The files of ``tree`` that ``patch`` names, as a scratch folder needs them."""
    found = {path: tree.get(path) for path in patch.touched_paths}
    return {path: file for path, file in found.items() if file is not None and file.mode != TREE}


def git_apply(patch: bytes, files: Mapping[str, File], *, strip: int = 1, reverse: bool = False) -> Answer:
    """``git apply -pN`` outside of any repository, with git's defaults and nobody's configuration."""
    command = ["git", "apply", "--whitespace=nowarn", f"-p{strip}", *(["-R"] if reverse else []), "-"]
    return _run(command, patch, files)


def gnu_patch(patch: bytes, files: Mapping[str, File], *, strip: int = 1, fuzz: int = 0) -> Answer:
    """GNU ``patch -pN -FN`` that asks nothing and keeps line ends."""
    require_tool("patch")
    command = ["patch", f"-p{strip}", f"-F{fuzz}", "--force", "--binary", "--no-backup-if-mismatch", "-r", "-"]
    return _run(command, patch, files)


def _run(command: list[str], patch: bytes, files: Mapping[str, File]) -> Answer:
    with scratch_folder() as folder:
        lay_out(folder, files)
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            # run below another repository, git apply would skip the paths and say that all is well
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
        }
        done = subprocess.run(
            command, input=patch, cwd=folder, env=environment, capture_output=True, timeout=_TIMEOUT, check=False
        )
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        return Answer(done.returncode == 0, dict(read_back(folder)), said)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that goes away, in memory where the machine has /dev/shm."""
    shm = Path("/dev/shm")
    name = tempfile.mkdtemp(prefix="decouple-reference-", dir=shm if os.access(shm, os.W_OK) else None)
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name)


def lay_out(folder: Path, files: Mapping[str, File]) -> None:
    """Write ``files`` below ``folder``."""
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == SYMLINK:
            path.symlink_to(os.fsdecode(file.data))
        else:
            path.write_bytes(file.data)
            path.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def read_back(folder: Path) -> Iterable[tuple[str, File]]:
    """Every file below ``folder`` with its mode as git has it."""
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]  # noqa: PTH114, PTH118
        for name in (*names, *links):
            path = Path(parent, name)
            if path.is_symlink():
                file = File(SYMLINK, os.fsencode(path.readlink()))
            else:
                file = File(EXECUTABLE if path.stat().st_mode & 0o100 else REGULAR, path.read_bytes())
            yield path.relative_to(folder).as_posix(), file
