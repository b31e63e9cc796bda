"""A commit as a patch file, in one canonical form."""

from __future__ import annotations

import re

from decouple.base.errors import DecoupleError
from decouple.base.git import Repository

#: Every flag that has a say in the bytes of a diff, so that no version or configuration of git changes a patch.
DIFF_FLAGS = (
    "-p",
    "-r",
    "--full-index",  # whole object ids: abbreviations grow with the repository and churn
    "-M50%",  # a moved file is a rename, not a delete and an add: reviewers and rebase need to see it
    "-l0",  # however many files move; with git's default limit a relocation of 1,000 files falls back to add + delete
    "--rename-empty",  # also an empty __init__.py: the relocation is renames and nothing else
    "-U3",  # three lines of context: what quilt, git am and GNU patch expect
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",  # git's default today, pinned
    "--indent-heuristic",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
    "--ignore-submodules=none",
)

_BINARY = re.compile(rb"^(?:Binary files (.*) differ|GIT binary patch)$", re.MULTILINE)
_SUBMODULE = re.compile(rb"^(?:index \S+ |(?:new file |deleted file |old |new )mode )160000$", re.MULTILINE)


def make_diff(repository: Repository, old: str, new: str) -> bytes:
    """Return the canonical diff of two trees or commits; empty if they are equal.

    Raises DecoupleError if a binary file or a submodule changed: neither has a place in a series.
    """
    body = repository.run_on_objects("diff-tree", *DIFF_FLAGS, old, new)
    if match := _BINARY.search(body):
        what = match.group(1).decode("utf-8", "replace") if match.group(1) else "a file"
        raise DecoupleError(
            f"a binary file changed ({what}), and a patch holds text only",
            next_step="put the file below third_device/ of the project, or take it out of the commit",
        )
    if _SUBMODULE.search(body):
        raise DecoupleError("a submodule changed", next_step="a series does not move submodules: reset it")
    return body
