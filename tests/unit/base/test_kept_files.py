"""Files that keep their names from run to run (logs, results, locks, states): what is planted there is not followed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from decouple.base import files, process
from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project
from decouple.stack.engine import Stack
from decouple.suites.store import ResultStore, SuiteResult
from decouple.verify import extensions, upstream_tests
from decouple.verify.venvs import TorchEnvironment
from simcuda import plugin
from tests.support.plants import Plant
from tests.support.series import usual_world

FAIL = ("sh", "-c", "exit 1")


def test_a_log_of_a_long_command(tmp_path: Path, plant: Plant) -> None:
    untouched = plant(tmp_path / "logs" / "build.log")
    with pytest.raises(DecoupleError, match=r"build\.log") as refused:
        process.run_logged(["echo", "words"], log=tmp_path / "logs" / "build.log", what="say it")
    assert f"rm {tmp_path / 'logs' / 'build.log'}" in str(refused.value.next_step)
    untouched()


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for word in ("one", "two"):
        process.run_logged(["echo", word], log=tmp_path / "log", what="say it")
    assert (tmp_path / "log").read_text() == "== say it\none\n== say it\ntwo\n"


def test_what_a_trial_said(tmp_path: Path, plant: Plant) -> None:
    untouched = plant(tmp_path / "logs" / "verify.log")
    with pytest.raises(DecoupleError):
        extensions._append_log(tmp_path / "logs" / "verify.log", "x", "words")
    untouched()


def test_what_upstreams_tests_said(tmp_path: Path, plant: Plant) -> None:
    untouched = plant(tmp_path / "logs" / "verify.log")
    failing = TorchEnvironment("x", FAIL, tmp_path, str(tmp_path))
    with pytest.raises(DecoupleError, match=r"verify\.log: "):
        suite = upstream_tests.UpstreamSuite("test_cuda.py", "x")
        upstream_tests.run_suites(failing, "/t", [suite], tmp_path / "logs" / "verify.log")
    untouched()


def test_results(tmp_path: Path, plant: Plant) -> None:
    (tmp_path / "results").mkdir()
    store = ResultStore(tmp_path / "results", {"torch": "2.6"}, "0")
    untouched = plant(tmp_path / "results" / "results.jsonl")
    with pytest.raises(DecoupleError):
        store.add([SuiteResult("test_a", "passed")])
    untouched()


def test_results_of_one_process(tmp_path: Path, plant: Plant) -> None:
    recorder = plugin.Recorder.__new__(plugin.Recorder)
    recorder.path = tmp_path / "shards" / "1.jsonl"
    untouched = plant(recorder.path)
    with pytest.raises(OSError):
        recorder.write_row({"id": "test_a"})
    untouched()


@pytest.mark.parametrize("name", ["lock", "locking"])
def test_a_lock_of_the_stack(tmp_path: Path, plant: Plant, name: str) -> None:
    world = usual_world(tmp_path / "world")
    untouched = plant(world.source / ".git/decouple" / name)
    try:
        with Stack.open(world.places) as stack:
            stack.push(None)
    except DecoupleError as refused:
        assert name in str(refused)
    untouched()


@pytest.mark.parametrize("name", [".git/decouple", ".git/decouple/scratch", ".git/decouple/staged"])
def test_a_folder_of_the_stack(tmp_path: Path, name: str) -> None:
    """What is in place of one that its commands empty and fill goes; a link in place of all of them is refused."""
    world = usual_world(tmp_path / "world")
    victim = tmp_path / "victim"
    victim.mkdir()
    if name == ".git/decouple":
        (world.source / name).rename(victim)
    for file in ("moved.index", "edits.index", "apply-1.index", "0", "1", "index"):
        (victim / file).write_text("precious\n")
    before = {path: path.read_bytes() for path in victim.iterdir()}
    (world.source / name).symlink_to(victim)
    try:
        with Stack.open(world.places) as stack:
            stack.push(None)
    except DecoupleError as refused:
        assert name == ".git/decouple" and name in str(refused)
    assert {path: path.read_bytes() for path in victim.iterdir()} == before


@pytest.mark.parametrize("dangling", [False, True])
def test_an_unfinished_tree(tmp_path: Path, dangling: bool) -> None:
    world = usual_world(tmp_path / "world")
    shutil.rmtree(world.source)
    victim = tmp_path / "victim"
    if not dangling:
        victim.mkdir()
        (victim / "precious").write_text("precious\n")
    world.source.with_name(f".{world.source.name}.part").symlink_to(victim)
    world.create()
    assert (world.source / "setup.py").is_file() and not world.source.is_symlink()
    assert dangling != victim.exists() and (dangling or list(victim.iterdir()) == [victim / "precious"])


def test_a_lock_that_is_a_link_is_told(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DecoupleError, match="link") as refused, files.hold_lock(tmp_path / ".lock"):
        pass
    assert f"rm {tmp_path / '.lock'}" in str(refused.value.next_step)
    assert not (tmp_path / "nowhere").exists()


def test_what_goes_on_from_run_to_run_is_opened_in_one_place() -> None:
    appends = re.compile(r"""\bopen\((?:[^()]*, *)?["']a""")
    package = find_project() / "scripts" / "decouple"
    found = [path.name for path in package.rglob("*.py") if appends.search(path.read_text(encoding="utf-8"))]
    assert found == [] and appends.search('with log.open("a", encoding="utf-8") as out:')
