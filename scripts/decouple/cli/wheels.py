"""``decouple wheels RELEASE``: find prebuilt wheels in an index, verify them against this checkout, install them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parsers of this module."""
    wheels = subparsers.add_parser("wheels", help="fetch prebuilt wheels of a release and verify them")
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
    wheels.add_argument("--install", action="store_true", help="hand them to pip once they are verified")
    wheels.add_argument("--key", type=Path, help="public key that must have signed them")
    wheels.add_argument("--trust-index", action="store_true", help="accept another series than this checkout's")
    wheels.add_argument("--offline", action="store_true", help="only what is in the cache already")
    wheels.add_argument("--dry-run", action="store_true", help="say what would be fetched, fetch nothing")
    wheels.set_defaults(run=_get)


def _get(arguments: argparse.Namespace) -> int:
    import sys

    from decouple.base.errors import DecoupleError
    from decouple.base.paths import cache_dir, find_project
    from decouple.cli.output import progress
    from decouple.index import choose, get
    from decouple.index.remote import Index
    from decouple.series.digest import series_digest
    from decouple.upstream.download import Downloader

    project = find_project()
    machine = choose.this_machine(arguments.python)
    for address in arguments.index:
        index = Index(address)
        try:
            choice = choose.choose(index, arguments.release, machine, arguments.cuda)
            break
        except DecoupleError as error:
            if address == arguments.index[-1]:
                raise
            print(f"{address}: {error.what}; asking the next", file=sys.stderr)
    print(f"{arguments.release}, {choice.reason}")
    for package in choice.packages:
        size = f"{package.size / 2**20:.1f} MiB" if package.size is not None else "size not given"
        print(f"  {package.filename}  {size}  sha256 {package.digests.get('sha256', 'missing')[:16]}…")
    if arguments.dry_run:
        return 0
    expected = None if arguments.trust_index else series_digest(project, arguments.release)
    if arguments.trust_index:
        print("WARNING: --trust-index: these wheels may hold another series than this checkout's", file=sys.stderr)
    folder = arguments.dest or project / "dist" / arguments.release
    trust = get.Trust(expected, arguments.key)
    downloader = Downloader(cache_dir(), offline=arguments.offline, progress=progress())
    wheels = get.get(index, choice.packages, folder, trust, downloader)
    for wheel in wheels:
        print(f"verified {wheel.path}")
    if arguments.install:
        get.install(wheels)
    else:
        print(f"install them with: pip install {' '.join(str(wheel.path) for wheel in wheels)}")
    return 0
