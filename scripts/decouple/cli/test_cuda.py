"""``decouple test-cuda``: run upstream's CUDA suites, compare two builds.

They run on a GPU or on the simulated device.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decouple.base import git
from decouple.base.errors import CHECK_FAILED, INTERRUPTED, OK, DecoupleError, refuse_below
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.request import make_request, refuse_alone, refuse_unread
from decouple.flows import test_cuda
from decouple.flows.test_cuda import SuiteRun
from decouple.flows.work_environment import WorkRequest
from decouple.suites import catalog, compare, store
from decouple.suites.compare import SuiteComparison
from decouple.suites.store import SuiteResult

NOT_SEEN = "values are the CPU's and no kernel was executed: a wrong kernel, timing, occupancy and races are not seen"

_NEEDS = (
    ("outcomes", "keep"), ("sides", "compare"), ("files", "slice"), ("every", "slice"), ("every", "against"),
    ("seed", "slice"),
)  # fmt: skip
"""Options, and one that each says more of."""


def register(subparsers: Any) -> None:
    """Add the command."""
    tests = subparsers.add_parser(
        "test-cuda",
        description="Runs what is not stored yet; interrupt it and run it again. Exit code 1: a test failed that is "
        "not known to, two builds differ in a way that is not known, or fewer than half of the chosen tests have a "
        "result.",
    )
    tests.add_argument("release")
    tests.add_argument("suite", nargs="*", help="suites by name (default: all; --list names them)")
    tests.add_argument("--list", action="store_true", help="name the suites and their files, run nothing")
    tests.add_argument(
        "--torch", default="built", metavar=test_cuda.format_torch_words(backend=True), help="the torch to test"
    )
    tests.add_argument("--label", help="what its results are called (default: the word of --torch)")
    tests.add_argument("--device", default="auto", choices=["auto", "gpu", "simulated"])
    tests.add_argument("--devices", type=int, default=test_cuda.DEVICES, help="how many simulated devices")
    tests.add_argument(
        "--memory",
        default=f"{test_cuda.MEMORY >> 30}G",
        help="of each simulated device; upstream skips tests that need more",
    )
    tests.add_argument(
        "--ledger", action="store_true", help="on a GPU: record what it is asked for, to compare with the simulated one"
    )
    tests.add_argument(
        "--tests", type=Path, help="for a PYTHON: upstream's test/ (default: that of build/<release>/src)"
    )
    tests.add_argument(
        "--results",
        type=Path,
        help="for a PYTHON: where results are kept (default: build/<release>/verify/suites)",
    )
    tests.add_argument(
        "--against",
        metavar="LABEL|FILE",
        help="compare with stored results of another build; outcomes of the official wheel are kept (official)",
    )
    tests.add_argument("--record", action="store_true", help="write the figures to ci/status/, for the status table")
    tests.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("OURS", "THEIRS"),
        help="run nothing: compare stored results of two builds; folders, with --record: into ci/status/",
    )
    tests.add_argument(
        "--sides", default="", metavar="OURS/THEIRS", help="with --compare: whose known differences hold"
    )
    tests.add_argument(
        "--keep", type=output.parse_output, metavar="FILE", help="write the results as one file to compare with later"
    )
    tests.add_argument("--outcomes", action="store_true", help="with --keep: without ledgers, a small file")
    tests.add_argument("-k", dest="words", default="", help="as pytest's -k, besides the suite's own")
    tests.add_argument(
        "--slice", type=int, metavar="N", help="N tests, chosen by --seed; with --against, quick ones that it ran"
    )
    tests.add_argument("--files", type=int, default=0, metavar="M", help="with --slice: of M files, chosen by --seed")
    tests.add_argument(
        "--every", action="store_true", help="with --slice and --against: of all tests, also those that failed there"
    )
    tests.add_argument("--seed", default="", help="for --slice (default: the checkout's commit)")
    tests.add_argument(
        "--jobs", type=int, help="processes at a time (default: as many as processors on the simulated device, else 1)"
    )
    tests.add_argument("--retries", type=int, default=1, help="how often a failure is tried again alone")
    tests.add_argument(
        "--patience", type=float, default=1.0, help="how many times longer a test may take (busy machine)"
    )
    tests.add_argument("--minutes", type=float, help="start no further process after that time")
    tests.add_argument("--again", action="store_true", help="throw stored results away")
    tests.add_argument("--all", action="store_true", help="print every failure and difference, not the first ten")
    tests.set_defaults(run=_run_test_cuda, rest="suite", parser=tests)


def _run_test_cuda(arguments: argparse.Namespace) -> int:
    refuse_alone(arguments, *_NEEDS)
    if arguments.list:
        refuse_unread(arguments, {"release", "list"}, "--list names all suites, and runs none", "leave it out")
        for suite in catalog.load_suites():
            print(f"{suite.name}: {' '.join(suite.files)}" + (f" (-k {suite.select!r})" if suite.select else ""))
        return OK
    if arguments.compare:
        read = {"release", "compare", "sides", "record", "all"}
        refuse_unread(arguments, read, "--compare runs no test", "leave it out")
        our_path, their_path = arguments.compare
        seen = _compare_stored(our_path, their_path, arguments.sides)
        print_comparison(seen, our_path.name, their_path.name, None if arguments.all else 10)
        if arguments.record:
            listener = output.make_listener()
            test_cuda.record_stored(find_project(), arguments.release, our_path, their_path, seen, listener)
        return OK if seen.ok else CHECK_FAILED
    project = find_project()
    refuse_below(1, devices=arguments.devices)
    simulation = ("--devices", str(arguments.devices), "--memory", arguments.memory)
    work = WorkRequest(project, arguments.release)
    wanted = test_cuda.choose_torch(
        work,
        arguments.torch,
        label=arguments.label or "",
        device=arguments.device,
        results=arguments.results,
        tests=arguments.tests,
        simulation=simulation,
        ledger=arguments.ledger,
    )
    listener = output.make_listener()
    seed = arguments.seed or (_read_commit(project) if arguments.slice else "")
    jobs = test_cuda.count_jobs(wanted.device) if arguments.jobs is None else arguments.jobs
    choice = make_request(test_cuda.SuiteChoice, arguments, suites=arguments.suite, seed=seed, jobs=jobs)
    test_cuda.check_choice(choice)  # before minutes on the torch
    with test_cuda.open_target(wanted, work, listener) as torch:
        own = None if arguments.again else torch.folder
        theirs: Mapping[str, SuiteResult] = {}
        if arguments.against:
            theirs = test_cuda.read_stored_results(wanted, arguments.against, work, own, listener)
        name = (torch.label, torch.device)
        recorded = test_cuda.read_record(project, arguments.release, name) if arguments.record else None
        try:
            done = test_cuda.run_suites(
                torch, wanted.tests, choice, theirs=theirs, recorded=recorded, listener=listener
            )
        except KeyboardInterrupt:
            if not arguments.again:
                raise
            raise DecoupleError(  # what is stored by now would go, too
                "interrupted", next_step="run the command without --again to go on", code=INTERRUPTED
            ) from None
    good = _print_results(done.results, torch.device, None if arguments.all else 10, theirs, torch.label)
    good &= _print_left_out(done, torch.device)
    print(f"{done.ran} run now, results in {done.folder}")
    if arguments.keep:
        store.write_packed(done.results.values(), arguments.keep, ledgers=not arguments.outcomes)
        print(arguments.keep)
    comparison: SuiteComparison | None = None
    if arguments.against:
        sides = test_cuda.name_sides(torch.label, arguments.against)
        comparison = test_cuda.compare_run(done, theirs, sides)
        print_comparison(comparison, torch.label, arguments.against, None if arguments.all else 10)
        good &= comparison.ok
    if arguments.record and not done.is_half_done:
        print("not recorded: fewer than half of the chosen tests have a result")
    elif arguments.record:
        against = test_cuda.name_build(arguments.against) if arguments.against else ""
        test_cuda.record_results(project, arguments.release, name, done, against, comparison, listener)
    if torch.device == "simulated":
        print(f"simulated device: {NOT_SEEN}")
    return OK if good else CHECK_FAILED


def _compare_stored(ours: Path, theirs: Path, sides: str) -> SuiteComparison:
    """Compare stored results.

    Of folders of a run print how many of their tests have one.
    """
    our_results, their_results = store.read_results(ours), store.read_results(theirs)
    runs = {
        folder: test_cuda.read_stored_run(folder, their_results)[0] for folder in (ours, theirs) if store.is_run(folder)
    }
    for folder, stored in runs.items():
        if stored.unfinished:
            print(f"{'part':<14} {len(stored.results)} of {stored.collected} tests of {folder.name} have a result")
    lacking = runs[ours].lacking if ours in runs else ()
    return compare.compare_results(our_results, their_results, sides, lacking)


def _read_commit(project: Path) -> str:
    return git.read_git_text("rev-parse", "HEAD", cwd=project).strip()


def _print_results(
    results: Mapping[str, SuiteResult],
    device: str,
    limit: int | None,
    theirs: Mapping[str, SuiteResult] | None = None,
    label: str = "",
) -> bool:
    """Print figures per suite and new failures; return whether there are none.

    A failure is new that is neither known nor the other build's too.
    """
    for suite, counts in compare.tally_outcomes(results.values()).items():
        figures = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        print(f"{suite:<14} {sum(counts.values()) - counts['flaky']} tests: {figures}")
    for why, number in compare.count_skip_reasons(results.values()).most_common(limit):
        print(f"       {number} skipped: {why[:200]}")
    bad = [result for result in results.values() if result.outcome in ("failed", "died", "too slow")]
    known = {result.id for result in bad if result.known or compare.find_failure_reason(result, label, device)}
    same = {
        result.id
        for result in bad
        if theirs and result.id in theirs and theirs[result.id].outcome == result.outcome and result.is_begun
    } - known
    for result in [result for result in bad if result.id not in known | same][:limit]:
        print(f"       {result.outcome}: {result.id}: {result.why.splitlines()[0][:200] if result.why else ''}")
    rest = len(bad) - len(known | same)
    if limit is not None and rest > limit:
        print(f"       and {rest - limit} more (--all)")
    if same:
        print(f"       {len(same)} failures are the other build's too")
    if known:
        print(f"       {len(known)} failures are known: reasons in simcuda/known_failures.toml and suites/known.toml")
    return rest == 0


def _print_left_out(done: SuiteRun, device: str) -> bool:
    """Print what was chosen and not run; return whether at least half was."""
    for suite in done.left_out:
        more = f" (--devices {suite.devices})" if device == "simulated" else ""
        print(f"{suite.name:<14} left out: needs {suite.devices} devices{more}, {done.devices} there")
    if done.unfinished:
        word, few = ("unfinished", "") if done.is_half_done else ("FAILED", ", fewer than half")
        chosen = len(done.results) + len(done.unfinished)
        print(f"{word:<14} {len(done.results)} of {chosen} chosen tests have a result{few}")
        print("       the same command without --again runs the others")
    return done.is_half_done


def print_comparison(found: SuiteComparison, ours: str, theirs: str, limit: int | None) -> None:
    """Print one line of figures, then each difference."""
    unknown = [difference for difference in found.differences if not difference.reason]
    same = (
        f"{found.loose} of {found.ledgers} ledgers but for arguments"
        if found.plain
        else f"{found.exact} of {found.ledgers} ledgers to the last byte, {found.loose} but for which allocation"
    )
    print(
        f"{'ok' if found.ok else 'FAILED':<6} {ours} against {theirs}: {found.tests} tests on both, {found.outcomes} "
        f"outcomes the same, {same}; {len(found.differences) - len(unknown)} differences known, {len(unknown)} not"
        + "".join(
            f"; {number} on {side} alone"
            for side, number in ((ours, found.only_ours), (theirs, found.only_theirs))
            if number
        )
    )
    for difference in unknown[:limit]:
        print(f"       {difference.what}: {difference.test}: {difference.ours}; {theirs}: {difference.theirs}")
    if limit is not None and len(unknown) > limit:
        print(f"       and {len(unknown) - limit} more (--all)")
