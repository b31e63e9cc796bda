"""Bytes of kernel arguments that nobody sets are learned from shaken runs, and stand for no difference afterwards."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from simcuda import cli, unset_bytes
from simcuda.errors import SimcudaError
from tests.unit.simcuda.test_ledger import run

LAUNCH = """
cuda.axpy(x, y, 7, rest={rest})
print(json.dumps(entries()))
"""


def ledger(built: Path, rest: bytes, **env: str) -> str:
    """The arguments of the one launch."""
    (launch,) = json.loads(run(built, LAUNCH.format(rest=rest), **env))
    return str(launch[-1])


def test_what_nobody_sets_is_left_out_and_what_is_set_is_not(built: Path, tmp_path: Path) -> None:
    runs = []
    for number, rest in enumerate((b"ab\x01\x02cdef", b"ab\x03\x04cdef"), 1):
        path = tmp_path / f"{number}.jsonl"
        row = {"id": "t", "entries": [["launch", "axpy", [4, 1, 1], ledger(built, rest, SIMCUDA_SHAKE=str(number))]]}
        path.write_text(json.dumps({"id": "t", "outcome": "started"}) + "\n" + json.dumps(row) + "\n")
        runs.append(unset_bytes.read_launches(path))
    gaps = unset_bytes.learn_gaps(runs)
    assert gaps == {"axpy": {(3, 2), (3, 3)}}
    known = tmp_path / "unset.txt"
    known.write_text(unset_bytes.format_table(gaps))
    one, other, set_otherwise = (
        ledger(built, rest, SIMCUDA_UNSET=str(known)) for rest in (b"ab12cdef", b"ab34cdef", b"ab12cdeg")
    )
    assert "6162....6364" in one and one == other != set_otherwise
    assert ledger(built, b"ab12cdef") != ledger(built, b"ab34cdef")


@pytest.mark.tools("valgrind")  # which knows what was never set
def test_memcheck_knows_in_one_run_what_nobody_set(built: Path) -> None:
    """A structure of 24 bytes out of malloc, of which six were never written."""
    program = """
malloc = c.CDLL(None).malloc
malloc.restype = c.c_void_p
half = malloc(24)
c.memmove(half, b"ab", 2)
c.memmove(half + 8, bytes(range(16)), 16)
cuda.axpy(x, y, 7, rest=half)
print(json.dumps(entries()))
"""
    (launch,) = json.loads(run(built, program, under=("valgrind", "-q", "--log-file=/dev/null", "--leak-check=no")))
    assert launch[-1].split(" ")[3].startswith("6162" + "??" * 6 + "0001")
    gaps = unset_bytes.learn_gaps([{("t", ""): [(launch[1], tuple(launch[-1].split(" ")))]}])
    assert gaps == {"axpy": {(3, at) for at in range(2, 8)}}


def test_the_tests_that_are_asked_of_memcheck_meet_every_byte_that_differs(tmp_path: Path) -> None:
    """One quick test meets what two slow ones do; one that is the same on both builds, or launched other kernels, says
    nothing."""
    rows = {
        "slow": (9.0, ["axpy", "00aa"], ["axpy", "00bb"]),
        "slower": (9.9, ["dot", "0011"], ["dot", "0022"]),
        "quick": (0.1, ["axpy", "01aa", "dot", "0011"], ["axpy", "01bb", "dot", "0022"]),
        "other": (0.1, ["sum", "05"], ["sum", "06"]),
        "same": (0.1, ["axpy", "03"], ["axpy", "03"]),
        "not alike": (0.1, ["axpy", "04"], ["dot", "05"]),
    }
    files = []
    for side in (1, 2):
        files.append(tmp_path / f"{side}.jsonl")
        lines = []
        for test, row in rows.items():
            words = row[side]
            entries = [["launch", *pair] for pair in zip(words[::2], words[1::2], strict=True)]
            lines.append(json.dumps({"id": test, "seconds": row[0], "entries": entries}))
        files[-1].write_text("\n".join(lines) + "\n")
    assert sorted(unset_bytes.choose_tests(*files)) == ["other", "quick"]
    assert cli.main(["doubt", str(files[0]), str(files[0])]) == 0


def write_ranks(path: Path, *ranks: str) -> Path:
    """A test that launches nothing itself; each of its ranks launches `axpy` with one argument."""
    entries = [[["launch", "axpy", argument], ["copy", "HD", 8]] for argument in ranks]
    path.write_text(json.dumps({"id": "t", "seconds": 1.0, "entries": [], "processes": entries}) + "\n")
    return path


def test_what_ranks_launch_teaches_as_what_the_test_itself_does(tmp_path: Path) -> None:
    """Byte 0 is the rank's number, which is set."""
    one, other = write_ranks(tmp_path / "1", "00aa", "01aa"), write_ranks(tmp_path / "2", "00aa", "01bb")
    assert unset_bytes.learn_gaps([unset_bytes.read_launches(path) for path in (one, other)]) == {"axpy": {(0, 1)}}
    assert unset_bytes.choose_tests(one, other) == ["t"]


def test_ranks_of_which_one_launched_nothing_in_one_run_teach_nothing(tmp_path: Path) -> None:
    """It is not known which one that was."""
    paths = write_ranks(tmp_path / "1", "00aa", "01aa"), write_ranks(tmp_path / "2", "01aa")
    assert unset_bytes.learn_gaps([unset_bytes.read_launches(path) for path in paths]) == {}


def test_only_what_differs_between_two_builds_is_learned_if_one_says_so(tmp_path: Path) -> None:
    """Another program left two bytes unset, one of which the tests of both builds set alike."""
    ours, theirs = (write_ranks(tmp_path / name, f"0105{last}") for name, last in (("ours", "00"), ("theirs", "07")))
    swept = write_ranks(tmp_path / "swept", "01????")
    table = tmp_path / "unset.txt"
    assert cli.main(["unset", "--between", str(ours), str(theirs), str(table), str(swept)]) == 0
    assert unset_bytes.read_table(table) == {unset_bytes.hash_kernel_name("axpy"): {(0, 2)}}
    assert cli.main(["unset", str(table), str(swept)]) == 0
    assert unset_bytes.read_table(table) == {unset_bytes.hash_kernel_name("axpy"): {(0, 1), (0, 2)}}


def test_a_run_that_was_stopped_teaches_what_it_wrote(tmp_path: Path) -> None:
    row = json.dumps({"id": "t", "entries": [["launch", "axpy", "00 ??"]]})
    path = tmp_path / "run.jsonl"
    path.write_text(f"{row}\n{row[:30]}")
    assert unset_bytes.learn_gaps([unset_bytes.read_launches(path)]) == {"axpy": {(1, 0)}}


def test_what_was_known_before_is_kept(tmp_path: Path) -> None:
    before = tmp_path / "before.txt"
    before.write_text(unset_bytes.format_table({"axpy": {(3, 2), (3, 3)}, "gone": {(0, 1)}}))
    after = unset_bytes.format_table({"axpy": {(3, 4), (1, 7)}}, unset_bytes.read_table(before))
    assert after == unset_bytes.format_table({"axpy": {(3, 2), (3, 3), (3, 4), (1, 7)}, "gone": {(0, 1)}})


def test_a_packed_table_is_read_and_given_to_the_runtime_as_text(tmp_path: Path) -> None:
    table, cache = tmp_path / "unset.xz", tmp_path / "cache"
    lines = unset_bytes.format_table({"axpy": {(3, 2), (3, 3)}})
    unset_bytes.write_table(table, lines)
    assert unset_bytes.read_table(table) == {unset_bytes.hash_kernel_name("axpy"): {(3, 2), (3, 3)}}
    for _ in range(2):  # the second time it lies there
        assert unset_bytes.unpack_table(table, cache).read_text() == lines
    assert len(list(cache.iterdir())) == 1
    plain = tmp_path / "unset.txt"
    unset_bytes.write_table(plain, lines)
    assert unset_bytes.unpack_table(plain, cache) == plain
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(SimcudaError, match=r"unset\.xz"):
        unset_bytes.unpack_table(table, cache)


def test_a_packed_table_is_read_once_so_that_it_may_be_a_pipe(tmp_path: Path) -> None:
    """What came the second time was not looked at: a table that went in between ended with a traceback."""
    table, pipe = tmp_path / "unset.xz", tmp_path / "pipe.xz"
    lines = unset_bytes.format_table({"axpy": {(3, 2), (3, 3)}})
    unset_bytes.write_table(table, lines)
    os.mkfifo(pipe)

    def write_and_remove() -> None:
        with pipe.open("wb") as out:
            out.write(table.read_bytes())
            pipe.unlink()

    writer = threading.Thread(target=write_and_remove)
    writer.start()
    assert unset_bytes.unpack_table(pipe, tmp_path / "cache").read_text() == lines
    writer.join()


def test_a_cache_that_takes_no_unpacked_table_is_told(tmp_path: Path) -> None:
    table = tmp_path / "unset.xz"
    unset_bytes.write_table(table, "")
    with pytest.raises(SimcudaError, match=r"unset\.xz/cache: Not a directory; set SIMCUDA_CACHE"):
        unset_bytes.unpack_table(table, table / "cache")


def test_a_pointer_that_is_stale_in_a_gap_gives_no_allocation_its_number(built: Path, tmp_path: Path) -> None:
    program = """
cuda.axpy(y, x, 7, rest=bytes(8) + ({stale}).to_bytes(8, "little"))
print(json.dumps(entries()[0][-1]))
"""
    known = tmp_path / "unset.txt"
    known.write_text(unset_bytes.format_table({"axpy": {(3, at) for at in range(8, 16)}}))
    with_one, without = (
        json.loads(run(built, program.format(stale=stale), SIMCUDA_UNSET=str(known))) for stale in ("x.value", "0")
    )
    assert with_one == without


def test_of_an_address_of_the_host_all_bytes_are_left_out() -> None:
    first, second = (unset_bytes.split_argument(f"01000000{low}b6335d55550000") for low in ("c0", "c1"))
    assert unset_bytes.find_differing_bytes(first, second) == set(range(4, 12))
    assert unset_bytes.find_differing_bytes(unset_bytes.split_argument("0102"), unset_bytes.split_argument("0103")) == {
        1
    }


def test_launches_of_a_test_that_went_another_way_teach_nothing() -> None:
    one = {("t", ""): [("a", ("00",)), ("b", ("00",))], ("u", ""): [("a", ("00",))]}
    other = {("t", ""): [("a", ("01",))], ("u", ""): [("a", ("00",))]}
    assert unset_bytes.learn_gaps([one, other]) == {}


def test_a_device_pointer_counts_as_its_eight_bytes_and_two_of_them_were_set() -> None:
    assert unset_bytes.find_differing_bytes(
        unset_bytes.split_argument("00[1,512]00"), unset_bytes.split_argument("00000102030405060700")
    ) == set(range(1, 9))
    assert (
        unset_bytes.find_differing_bytes(
            unset_bytes.split_argument("00[1,512]00"), unset_bytes.split_argument("00[2,512]00")
        )
        == set()
    )


def test_a_number_that_was_measured_is_left_out_whole_and_a_field_before_padding_is_not() -> None:
    assert unset_bytes.find_differing_bytes(
        unset_bytes.split_argument("a6d1a90b00000000"), unset_bytes.split_argument("281fa90b00000000")
    ) == set(range(8))
    assert unset_bytes.find_differing_bytes(
        unset_bytes.split_argument("062c275d04000000"), unset_bytes.split_argument("0610305d04000000")
    ) == {
        1,
        2,
    }


def test_a_ledger_says_which_bytes_it_left_out(built: Path, tmp_path: Path) -> None:
    """Two with different lists say nothing of each other, and `decouple test-cuda --against` refuses them."""
    known = tmp_path / "unset.txt"
    digests = []
    for gaps in ({"axpy": {(3, 2)}}, {"axpy": {(3, 3)}}):
        known.write_text(unset_bytes.format_table(gaps))
        digests.append(run(built, "print(book.read_totals().unset)", SIMCUDA_UNSET=str(known)).strip())
    assert digests[0] != digests[1] and all(digests)
    assert run(built, "print(book.read_totals().unset)").strip() == ""
