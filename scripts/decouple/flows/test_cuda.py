"""Run upstream's CUDA suites on one torch, and compare with another torch's.

>>> from decouple.flows.work_environment import WorkRequest
>>> from decouple.flows.test_cuda import TorchChoice, open_target
>>> with open_target(TorchChoice("built", "built", "simulated", project, source), WorkRequest(project, "2.6")):
...     pass
Traceback (most recent call last):
decouple.base.errors.UsageError: ...2.6: not built yet (nox -s build-2.6)
"""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError, refuse_below
from decouple.base.files import hold_lock
from decouple.base.interpreter import find_python
from decouple.base.paths import find_cache
from decouple.base.worker_pool import WorkerPool
from decouple.build import inputs, settings, toolkits, tree_status
from decouple.build.environment import Places
from decouple.build.estimate import count_cores
from decouple.build.wheel_finishing import (
    choose_series,
    refuse_mixed_series,
    refuse_other_core,
    refuse_portable_wheels,
)
from decouple.flows.build_request import SMOKE, BuildRequest
from decouple.flows.listener import QUIET, Listener
from decouple.flows.tree_overlay import warn_of_older_wheels
from decouple.flows.work_environment import WorkRequest, ensure_tree, hold_trials, open_environment
from decouple.release import status
from decouple.suites import catalog, compare, junit, run, shards, simulated_device, store, target
from decouple.suites.catalog import Suite
from decouple.suites.file_digests import hash_test_files
from decouple.suites.store import OUTCOMES, ResultStore, SuiteResult, TorchRecord, name_selection, split_selection
from decouple.suites.target import Target
from decouple.verify import checks, extensions, venvs
from decouple.verify.venvs import Workplace


class SuiteChoice(Struct, frozen=True):
    """What the user asked for.

    ``suites`` by name (empty: all), ``words`` further words of pytest's ``-k``, ``slice`` that many tests of at most
    ``files`` files (0: of all) chosen by ``seed``: with another build's results of what passed there, unless ``every``
    test may be chosen. ``minutes`` after which no process starts. A test may take ``patience`` times its suite's
    seconds.
    """

    suites: tuple[str, ...] = ()
    words: str = ""
    slice: int | None = None
    files: int = 0
    seed: str = ""
    every: bool = False
    jobs: int = 1
    retries: int = 1
    minutes: float | None = None
    patience: float = 1.0
    again: bool = False


class SuiteRun(Struct, frozen=True):
    """What was run now, and every result that is stored of the chosen tests.

    ``collected`` counts the tests of the suites, chosen or not: of what another build ran those that it has. Counted,
    too, are results that are of no test (store.STAND_INS).
    ``unfinished`` are chosen tests without a result yet. ``lacking`` are tests that the other build has in the same
    suites and this one has not; they are not known with words for ``-k``. ``left_out`` are suites that need more than
    the ``devices`` of this torch.
    """

    ran: int
    results: dict[str, SuiteResult]
    folder: Path
    series: tuple[str, ...] = ()
    """Digests of the series that the wheels of this torch were made of."""
    suites: tuple[str, ...] = ()
    """Those that were asked for, of which a slice may have none; empty: those of the results."""
    collected: int | None = None
    whole: bool = False
    """Whether every test of the suites was chosen, neither some by words nor a slice."""
    words: str = ""
    """Those of pytest's ``-k`` by which some were."""
    unfinished: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    left_out: tuple[Suite, ...] = ()
    devices: int = 0
    options: tuple[str, ...] = ()
    """Those that chose its tests and its simulated devices, as far as they are not the defaults."""

    @property
    def is_half_done(self) -> bool:
        """Whether at least half of the chosen tests have a result."""
        return len(self.unfinished) <= len(self.results)


def check_choice(choice: SuiteChoice) -> None:
    """Raise UsageError for a suite that is none, or a number that nobody can mean."""
    catalog.select_suites(choice.suites)
    refuse_below(1, jobs=choice.jobs, slice=choice.slice)
    refuse_below(0, files=choice.files, retries=choice.retries)


#: How many simulated devices there are, and the bytes of each, where a run does not say.
DEVICES, MEMORY = 2, 8 << 30
QUICK = 10.0
"""A slice of what another build ran has only tests that passed there in less than so many seconds: it is for every
commit, and a test that is skipped there, or fails, says little."""


def run_suites(
    torch: Target,
    tests: Path,
    choice: SuiteChoice,
    *,
    theirs: Mapping[str, SuiteResult] | None = None,
    recorded: status.SuitesSection | None = None,
    listener: Listener = QUIET,
) -> SuiteRun:
    """Collect and run the chosen suites.

    ``tests`` is upstream's ``test/`` as this machine sees it. A slice is chosen from what passed on ``theirs``, another
    build, where that is given: nothing is collected then. Not where the choice says ``every``. ``recorded`` is what the
    run is to replace in the status file.

    Raises DecoupleError when the torch cannot be imported, sees no device, or no test was collected: nothing run is no
    success; where another run is at work in that folder; UsageError, before a test runs, where ``recorded`` is of more.
    """

    def refuse_other_run() -> None:
        raise DecoupleError(
            f"{torch.folder}: another run of test-cuda stores its results there",
            next_step="wait until it ends, or give this one a --label of its own",
        )

    check_choice(choice)
    torch.folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(torch.folder, refuse_other_run):
        return _run_suites(torch, tests, choice, theirs or {}, recorded, listener)


def _run_suites(
    torch: Target,
    tests: Path,
    choice: SuiteChoice,
    theirs: Mapping[str, SuiteResult],
    recorded: status.SuitesSection | None,
    listener: Listener,
) -> SuiteRun:
    about = torch.describe_torch()
    target.check_device(about, torch.device)
    if torch.device == "simulated":
        about["simulator"] = simulated_device.hash_simulator()
    series = tuple(about.get("series", ()))
    asked = catalog.select_suites(choice.suites)
    left_out = tuple(suite for suite in asked if suite.devices > about["devices"])
    chosen = [suite for suite in asked if suite not in left_out]
    if not chosen:
        lacking, least = ", ".join(suite.name for suite in asked), max(suite.devices for suite in asked)
        raise DecoupleError(
            f"{lacking}: needs {least} devices, {about['devices']} there",
            next_step=f"--devices {least}" if torch.device == "simulated" else "--device simulated, or other suites",
        )
    names, name = tuple(suite.name for suite in chosen), f"{torch.label}-{torch.device}"
    refuse_loss(name, describe_loss(recorded, series, names, choice.slice))  # before --again throws results away
    store = ResultStore(torch.folder, about, target.hash_identity(about), again=choice.again)
    for changed in [*(["scripts/simcuda"] if store.is_older else []), *store.other_packages]:
        listener.warn(f"{torch.folder}: {changed} changed since its first results; --again runs them anew")
    files = [(suite, file) for suite in chosen for file in suite.find_files(tests)]
    store.forget_changed(hash_test_files(tests, (file for _, file in files)))
    progress = listener.progress
    progress.start(f"collecting {len(files)} files", float(len(files)), "files")
    before = store.read_collected()
    known: dict[str, list[str]] = {}
    tests_of_theirs = 0
    if theirs and choice.slice and not choice.words and not choice.every:
        there = {file for _, file in files}
        tests_of_theirs = sum(test.partition("::")[0] in there for test in theirs)
        for result in theirs.values():
            if result.outcome in ("passed", "xfailed") and result.seconds < QUICK:
                known.setdefault(result.id.partition("::")[0], []).append(result.id)
        files = [(suite, file) for suite, file in files if file in known]
    lock = threading.Lock()

    def collect_file(entry: tuple[Suite, str]) -> run.CollectionResult:
        suite, file = entry
        words = suite.select_words(choice.words)
        patient = replace(suite, select=words, seconds=suite.seconds * choice.patience)
        key = name_selection(file, (tests / file).stat().st_mtime_ns, words)
        if known:
            found = run.CollectionResult(patient, file, tuple(known[file]))
        elif key in before:
            found = run.CollectionResult(patient, file, tuple(before[key]))
        else:
            found = run.collect_tests(torch, patient, file)
        with lock:
            if found.ids and not known and key not in before:
                before[key] = list(found.ids)
                store.write_collected(before)
            progress.advance()
        return found

    collected = WorkerPool(choice.jobs).map(collect_file, files)
    progress.finish()
    if not known:  # else nothing was collected
        store.forget_results([result.name for result in collected if not result.broken])
    every = [test for result in collected for test in result.ids]
    if not every:
        why = next((f"{result.file}: {result.why}" for result in collected if result.why), "no file")
        raise DecoupleError(f"no test was collected ({why})", next_step="other suites, or other words for -k")
    only: Callable[[str], bool] = lambda _: True  # noqa: E731 - replaced below
    if choice.slice:
        some = shards.choose_slice(every, choice.slice, choice.seed, choice.files)
        only = some.__contains__
    whole = not (choice.slice or choice.words)
    refuse_loss(name, describe_loss(recorded, series, names, None if whole else sum(map(only, every))))
    applied = tree_status.is_applied(tests.parent)
    with tree_status.keep_clean(tests.parent, "suites", listener.say) if applied else contextlib.nullcontext():
        ran = run.run_tests(
            torch,
            collected,
            store,
            only=only,
            expected=lambda result: bool(compare.find_failure_reason(result, "", torch.device)),
            jobs=choice.jobs,
            retries=choice.retries,
            minutes=choice.minutes,
            progress=progress,
        )
    stand_ins = {result.name for result in collected if result.broken}
    stand_ins |= {result.end_name for result in collected if any(map(only, result.ids))} & store.results.keys()
    wanted = {test for test in every if only(test)} | stand_ins
    results = {test: result for test, result in store.results.items() if test in wanted}
    junit.write_junit(results.values(), torch.folder / "junit.xml")
    return SuiteRun(
        ran,
        results,
        torch.folder,
        series,
        names,
        collected=(tests_of_theirs if known else len(every)) + len(stand_ins),
        whole=whole,
        words=choice.words,
        unfinished=tuple(sorted(wanted - results.keys())),
        # of known tests each is run, so one that this torch has not has failed
        lacking=() if known or choice.words or not theirs else tuple(run.list_lacking(collected, theirs)),
        left_out=left_out,
        devices=about["devices"],
        options=(*_list_device_options(torch.device, about["devices"], about["memory"]), *_list_slice_options(choice)),
    )


def _list_device_options(device: str, count: int | None, memory: Sequence[int] | None) -> Iterator[str]:
    """Yield the options for these simulated devices; none for the defaults."""
    if device == "simulated":
        if count not in (None, DEVICES):
            yield from ("--devices", str(count))
        if memory and memory[0] != MEMORY:
            yield from ("--memory", f"{memory[0] >> 20}M")


def _list_slice_options(choice: SuiteChoice) -> Iterator[str]:
    if choice.slice:
        yield from ("--seed", choice.seed)
        if choice.files:
            yield from ("--files", str(choice.files))


def name_build(other: str) -> str:
    """Name a build of which the results are stored, by its label.

    ``other`` may be a file, such as ``kept/official.xz``, or the folder of its results, which says it.
    """
    label = store.read_about(Path(other)).label if (Path(other) / store.ABOUT).is_file() else ""
    return label or Path(other).name.removesuffix(".xz").removesuffix(".jsonl")


def name_sides(label: str, other: str) -> str:
    """Name two builds as `known.toml` does; the other one as for `name_build`."""
    return f"{label}/{name_build(other)}"


def compare_run(done: SuiteRun, theirs: Mapping[str, SuiteResult], sides: str) -> compare.SuiteComparison:
    """Compare a run with another build's results of the same choice of tests.

    That build may have run more: other suites, or the tests outside a slice.
    """
    chosen = done.results.keys() | {*done.unfinished, *done.lacking}
    within = {test: result for test, result in theirs.items() if test in chosen}
    return compare.compare_results(done.results, within, sides, done.lacking)


def count_jobs(device: str) -> int:
    """Return how many processes at a time where nobody said it.

    A GPU is one, simulated ones are the processors that this process may use.
    """
    return count_cores() if device == "simulated" else 1


def describe_loss(
    recorded: status.SuitesSection | None, series: Iterable[str], suites: Iterable[str], tests: int | None
) -> str:
    """Say what of ``recorded`` a record of a run of ``suites`` would hide, or "".

    ``tests`` are how many the run has, or has at most; None where that is not known, and of a whole run, which may have
    fewer by now. Nor does a suite count that is gone. What another series gave may be replaced by anything.
    """
    if recorded is None or recorded.series != "".join(series):
        return ""
    known = {suite.name for suite in catalog.load_suites()}
    if lost := sorted((recorded.tally.keys() & known) - set(suites)):
        return f"{', '.join(lost)}, too"
    ran = sum(sum(counts.values()) for suite, counts in recorded.tally.items() if suite in known)
    return f"{ran} tests, and this run of {tests}" if tests is not None and tests < ran else ""


def refuse_loss(torch: str, more: str) -> None:
    """Raise UsageError where `describe_loss` found ``more`` recorded of ``torch``."""
    if more:
        raise UsageError(
            f"--record: what is recorded of {torch} is of {more}",
            next_step="leave --record out, run what is recorded, or record under another name: --label NAME",
        )


def record_results(
    project: Path,
    release: str,
    torch: tuple[str, str],
    done: SuiteRun,
    against: str,
    comparison: compare.SuiteComparison | None,
    listener: Listener = QUIET,
) -> None:
    """Write figures to the status file.

    Of every suite, and of the comparison with ``against`` when there was one. ``torch`` is its label and its device.
    Nothing is written, and it is said, of a torch whose tree had edits. Raises DecoupleError when the torch is of
    wheels that were made of different series, UsageError when the file has more of them.
    """
    label, device = torch
    again = f"decouple build {release}"
    refuse_mixed_series(done.series, label, again)
    series = choose_series(done.series, label, again, listener.warn)
    if series is None:
        return
    counted = compare.tally_outcomes(done.results.values())
    tally = {suite: {name: counts[name] for name in OUTCOMES if counts[name]} for suite, counts in counted.items()}
    flaky = sum(counts["flaky"] for counts in counted.values())
    other = status.SuitesComparison(Path(against).name, **comparison.to_dict()) if comparison else None
    path = status.locate_status(project, release)
    tests = None if done.whole and not done.unfinished else len(done.results)
    lost = describe_loss(read_record(project, release, torch), done.series, done.suites or tally.keys(), tests)
    refuse_loss("-".join(torch), lost)
    section = status.SuitesSection(
        device,
        tuple(OUTCOMES),
        tally,
        label,
        other,
        series,
        done.collected,
        done.words,
        flaky,
        shlex.join(done.options),
    )
    status.update_status(path, suites={f"{label}-{device}": section})


def read_record(project: Path, release: str, torch: tuple[str, str]) -> status.SuitesSection | None:
    """Return what the status file has of ``torch``, by its label and its device."""
    return status.read_status(status.locate_status(project, release)).suites.get("-".join(torch))


def read_stored_run(folder: Path, theirs: Mapping[str, SuiteResult] | None = None) -> tuple[SuiteRun, TorchRecord]:
    """Return what a folder of results has, and of which torch.

    Unfinished are all tests that were collected there and have no result. Suites that were collected whole lack what
    ``theirs`` has of them and they have not. Raises DecoupleError when it is no such folder.
    """
    about, results, collected = store.read_folder(folder)
    every = {test for tests in collected.values() for test in tests}
    whole = [
        run.CollectionResult(suite, file, tuple(tests))
        for (file, words), tests in zip(map(split_selection, collected), collected.values(), strict=True)
        for suite in catalog.load_suites()
        if suite.has_file(file) and words == suite.select_words()
    ]
    words = {
        suite.find_words(selection)
        for file, selection in map(split_selection, collected)
        for suite in catalog.load_suites()
        if suite.has_file(file) and file not in {collection.file for collection in whole}
    }
    done = SuiteRun(
        0,
        results,
        folder,
        about.series,
        collected=len(every | results.keys()),
        words=" or ".join(sorted(words)),
        unfinished=tuple(sorted(every - results.keys())),
        lacking=tuple(run.list_lacking(whole, theirs or {})),
        options=tuple(_list_device_options(about.device, about.devices, about.memory)),
    )
    return done, about


def record_stored(
    project: Path,
    release: str,
    ours: Path,
    theirs: Path,
    comparison: compare.SuiteComparison,
    listener: Listener = QUIET,
) -> None:
    """Write the figures of two folders of results, compared, to the status file.

    So a machine with a GPU needs nothing but the tests' run: its folder is recorded where the repository is. Those of
    ``theirs`` stay where they are recorded with a comparison of their own, or of more. Raises DecoupleError when one of
    them is no such folder, or the torch is of wheels of different series, UsageError when more is recorded of ours, and
    where both are one folder: that would be recorded as a comparison in which all is the same.
    """
    if ours.resolve() == theirs.resolve():
        raise UsageError(
            f"--record --compare {ours} {theirs}: the same folder twice",
            next_step="name the other build's as the second",
        )
    (done, about), (their_run, other) = map(read_stored_run, (ours, theirs))
    record_results(project, release, (about.label, about.device), done, other.label, comparison, listener)
    recorded = read_record(project, release, (other.label, other.device))
    suites, number = {result.suite for result in their_run.results.values()}, len(their_run.results)
    if not (recorded and recorded.against) and not describe_loss(recorded, other.series, suites, number):
        record_results(project, release, (other.label, other.device), their_run, "", None, listener)


class RootTorch(Struct, frozen=True):
    """Describe a torch in the Debian root: its layer, build command and place."""

    layer: str
    command: str = ""
    """Empty: nothing is built, the layer has it."""
    places: Callable[[WorkRequest], Places] = lambda work: work.places
    toolkit: str = ""
    """Another vendor's, which made it; empty: CUDA."""
    part: str = "all"
    """Of the backend: "all" or "runtime"."""
    has_backend: bool = True
    """Whether it has a device to test."""


IN_ROOT = {
    "built": RootTorch("core", "nox -s build-{release}"),
    "smoke": RootTorch("stock", "nox -s smoke-{release}", lambda work: work.places.with_stage2_in(SMOKE)),
    "smoke-hip": RootTorch(
        "stock",
        "nox -s smoke-hip-{release}",
        lambda work: BuildRequest(work.project, work.release, stage=2, part="runtime", toolkit="rocm").places,
        toolkit="rocm",
        part="runtime",
    ),
    "hip": RootTorch(
        "stock",
        "decouple build {release} --stage 2 --toolkit rocm --core stock",
        lambda work: BuildRequest(work.project, work.release, stage=2, toolkit="rocm").places,
        toolkit="rocm",
    ),
    "stock": RootTorch(
        "stock",
        "decouple build {release} --stage 2 --kernels monolith",
        lambda work: BuildRequest(work.project, work.release, kernels="monolith").places,
    ),
    "monolith": RootTorch("monolith"),
    "cpu": RootTorch("stock", has_backend=False),
}
"""Word of ``--torch`` -> what it is: our wheels, those of ``smoke``, those of ``smoke --toolkit rocm``, the whole
torch_hip, Debian's unmodified CPU torch with torch_cuda over Debian's kernels, Debian's single-stage build, and that
CPU torch alone."""


def format_torch_words(*, backend: bool) -> str:
    """Return what ``--torch`` takes, as its help shows it.

    ``backend``: of the torches of the root those that have a device to test.
    """
    return "|".join((*(word for word, known in IN_ROOT.items() if known.has_backend or not backend), "PYTHON"))


class TorchChoice(Struct, frozen=True):
    """Choose a torch by a word of `IN_ROOT` or a Python, its name and its device."""

    word: str
    label: str
    device: str
    results: Path
    tests: Path
    simulation: tuple[str, ...] = ()
    recorded: bool = False

    @property
    def name(self) -> str:
        """What the folder with its results is called."""
        return f"{self.label}-{self.device}"


def check_label(label: str) -> None:
    """Raise UsageError for a label that is no folder's name."""
    if "/" in label:
        raise UsageError(f"--label {label}: has a /", next_step=f"--label {label.replace('/', '-')}")


def choose_torch(
    work: WorkRequest,
    word: str = "built",
    *,
    label: str = "",
    device: str = "auto",
    results: Path | None = None,
    tests: Path | None = None,
    simulation: tuple[str, ...] = (),
    ledger: bool = False,
) -> TorchChoice:
    """Return a torch with what is left open filled in.

    Upstream's tests of the applied tree, results beside what was built.

    ``ledger``: on a GPU, with the record of what it is asked for. Raises UsageError where there are no tests, for a
    label that is no folder's name, and where a folder is named for a torch of the Debian root: it sees the build's
    alone, and `open_target` brings its tests.
    """
    checkout = Checkout(work.project)
    check_label(label)
    for option, given in (("--results", results), ("--tests", tests)):
        if given and word in IN_ROOT:
            raise UsageError(
                f"{option} {given}: {word} runs in the Debian root, where the folders of builds are alone",
                next_step=f"leave {option} out, or name a Python of this machine: --torch PYTHON",
            )
    tests = tests or checkout.locate_tree(work.release) / "test"
    if word not in IN_ROOT and not (tests / "run_test.py").exists():
        raise UsageError(f"{tests}: not upstream's test/", next_step=f"nox -s apply-{work.release}, or --tests DIR")
    results = results or checkout.locate_build(work.release) / "verify" / "suites"
    name = label or (word if word in IN_ROOT else "python")
    kind = target.choose_device(device, target.has_gpu())
    return TorchChoice(word, name, kind, results, tests, simulation, recorded=ledger and kind == "gpu")


def read_stored_results(
    torch: TorchChoice, other: str, work: WorkRequest, own: Path | None = None, listener: Listener = QUIET
) -> dict[str, SuiteResult]:
    """Read results of another build: a file or folder, or a label.

    Those of a torch of the root lie beside its own build. Those of "official" are kept with this code, of the simulated
    device: on a GPU that is said. A folder that a run left before its first result counts nowhere.

    Raises DecoupleError when there are none, UsageError when they are in ``own``, the folder of the run itself.
    """
    name = f"{other}-{torch.device}"
    beside = [known.places(work).verify / "suites" / name for known in IN_ROOT.values()]
    places = [Path(other), torch.results / name, *beside]
    there = [place for place in places if place.exists()]
    having = [place for place in there if not place.is_dir() or (place / "results.jsonl").exists()]
    if other == "official" and not having:
        if torch.device == compare.GPU:
            listener.warn(
                "official: the kept outcomes are of the simulated device, so a difference may be the device's; "
                f"`decouple test-cuda {work.release} --torch PYTHON --label official` makes those of this GPU, PYTHON "
                "having that wheel"
            )
        return store.read_results(store.find_official_results(work.release))
    chosen = [*having, *there, torch.results / name][0]
    if own and own.resolve() in (chosen.resolve(), chosen.resolve().parent):
        raise UsageError(
            f"--against {other}: {chosen} has this run's own results",
            next_step="name another build's; with --again they are the run's before",
        )
    return store.read_results(chosen)


_USERS = "`decouple test-cuda` or `decouple try patches`"


@contextlib.contextmanager
def open_target(torch: TorchChoice, work: WorkRequest, listener: Listener = QUIET) -> Iterator[Target]:
    """Yield how tests are run on it; a torch of the root stays as it is meanwhile.

    For that the release is fetched and applied first where it is not. Several may use it at once.

    Raises UsageError when it is not there, DecoupleError when the root cannot be made, and where it is used with
    other wheels than those of the last build.
    """
    if torch.word not in IN_ROOT:
        yield find_local_target(torch, work.project, work.release)
        return
    known = IN_ROOT[torch.word]
    places, work = known.places(work), replace(work, env="rootfs")
    wheels = _find_wheels(places, known) if known.command else []
    layers = ["core", "cuda", known.layer]
    if known.toolkit:
        layers = toolkits.list_vendor_layers(known.toolkit, layers, part=known.part != "all")
    ensure_tree(work, places, listener, layers)  # upstream's tests are there
    again = known.command.format(release=work.release)
    warn_of_older_wheels(work, places, wheels, again, listener, known.toolkit)
    places.create_folders()
    with hold_trials(places), contextlib.ExitStack() as held:
        environment = open_environment(work, places, layers, listener)
        names = environment.name_places()
        python, variables = "python3", checks.make_monolith_variables()
        if wheels or known.layer == "stock":
            table = settings.find_core("stock" if known.layer == "stock" else "built")
            libraries = table.find_libraries(environment.kind)
            place = Workplace(environment, places.verify, names["verify"], places.logs / "verify.log")
            tried = held.enter_context(
                venvs.use_wheels(
                    place, f"suites-{torch.word}", wheels, packages=table.packages, libraries=libraries, users=_USERS
                )
            )
            python, variables = f"{tried.inside}/venv/bin/python", {"LD_LIBRARY_PATH": libraries}
            if known.toolkit:
                told = toolkits.list_vendor_variables(known.toolkit, (), libraries)
                variables = {**told, **extensions.select_compilers(known.toolkit)}
        folder = places.verify / "suites" / torch.name
        folder.mkdir(parents=True, exist_ok=True)
        simulation = torch.simulation
        if torch.device == "simulated":
            simulated_device.share_stand_ins(
                find_cache() / "simcuda", places.verify / "simcuda", work.project, listener.say
            )
            # of a torch that is not installed as a wheel: Debian's folders
            simulation += simulated_device.TORCH_FOLDERS.get(torch.word, ()) + simulated_device.select_unset_table(
                work.release, names["project"]
            )
            variables |= {"SIMCUDA_CACHE": f"{names['verify']}/simcuda", "CCACHE_DIR": names["ccache"]}
        yield Target(
            label=torch.label,
            python=(python,),
            device=torch.device,
            tests=f"{names['tree']}/test",
            folder=folder,
            work=f"{names['verify']}/suites/{folder.name}",
            project=names["project"],
            variables={**catalog.select_variables(torch.device, known.toolkit), **variables, "HOME": "/tmp"},
            enter=tuple(environment.argv([], {}, "/")),
            simulation=simulation,
        )


def _find_wheels(places: Places, known: RootTorch) -> list[Path]:
    """Return the wheels of the last build; a core of its own stands before torch_cuda.

    Raises UsageError where they are not built, or torch_cuda for another core.
    """
    again = known.command.format(release=places.release)
    stamps = [inputs.read_stamp(places.state / f"stage{stage}.json") for stage in (1, 2)]
    if stamps[1] is None or (known.layer == "core" and stamps[0] is None):
        raise UsageError(f"{places.dist}: not built yet", next_step=again)
    wheels = [inputs.locate_wheel(stamp, places.dist, again) for stamp in stamps if stamp]
    refuse_portable_wheels(wheels, again)
    refuse_other_core(wheels[-1], "built" if known.layer == "core" else "stock", again)
    return wheels


def find_local_target(torch: TorchChoice, project: Path, release: str) -> Target:
    """Return the torch of a Python on this machine.

    Raises UsageError when there is no such program.
    """
    folder = (torch.results / torch.name).resolve()
    python = find_python(torch.word, f"choose {', '.join(IN_ROOT)}, or a Python that has torch")
    return Target(
        label=torch.label,
        python=(str(python),),
        device=torch.device,
        tests=str(torch.tests.resolve()),
        folder=folder,
        work=str(folder),
        project=str(project),
        variables={
            **catalog.select_variables(torch.device),
            **simulated_device.select_cache(torch.device, find_cache()),
        },
        simulation=torch.simulation
        + (simulated_device.select_unset_table(release, str(project)) if torch.device == "simulated" else ()),
        recorded=torch.recorded,
    )
