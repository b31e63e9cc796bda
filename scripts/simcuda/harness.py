"""Spare the most costly parts of upstream's harness, torch.testing._internal."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

_MODULE = "torch.testing._internal.common_device_type"


def restrict_operators(test_ids: Collection[str], root: Path) -> None:
    """Have the harness make tests of those operators only that ``test_ids`` name.

    The ids (below ``root``) name them. ``test_ops.py`` has some forty thousand tests, and to make and collect them
    takes two minutes, under memcheck an hour. What is made otherwise than by ``@ops`` stays. Where upstream changed the
    harness nothing is spared.
    """
    if not any(_uses_harness(root / file) for file in {test_id.partition("::")[0] for test_id in test_ids}):
        return
    try:
        ops: Any = importlib.import_module(_MODULE).ops
        parametrize_all = ops._parametrize_test
    except (ImportError, AttributeError):
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


def _uses_harness(file: Path) -> bool:
    try:
        return "common_device_type" in file.read_text(encoding="utf-8")
    except OSError:
        return False


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
