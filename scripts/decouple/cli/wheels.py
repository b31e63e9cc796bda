"""``decouple wheels RELEASE``: find, verify and install an index's wheels.

They are verified against this checkout.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from decouple.base.errors import OK
from decouple.base.interpreter import parse_python
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.flows.wheels import WheelsRequest, choose_wheels, fetch_wheels, find_active_python
from decouple.release.projects import LIBRARIES


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
    wheels.add_argument(
        "--into", type=parse_python, metavar="PYTHON", help="install for this interpreter, whichever is active"
    )
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
    wheels.set_defaults(run=_run_wheels)


def _run_wheels(arguments: argparse.Namespace) -> int:
    listener = output.make_listener()
    request = make_request(
        WheelsRequest,
        arguments,
        indexes=arguments.index,
        into=arguments.into or (find_active_python(find_project()) if arguments.install else None),
        folder=arguments.dest,
        any_series=arguments.trust_index,
    )
    choice = choose_wheels(request, listener)
    print(f"{arguments.release}, {choice.packages.reason}")
    for package in choice.packages.packages:
        size = f"{package.size / 2**20:.1f} MiB" if package.size is not None else "size not given"
        print(f"  {package.filename}  {size}  sha256 {(package.sha256 or 'missing')[:16]}…")
    if arguments.dry_run:
        return OK
    wheels = fetch_wheels(request, choice, listener)
    if not request.into:
        files = [str(wheel.path) for wheel in wheels]
        apart = [str(wheel.path) for wheel in wheels if wheel.name == LIBRARIES]
        # pip leaves another build of the same version, and deletes with a whole torch-cuda what the libraries' wheel
        # has put in its place, if that comes first; the last command brings what they need
        anew = [[file for file in files if file not in apart], apart]
        commands = [["pip", "install", "--force-reinstall", "--no-deps", *some] for some in anew if some]
        print(f"install them with: {' && '.join(map(shlex.join, [*commands, ['pip', 'install', *files]]))}")
    return OK
