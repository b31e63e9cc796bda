"""``decouple fetch``: get the source of a release into the shared cache."""

from __future__ import annotations

import argparse
import json

from decouple.base.errors import OK
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.source_word import add_source_option
from decouple.flows.fetch import fetch_source
from decouple.flows.release_request import BaselineRequest
from decouple.upstream import tree_record
from decouple.upstream.manifests import load_release


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``fetch``."""
    command = subparsers.add_parser(
        "fetch",
        description="Download, verify and unpack the source of a release into the cache that all checkouts share, "
        "and keep it there as a git baseline. What is there already is not fetched again.",
    )
    command.add_argument("release", help="a release with a manifest in series/, e.g. 2.6")
    add_source_option(command)
    command.add_argument(
        "--debian-patches", action="store_true", help="lay Debian's own patches under ours (source debian only)"
    )
    command.add_argument("--offline", action="store_true", help="use the cache only")
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.set_defaults(run=run_fetch)


def run_fetch(arguments: argparse.Namespace) -> int:
    """Fetch, make the baseline, say what was taken, why, and from where.

    Raises DecoupleError.
    """
    request = make_request(BaselineRequest, arguments)
    fetched, base = fetch_source(request, output.make_listener(for_program=arguments.json))
    if fetched.identity:  # a tree of ours: its path is told to be read
        tree_record.check_tree(fetched.path)
    version = load_release(request.project, arguments.release).version
    if arguments.json:
        document = fetched.to_json() | {"version": version}
        if base:
            document["baseline"] = {"repo": str(base.repo), "commit": base.commit, "tree": base.tree}
        print(json.dumps(document, indent=2, sort_keys=True))
        return OK
    print(f"PyTorch {version} from {fetched.provider}: {fetched.why}")
    for file in fetched.files:
        print(f"  {file.name}: {file.size} bytes, verified: {file.verified}")
        print(f"    sha256 {file.sha256 or 'not known'}")
        print(f"    from {file.url}")
    print(f"  tree {fetched.path}")
    if base:
        patched = " with Debian's patches" if arguments.debian_patches else ""
        print(f"  git baseline{patched}: commit {base.commit}, tree {base.tree}")
        print(f"    in {base.repo}")
    for note in fetched.notes:
        print(f"  note: {note}")
    return OK
