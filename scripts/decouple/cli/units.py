"""``decouple units``: what stage 1's translation units open; every file of CUDA among it is named."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from decouple.base.errors import CHECK_FAILED, OK, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from decouple.build.environment import Places
    from decouple.verify.stage1_record import Record
    from decouple.verify.stage1_units import Report, Unit

#: Units that the in-file patches touch: a slice always looks at them.
TOUCHED = (
    "ATen/native/Resize.cpp",
    "autograd/generated/python_variable_methods.cpp",
    "csrc/Generator.cpp",
    "csrc/Module.cpp",
    "csrc/Storage.cpp",
    "csrc/StorageMethods.cpp",
    "csrc/StorageSharing.cpp",
    "c10d/ProcessGroup.cpp",
    "c10d/init.cpp",
    "dynamo/guards.cpp",
    "aoti_eager/kernel_holder.cpp",
    "aoti_runner/pybind.cpp",
    "resize_storage_bytes.cpp",
    "request_callback_impl.cpp",
    "request_callback_no_python.cpp",
    "tensorexpr_init.cpp",
    "tensor/python_tensor.cpp",
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``units``."""
    command = subparsers.add_parser(
        "units",
        help="what stage 1's translation units open: no file of CUDA may be among it",
        description="For a unit that is compiled, the build's record says what the compiler opened; any other is "
        "preprocessed. Needs a configured stage 1 whose generated sources exist (decouple build RELEASE --stage 1).",
    )
    command.add_argument("release")
    command.add_argument("--count", type=int, metavar="N", help="an even slice of N units, touched ones first (all)")
    command.add_argument("--preprocess", action="store_true", help="preprocess all, whatever the build recorded")
    command.add_argument("--opened", type=Path, metavar="FILE", help="write the tree's files that were opened")
    command.add_argument("--env", choices=("auto", "host", "rootfs"), default="auto", help="whose compiler")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="compilers at once (1)")
    command.add_argument("--tree", type=Path, help="the applied tree (build/<release>/src)")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check and print; 1 if a unit opens a file of CUDA or cannot be preprocessed, there is none, or the tree differs.

    The tree differs when it is not the series: a patch missing or edited, a commit or an uncommitted edit besides.
    """
    from decouple.base.files import write_atomically
    from decouple.base.paths import cache_dir, find_project
    from decouple.build.environment import Places
    from decouple.build.inputs import tracked
    from decouple.cli import output
    from decouple.cli.build import environment_for
    from decouple.verify.stage1_record import while_nothing_builds
    from decouple.verify.stage1_units import check, read_units, take

    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: at least one", next_step="--jobs 1, or leave it out")
    places = Places.of(find_project(), arguments.release, cache_dir(), arguments.tree)
    units = take(read_units(places.stage1 / "compile_commands.json"), arguments.count, first=TOUCHED)
    places.make()
    environment = environment_for(arguments, places, ["core"])
    enter = environment.argv([], {"LC_ALL": "C.UTF-8"}, "/")
    source = PurePosixPath(environment.names()["tree"])
    record = None
    if not arguments.preprocess and (places.stage1 / ".ninja_deps").exists():
        with while_nothing_builds(places.state / "stage1.lock"):
            record = _record(places, PurePosixPath(environment.names()["stage1"]), units, enter)
    report = check(units, source=source, enter=enter, record=record, jobs=arguments.jobs, progress=output.progress())
    differs = _differences(places, arguments.tree)
    for line in (*differs, *report.findings):
        print(line)
    if arguments.opened:
        listed = report.sources(source, tracked(places.tree))
        write_atomically(arguments.opened, "".join(f"{path}\n" for path in listed))
        print(f"{arguments.opened}: {len(listed)} files of the tree")
    _say(report, record, not differs)
    return OK if report.ok and not differs else CHECK_FAILED


def _record(places: Places, directory: PurePosixPath, units: Sequence[Unit], enter: Sequence[str]) -> Record:
    from decouple.verify.stage1_record import read_record

    outputs = [unit.output for unit in units if unit.output]
    return read_record(places.stage1, directory, outputs, enter=enter)


def _differences(places: Places, given: Path | None) -> list[str]:
    """What keeps the tree from being the series, and a line that says which tree it is."""
    from decouple.build.inputs import tree_state
    from decouple.stack.release import status

    tree, dirty = tree_state(places.tree)
    print(f"tree: git {tree[:12]}{', with uncommitted edits' if dirty else ''}, {places.tree}")
    if given:
        return []  # a tree of the user's own: nothing to compare with
    found = status(places.project, places.release)
    print(f"series: {sum(patch.state == 'applied' for patch in found.patches)} of {len(found.patches)} patches applied")
    return [
        *(f"{patch.name}: {patch.state}" for patch in found.patches if patch.state != "applied"),
        *(f"commit in no patch: {title}" for title in found.commits),
        *(f"uncommitted edit: {path}" for path in found.edited),
    ]


def _say(report: Report, record: Record | None, same: bool) -> None:
    """Where the evidence comes from, and the verdict."""
    missing = len(report.without_evidence)
    outdated = len(record.outdated) if record else 0
    print(
        f"evidence: {report.recorded} units from the build's record, {report.preprocessed} preprocessed"
        f"{f' ({outdated} objects are out of date)' if outdated else ''}, {missing} without any"
    )
    coupled = len(report.findings) - missing
    verdict = "ok" if report.ok and same else "FAILED"
    print(f"{verdict}: {report.units} units opened {len(report.opened)} files; {coupled} units open a file of CUDA")
