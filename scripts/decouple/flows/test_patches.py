"""What the patches of a series promise of a running torch, asked of one torch with a device and without.

>>> from decouple.flows.test_patches import PatchTrial, test_patches
>>> test_patches(PatchTrial(project, "2.6", torch="/nowhere/python"))
Traceback (most recent call last):
decouple.base.errors.UsageError: --torch /nowhere/python: not there...
"""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.flows import test_cuda
from decouple.flows.environment import Work
from decouple.flows.listener import QUIET, Listener
from decouple.release import status
from decouple.series import check
from decouple.suites import target as targets
from decouple.suites.target import Target
from decouple.verify import patches
from decouple.verify.patches import PatchAnswer

HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
"""So that a machine with a GPU has none."""


class PatchTrial(Work, frozen=True):
    """Which torch, as ``test-cuda`` names it, and which device it gets."""

    torch: str = "built"
    label: str = ""
    device: str = "auto"
    simulation: tuple[str, ...] = ("--devices", "2", "--memory", "8G", "--no-shadows")
    """Words of `simcuda`; the programs look at no value that a kernel would compute."""
    record: bool = False


class PatchTrialResult(Struct, frozen=True):
    """Which torch it was (a word of ``verify.patches.KINDS``), on which device, and its answers."""

    label: str
    torch: str
    kind: str
    device: str
    answers: tuple[PatchAnswer, ...]

    @property
    def ok(self) -> bool:
        """Whether something was asked, and each answer is the one that this kind of torch must give."""
        return bool(self.answers) and all(one.ok for one in self.answers)


def test_patches(request: PatchTrial, listener: Listener = QUIET) -> PatchTrialResult:
    """Ask; a torch with CUDA is asked twice, with the device and without. Recorded in ``ci/status`` where asked to.

    Raises UsageError when there is no such torch, DecoupleError when it cannot be imported, or sees no device on the
    simulated one.
    """
    series = check.load(request.project, request.release)
    asked = patches.select_questions(patches.load_questions(), [one.header.get("Decouple-Id") or "" for one in series])
    target = _target(request, listener)
    programs = json.dumps([one.program for one in asked])
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
    found = PatchTrialResult(target.label, told.torch, told.kind, target.device, answers)
    if request.record:
        _record(request, found)
    return found


def _target(request: PatchTrial, listener: Listener) -> Target:
    """The torch, in a folder that is always there: nothing of upstream's tests is run."""
    places = request.places
    device = targets.choose_device(request.device, targets.has_gpu())
    label = request.label or (request.torch if request.torch in test_cuda.IN_ROOT else "python")
    folder = places.verify / "patches"
    one = test_cuda.Torch(request.torch, label, device, folder, request.project, request.simulation)
    return test_cuda.find(one, request, listener)


def _record(request: PatchTrial, found: PatchTrialResult) -> None:
    """In ``ci/status``, beside those of other torches."""
    path: Path = status.path_of(request.project, request.release)
    rows = tuple(
        status.PatchCheck(one.patch, one.asks, one.device, one.ok, one.seen, one.expected) for one in found.answers
    )
    section = status.PatchTrialSection(found.kind, found.torch, found.device, rows)
    status.update(path, patches={**status.read(path).patches, f"{found.label}-{found.device}": section})
