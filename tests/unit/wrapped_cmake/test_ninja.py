"""Real ninja on a real project: progress, log, slowest objects, killed compilers, interrupts."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wrapped_cmake import Status, WrappedCMakeError, features, list_slowest, ninja, read_log, run_ninja

from tests.unit.wrapped_cmake.conftest import configure

TOOLKIT = Path(__file__).parents[3] / "third_device/tools/wrapped_cmake"


def build(project: Path, **options: object) -> tuple[ninja.Result, list[Status]]:
    seen: list[Status] = []
    result = run_ninja(
        project / "build", jobs=2, environ=os.environ, log=project / "log", on_status=seen.append, **options
    )  # type: ignore[arg-type]
    return result, seen


def launcher(project: Path, script: str) -> None:
    """Put ``script`` (sh; the compiler's command line in "$@") before every compile."""
    path = project / "launcher.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    configure(project, f"-DCMAKE_C_COMPILER_LAUNCHER={path}")


def test_progress_counts_up_to_the_total_and_the_log_keeps_the_commands(project: Path) -> None:
    result, seen = build(project)
    assert (result.edges, seen[-1].done, seen[-1].total) == (8, 8, 8)
    assert seen[-1].eta == 0
    assert [status.done for status in seen] == sorted(status.done for status in seen)
    assert "Linking C executable tiny" in (project / "log").read_text()


def test_nothing_to_do_the_second_time(project: Path) -> None:
    build(project)
    result, seen = build(project)
    assert (result.edges, seen) == (0, [])


def test_two_runs_in_one_folder_take_turns(project: Path) -> None:
    """Ninja has no lock: each would compile all, and write the objects and the log of the other."""
    launcher(project, 'sleep 0.2\nexec "$@"')
    command = [sys.executable, str(TOOLKIT), "build", str(project / "build")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [run.communicate() for run in runs]
    steps = sorted(re.search(r"^(\d+) steps in", out, re.MULTILINE)[1] for out, _ in outputs)  # type: ignore[index]
    assert steps == ["0", "8"]
    assert "".join(err for _, err in outputs).count(f"another run works in {project / 'build'}; waits for it") == 1


def test_slowest_objects_come_from_ninjas_log(project: Path) -> None:
    launcher(project, 'case "$*" in *part3.c*) sleep 0.6;; esac\nexec "$@"')
    build(project)
    first = list_slowest(project / "build", 1)[0]
    assert first.output.endswith("part3.c.o")
    assert first.seconds >= 0.6
    assert len(read_log(project / "build")) == 8


def test_an_object_whose_compiler_was_killed_is_built_again_alone(project: Path) -> None:
    launcher(
        project,
        f'case "$*" in *part2.c*) [ -e {project}/once ] || {{ touch {project}/once; kill -9 $$; }};; esac\nexec "$@"',
    )
    result, _ = build(project)
    assert [Path(name).name for name in result.retried] == ["part2.c.o"]
    assert (project / "build" / "tiny").exists()
    assert "-j1" in (project / "log").read_text()


def test_gccs_own_words_for_a_killed_cc1_count_too(project: Path) -> None:
    words = "cc: fatal error: Killed signal terminated program cc1"
    launcher(
        project,
        f'case "$*" in *part2.c*) [ -e {project}/once ] || {{ touch {project}/once; echo "{words}" >&2; exit 1; }};; '
        f'esac\nexec "$@"',
    )
    result, _ = build(project)
    assert len(result.retried) == 1


def test_an_object_that_dies_alone_too_is_named(project: Path) -> None:
    launcher(project, 'case "$*" in *part2.c*) kill -9 $$;; esac\nexec "$@"')
    with pytest.raises(WrappedCMakeError, match=r"part2\.c\.o.*memory"):
        build(project)


def test_a_compile_error_is_one_line_with_the_compilers_words(project: Path) -> None:
    (project / "source" / "part1.c").write_text("int part1(void) { return nowhere; }\n")
    with pytest.raises(WrappedCMakeError) as caught:
        build(project)
    assert "part1.c.o" in caught.value.what
    assert "nowhere" in caught.value.what
    assert str(project / "log") in str(caught.value.next_step)


def test_an_interrupt_reaches_ninja_and_the_next_run_goes_on(project: Path) -> None:
    launcher(project, 'case "$*" in *part4.c*) [ -e go ] || sleep 30;; esac\nexec "$@"')
    tools = str(Path(features.__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, f"{tools}/wrapped_cmake", "build", str(project / "build")],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MAX_JOBS": "2"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
    )
    log = project / "build" / "wrapped_cmake.log"
    deadline = time.monotonic() + 120
    while not (log.exists() and "part3.c.o" in log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 130
    assert "interrupted" in said
    assert not (project / "build" / "tiny").exists()
    (project / "build" / "go").touch()
    result, _ = build(project)
    assert 0 < result.edges < 8  # what was built before is not built again


STARTING = """
import os, signal, subprocess, sys
from pathlib import Path

from wrapped_cmake import ninja

start = subprocess.Popen

def starting(*given, **more):  # a busy machine: ninja runs before who started it goes on
    process = start(*given, **more)
    Path("ninja.pid").write_text(str(process.pid))
    os.kill(os.getpid(), signal.SIGTERM)
    return process

subprocess.Popen = starting
try:
    ninja.run_ninja(Path("build"), jobs=2, environ=os.environ, log=Path("log"))
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_a_termination_while_ninja_is_being_started_leaves_no_ninja_behind(project: Path) -> None:
    launcher(project, 'sleep 20\nexec "$@"')
    tools = str(Path(features.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", STARTING], cwd=project, env={**os.environ, "PYTHONPATH": tools})
    number = int((project / "ninja.pid").read_text())
    try:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)
    assert done.returncode == 130
