"""``decouple kernels dump | compare | unpatched``: compare CUDA machine code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK, refuse_below
from decouple.base.files import write_output
from decouple.cli import output
from decouple.cli.request import make_request, refuse_alone
from decouple.flows import kernels, single_stage, unpatched_kernels
from decouple.flows.build_request import BuildRequest
from decouple.verify.kernels import dump
from decouple.verify.kernels.compare import KernelComparison, demangle_name, simplify_name
from decouple.verify.parity import Parity


def register(subparsers: Any) -> None:
    """Add the commands."""
    top = subparsers.add_parser(
        "kernels",
        description="Machine code is read and compared, never executed or translated. No tool of NVIDIA's is needed.",
    )
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    command = verbs.add_parser("dump", help="hashes of every function, as a small file to compare with")
    command.add_argument(
        "library", type=Path, nargs="+", help="libtorch_cuda.so, an object, a wheel or a folder of them"
    )
    command.add_argument("-o", "--output", type=output.parse_output, required=True)
    command.add_argument("--arch", action="append", help="sm_90; may be repeated (default: every one there is)")
    command.add_argument("--label", help="what this side is called (default: the file's name)")
    command.set_defaults(run=_run_dump)
    two = verbs.add_parser(
        "compare",
        help="missing, extra and different functions",
        description="Each side is a library, a wheel, a folder, a dump, or `official:RELEASE` (kept here for sm_90; "
        "else the libraries are fetched from the wheel on the index, with --arch).",
    )
    two.add_argument("ours", metavar="OURS")
    two.add_argument("theirs", metavar="THEIRS")
    two.add_argument("--arch", action="append", help="sm_90; may be repeated (default: those in both)")
    two.add_argument("--bytes", action="store_true", help="two libraries: how each different function differs")
    two.add_argument("--sides", default="", metavar="OURS/THEIRS", help="whose explanations hold: built/official")
    two.add_argument("--all", action="store_true", help="print every function, not the first ten of a kind")
    two.set_defaults(run=_run_compare)
    three = verbs.add_parser(
        "host", help="whether every kernel is registered, and what NVIDIA's libraries are asked for; of two, compared"
    )
    three.add_argument("ours", type=Path, metavar="OURS")
    three.add_argument("theirs", type=Path, metavar="THEIRS", nargs="?")
    three.add_argument("--arch", default="sm_90")
    three.set_defaults(run=_run_host)
    four = verbs.add_parser(
        "unpatched",
        help="a sample of stage 2's .cu files compiled from the release's own tree, compared with what was built",
    )
    four.add_argument("release")
    four.add_argument("--files", type=int, default=40, help="how many sources (default: 40), spread evenly")
    four.add_argument("--env", choices=["auto", "host", "rootfs", "portable"], default="auto", help="that of the build")
    four.add_argument("--python", default="", metavar="X.Y", help="that of the build, where it named one")
    four.add_argument("--cuda", default="", metavar="X.Y", help="that of the build, where it named one")
    four.add_argument(
        "--toolkit",
        default="",
        metavar="rocm",
        help="another vendor's backend, the whole where it was built, else the runtime part of `smoke`: --files "
        "objects with device code and as many of the others, against upstream's own build for that vendor",
    )
    four.add_argument("--minutes", type=float, help="with --toolkit: begin no further source after that, for each kind")
    four.add_argument("--all", action="store_true", help="print every function, not the first ten of a kind")
    four.set_defaults(run=_run_unpatched)


def _run_unpatched(arguments: argparse.Namespace) -> int:
    refuse_alone(arguments, ("minutes", "toolkit"))
    refuse_below(1, files=arguments.files)
    if arguments.toolkit:
        request = single_stage.choose_part(make_request(BuildRequest, arguments, core="stock"))
        found = single_stage.compare_single_stage(request, arguments.files, arguments.minutes, output.make_listener())
        print_comparison(found.code, None if arguments.all else 10)
        print_parity(found.registrations, None if arguments.all else 10)
        return OK if found.ok else CHECK_FAILED
    request = make_request(BuildRequest, arguments)
    comparison = unpatched_kernels.compare_unpatched(request, arguments.files, output.make_listener())
    print_comparison(comparison, None if arguments.all else 10)
    return OK if comparison.ok else CHECK_FAILED


def _run_dump(arguments: argparse.Namespace) -> int:
    label = arguments.label or arguments.library[0].name
    made = kernels.dump_kernels(arguments.library, label, arguments.arch, output.make_progress())
    write_output(arguments.output, dump.pack_dump(made))
    functions = sum(len(unit.kernels) for unit in made.units)
    print(
        f"{arguments.output}: {functions} functions of {len({u.file for u in made.units})} sources for "
        f"{', '.join(made.architectures())}, {arguments.output.stat().st_size / 1024:.0f} KiB"
    )
    return OK


def _run_compare(arguments: argparse.Namespace) -> int:
    request = make_request(kernels.KernelRequest, arguments, archs=arguments.arch)
    comparison = kernels.compare_kernels(request, output.make_listener())
    print_comparison(comparison, None if arguments.all else 10)
    if arguments.bytes:
        for diff in kernels.explain_differences(Path(arguments.ours), Path(arguments.theirs), comparison.found):
            print(
                f"{diff.found.file} {simplify_name(diff.found.name)[:100]}: {diff.ours} instructions against "
                f"{diff.theirs}, {diff.moved} not the same at their place, {diff.foreign} that theirs has nowhere; "
                f"first at {diff.first[0]}: {diff.first[1]} {diff.first[2]}"
            )
    return OK if comparison.ok else CHECK_FAILED


def _run_host(arguments: argparse.Namespace) -> int:
    asked: list[frozenset[str]] = []
    lost = 0
    for path in filter(None, (arguments.ours, arguments.theirs)):
        libraries = kernels.read_host_symbols(path, arguments.arch)
        asked.append(frozenset().union(*(symbols.imports for symbols in libraries.values())))
        for name, symbols in libraries.items():
            print(
                f"{name}: {symbols.containers} images for {arguments.arch}, {symbols.kernels} kernels, "
                f"{len(symbols.unregistered)} of them under a name that the host does not have, "
                f"{len(symbols.imports)} functions of NVIDIA's"
            )
            for kernel in symbols.unregistered[:10]:
                print(f"       not registered: {demangle_name(kernel)[:160]}")
            lost += len(symbols.unregistered)
    if len(asked) == 1:
        return CHECK_FAILED if lost else OK
    for title, names in (("only ours asks for", asked[0] - asked[1]), ("only theirs asks for", asked[1] - asked[0])):
        print(f"{title}: {', '.join(sorted(names)) or 'nothing'}")
    return OK if asked[0] == asked[1] and not lost else CHECK_FAILED


def print_comparison(result: KernelComparison, limit: int | None) -> None:
    """Print one line with the verdict, then what is not the same, unexplained first."""
    kinds = {"code": "different", "launch": "with other resources", "missing": "missing", "extra": "extra"}
    counts = ", ".join(f"{result.count(kind)} {words}" for kind, words in kinds.items())
    print(
        f"{'ok' if result.ok else 'FAILED':<6} kernels of {result.ours} against {result.theirs} "
        f"({', '.join(result.archs)}, {result.sources} sources): {result.same} of {result.total} the same "
        f"({result.percent:.2f} %), {counts}; {sum(bool(diff.reason) for diff in result.found)} explained; "
        f"initialised variables {result.data_same} of {result.data} the same"
    )
    if result.left_out:
        print(f"       not compared: {', '.join(result.left_out)}")
    for kind, words in {**kinds, "data": "variable"}.items():
        of_kind = sorted((diff for diff in result.found if diff.what == kind), key=lambda diff: bool(diff.reason))
        for diff in of_kind[:limit]:
            why = f" ({diff.reason})" if diff.reason else ""
            print(f"       {words}: {diff.arch} {diff.file} {demangle_name(diff.name)[:160]}: {diff.detail}{why}")
        if limit is not None and len(of_kind) > limit:
            print(f"       and {len(of_kind) - limit} more (--all)")


def print_parity(categories: Sequence[Parity], limit: int | None) -> None:
    """Print a line per category and ``limit`` names each missing, extra or different."""
    for group in categories:
        print(
            f"{'ok' if group.ok else 'FAILED':<6} {group.category}: {group.percent:.2f} % of {group.total}, "
            f"{len(group.missing)} missing, {len(group.extra)} extra, {len(group.different)} different"
        )
        for label, names in (("missing", group.missing), ("extra", group.extra), ("differs", group.different)):
            for name in names[:limit]:
                print(f"       {label}: {name}" + (f" ({group.reasons[name]})" if name in group.reasons else ""))
            if limit is not None and len(names) > limit:
                print(f"       and {len(names) - limit} more (--all)")
