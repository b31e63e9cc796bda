"""Runs git through GitPython, with nothing of the user's configuration and no guessing of which repository is meant.

``git apply`` run below another repository's work tree skips every path and exits 0 (seen). So every call here names
``GIT_DIR``, ``GIT_WORK_TREE`` and ``GIT_INDEX_FILE`` itself, and global and system configuration (``apply.whitespace``,
``core.autocrlf``, ``diff.noprefix``, hooks, aliases) are switched off: the same series gives the same tree everywhere.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from git import Git

from decouple.base.errors import DecoupleError

#: Variables that would point git at other objects or configuration; a hook that calls us sets some of them. Those that
#: name the repository, the work tree and the index are given to each call, so they are not among these.
_FOREIGN = (
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
)


def _without_foreign() -> list[str]:
    """What a command line begins with to drop those variables: nothing, unless there are any.

    GitPython gives git a copy of the process's environment and can only add to it; env(1) can take away.
    """
    there = [name for name in _FOREIGN if name in os.environ]
    return ["env", *(word for name in there for word in ("-u", name))] if there else []


#: Configuration of every call.
_CONFIG = (
    "-c", "core.hooksPath=/dev/null",  # no hook of a template may run in between
    "-c", "core.quotePath=true",  # the same path spelling on every machine
    "-c", "core.fsmonitor=false",
    "-c", "core.safecrlf=false",
    "-c", "core.autocrlf=false",  # bytes go in and out as they are
    "-c", "core.precomposeUnicode=false",
    "-c", "gc.auto=0",  # housekeeping is not ours to start in the middle of a push
    "-c", "diff.suppressBlankEmpty=false",
    "-c", "diff.orderFile=/dev/null",
    "-c", "advice.detachedHead=false",
)  # fmt: skip

_WHOLE_ID = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True)
class Answer:
    """What a git command said."""

    status: int
    out: bytes
    err: str


class Repository:
    """One git repository and its work tree."""

    def __init__(self, root: Path, git_dir: Path | None = None) -> None:
        """``root`` is the work tree; the repository is ``root/.git`` unless ``git_dir`` names it (bare)."""
        self.root = root.absolute()
        self.git_dir = (git_dir or root / ".git").absolute()
        self._git = Git(str(self.root))
        self._trees: dict[str, str] = {}
        self.held: tuple[int, ...] = ()
        """Files that every git process inherits: the lock, so that a git that outlives a killed run still holds it."""

    @property
    def own(self) -> Path:
        """Where the stack keeps its state: ``.git/decouple``."""
        return self.git_dir / "decouple"

    def try_run(
        self, *arguments: str, stdin: bytes | None = None, index: Path | None = None, user_config: bool = False
    ) -> Answer:
        """Run ``git ARGUMENTS`` and return what it said, whatever its exit status."""
        environment = {
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.root),
            "GIT_INDEX_FILE": str(index or self.git_dir / "index"),
            "GIT_LITERAL_PATHSPECS": "1",  # a path is a path, also with a * in it
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ADVICE": "0",
        }
        if not user_config:
            environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        process = self._git.execute(
            [*_without_foreign(), Git.GIT_PYTHON_GIT_EXECUTABLE or "git", *_CONFIG, *arguments],
            as_process=True,
            istream=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            env=environment,
            pass_fds=self.held,
        )
        out, err = process.communicate(stdin)
        return Answer(process.returncode, out, err.decode("utf-8", "replace"))

    def run(self, *arguments: str, stdin: bytes | None = None, index: Path | None = None) -> bytes:
        """Run ``git ARGUMENTS`` and return its standard output. Raises DecoupleError with git's own words."""
        answer = self.try_run(*arguments, stdin=stdin, index=index)
        if answer.status:
            raise GitError(self, arguments, answer)
        return answer.out

    def text(self, *arguments: str, index: Path | None = None) -> str:
        """As :meth:`run`, decoded and without the newline at the end."""
        return self.run(*arguments, index=index).decode("utf-8", "surrogateescape").rstrip("\n")

    def resolve(self, name: str) -> str | None:
        """The commit id that ``name`` stands for, or None."""
        answer = self.try_run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return answer.out.decode().strip() if answer.status == 0 else None

    def head(self) -> str | None:
        """The commit id of HEAD, or None. Read from the files where they have it: most verbs ask for nothing else."""
        try:
            text = (self.git_dir / "HEAD").read_text("ascii").strip()
            if text.startswith("ref: "):
                text = (self.git_dir / text[5:]).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):  # packed, or another storage of refs: git knows
            return self.resolve("HEAD")
        return text if len(text) == 40 and not text.startswith("ref:") else self.resolve("HEAD")

    def tree_of(self, commit: str) -> str:
        """The tree id of a commit. That of a whole id never changes, so git is asked for it once."""
        found = self._trees.get(commit)
        if found is None:
            found = self.text("rev-parse", "--verify", f"{commit}^{{tree}}")
            if _WHOLE_ID.fullmatch(commit):
                self._trees[commit] = found
        return found


class GitError(DecoupleError):
    """git refused; ``answer`` has its words."""

    def __init__(self, repository: Repository, arguments: tuple[str, ...], answer: Answer) -> None:
        words = [line for line in answer.err.splitlines() if line.strip()]
        marked = [line for line in words if line.startswith(("fatal: ", "error: "))]
        shown = "; ".join(marked[:3] or words[-3:]) or f"exit status {answer.status}"
        super().__init__(
            f"git {arguments[0]} failed in {repository.root}: {shown}",
            next_step="`git -C <that folder> status` shows the state it is in",
        )
        self.answer = answer
