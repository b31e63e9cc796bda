"""Check a wheel's content and signer, and that this checkout's patches made it.

>>> from decouple.flows.verify_wheel import VerifyWheelRequest, verify_wheel
>>> verify_wheel(VerifyWheelRequest(project, wheel)).manifest.release
'2.6'
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.git import Repository, run_git
from decouple.base.paths import find_cache
from decouple.flows.apply import ApplyRequest, apply_series
from decouple.flows.listener import QUIET, Listener
from decouple.index import wheel
from decouple.index.site import STATEMENT
from decouple.index.wheel import Wheel
from decouple.release.installed_wheels import EDITED, name_series
from decouple.series.digest import compute_series_digest


class VerifyWheelRequest(Struct, frozen=True):
    """Which wheel, against which checkout."""

    project: Path
    wheel: Path
    key: Path | None = None
    """The public key that must have signed the statement beside the wheel."""
    rebuild: bool = False
    """Apply the committed series again, and compare the tree."""


def verify_wheel(request: VerifyWheelRequest, listener: Listener = QUIET) -> Wheel:
    """Verify the wheel; returns it as it was read.

    Raises DecoupleError at the first fault.
    """
    path = request.wheel
    read = wheel.read_wheel(path)
    listener.say(f"{path.name}: RECORD and manifest hold, sha256 {read.sha256}")
    if request.key:
        from decouple.index import provenance  # what signs and checks comes with the extra publish

        statement = path.with_name(path.name + STATEMENT)
        if not statement.is_file():
            raise DecoupleError(
                f"{statement}: not there, so nobody has signed the wheel",
                next_step="fetch it from where the wheel is from; `decouple index sign` writes it",
            )
        provenance.verify_statement(read, statement.read_bytes(), request.key)
        listener.say(f"{path.name}: signed by {request.key.name}")
    ours = compute_series_digest(request.project, read.manifest.release)
    if ours != read.manifest.series.digest:
        raise DecoupleError(
            f"{path.name}: made from series {read.manifest.series.digest[:12]}…, this checkout's is {ours[:12]}…",
            next_step="check out the commit that the wheel was made from",
        )
    if name_series(ours, read.manifest.tree).endswith(EDITED):
        raise DecoupleError(
            f"{path.name}: made from a tree with edits that are in no patch of the series",
            next_step="ask who built it for one of the series, or build that: "
            f"decouple build {shlex.quote(read.manifest.release)}",
        )
    listener.say(f"{path.name}: made from this checkout's series {read.manifest.release}")
    if request.rebuild:
        listener.say(f"{path.name}: {_rebuild_tree(request.project, read, listener)}")
    return read


def _rebuild_tree(project: Path, read: Wheel, listener: Listener) -> str:
    """Apply the committed series in a clone, with and without Debian's patches.

    Nothing that was unpacked before is used: the archives, whose hashes are asked at each use, are unpacked anew.
    Raises DecoupleError when neither gives the tree that the wheel names.
    """
    release, wanted = read.manifest.release, read.manifest.tree
    found = {}
    with tempfile.TemporaryDirectory(prefix="decouple-verify-") as folder:
        clone, fresh = Path(folder) / "project", Path(folder) / "cache"
        fresh.mkdir()
        (find_cache() / "downloads").mkdir(parents=True, exist_ok=True)
        (fresh / "downloads").symlink_to((find_cache() / "downloads").resolve())
        ours = {"GIT_ALLOW_PROTOCOL": "file"}
        run_git("clone", "-q", "--no-hardlinks", str(project), str(clone), cwd=Path(folder), env=ours)
        for debian in (True, False):
            try:
                apply_series(
                    ApplyRequest(clone, release, debian_patches=debian, cache=fresh),
                    Listener(progress=listener.progress),
                )
            except DecoupleError as error:
                found[error.what] = debian
                continue
            tree = Repository(Checkout(clone).locate_tree(release)).read_tree_id("HEAD")
            if tree == wanted:
                return f"applied again: the same tree {tree}" + (" (with Debian's patches)" if debian else "")
            found[tree] = debian
    raise DecoupleError(
        f"{read.path.name}: made from tree {wanted}; this checkout's series gives {' or '.join(found)}",
        next_step="check out the commit that the wheel was made from; do not install it otherwise",
    )
