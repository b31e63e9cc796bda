"""``decouple range-diff``, ``depends`` and ``bisect``: how series and their patches relate."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK, DecoupleError, UsageError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    ranges = subparsers.add_parser("range-diff", help="two series compared patch by patch, by Decouple-Id")
    ranges.add_argument("old")
    ranges.add_argument("new")
    ranges.add_argument("--patch", action="store_true", help="show how the texts of changed patches differ")
    ranges.set_defaults(run=_range_diff)

    burn = subparsers.add_parser("burn-down", help="how much is left, release by release")
    burn.add_argument(
        "--census", action="append", default=[], metavar="RELEASE=FILE", help="what `census --json` wrote"
    )
    burn.add_argument("--json", type=Path)
    burn.add_argument("--svg", type=Path, help="bars per release")
    burn.set_defaults(run=_burn_down)

    depends = subparsers.add_parser("depends", help="which earlier patches each patch needs")
    depends.add_argument("release")
    depends.add_argument("--source", default="auto", help="as for check")
    depends.set_defaults(run=_depends)

    bisect = subparsers.add_parser(
        "bisect",
        help="which patch of the series breaks a command",
        description="Judge the applied tree with ever fewer patches suspected, the cheapest question first: do the "
        "touched Python files compile; --configure; --compile; COMMAND, whose exit status 0 is good, 125 cannot tell, "
        "anything else bad. The tree is left as it was.",
    )
    _bisect_options(bisect)
    bisect.add_argument("release")
    bisect.add_argument("oracle", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    bisect.set_defaults(run=_bisect)


def _bisect_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configure", action="store_true", help="does CMake take it? as `build` configures stage 1")
    parser.add_argument("--compile", action="store_true", help="do the touched sources compile? implies --configure")
    parser.add_argument(
        "--env", choices=["auto", "host", "rootfs"], default="auto", help="the build environment, as for `build`"
    )
    parser.add_argument(
        "--here", metavar="COMMAND", help="configure with this, on this machine and not in the build environment"
    )


def _burn_down(arguments: argparse.Namespace) -> int:
    from packaging.version import Version

    from decouple.base.files import write_atomically
    from decouple.base.paths import find_project
    from decouple.series import burndown
    from decouple.stack.engine import partial_releases, releases

    project = find_project()
    census = dict(word.split("=", 1) for word in arguments.census if "=" in word)
    if len(census) != len(arguments.census):
        raise UsageError("--census takes RELEASE=FILE", next_step="e.g. --census 2.6=census.json")
    names = sorted([*releases(project), *partial_releases(project)], key=Version)
    rows = [burndown.row(project, name, Path(census[name]) if name in census else None) for name in names]
    titles = f"{'patches':>9}{'not seen':>10}{'own':>6}{'moved':>8}{'changed':>9}{'quoted':>8}"
    print(f"{'series':8}{titles}{'couplings left':>16}")
    for row in rows:
        left = "no census" if row.couplings is None else f"{row.couplings} of {row.couplings_before}"
        counts = f"{row.patches:9}{row.not_seen:10}{row.own:6}{row.moved:8}{row.changed:9}{row.quoted:8}"
        print(f"{row.release:8}{counts}{left:>16}")
    for path, text in ((arguments.json, burndown.as_json(rows)), (arguments.svg, burndown.as_svg(rows))):
        if path:
            write_atomically(path, text)
            print(path)
    return OK


def _range_diff(arguments: argparse.Namespace) -> int:
    from decouple.base.paths import find_project
    from decouple.patch import seriesfile
    from decouple.series import check, rangediff

    project = find_project()
    lacking = {one.name for one in seriesfile.read(project / "series" / arguments.new).not_carried}
    rows = rangediff.compare(check.load(project, arguments.old), check.load(project, arguments.new), lacking)
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
    from decouple.upstream.source_word import open_named

    project = find_project()
    series = check.load(project, arguments.release)
    opened, _ = open_named(project, arguments.release, arguments.source, check.wanted(series))
    for name, needed in dependencies(series, opened.source).items():
        print(f"{name}: {', '.join(needed) or 'nothing'}")
    return OK


def _bisect(arguments: argparse.Namespace) -> int:
    import sys

    from decouple.base.paths import find_project
    from decouple.flows import bisect
    from decouple.stack.engine import Places, Stack

    words: list[str] = arguments.oracle  # argparse leaves all behind the release to it, our own options too
    at = words.index("--") if "--" in words else len(words) if words[:1] and words[0].startswith("-") else 0
    late = argparse.ArgumentParser(prog="decouple bisect RELEASE", add_help=False)
    _bisect_options(late)
    late.parse_args(words[:at], namespace=arguments)
    command = words[at:][1:] if "--" in words else words[at:]
    oracles: list[bisect.Oracle] = []
    if arguments.configure or arguments.compile or arguments.here:
        places = Places.of(find_project(), arguments.release)
        run = _here(places.source) if arguments.here else _inside(arguments.release, arguments.env)
        oracles.append(bisect.configures(run, arguments.here or "python3 setup.py build --cmake --cmake-only"))
        if arguments.compile:
            oracles.append(bisect.compiles(run))
    if command:
        oracles.append(bisect.command_oracle(command))
    if not oracles:
        raise UsageError("nothing to judge a tree by", next_step="--configure, --compile, or -- COMMAND")
    with Stack.open(Places.of(find_project(), arguments.release)) as stack:
        found = bisect.bisect(stack, oracles, lambda line: print(line, file=sys.stderr))
    print(f"{found.first_bad} breaks it ({found.looked_at} trees looked at): {found.said}")
    return CHECK_FAILED


def _here(tree: Path) -> Callable[[str], int]:
    """Shell commands in ``tree`` on this machine."""
    import subprocess
    import sys

    return lambda command: subprocess.run(["sh", "-c", command], cwd=tree, check=False, stdout=sys.stderr).returncode


def _inside(release: str, env: str) -> Callable[[str], int]:
    """Shell commands in the tree as stage 1's build environment has it: ``decouple shell RELEASE --run``.

    Raises DecoupleError when it cannot be entered: else every tree would be found bad, for nothing that is in it.
    """
    import subprocess
    import sys

    shell = [sys.executable, "-m", "decouple", "shell", release, "--env", env, "--stage", "1", "--run"]

    def run(command: str) -> int:
        return subprocess.run([*shell, command], check=False, stdout=sys.stderr).returncode

    if status := run("true"):
        raise DecoupleError(
            f"the build environment ({env}) cannot be entered: `true` exits with {status} there",
            next_step=f"see the message above; `decouple shell {release} --env {env} --run true` until it works",
        )
    return run
