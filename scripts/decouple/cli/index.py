"""``decouple index …``: publish wheels as a static index, check it, sign it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.flows import verify_wheel
from decouple.index import dependencies, provenance, release_list, site, wheel
from decouple.index.check import check_site
from decouple.index.remote import Index


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parsers of this module."""
    top = subparsers.add_parser("index")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)

    build = verbs.add_parser("build", help="publish every wheel of a folder (PEP 503, 691, 658)")
    build.add_argument("wheels", type=Path, help="folder with *.whl, e.g. dist/2.6")
    build.add_argument("--site", type=Path, default=Path("dist/index"), help="the site's folder (default: dist/index)")
    build.add_argument(
        "--dependencies",
        action="store_true",
        help="also link what the wheels need from elsewhere, as pip resolves it here, so that the index is enough",
    )
    build.set_defaults(run=_run_build)

    check = verbs.add_parser("check", help="check every page, link, hash and manifest")
    check.add_argument("index", help="folder or address of the site")
    check.add_argument("--root", type=Path, help="a trusted root.json: also check what is signed in tuf/ against it")
    check.set_defaults(run=_run_check)

    yank = verbs.add_parser("yank", help="mark a published file so that pip takes it only when it is pinned (PEP 592)")
    yank.add_argument("filename")
    yank.add_argument("--reason", default="", help="shown to whoever installs it all the same")
    yank.add_argument("--site", type=Path, default=Path("dist/index"))
    yank.set_defaults(run=_run_yank)

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
    verify.set_defaults(run=_run_verify)

    key = verbs.add_parser("key", help="make an ed25519 key pair for signing")
    key.add_argument("path", type=Path, help="the private key; the public one is PATH.pub")
    key.set_defaults(run=_run_key)

    sign = verbs.add_parser("sign", help="write a signed in-toto statement beside each wheel")
    sign.add_argument("wheels", type=Path, nargs="+")
    sign.add_argument("--key", type=Path, required=True, help="the private key")
    sign.set_defaults(run=_run_sign)

    sign_list = verbs.add_parser("sign-list", help="sign which files are current, with an end date (TUF)")
    sign_list.add_argument("--site", type=Path, default=Path("dist/index"))
    sign_list.add_argument("--key", type=Path, required=True, help="the private key that signs the lists")
    sign_list.add_argument("--root-key", type=Path, help="the one that says which key that is (default: the same)")
    sign_list.add_argument(
        "--old-root-key", type=Path, help="hand the root over from this key to --root-key; clients follow by themselves"
    )
    sign_list.add_argument("--days", type=int, default=30, help="how long the list is good (default: 30)")
    sign_list.set_defaults(run=_run_sign_list)


def _run_build(arguments: argparse.Namespace) -> int:
    resolved: list[dependencies.LinkedFile] = []

    def resolve_and_keep(requirements: Sequence[str], python: str | None) -> list[dependencies.LinkedFile]:
        files = dependencies.resolve_requirements(requirements, python)
        resolved.extend(files)
        return files

    progress = output.make_progress()
    built = site.build_site(
        arguments.wheels, arguments.site, progress, resolve_and_keep if arguments.dependencies else None
    )
    for name in built.added:
        print(f"added    {name}")
    for name in built.kept:
        print(f"kept     {name}")
    if built.edited:
        output.print_aside(
            f"WARNING: {', '.join(built.edited)}: made from a tree with edits that are in no patch of the series, so "
            "`decouple wheels` and `decouple verify` refuse it"
        )
    if arguments.dependencies:
        _print_hosts(arguments.site, resolved)
    print(f"{arguments.site}: {len(built.pages)} pages changed; serve it with any web server, simple/ is the index")
    _print_reminder(arguments.site)
    return OK


def _print_hosts(site: Path, resolved: Sequence[dependencies.LinkedFile]) -> None:
    """Say where the index sends whoever installs from it, and warn of mirrors.

    ``resolved`` are the links that this call made, which a later call may replace.
    """
    links = dependencies.read_links(site)
    for host, count in dependencies.count_hosts(links).items():
        print(f"linked   {count} files of {host}")
    others = [link for link in links if link.host != dependencies.PUBLIC_HOST]
    if hosts := dependencies.count_hosts(link for link in others if link in resolved):
        output.print_aside(
            f"WARNING: {', '.join(hosts)}: who installs from this index fetches from there. If they cannot, say the "
            f"same command with {dependencies.PYPI_ALONE} before it: then it links PyPI's files"
        )
    if stay := [f"{link.filename} of {link.host}" for link in others if link not in resolved]:
        output.print_aside(
            f"WARNING: {', '.join(stay)}: linked by an earlier call, and not found anew by this one. If nobody needs "
            f"them, take their rows out of {site / dependencies.FILE} and say the same command again"
        )


def _run_sign_list(arguments: argparse.Namespace) -> int:
    for path in release_list.sign_lists(
        arguments.site, arguments.key, arguments.root_key, arguments.days, arguments.old_root_key
    ):
        print(f"wrote    {path}")
    root = arguments.site / release_list.FOLDER / "root.json"
    print(f"{root}: give it to users by another way than the site, for `decouple wheels --root`")
    return OK


def _run_check(arguments: argparse.Namespace) -> int:
    faults = check_site(Index(arguments.index), output.make_progress(), arguments.root)
    for fault in faults:
        print(fault)
    print(f"{arguments.index}: {len(faults)} faults" if faults else f"{arguments.index}: every link and hash holds")
    return CHECK_FAILED if faults else OK


def _run_yank(arguments: argparse.Namespace) -> int:
    for page in site.yank_file(arguments.site, arguments.filename, arguments.reason):
        print(f"rewrote  {page}")
    _print_reminder(arguments.site)
    return OK


def _print_reminder(site: Path) -> None:
    """Say that a signed list that is not the current one makes clients stop."""
    if (site / release_list.FOLDER).is_dir():
        again = f"decouple index sign-list --site {shlex.quote(str(site))} --key KEY"
        print(f"{site}: its list was signed; sign it again: {again}")


def _run_verify(arguments: argparse.Namespace) -> int:
    """Verify the wheels; the first fault ends it."""
    for path in arguments.wheels:
        request = verify_wheel.VerifyWheelRequest(find_project(), path, arguments.key, arguments.rebuild)
        verify_wheel.verify_wheel(request, output.make_listener())
    return OK


def _run_key(arguments: argparse.Namespace) -> int:
    public = provenance.make_key(arguments.path)
    print(f"private key {arguments.path} (keep it off this repository), public key {public}")
    return OK


def _run_sign(arguments: argparse.Namespace) -> int:
    for path in arguments.wheels:
        print(f"signed   {provenance.sign_wheel(wheel.read_wheel(path), arguments.key)}")
    return OK
