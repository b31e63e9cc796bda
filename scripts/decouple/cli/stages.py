"""``decouple stages``: check that all that moves is compiled and a core suffices.

A core has what the kernels need, and opens none of CUDA's files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.base.files import write_output
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.reuse import add_reuse
from decouple.cli.source_word import add_pristine_options
from decouple.cli.verify import print_audit
from decouple.flows import pristine_tree
from decouple.flows.pristine_tree import PristineRequest
from decouple.flows.stage2_symbols import SymbolsRequest, compare_symbols
from decouple.flows.units import UnitsRequest, UnitsRun, check_units
from decouple.flows.verify import audit_wheels
from decouple.inventory.rules import load_rules
from decouple.prebuilt.symbols import SymbolReport, find_origin
from decouple.relocate import stage2
from decouple.relocate.plan import make_plan

OFFICIAL = "official"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    top = subparsers.add_parser("stages")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    parser = verbs.add_parser(
        "sources", help="does stage 2 compile every unit that moves? what to add where it does not"
    )
    add_pristine_options(parser)
    parser.set_defaults(run=_run_sources)

    command = verbs.add_parser(
        "symbols",
        help="which symbols a core lacks that libtorch_cuda needs, and who provides them",
        description="Compare the dynamic symbols of compiled CUDA libraries with those of a core. Of an official wheel "
        "only the parts of its libraries that hold names are fetched. Exit code 1 when a symbol is lacking, or the C++ "
        "ABI is another.",
    )
    command.add_argument("release", nargs="+", help="for example 2.6")
    command.add_argument(
        "--core", type=Path, metavar="DIR", help="a torch package or its lib (default: official wheel)"
    )
    command.add_argument(
        "--kernels", default=OFFICIAL, metavar="official|DIR", help="libraries with kernels (default: official wheel)"
    )
    command.add_argument("--all", action="store_true", help="name every symbol that is lacking, not the first five")
    command.add_argument("--json", action="store_true", help="the whole report, on standard output")
    command.set_defaults(run=_run_symbols)

    _add_units(verbs)
    _add_audit(verbs)
    add_reuse(verbs)


def _run_sources(arguments: argparse.Namespace) -> int:
    """Print the counts and every fault; 1 when there is one."""
    tree = pristine_tree.fetch_tree(make_request(PristineRequest, arguments), output.make_listener())
    plan = make_plan(tree, load_rules(), strict=False)
    report = stage2.check_lists(tree, plan.mapping, find_project())
    faults = (*plan.open_questions, *report.faults)
    print(f"{report.units} translation units move: stage 2 compiles {report.compiled}, leaves out {len(report.left)}")
    for reason in dict.fromkeys(reason for _, reason in report.left):
        print(f"  {sum(reason == other for _, other in report.left):5}  {reason}")
    for fault in faults:
        print(fault)
    for folder in report.unasked:
        print(f"not asked: this tree has no {folder}, so whether stage 2's patterns find its files")
    return CHECK_FAILED if faults else OK


def _run_symbols(arguments: argparse.Namespace) -> int:
    kernels = None if arguments.kernels == OFFICIAL else Path(arguments.kernels)
    if len(arguments.release) > 1 and (arguments.core or kernels):
        raise UsageError("--core and --kernels are of one release", next_step="name one release")
    documents, good = {}, True
    for release in arguments.release:
        result = compare_symbols(SymbolsRequest(find_project(), release, arguments.core, kernels))
        good &= result.ok
        documents[release] = {**result.report.to_dict(), "received": result.received}
        if not arguments.json:
            _print_report(release, result.report, result.received, None if arguments.all else 5)
    if arguments.json:
        print(json.dumps(documents, indent=2))
    return OK if good else CHECK_FAILED


def _print_report(release: str, report: SymbolReport, received: int, limit: int | None) -> None:
    total = sum(report.asked.values())
    fetched = f", {received / (1 << 20):.1f} MiB fetched" if received else ""
    print(f"{release}: {', '.join(report.libraries)} ask a core for {total} symbols{fetched}")
    if report.other_abi:
        print(f"  another C++ ABI: these kernels are {report.kernels_abi}, the core is {report.core_abi}: no symbol of "
              "either with a std::string in it fits the other; take kernels and core of one ABI")  # fmt: skip
        return
    print(f"  C++ ABI     {report.kernels_abi} (core: {report.core_abi})")
    for provider, count in sorted(report.asked.items()):
        lacking = [lack for lack in report.lacking if lack.provider == provider]
        verdict = f"{len(lacking)} lacking" if lacking else "all there"
        print(f"  {provider:<11} {count} asked, {verdict}")
        if lacking:
            print(f"              from {find_origin(provider)}")
        for lack in lacking[:limit]:
            print(f"              {lack.symbol} (for {lack.library})")
        if limit is not None and len(lacking) > limit:
            print(f"              and {len(lacking) - limit} more (--all)")
    least = ", ".join(f"{name} {version}" for name, version in sorted(report.versions.items()) if version != name)
    print(f"  at least    {least}")


def _add_units(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "units",
        help="what stage 1's translation units open: no file of CUDA may be among it",
        description="For a unit that is compiled, the build's record says what the compiler opened; any other is "
        "preprocessed. Needs a configured stage 1 whose generated sources exist (decouple build RELEASE --stage 1).",
    )
    command.add_argument("release")
    command.add_argument("--count", type=int, metavar="N", help="an even slice of N units, touched ones first (all)")
    command.add_argument("--preprocess", action="store_true", help="preprocess all, whatever the build recorded")
    command.add_argument(
        "--opened", type=output.parse_output, metavar="FILE", help="write the tree's files that were opened"
    )
    command.add_argument("--env", choices=("auto", "host", "rootfs"), default="auto", help="whose compiler")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="compilers at once (1)")
    command.add_argument("--tree", type=Path, help="the applied tree (build/<release>/src)")
    command.set_defaults(run=_run_units)


def _run_units(arguments: argparse.Namespace) -> int:
    """Check and print; return 1 if stage 1 needs CUDA or the tree differs.

    1 if a unit opens a file of CUDA or cannot be preprocessed, or there is none. The tree differs when it is not the
    series: a patch missing or edited, a commit or an uncommitted edit besides.
    """
    request = make_request(UnitsRequest, arguments)
    result = check_units(request, output.make_listener())
    for line in (*result.differences, *result.report.findings):
        print(line)
    if arguments.opened:
        write_output(arguments.opened, "".join(f"{path}\n" for path in result.opened))
        print(f"{arguments.opened}: {len(result.opened)} files of the tree")
    _print_evidence(result)
    return OK if result.ok else CHECK_FAILED


def _print_evidence(result: UnitsRun) -> None:
    """Print where the evidence comes from, and the verdict."""
    report = result.report
    missing = len(report.without_evidence)
    outdated = len(result.record.outdated) if result.record else 0
    print(
        f"evidence: {report.recorded} units from the build's record, {report.preprocessed} preprocessed"
        f"{f' ({outdated} objects are out of date)' if outdated else ''}, {missing} without any"
    )
    coupled = len(report.findings) - missing
    verdict = "ok" if result.ok else "FAILED"
    print(f"{verdict}: {report.units} units opened {len(report.opened)} files; {coupled} units open a file of CUDA")


def _add_audit(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser("audit", help="the ELF audit of any wheels or folders")
    command.add_argument("--core", type=Path, metavar="WHEEL_OR_DIR")
    command.add_argument("--backend", type=Path, metavar="WHEEL_OR_DIR")
    command.add_argument(
        "--extension",
        type=Path,
        metavar="WHEEL_OR_DIR",
        action="append",
        default=[],
        help="of someone else, made for the official torch: are its symbols in the others? (may be repeated)",
    )
    command.set_defaults(run=_run_audit)


def _run_audit(arguments: argparse.Namespace) -> int:
    reports = audit_wheels(arguments.core, arguments.backend, arguments.extension)
    print_audit(reports)
    return CHECK_FAILED if any(report.faults for report in reports) else OK
