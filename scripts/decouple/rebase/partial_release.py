"""Judge patches on a release of which only the official wheel can be read.

Its text becomes a commit. The wheel has every Python file of the packages it installs and the headers it ships, but no
C++ source and no build file. A patch is judged only when each file that it changes is there; of the others nothing is
said. No series is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from decouple.base.git import Repository
from decouple.patch.apply import Source
from decouple.patch.parse import Patch
from decouple.rebase.verdicts import Note
from decouple.stack.commits import COMMITTER, CommitText, NewCommit, write_chain
from decouple.stack.trees import read_entries

#: Packages that a wheel of torch installs, and where the series moves some of their files: a Python file that is not
#: below these in the wheel is not in the release either.
_PACKAGES = ("torch/", "torchgen/", "functorch/", "third_device/")


def commit_files(repository: Repository, source: Source, paths: Collection[str], title: str) -> str:
    """Commit those of ``paths`` that ``source`` has.

    The same content gives the same id.
    """
    empty = repository.run("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"").decode().strip()
    root = f"tree {empty}\nauthor {COMMITTER} 0 +0000\ncommitter {COMMITTER} 0 +0000\n\nroot\n"
    base = repository.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=root.encode()).decode().strip()
    files = {path: source.mode(path) for path in sorted(paths)}
    changes = {path: (mode, source.read(path)) for path, mode in files.items() if mode and mode & 0o100000}
    return write_chain(repository, base, [NewCommit(CommitText(COMMITTER, "0 +0000", f"{title}\n"), changes)])[0]


def find_hidden_files(repository: Repository, patch: Patch, tip: str, without: Mapping[str, str]) -> tuple[Note, ...]:
    """Note each file that keeps a partial tree from judging ``patch``.

    ``without`` maps the Decouple-Ids of patches that were not seen to their names: what builds on one is not seen
    either. Empty when the tree shows all. A Python file of an installed package that is missing is gone, not hidden.
    """
    needed = [without[identity] for identity in sorted(patch.header.depends) if identity in without]
    notes = [Note("", 0, f"builds on {name}, of which nothing is said") for name in needed]
    old = {file.old_path for file in patch.files if file.old_path}
    present = read_entries(repository, tip, old)
    notes += [
        Note(path, 0, "the wheel does not show it") for path in sorted(old - present.keys()) if not _is_shown(path)
    ]
    return tuple(notes)


def _is_shown(path: str) -> bool:
    return path.endswith((".py", ".pyi")) and path.startswith(_PACKAGES)
