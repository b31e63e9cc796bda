"""Test what a series promises of a running torch, with a device and without.

>>> from decouple.flows.test_patches import PatchTrialRequest, try_patches
>>> try_patches(PatchTrialRequest(project, "2.6", torch="/nowhere/python"))
Traceback (most recent call last):
decouple.base.errors.UsageError: /nowhere/python: no Python there...
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.build.wheel_finishing import choose_series, refuse_mixed_series
from decouple.flows import test_cuda
from decouple.flows.listener import QUIET, Listener
from decouple.flows.work_environment import WorkRequest
from decouple.release import status
from decouple.series import check
from decouple.suites import target as targets
from decouple.suites.target import Target
from decouple.verify import patches
from decouple.verify.patches import PatchAnswer, PatchQuestion

HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
"""So that a machine with a GPU has none."""


class PatchTrialRequest(WorkRequest, frozen=True):
    """Which torch, as ``test-cuda`` names it, and which device it gets."""

    torch: str = "built"
    label: str = ""
    device: str = "auto"
    simulation: tuple[str, ...] = ("--devices", "2", "--memory", "8G", "--no-shadows")
    """Words of `simcuda`; the programs look at no value that a kernel would compute."""
    record: bool = False


class PatchTrialResult(Struct, frozen=True):
    """Report the torch (of ``verify.patches.KINDS``), its device and its answers."""

    label: str
    torch: str
    kind: str
    device: str
    answers: tuple[PatchAnswer, ...]
    series: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether each answer, at least one, is what this kind of torch must give."""
        return bool(self.answers) and all(answer.ok for answer in self.answers)


def try_patches(request: PatchTrialRequest, listener: Listener = QUIET) -> PatchTrialResult:
    """Ask one torch; with CUDA, once with the device and once without.

    It is recorded in ``ci/status`` where asked to. Raises UsageError when there is no such torch, DecoupleError when it
    cannot be imported, or sees no device on the simulated one.
    """
    series = check.load_series(request.project, request.release)
    asked = patches.select_questions(
        patches.load_questions(), [item.header.get("Decouple-Id") or "" for item in series]
    )
    with _open_target(request, listener) as target:
        trial = _ask_questions(target, asked, listener)
    if request.record:
        _record_answers(request, trial, listener)
    return trial


def _ask_questions(target: Target, asked: Sequence[PatchQuestion], listener: Listener) -> PatchTrialResult:
    """Ask without the device, and with it where the torch has CUDA."""
    programs = json.dumps([item.program for item in asked])
    listener.progress.start(f"asking {target.label}")
    without = replace(target, device="none", variables={**target.variables, **HIDDEN}, recorded=False)
    told = patches.run_questions(without.argv([f"{target.project}/{patches.INSIDE}", programs]))
    answers = patches.judge_answers(asked, told)
    if told.kind not in ("core", "cpu"):
        told = patches.run_questions(target.argv([f"{target.project}/{patches.INSIDE}", programs]))
        if not told.device:
            raise DecoupleError(
                f"{target.label}: torch {told.torch} sees no CUDA device ({target.device})",
                next_step="--device simulated needs no GPU",
            )
        answers += patches.judge_answers(asked, told)
    listener.progress.finish()
    return PatchTrialResult(target.label, told.torch, told.kind, target.device, answers, told.series)


def _open_target(request: PatchTrialRequest, listener: Listener) -> AbstractContextManager[Target]:
    """Open the torch, in a folder that is always there.

    Nothing of upstream's tests is run.
    """
    places = request.places
    test_cuda.check_label(request.label)
    device = targets.choose_device(request.device, targets.has_gpu())
    label = request.label or (request.torch if request.torch in test_cuda.IN_ROOT else "python")
    folder = places.verify / "patches"
    choice = test_cuda.TorchChoice(request.torch, label, device, folder, request.project, request.simulation)
    return test_cuda.open_target(choice, request, listener)


def _record_answers(request: PatchTrialRequest, trial: PatchTrialResult, listener: Listener) -> None:
    """Record the answers in ``ci/status``, beside those of other torches.

    Not of a torch whose tree had edits, which is said. Raises DecoupleError when the torch is of wheels that were made
    of different series.
    """
    again = f"decouple build {request.release}"
    refuse_mixed_series(trial.series, trial.label, again)
    series = choose_series(trial.series, trial.label, again, listener.warn)
    if series is None:
        return
    path: Path = status.locate_status(request.project, request.release)
    failed = tuple(f"{answer.patch}: {answer.asks}: {answer.seen}" for answer in trial.answers if not answer.ok)
    section = status.PatchTrialSection(trial.kind, trial.torch, trial.device, len(trial.answers), failed, series)
    status.update_status(path, patches={f"{trial.label}-{trial.device}": section})
