"""``decouple wheels RELEASE``: find prebuilt wheels in an index, verify them against this checkout, install them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from decouple.base.errors import OK, DecoupleError, UsageError
from decouple.base.paths import cache_dir, find_project
from decouple.cli.output import progress
from decouple.index import choose, get, release_list
from decouple.index.remote import Index
from decouple.series.digest import series_digest
from decouple.upstream.download import Downloader


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parsers of this module."""
    wheels = subparsers.add_parser("wheels")
    wheels.add_argument("release", help="e.g. 2.6")
    wheels.add_argument(
        "--index",
        required=True,
        action="append",
        metavar="URL",
        help="the index's simple/ address, or a site's folder; given again, a mirror to ask when the first one fails",
    )
    wheels.add_argument(
        "--cuda", metavar="cuXYZ", help="e.g. cu124; cpu: the core alone (default: what the driver runs)"
    )
    wheels.add_argument("--python", metavar="X.Y", help="for another Python than this one")
    wheels.add_argument("--dest", type=Path, help="where the files go (default: dist/<release>)")
    wheels.add_argument(
        "--install",
        action="store_true",
        help="hand them to pip once they are verified, for the active virtual environment",
    )
    wheels.add_argument("--into", type=Path, metavar="PYTHON", help="install for this interpreter, whichever is active")
    wheels.add_argument("--key", type=Path, help="public key that must have signed them")
    wheels.add_argument(
        "--root",
        type=Path,
        metavar="FILE",
        help="the index's root.json, had from its publisher and not from the server: only what its signed list, which "
        "ends, names as current is taken",
    )
    wheels.add_argument("--trust-index", action="store_true", help="accept another series than this checkout's")
    wheels.add_argument("--offline", action="store_true", help="only what is in the cache already")
    wheels.add_argument("--dry-run", action="store_true", help="say what would be fetched, fetch nothing")
    wheels.set_defaults(run=_get)


def _get(arguments: argparse.Namespace) -> int:
    project = find_project()
    target = _target(arguments, project)
    version = get.version_of(target) if target else arguments.python
    if target and arguments.python not in (None, version):
        raise UsageError(f"--python {arguments.python}: {target} is Python {version}", next_step="leave --python out")
    machine = choose.this_machine(version)
    indexes = [Index(address, cache=cache_dir(), offline=arguments.offline) for address in arguments.index]
    for index, address in zip(indexes, arguments.index, strict=True):
        try:
            if arguments.root:
                _hold_to_list(index, arguments.root, arguments.release)
            choice = choose.choose(index, arguments.release, machine, arguments.cuda)
            break
        except DecoupleError as error:
            if address == arguments.index[-1]:
                raise
            print(f"{address}: {error.what}; asking the next", file=sys.stderr)
    print(f"{arguments.release}, {choice.reason}")
    for package in choice.packages:
        size = f"{package.size / 2**20:.1f} MiB" if package.size is not None else "size not given"
        print(f"  {package.filename}  {size}  sha256 {(package.sha256 or 'missing')[:16]}…")
    if arguments.dry_run:
        return OK
    expected = None if arguments.trust_index else series_digest(project, arguments.release)
    if arguments.trust_index:
        print("WARNING: --trust-index: these wheels may hold another series than this checkout's", file=sys.stderr)
    folder = arguments.dest or project / "dist" / arguments.release
    trust = get.Trust(expected, arguments.key)
    downloader = Downloader(cache_dir(), offline=arguments.offline, progress=progress())
    mirrors = indexes[indexes.index(index) + 1 :]
    wheels = get.get(index, choice.packages, folder, trust, downloader, mirrors)
    for wheel in wheels:
        print(f"verified {wheel.path}")
    if target:
        get.install(wheels, target)
    else:
        print(f"install them with: pip install {' '.join(str(wheel.path) for wheel in wheels)}")
    return OK


def _hold_to_list(index: Index, root: Path, release: str) -> None:
    """Take from the index only what its signed list names."""
    listed = release_list.current(index, root, release, cache_dir())
    index.narrow = lambda page: release_list.narrowed(page, listed, release)


def _target(arguments: argparse.Namespace, project: Path) -> Path | None:
    """The interpreter to install for: ``--into``, else the active virtual environment's, else the running one.

    None when nothing is to be installed. Raises UsageError rather than install into nox's environment of this checkout.
    """
    if arguments.into is not None or not arguments.install:
        into: Path | None = arguments.into
        return into
    active = os.environ.get("VIRTUAL_ENV")
    if active:
        return Path(active) / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if Path(sys.prefix).is_relative_to(project / ".nox"):
        raise UsageError(
            "--install: no virtual environment is active",
            next_step="activate one, or name a Python: --into PATH/bin/python",
        )
    return Path(sys.executable)
