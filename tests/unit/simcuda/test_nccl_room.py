"""Where the ranks of the simulated NCCL meet: what is left of it in /dev/shm when they end in whatever way."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simcuda import build
from tests.support.tools import require_tool

ROOM = Path(build.__file__).parent / "native" / "libraries"
SHARED = Path("/dev/shm")
PROGRAM = """
#include "nccl_room.h"
#include <sys/resource.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
void forbid_files() {
  rlimit limit{3, 3};
  setrlimit(RLIMIT_NOFILE, &limit);
}
int main(int, char** argv) {  // id, ranks, rank, what to do
  if (!strcmp(argv[4], "no file")) forbid_files();
  simnccl::Room room(argv[1], atoi(argv[2]), atoi(argv[3]));
  puts("in"), fflush(stdout);
  std::vector<std::vector<char>> all;
  if (!strcmp(argv[4], "no more files")) forbid_files();
  if (!strncmp(argv[4], "for ", 4)) return !(room.wait_for_all() && room.exchange(argv[4] + 4, "abc", 3, &all));
  const bool small = !strcmp(argv[4], "exchange") || strstr(argv[4], "file");
  if (small) return !(room.wait_for_all() && room.exchange("test", "abc", 3, &all));
  if (!strcmp(argv[4], "too much")) {  // for a full disk
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{65536, 65536};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::vector<char> large(1 << 20);
  if (strstr(argv[4], "much")) return !(room.wait_for_all() && room.exchange("test", large.data(), large.size(), &all));
  if (!strcmp(argv[4], "abort")) room.abort();
  getchar();
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One rank of a room."""
    require_tool("c++")
    folder = tmp_path_factory.mktemp("room")
    (folder / "rank.cpp").write_text(PROGRAM)
    words = ["c++", "-std=c++17", "-pthread", f"-I{ROOM}", folder / "rank.cpp", ROOM / "nccl_room.cpp", "-o"]
    subprocess.run([*words, folder / "rank"], check=True, timeout=300)
    return folder / "rank"


@pytest.fixture
def name() -> Iterator[str]:
    """Of a room that no other test has."""
    yield f"test-{os.getpid()}-{time.monotonic_ns()}"


def enter(program: Path, room: str, ranks: int, rank: int, what: str = "wait") -> subprocess.Popen[str]:
    """A rank that is in the room."""
    words = [program, room, str(ranks), str(rank), what]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(words, text=True, **pipes)
    assert process.stdout and process.stdout.readline() == "in\n"
    return process


def find_folder(room: str) -> Path:
    return SHARED / f"simcuda-nccl-{room}"


def make_old(room: str) -> None:
    os.utime(find_folder(room), (time.time() - 3600,) * 2)


def test_ranks_that_end_leave_nothing(program: Path, name: str) -> None:
    ranks = [enter(program, name, 2, rank, "exchange") for rank in range(2)]
    assert [rank.wait(60) for rank in ranks] == [0, 0]
    assert not find_folder(name).exists()


def test_ranks_that_abort_leave_nothing(program: Path, name: str) -> None:
    """As PyTorch ends a communicator whose other rank did not come; the object itself stays."""
    ranks = [enter(program, name, 2, rank, "abort") for rank in range(2)]
    deadline = time.monotonic() + 60
    while find_folder(name).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not find_folder(name).exists()
    for rank in ranks:
        rank.communicate("\n", 60)


def test_where_one_rank_has_no_room_every_rank_ends_with_an_error(program: Path, name: str) -> None:
    """It went on with numbers that nobody had summed, and the others waited for ever."""
    ranks = [enter(program, name, 2, rank, what) for rank, what in enumerate(("too much", "much"))]
    try:
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert "cannot write 1048581 bytes in /dev/shm: File too large" in said[0] and not said[1]
    assert not find_folder(name).exists()


@pytest.mark.parametrize(("what", "said"), [("no more files", "read a message"), ("no file", "make a communicator")])
def test_where_one_rank_can_open_no_file_every_rank_ends_with_an_error(
    program: Path, name: str, what: str, said: str
) -> None:
    """That it failed was told by a file, which it could not open either: the others waited for ever."""
    ranks = [enter(program, name, 2, rank, doing) for rank, doing in enumerate((what, "exchange"))]
    try:
        told = [rank.communicate(timeout=20)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
        shutil.rmtree(find_folder(name), ignore_errors=True)
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert f"cannot {said} in /dev/shm: Too many open files" in told[0] and not told[1]


def test_ranks_that_come_for_different_collectives_end_with_an_error(program: Path, name: str) -> None:
    """The sum met the broadcast by its number, and both went on with what the other had sent."""
    ranks = [enter(program, name, 2, rank, f"for {what}") for rank, what in enumerate(("a sum", "a broadcast"))]
    told = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert "NCCL rank 0 came for a sum, rank 1 for a broadcast" in told[0] + told[1] or (
        "NCCL rank 1 came for a broadcast, rank 0 for a sum" in told[0] + told[1]
    )
    assert not find_folder(name).exists()


def test_what_killed_ranks_left_is_swept_and_a_living_rank_keeps_its_room(program: Path, name: str) -> None:
    killed, living, young = f"{name}-killed", f"{name}-living", f"{name}-young"
    for room in (killed, young):
        one = enter(program, room, 2, 0)
        one.kill()
        one.wait(60)
    waiting = enter(program, living, 2, 0)
    for room in (killed, living):
        make_old(room)
    try:
        enter(program, f"{name}-next", 1, 0).communicate("\n", 60)
        found = [find_folder(room).exists() for room in (killed, living, young)]
        assert found == [False, True, True]
    finally:
        waiting.kill()
        waiting.wait(60)
        for room in (living, young):
            make_old(room)
        enter(program, f"{name}-last", 1, 0).communicate("\n", 60)
    assert not list(SHARED.glob(f"simcuda-nccl-{name}*"))
