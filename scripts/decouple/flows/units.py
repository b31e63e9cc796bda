"""What stage 1's translation units open: every file of CUDA among it is named.

>>> from decouple.flows.units import UnitsRequest, check_units
>>> check_units(UnitsRequest(project, "2.6", count=60))
Traceback (most recent call last):
decouple.base.errors.DecoupleError: ...compile_commands.json: ...
"""

from __future__ import annotations

from pathlib import PurePosixPath

from msgspec import Struct

from decouple.base.errors import refuse_below
from decouple.build.environment import Places
from decouple.build.inputs import list_tracked_files, read_tree_state
from decouple.flows.listener import QUIET, Listener
from decouple.flows.work_environment import WorkRequest, open_environment
from decouple.stack.status import read_status
from decouple.verify import stage1_units
from decouple.verify.stage1_record import BuildRecord, hold_build_lock, read_record
from decouple.verify.stage1_units import UnitsReport, choose_units, read_units

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


class UnitsRequest(WorkRequest, frozen=True):
    """Which units, and how they are looked at."""

    count: int | None = None
    """An even slice of so many, touched ones first; None: all."""
    preprocess: bool = False
    """Preprocess all, whatever the build recorded."""
    jobs: int = 1


class UnitsRun(Struct, frozen=True):
    """Report what units opened, the asked build record, and how the tree differs."""

    report: UnitsReport
    record: BuildRecord | None
    differences: tuple[str, ...]
    opened: tuple[str, ...]
    """The files of the tree that were opened."""

    @property
    def ok(self) -> bool:
        """Return whether each unit shows no CUDA file opened, and the tree is the series."""
        return self.report.ok and not self.differences


def check_units(request: UnitsRequest, listener: Listener = QUIET) -> UnitsRun:
    """Look at each unit.

    Raises UsageError or DecoupleError where stage 1 is not configured or a build runs.
    """
    refuse_below(1, jobs=request.jobs, count=request.count)
    places = request.places
    units = choose_units(read_units(places.stage1 / "compile_commands.json"), request.count, first=TOUCHED)
    places.create_folders()
    environment = open_environment(request, places, ["core"], listener)
    names = environment.name_places()
    enter, tree = environment.argv([], {"LC_ALL": "C.UTF-8"}, "/"), PurePosixPath(names["tree"])
    record = None
    if not request.preprocess and (places.stage1 / ".ninja_deps").exists():
        outputs = [unit.output for unit in units if unit.output]
        with hold_build_lock(places.state / "stage1.lock"):
            record = read_record(places.stage1, PurePosixPath(names["stage1"]), outputs, enter=enter)
    report = stage1_units.check_units(
        units, tree=tree, enter=enter, record=record, jobs=request.jobs, progress=listener.progress
    )
    differences = _find_differences(request, places, listener)
    return UnitsRun(report, record, differences, tuple(report.tree_files(tree, list_tracked_files(places.tree))))


def _find_differences(request: UnitsRequest, places: Places, listener: Listener) -> tuple[str, ...]:
    """Return what keeps the tree from being the series; says which tree it is."""
    tree, dirty = read_tree_state(places.tree)
    listener.say(f"tree: git {tree[:12]}{', with uncommitted edits' if dirty else ''}, {places.tree}")
    if request.tree:
        return ()  # a tree of the user's own: nothing to compare with
    state = read_status(places.project, places.release)
    applied = sum(patch.state == "applied" for patch in state.patches)
    listener.say(f"series: {applied} of {len(state.patches)} patches applied")
    return (
        *(f"{patch.name}: {patch.state}" for patch in state.patches if patch.state != "applied"),
        *(f"commit in no patch: {title}" for title in state.commits),
        *(f"uncommitted edit: {path}" for path in state.edited),
    )
