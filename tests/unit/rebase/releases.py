"""Two small upstream releases and a patch cut for the first, as git objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from decouple.base.git import Repository
from decouple.patch.parse import Patch
from decouple.rebase.carry import Step
from decouple.stack.commits import CommitText, NewCommit, write_chain
from decouple.stack.export import make_diff

Files = Mapping[str, str]
HEADER = b"From: A <a@example.org>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: a patch\n\n---\n"


class Upstream:
    """A repository that releases are written into."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.repository = Repository(folder)
        self.repository.run("init", "-q")
        empty = self.repository.run("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"").decode().strip()
        self.root = self._commit(empty)

    def release(self, files: Files, executable: Collection[str] = ()) -> str:
        """A commit that holds exactly ``files``."""
        text = CommitText("upstream <u@example.org>", "0 +0000", "release\n")
        modes = {name: 0o100755 if name in executable else 0o100644 for name in files}
        changes = {name: (modes[name], body.encode("utf-8", "surrogateescape")) for name, body in files.items()}
        return write_chain(self.repository, self.root, [NewCommit(text, changes)])[0]

    def patch(
        self, before: str, files: Files, name: str = "1.0/0001-a.patch", executable: Collection[str] = ()
    ) -> Step:
        """The patch that turns ``before`` into ``files``."""
        after = self.release(files, executable)
        body = make_diff(self.repository, before, after)
        return Step(Patch(name, HEADER + body), before, after)

    def _commit(self, tree: str) -> str:
        out = self.repository.run(
            "-c", "user.name=u", "-c", "user.email=u@example.org", "commit-tree", "-m", "root", tree
        )
        return out.decode().strip()


def numbered(first: int, last: int, changes: Mapping[int, str] | None = None) -> str:
    """Lines "line 1" … with some of them replaced ("" drops one)."""
    lines = [(changes or {}).get(number, f"line {number}\n") for number in range(first, last + 1)]
    return "".join(lines)
