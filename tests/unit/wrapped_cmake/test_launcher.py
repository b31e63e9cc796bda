"""distcc as the compilers' launcher: two real daemons on this machine stand for a lab's."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from wrapped_cmake import WrappedCMake

from tests.support.tools import require_tool

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(tiny C)
foreach(number RANGE 7)
  file(WRITE "${CMAKE_BINARY_DIR}/part${number}.c" "int part${number}(void) { return ${number}; }\\n")
  list(APPEND parts "${CMAKE_BINARY_DIR}/part${number}.c")
endforeach()
add_library(tiny SHARED ${parts})
"""

pytestmark = pytest.mark.tools("distccd", "cmake", "ninja", "cc")


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[dict[int, Path]]:
    """Port -> log of two daemons, each with one place."""
    started, logs = [], {}
    for number in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        logs[port] = tmp_path / f"distccd{number}.log"
        command = ["distccd", "--no-detach", "--daemon", "--allow-private", "--listen", "127.0.0.1", "--jobs", "1"]
        with logs[port].open("w") as log:  # as root it becomes another user, who may write nothing here
            command += ["--port", str(port), "--log-stderr", "--verbose"]
            started.append(subprocess.Popen(command, stderr=log))
    for port in logs:
        for _ in range(600):  # a minute
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
    yield logs
    for one in started:
        one.terminate()
        one.wait()


@pytest.mark.parametrize("cached", [False, True], ids=["alone", "behind ccache"])
def test_objects_are_compiled_by_both_daemons(
    source: Path, tmp_path: Path, daemons: dict[int, Path], cached: bool
) -> None:
    if cached:
        require_tool("ccache")
    said = {"WRAPPED_CMAKE_LAUNCHER": "ccache", "CCACHE_PREFIX": "distcc", "CCACHE_DIR": str(tmp_path / "ccache")}
    hosts = {"DISTCC_HOSTS": " ".join(f"127.0.0.1:{port}/1" for port in daemons), "DISTCC_FALLBACK": "0"}
    chosen = said if cached else {"WRAPPED_CMAKE_LAUNCHER": "distcc"}
    # a daemon runs only what /usr/lib/distcc names: in Debian 13 not the `cc` that CMake would take
    chosen |= {"CC": "gcc", "DISTCC_DIR": str(tmp_path), "MAX_JOBS": "2"}
    environ = {**os.environ, **hosts, **chosen}
    project = WrappedCMake(source, tmp_path / "build", environ=environ)
    project.configure()
    done = subprocess.run(
        ["cmake", "--build", str(tmp_path / "build"), "-j2"], env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + "".join(log.read_text() for log in daemons.values())
    compiled = [log.read_text().count("COMPILE_OK") for log in daemons.values()]
    assert sum(compiled) >= 8 and all(compiled), compiled
