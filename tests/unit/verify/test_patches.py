"""The questions of the patches: well formed, asked of a torch of each kind, judged by what that kind must answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from decouple import cli
from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project
from decouple.release import status, status_table
from decouple.series import check
from decouple.verify import patches
from decouple.verify.patches import PatchQuestion, TorchReply

QUESTIONS = patches.load_questions()


def test_each_question_is_of_a_patch_and_the_patch_makes_the_difference() -> None:
    series = {one.header.get("Decouple-Id"): one for one in check.load_series(find_project(), "2.6")}
    assert {one.patch for one in QUESTIONS} <= series.keys()
    # what the headers say of a device
    promised = {
        name for name, one in series.items() if "USE_CUDA=0 plus torch_cuda" in (one.header.get("Verify") or "")
    }
    assert promised | {"dynamo-empty-strided", "storage-cuda-ipc"} <= {one.patch for one in QUESTIONS}
    for one in QUESTIONS:
        compile(one.program, one.asks, "exec")
        assert bool(one.alike) == (one.device.pattern == one.unpatched.pattern), one.asks
    assert len({(one.patch, one.asks) for one in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize(
    ("kind", "device", "answer"),
    [
        ("single", True, "cuda:0"),
        ("patched", True, "cuda:0"),
        ("half", False, "RuntimeError: No CUDA GPUs are available"),
        ("core", False, "AssertionError: Torch not compiled with CUDA enabled"),
        ("cpu", False, "AssertionError: Torch not compiled with CUDA enabled"),
        ("unpatched", True, "RuntimeError: built without USE_CUDA"),
    ],
)
def test_an_answer_is_judged_by_the_kind_of_torch_that_gave_it(kind: str, device: bool, answer: str) -> None:
    (one,) = (one for one in QUESTIONS if "grows" in one.asks)
    said = answer if answer != "cuda:0" else "cuda:0 [4096, 8, 0]"
    (kept,) = patches.judge_answers([one], TorchReply("2.6.0", kind, device, (said,)))
    (broken,) = patches.judge_answers([one], TorchReply("2.6.0", kind, device, ("another " + said,)))
    assert (kept.ok, broken.ok, broken.seen) == (True, False, "another " + said)


def test_a_patch_that_a_series_dropped_is_not_asked_and_nothing_is_promised_where_no_column_says_it() -> None:
    assert patches.select_questions(QUESTIONS, ["storage-resize-stub"]) == tuple(
        one for one in QUESTIONS if one.patch == "storage-resize-stub"
    )
    assert patches.judge_answers(QUESTIONS, TorchReply("2.6.0", "unpatched", False, ())) == ()


TORCH = """
import os, types
__version__ = "2.6.0"
version = types.SimpleNamespace(cuda=None)
cuda = types.SimpleNamespace(is_available=lambda: bool(os.environ.get("CUDA_VISIBLE_DEVICES", "0")))
class UntypedStorage:
    def __init__(self, *_, **__): pass
    def _share_cuda_(self):
        raise RuntimeError({said!r})
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python whose torch is a file: torch_cuda on an unmodified core."""
    site = tmp_path / "site"
    for name, text in (("torch", TORCH.format(said="CUDA is not available")), ("torch_cuda", "")):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(text)
    script = tmp_path / "python3"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={site}:$PYTHONPATH exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


def ask(python: Path, *programs: str) -> TorchReply:
    return patches.run_questions([str(python), str(find_project() / patches.INSIDE), json.dumps(programs)])


def test_what_a_torch_is_it_says_itself(python: Path, tmp_path: Path) -> None:
    assert ask(python).kind == "unpatched"
    (tmp_path / "site/torch_core_half").mkdir()
    (tmp_path / "site/torch_core_half/__init__.py").touch()
    assert ask(python).kind == "half"
    (tmp_path / "site/torch/_decoupled").mkdir()
    assert ask(python).kind == "half", "pip left a folder of another torch behind"
    (tmp_path / "site/torch/_decoupled/__init__.py").touch()
    assert ask(python).kind == "patched"
    (tmp_path / "site/torch_cuda/__init__.py").unlink()
    (tmp_path / "site/torch_cuda").rename(tmp_path / "away")
    assert ask(python).kind == "core"
    (tmp_path / "site/torch/_decoupled/__init__.py").unlink()
    assert ask(python).kind == "cpu"
    (tmp_path / "site/torch/__init__.py").write_text(TORCH.replace("cuda=None", "cuda='12.4'").format(said=""))
    assert ask(python).kind == "single"


def test_an_error_is_an_answer_and_a_death_takes_the_questions_behind_it(python: Path) -> None:
    told = ask(python, "print('hello'); answer = 1", "answer = nothing", "import os; os._exit(3)", "answer = 2")
    assert told.answers == ("1", "NameError: name 'nothing' is not defined", "its process ended by exit status 3")
    question = PatchQuestion("p", "x", "", *(patches.re.compile("2"),) * 4)
    (_, _, died, last) = patches.judge_answers([question] * 4, TorchReply("2.6.0", "patched", True, told.answers))
    assert (died.ok, last.ok, last.seen) == (False, False, "not asked: the process had ended")


def test_a_death_behind_the_last_answer_is_a_wrong_one(python: Path) -> None:
    """A library that is unloaded too early ends the process when all was answered."""
    told = ask(python, "import atexit, os; atexit.register(os._exit, 3); answer = 2")
    question = PatchQuestion("p", "x", "", *(patches.re.compile("2"),) * 4)
    given, end = patches.judge_answers([question], told)
    assert (given.ok, end.ok, end.seen) == (True, False, "its process ended by exit status 3")


def test_a_torch_that_cannot_be_imported_is_told(python: Path, tmp_path: Path) -> None:
    (tmp_path / "site/torch/__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open')")
    with pytest.raises(DecoupleError, match=r"libcudart\.so\.12"):
        ask(python)


def test_on_the_command_line_with_the_result_in_the_status(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("series", "patches", "scripts"):
        (tmp_path / name).symlink_to(find_project() / name)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path))
    monkeypatch.setattr(
        patches, "load_questions", lambda: tuple(one for one in QUESTIONS if "not a device's" in one.asks)
    )
    words = ["try", "patches", "2.6", "--torch", str(python), "--device", "gpu", "--label", "mine", "--record"]
    assert cli.main(words) == 0
    assert "mine: torch 2.6.0, torch_cuda on an unmodified CPU torch, gpu device" in capsys.readouterr().out
    document = status.read_status(status.locate_status(tmp_path, "2.6"))
    told = document.patches["mine-gpu"]
    assert (told.device, told.answers, told.failed) == ("gpu", 1, ())
    info = tmp_path / "site/torch_cuda-2.6.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: torch_cuda\nVersion: 2.6.0\n")
    (info / "decouple.json").write_text(json.dumps({"series": {"digest": "the wheel's"}}))
    assert cli.main(words) == 0
    document = status.read_status(status.locate_status(tmp_path, "2.6"))
    assert document.recorded["patches/mine-gpu"].series == "the wheel's"
    table = status_table.tabulate_proofs({"2.6": document})
    today = document.recorded["patches/mine-gpu"].date
    command = "decouple try patches 2.6 --torch PYTHON --device gpu --label mine --record"
    assert f"| patches' own checks: mine (unpatched; gpu) | `{command}` |" in table
    assert f"| {today} | the wheel's | 1 of 1 | holds |" in table
    (tmp_path / "site/torch/__init__.py").write_text(TORCH.format(said="another"))
    assert cli.main(words[:-1]) == 1
    assert "FAILED storage-cuda-ipc" in capsys.readouterr().out
    (tmp_path / "site/torch/__init__.py").write_text(TORCH.replace('"0"', '""').format(said="another"))
    assert cli.main(words) == 1
    assert "sees no CUDA device (gpu)" in capsys.readouterr().err
