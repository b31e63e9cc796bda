"""``decouple stages reuse``: count what CUDA's sources ask of another vendor.

That vendor takes the CUDA key; the sources are the relocated ones.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.source_word import add_pristine_options
from decouple.flows.reuse import ReuseRequest, ReuseResult, count_reuse

MEANINGS = {
    "": "name nothing of CUDA: compile as they are",
    "framework": "name PyTorch's CUDA only: compile as they are under the CUDA key",
    "library": "name libraries, too: a mapping of names, or headers that do it, is enough",
    "device": "hold device code: need a compiler of the CUDA language",
    "hand": "hold PTX or matrix-unit templates: port by hand, replace, or leave out",
}


def add_reuse(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "reuse",
        help="what of the relocated CUDA sources another vendor can reuse, and the names it must have",
        description="Count the library names, device builtins and hand-written parts of the files that relocation "
        "moves. With a vendor's names: which stay open, and a header that maps the others. See docs/backends.md.",
    )
    add_pristine_options(parser)
    parser.add_argument("--names", type=Path, metavar="FILE", help="a vendor's names (TOML); 1 if one is open")
    parser.add_argument(
        "--header", type=output.parse_output, metavar="FILE", help="write the mapping as a C header (with --names)"
    )
    parser.add_argument(
        "--toolkit",
        type=Path,
        action="append",
        metavar="DIR",
        help="a folder of the toolkit's headers: only names that they hold are a library's (repeat for more)",
    )
    parser.add_argument("--json", action="store_true", help="every name with its uses, as JSON")
    parser.set_defaults(run=_run_reuse)


def _run_reuse(arguments: argparse.Namespace) -> int:
    """Count, print, and write the header; 1 when ``--names`` leaves a name open."""
    request = make_request(ReuseRequest, arguments)
    result = count_reuse(request, output.make_listener(for_program=arguments.json))
    if arguments.json:
        print(json.dumps(_make_json(result), indent=1))
    else:
        _print_result(result)
    if arguments.header:
        (output.print_aside if arguments.json else print)(f"written: {arguments.header}")
    return CHECK_FAILED if result.open else OK


def _make_json(result: ReuseResult) -> dict[str, object]:
    report = result.report
    made: dict[str, object] = {
        "schema": 1,
        "kinds": {kind or "none": {"files": n, "lines": lines} for kind, (n, lines) in report.count_by_kind().items()},
        "families": [
            {
                "name": family.name,
                "kind": family.kind,
                "library": family.library,
                "files": len(report.holders[family.name]),
                "names": dict(sorted(report.uses[family.name].items())),
            }
            for family in report.families.families
        ],
        "headers": dict(sorted(report.headers.items())),
        "texts": {name: sorted(files) for name, files in report.texts.items()},
        "files": {path: {"kind": kind or "none", "lines": lines} for path, (kind, lines) in report.files.items()},
    }
    if result.names is not None:
        made["open"] = dict(result.open)
    return made


def _print_result(result: ReuseResult) -> None:
    report = result.report
    lines = sum(lines for _, lines in report.files.values())
    print(f"{len(report.files)} C++ and CUDA files move, {lines} lines of code; by the hardest thing in a file:")
    for kind, (files, size) in report.count_by_kind().items():
        print(f"  {files:4} files {size:7} lines  {MEANINGS[kind]}")
    print("names they use:                distinct     uses  files")
    for family in report.families.families:
        uses = report.uses[family.name]
        row = f"{len(uses):8} {uses.total():8} {len(report.holders[family.name]):6}"
        print(f"  {family.kind:<9} {family.name:<20}{row}  {family.library}")
    for name, holders in report.texts.items():
        print(f"  {'text':<9} {name:<20}{'':17} {len(holders):6}")
    print(
        f"{len(report.headers)} toolkit headers are included, {report.count_library_names().total()} uses of", end=" "
    )
    print(f"{len(report.count_library_names())} library names")
    if result.names is not None:
        left = result.open
        print(f"names given: {len(report.count_library_names()) - len(left)}, open: {len(left)}")
        for name, count in left[:20]:
            print(f"  {count:6}  {name}")
        if len(left) > 20:
            print(f"  and {len(left) - 20} more; --json has all")
