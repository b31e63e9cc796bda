"""Spare the most costly parts of upstream's harness, torch.testing._internal."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import multiprocessing
import os
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from simcuda import processes

_MODULE = "torch.testing._internal.common_device_type"
_RANKS = "torch.testing._internal.common_distributed"
_RANK_TESTS = ("MultiProcessTestCase", "FSDPTest", "DTensorTestBase")
#: What tests with ranks import and what does not ask for a device, the most costly first: a process that did cannot be
#: forked. Upstream's harness (common_utils) does, and what it is made of does not.
_IMPORTED_BEFORE = (
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.utils.hipify.hipify_python",
)


def restrict_operators(test_ids: Collection[str], root: Path) -> None:
    """Have the harness make tests of those operators only that ``test_ids`` name.

    The ids (below ``root``) name them. ``test_ops.py`` has some forty thousand tests, and to make and collect them
    takes two minutes, under memcheck an hour. What is made otherwise than by ``@ops`` stays. Where upstream changed the
    harness nothing is spared.
    """
    ops: Any = getattr(_import_if_named(_MODULE, ["common_device_type"], test_ids, root), "ops", None)
    parametrize_all = getattr(ops, "_parametrize_test", None)
    if parametrize_all is None:
        return
    names = [test_id.rpartition("::")[2] for test_id in test_ids]

    def parametrize_chosen(self: Any, test: Any, *classes: Any) -> Iterator[Any]:
        mine = [name for name in names if name.startswith(test.__name__)]
        whole = list(self.op_list)
        some = [operator for operator in whole if any(f"_{operator.formatted_name}_" in name for name in mine)]
        self.op_list = some or whole[:1]  # the harness refuses an empty list
        try:
            yield from parametrize_all(self, test, *classes)
        finally:
            self.op_list = whole

    ops._parametrize_test = parametrize_chosen


def _import_if_named(module: str, words: Collection[str], test_ids: Collection[str], root: Path) -> ModuleType | None:
    """Import upstream's ``module`` where a file of these tests has one of ``words``.

    None elsewhere, and where upstream has no such module.
    """
    for file in {test_id.partition("::")[0] for test_id in test_ids}:
        with contextlib.suppress(OSError, ImportError):
            text = (root / file).read_text(encoding="utf-8")
            if any(word in text for word in words):
                return importlib.import_module(module)
    return None


def note_needed_devices(test_ids: Collection[str], root: Path) -> None:
    """Have upstream's ``skip_if_lt_x_gpu`` note how many devices a test needs.

    It skips in the ranks alone: four processes import torch to say that there are fewer than four devices.
    """
    module: Any = _import_if_named(_RANKS, ["skip_if_lt_x_gpu"], test_ids, root)
    make_decorator = getattr(module, "skip_if_lt_x_gpu", None)
    if make_decorator is None:
        return

    def skip_if_lt_x_gpu(least: int, *rest: Any, **options: Any) -> Callable[[Any], Any]:
        decorate = make_decorator(least, *rest, **options)

        def decorate_and_note(test: Any) -> Any:
            decorated = decorate(test)
            if not rest and not options:  # later releases let some run on fewer
                decorated.simcuda_devices = max(least, getattr(test, "simcuda_devices", 0))
            return decorated

        return decorate_and_note

    module.skip_if_lt_x_gpu = skip_if_lt_x_gpu


def fork_ranks(test_ids: Collection[str], root: Path) -> None:
    """Have a test's ranks forked from a process in which torch is imported already.

    Upstream starts an interpreter for each rank of each test, and to import torch takes most of its time. The process
    that is forked never uses a device, so that a rank begins as one that was started. It has the variables that the
    test has set, as a process that it starts would.
    """
    case: Any = getattr(_import_if_named(_RANKS, _RANK_TESTS, test_ids, root), "MultiProcessTestCase", None)
    start = getattr(case, "_start_processes", None)
    if start is None:
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED_BEFORE))

    def make_rank(*, target: Callable[..., None], **options: Any) -> Any:
        return context.Process(target=_Rank(target, dict(os.environ)), **options)

    case._spawn_processes = lambda self: start(self, make_rank)


class _Rank:
    """A rank's work, with the variables of the process that asks for it."""

    def __init__(self, target: Callable[..., None], variables: dict[str, str]) -> None:
        self._target = target
        self._variables = variables

    def __call__(self, *args: Any, **options: Any) -> None:
        os.environ.clear()
        os.environ.update(self._variables)
        folder = os.environ.get(processes.VARIABLE)
        write = processes.prepare_writer(Path(folder)) if folder else None
        try:
            self._target(*args, **options)
        finally:
            if write:
                write()


def count_needed_devices(test: object) -> int:
    """Return how many devices a test was noted to need, 0 where it was not."""
    return int(getattr(test, "simcuda_devices", 0))


def omit_source_lines() -> None:
    """Have the harness read frames without their source lines.

    It asks for the whole stack before every sample, and reads the frames only. The lines of source around each frame
    are four fifths of the time of ``test_unary_ufuncs.py``.
    """
    harness = sys.modules.get("torch.testing._internal.common_utils")
    if harness and getattr(harness, "inspect", None) is inspect:
        substitute = ModuleType("inspect")
        substitute.__dict__.update(inspect.__dict__ | {"stack": list_frames})
        harness.inspect = substitute  # type: ignore[attr-defined]


def list_frames(context: int = 1) -> list[inspect.FrameInfo]:
    """As `inspect.stack`, without source."""
    frames: list[inspect.FrameInfo] = []
    frame: FrameType | None = sys._getframe(1)
    while frame:
        frames.append(
            inspect.FrameInfo(frame, frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, None, None)
        )
        frame = frame.f_back
    return frames
