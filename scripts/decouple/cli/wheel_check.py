"""``decouple index verify``: is a wheel what it says it is, signed by whom it should be, made from these patches?"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from decouple.base.errors import OK, DecoupleError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from decouple.index.wheel import Wheel


def add_parser(verbs: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``verify`` to the verbs of ``decouple index``."""
    verify = verbs.add_parser(
        "verify", help="check wheels: RECORD, manifest, signature, and the tree they were made from"
    )
    verify.add_argument("wheels", type=Path, nargs="+")
    verify.add_argument("--key", type=Path, help="public key; the statement is <wheel>.intoto.json beside the wheel")
    verify.add_argument(
        "--rebuild",
        action="store_true",
        help="apply this checkout's committed series to the pinned source again and compare the tree with the wheel's",
    )
    verify.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Verify each; the first fault ends it with exit code 1."""
    from decouple.base.paths import find_project
    from decouple.index import provenance, wheel
    from decouple.index.site import STATEMENT
    from decouple.series.digest import series_digest

    project = find_project()
    for path in arguments.wheels:
        read = wheel.read(path)
        print(f"{path.name}: RECORD and manifest hold, sha256 {read.sha256}")
        if arguments.key:
            provenance.verify(read, path.with_name(path.name + STATEMENT).read_bytes(), arguments.key)
            print(f"{path.name}: signed by {arguments.key.name}")
        ours = series_digest(project, read.manifest.release)
        if ours != read.manifest.series_digest:
            raise DecoupleError(
                f"{path.name}: made from series {read.manifest.series_digest[:12]}…, this checkout's is {ours[:12]}…",
                next_step="check out the commit that the wheel was made from",
            )
        print(f"{path.name}: made from this checkout's series {read.manifest.release}")
        if arguments.rebuild:
            print(f"{path.name}: {_rebuilt(project, read)}")
    return OK


def _rebuilt(project: Path, read: Wheel) -> str:
    """Apply the committed series in a clone of the checkout, with and without Debian's patches under it.

    Raises DecoupleError when neither gives the tree that the wheel names.
    """
    from decouple.base.git import Repository, git
    from decouple.cli.output import progress
    from decouple.stack.release import apply_release

    release, wanted = read.manifest.release, read.manifest.tree
    found = {}
    with tempfile.TemporaryDirectory(prefix="decouple-verify-") as folder:
        clone = Path(folder) / "project"
        git("clone", "-q", "--no-hardlinks", str(project), str(clone), cwd=Path(folder))
        for debian in (True, False):
            try:
                apply_release(clone, release, debian_patches=debian, progress=progress())
            except DecoupleError as error:
                found[error.what] = debian
                continue
            tree = Repository(clone / "build" / release / "src").tree_of("HEAD")
            if tree == wanted:
                return f"applied again: the same tree {tree}" + (" (with Debian's patches)" if debian else "")
            found[tree] = debian
    raise DecoupleError(
        f"{read.path.name}: made from tree {wanted}; this checkout's series gives {' or '.join(found)}",
        next_step="check out the commit that the wheel was made from; do not install it otherwise",
    )
