"""``decouple range-diff``, ``depends`` and ``bisect``: how series and their patches relate."""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED, OK, UsageError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    ranges = subparsers.add_parser("range-diff", help="two series compared patch by patch, by Decouple-Id")
    ranges.add_argument("old")
    ranges.add_argument("new")
    ranges.add_argument("--patch", action="store_true", help="show how the texts of changed patches differ")
    ranges.set_defaults(run=_range_diff)

    depends = subparsers.add_parser("depends", help="which earlier patches each patch needs")
    depends.add_argument("release")
    depends.add_argument("--source", default="auto", help="as for check")
    depends.set_defaults(run=_depends)

    bisect = subparsers.add_parser(
        "bisect",
        help="which patch of the series breaks a command",
        description="Run COMMAND in the applied tree with ever fewer patches suspected; exit status 0 is good, 125 "
        "cannot tell, anything else bad. Touched Python files are compiled first. The tree is left as it was.",
    )
    bisect.add_argument("release")
    bisect.add_argument("oracle", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    bisect.set_defaults(run=_bisect)


def _range_diff(arguments: argparse.Namespace) -> int:
    from decouple.base.paths import find_project
    from decouple.series import check, rangediff

    project = find_project()
    rows = rangediff.compare(check.load(project, arguments.old), check.load(project, arguments.new))
    for row in rows:
        names = " -> ".join(patch.name for patch in (row.old, row.new) if patch)
        print(f"{row.status.value:13} {row.identity:32} {names}")
        if arguments.patch:
            print("".join(f"    {line}\n" for line in row.difference), end="")
    return OK


def _depends(arguments: argparse.Namespace) -> int:
    from decouple.base.paths import find_project
    from decouple.series import check
    from decouple.series.depends import dependencies
    from decouple.series.named import open_named

    project = find_project()
    series = check.load(project, arguments.release)
    opened, _ = open_named(project, arguments.release, arguments.source, check.wanted(series))
    for name, needed in dependencies(series, opened.source).items():
        print(f"{name}: {', '.join(needed) or 'nothing'}")
    return OK


def _bisect(arguments: argparse.Namespace) -> int:
    import sys

    from decouple.base.paths import find_project
    from decouple.series.bisect import bisect, command_oracle
    from decouple.series.stack.engine import Places, Stack

    command = arguments.oracle[1:] if arguments.oracle[:1] == ["--"] else arguments.oracle
    if not command:
        raise UsageError(
            "no command to judge a tree by", next_step="decouple bisect 2.6 -- python -m py_compile setup.py"
        )
    with Stack.open(Places.of(find_project(), arguments.release)) as stack:
        found = bisect(stack, command_oracle(command), lambda line: print(line, file=sys.stderr))
    print(f"{found.first_bad} breaks it ({found.looked_at} trees looked at): {found.said}")
    return CHECK_FAILED
