"""The files beside a build keep their names from run to run: what is planted there is not followed."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from wrapped_cmake import jobs, ninja, wrapper
from wrapped_cmake.commands import main
from wrapped_cmake.errors import WrappedCMakeError
from wrapped_cmake.parameters import Settings

from tests.support.plants import PLANTS, Plant, planting


@pytest.fixture(params=PLANTS)
def plant(request: pytest.FixtureRequest, tmp_path: Path) -> Plant:
    return planting(request.param, tmp_path)


CMAKE: dict[str, Callable[[Path], object]] = {
    "ninja": lambda log: ninja.run_ninja(log.parent, jobs=1, environ={}, log=log, ninja="true"),
    "cmake": lambda log: _wrapper(log)._run(["true"]),
}


def _wrapper(log: Path) -> wrapper.WrappedCMake:
    made = wrapper.WrappedCMake.__new__(wrapper.WrappedCMake)
    made.log, made.build_dir, made.environ = log, log.parent, {}
    return made


@pytest.mark.parametrize("program", CMAKE)
def test_a_log_of_a_wrapped_build(tmp_path: Path, plant: Plant, program: str) -> None:
    untouched = plant(tmp_path / "build" / "wrapped_cmake.log")
    with pytest.raises(WrappedCMakeError, match=r"wrapped_cmake\.log"):
        CMAKE[program](tmp_path / "build" / "wrapped_cmake.log")
    untouched()


def test_a_wrapped_build_may_say_all_on_its_output(tmp_path: Path) -> None:
    _wrapper(Path("/dev/stdout"))
    ninja.run_ninja(tmp_path, jobs=1, environ={}, log=Path("/dev/stdout"), ninja="true")


def test_a_report_of_a_wrapped_build(tmp_path: Path, plant: Plant) -> None:
    untouched = plant(tmp_path / wrapper.REPORT)
    limits = jobs.plan_jobs(Settings({}))
    wrapper.write_report(tmp_path, ninja.Result(1, (), 1.0), limits)
    untouched()
    assert (tmp_path / wrapper.REPORT).read_text().startswith("{")


def test_a_report_of_a_folder_without_a_build_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ninja.LOG).write_text("# ninja log v6\n0\t1500\t0\tmain.o\tabc\n")
    assert main(["report", str(tmp_path)]) == 0 and "1.5 s  main.o" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "mistyped")]) == 1
    assert "mistyped: nothing was built here" in capsys.readouterr().err


def test_standard_output_may_be_a_socket() -> None:
    """As a service manager gives; the advice was to remove /dev/stdout."""
    code = (
        "from pathlib import Path; from wrapped_cmake import ninja; ninja.open_log(Path('/dev/stdout')).write('told')"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tools = Path(ninja.__file__).parents[1]
        subprocess.run([sys.executable, "-c", code], cwd=tools, stdout=theirs, check=True)
        assert ours.recv(100) == b"told"
