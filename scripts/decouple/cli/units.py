"""``decouple units``: preprocess stage 1's translation units and name every file of CUDA that one opens."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath

from decouple.base.errors import CHECK_FAILED, OK

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
        help="preprocess stage 1's translation units: no file of CUDA may be opened",
        description="Needs a configured stage 1 whose generated sources exist (decouple build RELEASE --stage 1).",
    )
    command.add_argument("release")
    command.add_argument("--count", type=int, metavar="N", help="an even slice of N units, touched ones first (all)")
    command.add_argument("--env", choices=("auto", "host", "rootfs"), default="auto", help="whose compiler")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="compilers at once (1)")
    command.add_argument("--tree", type=Path, help="the applied tree (build/<release>/src)")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check and print; 1 if a unit opens a file of CUDA or cannot be preprocessed, or there is none."""
    from decouple.base.paths import cache_dir, find_project
    from decouple.build.environment import Places
    from decouple.cli import output
    from decouple.cli.build import environment_for
    from decouple.verify.stage1_units import check, read_units, take

    places = Places.of(find_project(), arguments.release, cache_dir(), arguments.tree)
    units = take(read_units(places.stage1 / "compile_commands.json"), arguments.count, first=TOUCHED)
    places.make()
    environment = environment_for(arguments, places, ["core"])
    report = check(
        units,
        source=PurePosixPath(environment.names()["tree"]),
        enter=environment.argv([], {"LC_ALL": "C.UTF-8"}, "/"),
        jobs=arguments.jobs,
        progress=output.progress(),
    )
    for finding in report.findings:
        print(finding)
    verdict = "ok" if report.ok else "FAILED"
    print(f"{verdict}: {report.units} units opened {report.files} files, {len(report.findings)} units not free of CUDA")
    return OK if report.ok else CHECK_FAILED
