"""``decouple kernels dump | compare | unpatched``: is the machine code in one CUDA library that of another?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import output
from decouple.cli.request import asked
from decouple.flows import kernels, unpatched
from decouple.flows.build_request import Build
from decouple.verify.kernels import dump
from decouple.verify.kernels.compare import KernelComparison, demangle_name, simplify_name


def register(subparsers: Any) -> None:
    """Add the commands."""
    top = subparsers.add_parser(
        "kernels",
        description="Machine code is read and compared, never executed or translated. No tool of NVIDIA's is needed.",
    )
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    one = verbs.add_parser("dump", help="hashes of every function, as a small file to compare with")
    one.add_argument("library", type=Path, nargs="+", help="libtorch_cuda.so, an object, a wheel or a folder of them")
    one.add_argument("-o", "--output", type=Path, required=True)
    one.add_argument("--arch", action="append", help="sm_90; may be repeated (default: every one there is)")
    one.add_argument("--label", help="what this side is called (default: the file's name)")
    one.set_defaults(run=_dump)
    two = verbs.add_parser(
        "compare",
        help="missing, extra and different functions",
        description="Each side is a library, a wheel, a folder, a dump, or `official:RELEASE` (kept here for sm_90; "
        "else the libraries are fetched from the wheel on the index, with --arch).",
    )
    two.add_argument("ours", metavar="OURS")
    two.add_argument("theirs", metavar="THEIRS")
    two.add_argument("--arch", action="append", help="sm_90; may be repeated (default: those in both)")
    two.add_argument("--part", action="store_true", help="OURS is part of a build: only the sources that it has")
    two.add_argument("--bytes", action="store_true", help="two libraries: how each different function differs")
    two.add_argument("--sides", default="", metavar="OURS/THEIRS", help="whose explanations hold: built/official")
    two.add_argument("--all", action="store_true", help="print every function, not the first ten of a kind")
    two.set_defaults(run=_compare)
    three = verbs.add_parser(
        "host", help="whether every kernel is registered, and what NVIDIA's libraries are asked for; of two, compared"
    )
    three.add_argument("ours", type=Path, metavar="OURS")
    three.add_argument("theirs", type=Path, metavar="THEIRS", nargs="?")
    three.add_argument("--arch", default="sm_90")
    three.set_defaults(run=_host)
    four = verbs.add_parser(
        "unpatched",
        help="a sample of stage 2's .cu files compiled from the release's own tree, compared with what was built",
    )
    four.add_argument("release")
    four.add_argument("--files", type=int, default=40, help="how many sources (default: 40), spread evenly")
    four.add_argument("--env", choices=["auto", "host", "rootfs", "portable"], default="auto", help="that of the build")
    four.add_argument("--python", default="", metavar="X.Y", help="that of the build, where it named one")
    four.add_argument("--cuda", default="", metavar="X.Y", help="that of the build, where it named one")
    four.add_argument("--all", action="store_true", help="print every function, not the first ten of a kind")
    four.set_defaults(run=_unpatched)


def _unpatched(arguments: argparse.Namespace) -> int:
    found = unpatched.compare(asked(Build, arguments), arguments.files, output.listener())
    print_comparison(found, None if arguments.all else 10)
    return OK if found.ok else CHECK_FAILED


def _dump(arguments: argparse.Namespace) -> int:
    label = arguments.label or arguments.library[0].name
    made = kernels.dump(arguments.library, label, arguments.arch, output.progress())
    dump.write_dump(made, arguments.output)
    functions = sum(len(unit.kernels) for unit in made.units)
    print(
        f"{arguments.output}: {functions} functions of {len({u.file for u in made.units})} sources for "
        f"{', '.join(made.architectures())}, {arguments.output.stat().st_size / 1024:.0f} KiB"
    )
    return OK


def _compare(arguments: argparse.Namespace) -> int:
    request = asked(kernels.Compare, arguments, archs=arguments.arch)
    found = kernels.compare(request, output.listener())
    print_comparison(found, None if arguments.all else 10)
    if arguments.bytes:
        for one in kernels.differences(Path(arguments.ours), Path(arguments.theirs), found.found):
            print(
                f"{one.found.file} {simplify_name(one.found.name)[:100]}: {one.ours} instructions against "
                f"{one.theirs}, {one.moved} not the same at their place, {one.foreign} that theirs has nowhere; "
                f"first at {one.first[0]}: {one.first[1]} {one.first[2]}"
            )
    return OK if found.ok else CHECK_FAILED


def _host(arguments: argparse.Namespace) -> int:
    asked: list[frozenset[str]] = []
    for path in filter(None, (arguments.ours, arguments.theirs)):
        found = kernels.host(path, arguments.arch)
        asked.append(frozenset().union(*(one.imports for one in found.values())))
        for name, one in found.items():
            print(
                f"{name}: {one.containers} images for {arguments.arch}, {one.kernels} kernels, "
                f"{len(one.unregistered)} of them under a name that the host does not have, "
                f"{len(one.imports)} functions of NVIDIA's"
            )
    if len(asked) == 1:
        return OK
    for said, names in (("only ours asks for", asked[0] - asked[1]), ("only theirs asks for", asked[1] - asked[0])):
        print(f"{said}: {', '.join(sorted(names)) or 'nothing'}")
    return OK if asked[0] == asked[1] else CHECK_FAILED


def print_comparison(found: KernelComparison, limit: int | None) -> None:
    """One line with the verdict, then what is not the same."""
    kinds = {"code": "different", "launch": "with other resources", "missing": "missing", "extra": "extra"}
    counts = ", ".join(f"{found.count(what)} {said}" for what, said in kinds.items())
    print(
        f"{'ok' if found.ok else 'FAILED':<6} kernels of {found.ours} against {found.theirs} "
        f"({', '.join(found.archs)}, {found.sources} sources): {found.same} of {found.total} the same "
        f"({found.percent:.2f} %), {counts}; {sum(bool(one.reason) for one in found.found)} explained; "
        f"initialised variables {found.data_same} of {found.data}"
    )
    for what, said in kinds.items():
        of_kind = [one for one in found.found if one.what == what]
        for one in of_kind[:limit]:
            why = f" ({one.reason})" if one.reason else ""
            print(f"       {said}: {one.arch} {one.file} {demangle_name(one.name)[:160]}: {one.detail}{why}")
        if limit is not None and len(of_kind) > limit:
            print(f"       and {len(of_kind) - limit} more (--all)")
