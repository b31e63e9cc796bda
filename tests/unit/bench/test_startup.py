"""``scripts/bench/startup.py``: it times commands that do their work."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project


@pytest.fixture
def startup(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # a bench takes it away
    monkeypatch.syspath_prepend(str(find_project() / "scripts" / "bench"))
    return importlib.import_module("startup")


@pytest.mark.tools("quilt")
def test_each_command_that_is_timed_succeeds_in_every_round(startup: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What undoes a push was no command, so from the second round on a push was timed that found nothing to do."""
    real, ended = subprocess.run, list[tuple[list[str], int]]()

    def run_and_note(command: Sequence[str], **words: Any) -> Any:
        done = real(command, **words)
        if "decouple" in command:
            ended.append((list(command[command.index("decouple") + 1 :]), done.returncode))
        return done

    monkeypatch.setattr(subprocess, "run", run_and_note)
    monkeypatch.setattr(startup, "VERBS", {verb: startup.VERBS[verb] for verb in ("push", "status", "check", "lint")})
    found = startup.measure_verbs(2, None)
    assert [words for words, code in ended if code] == [["status", "2.6"]] * 2  # not all is applied
    assert [words[0] for words, _ in ended].count("push") == 2
    assert set(found["ratios"]) == {"now push", "now status", "now check", "now lint"}


def test_a_command_that_fails_is_told(startup: Any) -> None:
    with pytest.raises(DecoupleError, match="-P -m pop"):
        startup._run_command([*startup.OWN, "-m", "pop", "2.6"], find_project())
