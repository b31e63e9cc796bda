"""Ask a running torch what the ``Verify:`` of a patch promises.

It is asked with the patch and without. The header of a patch says it in words for a reader; ``patches.toml`` has it as
programs, with the answers that each kind of build must give.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from decouple.base import program_output, toml
from decouple.base.errors import DecoupleError
from decouple.base.interpreter import run_python
from decouple.verify.inside.questions import MARK

_FILE = Path(__file__).with_name("patches.toml")
INSIDE = "scripts/decouple/verify/inside/questions.py"

#: What a torch can be, in the words of ``inside/questions.py`` -> for a reader.
KINDS = {
    "single": "upstream's single build",
    "half": "torch_cuda on the CPU half of upstream's single build",
    "patched": "torch_cuda on the patched core",
    "core": "the patched core alone",
    "unpatched": "torch_cuda on an unmodified CPU torch",
    "cpu": "an unmodified CPU torch alone",
}


class PatchQuestion(Struct, frozen=True):
    """A program and its answers, as regular expressions for all of an answer.

    The comments of the file say of whom.
    """

    patch: str
    asks: str
    program: str
    device: re.Pattern[str]
    none: re.Pattern[str]
    core: re.Pattern[str]
    unpatched: re.Pattern[str]
    cpu: re.Pattern[str] | None = None
    alike: str = ""

    def expected(self, kind: str, device: bool) -> re.Pattern[str] | None:
        """Return the pattern of the answer that a torch of that kind must give.

        With or without a device; None where nothing is promised of it.
        """
        if kind in ("core", "cpu"):
            return (self.cpu or self.core) if kind == "cpu" else self.core
        if kind == "unpatched":
            return self.unpatched if device else None
        return self.device if device else self.none


class _File(Struct, frozen=True):
    question: tuple[PatchQuestion, ...]


class PatchAnswer(Struct, frozen=True):
    """The answer of one torch.

    ``expected`` is the pattern's text, ``alike`` why it is the same without the patch.
    """

    patch: str
    asks: str
    device: bool
    ok: bool
    seen: str
    expected: str
    alike: str = ""


class TorchReply(Struct, frozen=True):
    """The reply of ``inside/questions.py``: which torch this is, the answers in order."""

    torch: str
    kind: str
    device: bool
    answers: tuple[str, ...]
    series: tuple[str, ...] = ()
    """Digests of the series that its wheels were made of."""


@cache
def load_questions() -> tuple[PatchQuestion, ...]:
    """Read all questions, in the file's order."""
    return toml.read_own_table(_FILE, _File).question


def select_questions(known: Iterable[PatchQuestion], identities: Iterable[str]) -> tuple[PatchQuestion, ...]:
    """Return the questions of the patches with these Decouple-Ids.

    A series may have dropped some.
    """
    wanted = set(identities)
    return tuple(question for question in known if question.patch in wanted)


def run_questions(command: Sequence[str]) -> TorchReply:
    """Run ``inside/questions.py`` by this command line.

    Raises DecoupleError when torch cannot be imported there.
    """
    done = run_python(command)
    lines = [json.loads(line.removeprefix(MARK)) for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        reason, hint = program_output.read_failure(done)
        raise DecoupleError(f"torch cannot be asked: {reason}", next_step=hint or "import torch with that Python")
    head: dict[str, Any] = lines[0]
    answers = [str(line) for line in lines[1:]]
    if done.returncode:
        answers.append(f"its process ended by exit status {done.returncode}")
    return TorchReply(head["torch"], head["kind"], head["device"], tuple(answers), tuple(head.get("series", ())))


def judge_answers(asked: Sequence[PatchQuestion], told: TorchReply) -> tuple[PatchAnswer, ...]:
    """Compare each answer with the one that a torch of this kind must give.

    What it promises nothing of is left out. A process that ended badly behind its last answer is a wrong one more.
    """
    found = []
    for number, question in enumerate(asked):
        pattern = question.expected(told.kind, told.device)
        if pattern is None:
            continue
        seen = told.answers[number] if number < len(told.answers) else "not asked: the process had ended"
        alike, ok = question.alike if told.kind == "unpatched" else "", bool(pattern.fullmatch(seen))
        found.append(PatchAnswer(question.patch, question.asks, told.device, ok, seen, pattern.pattern, alike))
    if len(told.answers) > len(asked):  # behind all answers: libraries that are unloaded in the wrong order
        found.append(
            PatchAnswer("torch", "how its process ends", told.device, False, told.answers[-1], "exit status 0")
        )
    return tuple(found)
