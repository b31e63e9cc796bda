"""What ``git am -3`` and ``quilt push`` make of a patch, each run for real on the same tree that ours looks at."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from decouple.base.git import Repository
from decouple.patch.parse import Patch
from decouple.rebase.verdicts import CarryResult
from decouple.stack.trees import read_blobs
from tests.support.tools import require_tool

Effect = Mapping[str, bytes | None]
"""Path -> content after the patch, None: deleted. Only what it changed."""


def ours(repository: Repository, result: CarryResult) -> Effect | None:
    """The effect of a verdict of ours; None where it stops."""
    if result.verdict.is_stop or result.changes is None:
        return None
    found = {path: entry.id if entry else None for path, entry in result.changes.items()}
    data = read_blobs(repository, [identity for identity in found.values() if identity])
    return {path: data[identity] if identity else None for path, identity in found.items()}


class GitAm:
    """A work tree that borrows the objects of ``repository`` and goes from commit to commit."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "-q")
        borrowed = folder / ".git/objects/info/alternates"
        borrowed.write_text(f"{(repository.git_dir / 'objects').resolve()}\n")

    def __call__(self, tip: str, patch: Patch) -> Effect | None:
        """``git am -3`` of ``patch`` on the commit ``tip``; None when it stops."""
        self._git("checkout", "-q", "--force", "--detach", tip)
        file = self.folder.with_suffix(".patch")
        file.write_bytes(patch.data)
        if self._git("am", "-q", "-3", "--keep-cr", str(file), check=False).returncode:
            self._git("am", "--abort", check=False)
            return None
        changed = self._git("diff", "--name-only", "-z", "--no-renames", tip, "HEAD").stdout.split(b"\0")[:-1]
        effect: dict[str, bytes | None] = {}
        for name in changed:
            path = self.folder / os.fsdecode(name)
            effect[os.fsdecode(name)] = path.read_bytes() if path.exists() else None
        return effect

    def _git(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        config = ("user.name=a", "user.email=a@example.org", "gc.auto=0", "advice.detachedHead=false")
        options = [word for one in config for word in ("-c", one)]
        return subprocess.run(["git", *options, *arguments], cwd=self.folder, capture_output=True, check=check)


def quilt_push(repository: Repository, tip: str, patch: Patch, folder: Path) -> Effect | None:
    """``quilt push`` with GNU patch's own fuzz (2) on the files of ``tip`` that the patch names; None when it stops.

    A file of another name, where upstream moved one to, cannot matter: GNU patch looks for none.
    """
    require_tool("quilt", "patch")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "patches").mkdir(parents=True)
    (folder / "patches/series").write_text("one.patch\n")
    (folder / "patches/one.patch").write_bytes(patch.data)
    before: dict[str, bytes | None] = {}
    for name in sorted({path for file in patch.files for path in file.paths}):
        answer = repository.try_run("cat-file", "blob", f"{tip}:{name}")
        before[name] = answer.out if answer.status == 0 else None
        if answer.status == 0:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(answer.out)
    command = ["quilt", "--quiltrc", "-", "push", "-q"]
    if subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode:
        return None
    after = {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in before}
    return {name: data for name, data in after.items() if data != before[name]}
