"""What the ledger holds of a program, and that a fault in a program is found by the name of the test that meets it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decouple.suites import compare, store
from simcuda import build, library, vendor
from tests.support.cuda_headers import require_headers
from tests.unit.simcuda.conftest import HERE, SCRIPTS, run_program, use_shared_cache

PROGRAM = """
import ctypes as c, json, sys, threading
from device import Runtime
from simcuda.ledger import Ledger
cuda = Runtime()
book = Ledger.find_loaded()
def entries():
    found = [json.loads(line) for line in book.read_entries()]
    book.reset(keep_entries=True)
    return found
x, y = cuda.malloc(1024), cuda.malloc(1024)
book.reset(keep_entries=True)
"""


def run(built: Path, program: str, under: Sequence[str] = (), python: str = sys.executable, **env: str) -> str:
    """What ``program`` printed on the simulated device, run by ``python``, started by the command ``under``."""
    return run_program(PROGRAM + program, built, "libcudart.so.12", under=under, python=python, **env)


def test_a_launch_has_its_argument_bytes_with_pointers_as_allocation_and_offset(built: Path) -> None:
    (launch,) = json.loads(
        run(
            built,
            """
cuda.axpy(c.c_void_p(x.value + 16), y, 7, rest=b"abc")
print(json.dumps(entries()))
""",
        )
    )
    kind, name, grid, block, shared, stream, arguments = launch
    assert (kind, name, grid, block, shared, stream) == ("launch", "axpy", [4, 1, 1], [32, 1, 1], 0, 0)
    first, second, number, structure = arguments.split(" ")
    assert (first, second, number) == ("[0,16]", "[1,0]", "07000000")
    assert structure == b"abc".ljust(24, b"\0").hex()


def test_a_graph_has_the_nodes_of_the_program_and_none_for_the_values(built: Path) -> None:
    """An H100's graphs had half the nodes: each operator's value was a node here beside its kernel."""
    program = """
compute = c.CFUNCTYPE(None, c.c_void_p)(lambda state: None)
side, graph, replay = cuda.stream(), c.c_void_p(), c.c_void_p()
cuda.check(cuda.rt.cudaStreamBeginCapture(side, 2))
cuda.axpy(x, y, 1, stream=side)
cuda.check(cuda.rt.simcuda_enqueue(side, compute, compute, None, b"value"))
cuda.check(cuda.rt.cudaStreamEndCapture(side, c.byref(graph)))
cuda.check(cuda.rt.cudaGraphInstantiateWithFlags(c.byref(replay), graph, c.c_ulonglong(0)))
cuda.check(cuda.rt.cudaGraphLaunch(replay, None))
print([entry[2] for entry in entries() if entry[0] == "graph"])
"""
    assert run(built, program) == "[1]"


def test_an_address_inside_a_structure_is_a_place_too_and_one_of_the_host_is_not_told(built: Path) -> None:
    program = """
import struct
host = c.create_string_buffer(8)
cuda.axpy(x, y, 1, rest=struct.pack("<QQQ", y.value + 8, c.addressof(host), 5))
print(entries()[0][-1].split(" ")[3])
"""
    assert run(built, program) == "[1,8]H" + (5).to_bytes(8, "little").hex()


def lies_low() -> str:
    """A Python that is not position independent, as Debian's is: its heap lies among small numbers."""
    for name in ("/usr/bin/python3", "/usr/bin/python3.11", "/usr/bin/python3.13"):
        with contextlib.suppress(OSError), Path(name).open("rb") as file:
            if file.read(18)[16:] == b"\x02\x00":  # ET_EXEC
                return name
    pytest.skip("no Python here is of a fixed address (Debian's python3 is)")


def test_the_heap_of_a_program_that_lies_low_is_told_from_numbers_too(built: Path) -> None:
    program = """
import struct
libc = c.CDLL(None)
libc.malloc.restype = c.c_void_p
word = libc.malloc(c.c_size_t(100000))  # less than what malloc maps by itself
assert id(None) < 1 << 40 <= word, hex(word)
cuda.axpy(c.c_void_p(word), y, 1, rest=struct.pack("<QQQ", 50000000, word, 6))
alone, _, _, structure = entries()[0][-1].split(" ")
print(alone, structure)
"""
    number, six = ((number).to_bytes(8, "little").hex() for number in (50000000, 6))
    assert run(built, program, python=lies_low()) == f"H {number}H{six}"


def test_streams_are_numbered_as_they_first_appear_so_that_handles_do_not_matter(built: Path) -> None:
    program = """
spare = [cuda.stream() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else %d)]
a, b = cuda.stream(), cuda.stream()
for stream in (a, b, None, a):
    cuda.axpy(x, y, 1, stream=stream)
cuda.check(cuda.rt.cudaMemsetAsync(x, 0, c.c_size_t(8), b))
print([entry[5] if entry[0] == "launch" else entry[:2] for entry in entries()], book.read_totals().exact)
"""
    few, many = (run(built, program % count) for count in (0, 5))
    assert few.startswith("[1, 2, 0, 1, ['set', 2]]")
    # totals after the reset in entries() are those of nothing
    assert few == many


def test_another_device_than_the_first_is_told_with_its_streams_and_its_memory(built: Path) -> None:
    program = """
cuda.check(cuda.rt.cudaSetDevice(1))
far = cuda.malloc(512)
cuda.axpy(far, far, 1)
cuda.axpy(far, x, 1, stream=cuda.stream())
cuda.check(cuda.rt.cudaMemcpyAsync(far, x, c.c_size_t(8), 3, None))
cuda.check(cuda.rt.cudaDeviceSynchronize())
cuda.check(cuda.rt.cudaFree(far))
print(json.dumps([entry[5:] if entry[0] == "launch" else entry for entry in entries()]))
"""
    rest = f"01000000 {'00' * 24}"
    assert json.loads(run(built, program, SIMCUDA_DEVICES="2")) == [
        ["malloc", 512, 1],
        ["1:0", f"[0,0,1] [0,0,1] {rest}"],
        ["1:1", f"[0,0,1] [1,0] {rest}"],
        ["copy", "DD1", "1:0", 8, [1, 0], [0, 0, 1]],
        ["sync device", "1:0"],
        ["free", 512, 1],
    ]


def test_a_wait_tells_for_what_the_stream_or_the_host_waits(built: Path) -> None:
    program = """
a, b, event = cuda.stream(), cuda.stream(), c.c_void_p()
cuda.check(cuda.rt.cudaEventCreate(c.byref(event)))
cuda.check(cuda.rt.cudaStreamWaitEvent(a, event, 0))
cuda.check(cuda.rt.cudaEventRecord(event, b))
cuda.check(cuda.rt.cudaStreamWaitEvent(a, event, 0))
cuda.check(cuda.rt.cudaEventSynchronize(event))
cuda.check(cuda.rt.cudaStreamSynchronize(a))
print(json.dumps(entries()))
"""
    assert json.loads(run(built, program)) == [
        ["wait", 1, "none"],
        ["record", 2],
        ["wait", 1, 2],
        ["sync event", 2],
        ["sync stream", 1],
    ]


def test_a_blocking_stream_and_a_function_of_the_host_are_told(built: Path) -> None:
    """A stream that lost cudaStreamNonBlocking, or a callback that did, gave the same ledger."""
    program = """
nothing, blocking = c.CFUNCTYPE(None, c.c_void_p)(lambda at: None), c.c_void_p()
for device in range(2):
    cuda.check(cuda.rt.cudaSetDevice(device))
    cuda.check(cuda.rt.cudaStreamCreate(c.byref(blocking)))
    cuda.axpy(x, y, 1, stream=blocking)
    cuda.check(cuda.rt.cudaLaunchHostFunc(cuda.stream(), nothing, None))
print(json.dumps([entry[5] if entry[0] == "launch" else entry for entry in entries()]))
"""
    here, there = ["1 blocking", ["host function", 2]], ["1:3 blocking", ["host function", "1:4"]]
    assert json.loads(run(built, program, SIMCUDA_DEVICES="2")) == [*here, *there]


def test_a_word_that_the_driver_writes_is_told_with_its_stream(built: Path) -> None:
    """What a stream writes for another rank to see stood nowhere: another value gave the same ledger."""
    program = """
driver, at = c.CDLL("libcuda.so.1"), c.c_uint64(x.value + 8)
book.reset(keep_entries=True)
cuda.check(driver.cuMemsetD32Async(at, 7, c.c_size_t(3), cuda.stream()))
cuda.check(driver.cuStreamWriteValue32(None, at, 9, 0))
print(json.dumps(entries()))
"""
    assert json.loads(run(built, program)) == [
        ["call", "cuMemsetD32Async", [[0, 8], 7, 3, 1]],
        ["call", "cuStreamWriteValue32", [[0, 8], 9, 1, 0]],
    ]


@pytest.fixture(scope="module")
def nccl(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NCCL's stand-in above the others; of NVIDIA's wheel it takes the header alone, not 190 MB."""
    kit = require_headers(vendor.CUDA, ["nccl"])
    libraries, fills = library.load_libraries(kit.sonames)
    [own] = [one for one in libraries if one.name == "nccl"]
    folder = tmp_path_factory.mktemp("nccl")
    for path in built.glob("lib*.so*"):
        if path.name != own.soname:
            (folder / path.name).symlink_to(path)
    build.compile_stand_in(replace(own, wheel="", headers_of=("nccl",)), fills, kit, folder)
    return folder


NCCL = """
comms, streams = (c.c_void_p * 2)(), []
nccl = c.CDLL("libnccl.so.2")
cuda.check(nccl.ncclCommInitAll(comms, 2, None))
for device in range(2):
    cuda.check(cuda.rt.cudaSetDevice(device))
    streams.append(cuda.stream())
far = cuda.malloc(1024)
book.reset(keep_entries=True)
def as_group(*calls):  # of both ranks, which wait for each other
    cuda.check(nccl.ncclGroupStart())
    for function, *arguments, rank, stream in calls:
        cuda.check(cuda.rt.cudaSetDevice(rank))
        words = [c.c_size_t(one) if isinstance(one, int) else one for one in arguments]
        cuda.check(getattr(nccl, function)(*words, c.c_void_p(comms[rank]), stream))
    cuda.check(nccl.ncclGroupEnd())
    return [entry[1:] for entry in entries() if entry[0] == "call"]
"""


def test_a_call_of_nccl_tells_its_communicator_and_its_stream(nccl: Path) -> None:
    """The last three of each: ranks of the communicator, which of them calls, and the stream that waits for it."""
    program = """
count, FLOAT, SUM, places, ranks = 8, 7, 0, (x, far), range(2)
def ask(function, *arguments, side=streams):
    words = [(places[rank], places[rank], count, FLOAT, *arguments, rank, side[rank]) for rank in ranks]
    return as_group(*((function, *of_rank) for of_rank in words))
found = [ask("ncclAllReduce", SUM), ask("ncclAllReduce", SUM, side=(None, None)), ask("ncclReduce", SUM, 1)]
found += [ask("ncclBroadcast", 1), ask("ncclAllGather"), ask("ncclReduceScatter", SUM)]
found += [as_group(*(("ncclBcast", places[rank], count, FLOAT, 1, rank, streams[rank]) for rank in ranks))]
found += [as_group(("ncclSend", x, count, FLOAT, 1, 0, streams[0]), ("ncclRecv", far, count, FLOAT, 0, 1, streams[1]))]
print(json.dumps(found))
"""
    here, there = [0, 0], [1, 0, 1]  # in an allocation of each device
    first, second = [2, 0, 1], [2, 1, "1:2"]

    def both(name: str, *arguments: int) -> list[Any]:
        return [
            [name, [here, here, 8, 7, *arguments, *first]],
            [name, [there, there, 8, 7, *arguments, *second]],
        ]

    assert json.loads(run(nccl, NCCL + program, SIMCUDA_DEVICES="2")) == [
        both("ncclAllReduce", 0),
        [
            ["ncclAllReduce", [here, here, 8, 7, 0, 2, 0, 0]],
            ["ncclAllReduce", [there, there, 8, 7, 0, 2, 1, "1:0"]],
        ],
        both("ncclReduce", 0, 1),
        both("ncclBroadcast", 1),
        both("ncclAllGather"),
        both("ncclReduceScatter", 0),
        both("ncclBroadcast", 1),
        [["ncclSend", [here, 8, 7, 1, *first]], ["ncclRecv", [there, 8, 7, 0, *second]]],
    ]


NUMBERS = """
import struct
FLOAT, INT, SUM, MAX = 7, 2, 0, 2
def put(at, *numbers):
    cuda.check(cuda.rt.cudaMemcpy(at, struct.pack(f"{len(numbers)}f", *numbers), c.c_size_t(4 * len(numbers)), 1))
def get(at):
    here = c.create_string_buffer(8)
    cuda.check(cuda.rt.cudaMemcpy(here, at, c.c_size_t(8), 2))
    return list(struct.unpack("2f", here.raw))
def meet(*calls):  # of both ranks
    cuda.check(nccl.ncclCommInitAll(comms, 2, None))
    put(x, 1, 2), put(far, 10, 20)
    cuda.check(nccl.ncclGroupStart())
    for rank, (function, *words) in enumerate(calls):
        words = [c.c_size_t(one) if isinstance(one, int) else one for one in words]
        cuda.check(getattr(nccl, function)(*words, c.c_void_p(comms[rank]), streams[rank]))
    return nccl.ncclGroupEnd()
"""


def test_ranks_that_ask_for_different_things_are_refused(nccl: Path) -> None:
    """Each got numbers of its own, and a receiver kept what was there, as a success; NCCL waits for ever."""
    program = """
pairs = [[("ncclSend", x, 2, FLOAT, 1), ("ncclRecv", far, 1, FLOAT, 0)]]
for other in ((FLOAT, MAX), (INT, SUM)):
    pairs.append([("ncclAllReduce", x, x, 2, FLOAT, SUM), ("ncclAllReduce", far, far, 2, *other)])
pairs.append([("ncclReduce", x, x, 2, FLOAT, SUM, 0), ("ncclReduce", far, far, 2, FLOAT, SUM, 1)])
for roots in ((0, 1), (1, 0)):
    pairs.append([("ncclBroadcast", at, at, 2, FLOAT, root) for at, root in zip((x, far), roots)])
print(json.dumps([[meet(*pair), get(x), get(far)] for pair in pairs]))
"""
    refused = [2, [1, 2], [10, 20]]
    assert json.loads(run(nccl, NCCL + NUMBERS + program, SIMCUDA_DEVICES="2")) == [refused] * 6


def test_a_factor_is_on_the_numbers_of_its_own_rank(nccl: Path) -> None:
    """Each rank multiplied the whole sum by its own, so two ranks had two results."""
    program = """
cuda.check(nccl.ncclCommInitAll(comms, 2, None))
put(x, 1, 2), put(far, 10, 20)
cuda.check(nccl.ncclGroupStart())
for rank, (at, factor) in enumerate(((x, 2), (far, 0.5))):
    operation, comm = c.c_int(), c.c_void_p(comms[rank])
    cuda.check(nccl.ncclRedOpCreatePreMulSum(c.byref(operation), c.byref(c.c_float(factor)), FLOAT, 1, comm))
    cuda.check(nccl.ncclAllReduce(at, at, c.c_size_t(2), FLOAT, operation, comm, streams[rank]))
cuda.check(nccl.ncclGroupEnd())
print(json.dumps([get(x), get(far)]))
"""
    assert json.loads(run(nccl, NCCL + NUMBERS + program, SIMCUDA_DEVICES="2")) == [[7, 14]] * 2


def test_the_order_of_two_threads_is_not_told(built: Path) -> None:
    program = """
def work(n, turn):
    for _ in range(3):
        cuda.axpy(x, y, n)
for order in ((1, 2), (2, 1)):
    for n in order:
        one = threading.Thread(target=work, args=(n, 0))
        one.start()
        one.join()
    print(book.read_totals().exact)
    book.reset(keep_entries=True)
work(1, 0)
work(2, 0)
print(book.read_totals().exact)
"""
    first, second, alone = run(built, program).split()
    assert first == second != alone


def test_the_same_program_has_the_same_digests_in_every_process(built: Path) -> None:
    program = """
import struct
cuda.axpy(x, y, 3, rest=struct.pack("<QQQ", id(sys), y.value, 0), stream=cuda.stream())
print(book.read_totals())
"""
    assert len({run(built, program) for _ in range(3)}) == 1


LAUNCHES = """
import os, resource
def launch():
    for _ in range(300):
        cuda.axpy(x, y, 7)
launch()
"""


@pytest.mark.parametrize(
    ("program", "launches"),
    [
        ("os._exit(0)", 300),  # as a forked worker of multiprocessing ends, or a rank that is killed
        ("os.fork() or sys.exit(); os.wait(); launch()", 600),
        ("os.fork() or os._exit(0); os.wait(); launch()", 600),
    ],
)
def test_the_ledger_s_file_has_each_entry_once_however_the_process_ends(
    built: Path, tmp_path: Path, program: str, launches: int
) -> None:
    """Of 600 entries it had 547, the last one cut in two, or 654: a forked child wrote what it had inherited again."""
    run(built, LAUNCHES + program, SIMCUDA_LEDGER=str(tmp_path / "calls"))
    (path,) = tmp_path.iterdir()
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert len([entry for entry in entries if entry[0] == "launch"]) == launches


def test_a_forked_child_has_its_own_file_open_and_not_its_parent_s(built: Path, tmp_path: Path) -> None:
    program = """
def list_open():
    paths = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return [path.rpartition("/")[2] for path in paths if "/calls." in path]
own = [list_open() == [f"calls.{os.getpid()}"]]
os.fork() and (os.wait(), os._exit(0))
own += [list_open() == []]
cuda.rt.simcuda_library_call(b"cublasCreate", b"", b"")  # a launch is refused in a forked child
own += [list_open() == [f"calls.{os.getpid()}"]]
print(own)
"""
    assert run(built, LAUNCHES + program, SIMCUDA_LEDGER=str(tmp_path / "calls")) == "[True, True, True]"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("folder", "program", "why"),
    [
        ("none", "", "No such file or directory"),
        ("", "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)); launch()", "File too large"),  # as a full disk
    ],
)
def test_a_ledger_that_cannot_be_written_is_told_once(
    built: Path, tmp_path: Path, folder: str, program: str, why: str
) -> None:
    path = tmp_path / folder / "calls"
    told = run(built, LAUNCHES + program, under=("sh", "-c", '"$@" 2>&1', "sh"), SIMCUDA_LEDGER=str(path))
    assert told.startswith(f"simcuda: the ledger {path}.") and told.endswith(f": {why}") and "\n" not in told


TESTS = """
import os, sys, unittest
sys.path.insert(0, {here!r})
from device import Runtime
FAULT = os.environ.get("FAULT", "")
cuda = Runtime()

class TestProgram(unittest.TestCase):
    def setUp(self):
        self.stream = cuda.stream()

    def test_grid(self):
        cuda.axpy(cuda.malloc(64), cuda.malloc(64), 9, grid=5 if FAULT == "grid" else 4)

    def test_stream(self):
        cuda.axpy(cuda.malloc(64), cuda.malloc(64), 9, stream=None if FAULT == "stream" else self.stream)

    def test_allocator(self):
        first = cuda.malloc(1000 if FAULT != "allocator" else 2000)
        cuda.axpy(first, first, 9)

    def test_argument(self):
        cuda.axpy(cuda.malloc(64), cuda.malloc(64), 10 if FAULT == "argument" else 9)

    def test_pointer(self):
        x, y = cuda.malloc(64), cuda.malloc(64)
        cuda.axpy(x, x if FAULT == "pointer" else y, 9)

    def test_synchronisation(self):
        import ctypes as c
        event = c.c_void_p()
        cuda.check(cuda.rt.cudaEventCreate(c.byref(event)))
        cuda.check(cuda.rt.cudaEventRecord(event, self.stream))
        if FAULT != "synchronisation":
            cuda.check(cuda.rt.cudaStreamWaitEvent(None, event, 0))

    def test_binding(self):
        self.assertTrue(hasattr(cuda, "axpi" if FAULT == "binding" else "axpy"))
"""


def results(built: Path, folder: Path, fault: str) -> Mapping[str, Any]:
    """What the plug-in wrote of TESTS, with a fault in the program."""
    tests = folder / "test_program.py"
    tests.write_text(TESTS.format(here=str(HERE)))
    out = folder / f"{fault}.jsonl"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
    ]
    command += ["--noconftest", "-p", "simcuda.plugin", "--simcuda-results", str(out), str(tests)]
    variables = {**os.environ, "LD_LIBRARY_PATH": str(built), "LD_PRELOAD": str(built / "libcudart.so.12")}
    variables |= {"PYTHONPATH": str(SCRIPTS), "FAULT": fault, "SIMCUDA_MEMORY": str(64 << 20)}
    subprocess.run(command, env=variables, capture_output=True, timeout=300)
    return store.read_results(out)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (
            "_ZN2at46_GLOBAL__N__780f21a8_13_SummaryOps_cu_68b272b83fooEv",
            "_ZN2at32_GLOBAL__N__#_13_SummaryOps_cu_#3fooEv",
        ),
        (  # the first hash ends in a digit, and the length of what follows begins with one
            "_ZN37_INTERNAL_9825796f_7_Loss_cu_5b0651e139_GLOBAL__N__9825796f_7_Loss_cu_5b0651e13fooEv",
            "_ZN23_INTERNAL_#_7_Loss_cu_#25_GLOBAL__N__#_7_Loss_cu_#3fooEv",
        ),
        ("_ZN3cub21CUB_200302_500_600_NS3fooEv", "_ZN3cub3fooEv"),
        (
            "_ZN14at_cuda_detail3cub17CUB_200302_900_NS30DeviceRadixSortHistogramKernelINS1_21DeviceRadixSortPolicyIl"
            "NS1_8NullTypeEyE9Policy900ELb0ElyNS1_6detail21identity_decomposer_tEEEvPT2_PKT1_S9_iiT3_",
            "_ZN14at_cuda_detail3cub30DeviceRadixSortHistogramKernelINS0_21DeviceRadixSortPolicyIl"
            "NS0_8NullTypeEyE9Policy900ELb0ElyNS0_6detail21identity_decomposer_tEEEvPT2_PKT1_S8_iiT3_",
        ),
        ("_ZN3cub17CUB_200302_900_NS1fIfEEvPT5_SA_PT3_PKSA_", "_ZN3cub1fIfEEvPT5_S9_PT3_PKS9_"),
        ("_ZN3cub17CUB_200302_900_NS1fILi32ENS0_3S1_EEEvSA_S10_SZ_S_", "_ZN3cub1fILi32ENS_3S1_EEEvS9_SZ_SY_S_"),
    ],
)
def test_a_kernel_s_name_has_nothing_of_the_build(built: Path, symbol: str, name: str) -> None:
    launched = f"cuda = Runtime({symbol!r})\nentries()\ncuda.axpy(x, y, 7)\nprint(entries()[0][1])"
    assert run(built, launched) == name


@pytest.fixture(scope="module")
def good(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The program without a fault."""
    return results(built, tmp_path_factory.mktemp("good"), "none")


def test_the_plug_in_writes_an_outcome_and_a_ledger_per_test(good: Mapping[str, Any]) -> None:
    assert len(good) == 7 and {one.outcome for one in good.values()} == {"passed"}
    ledger = next(one.ledger for name, one in good.items() if name.endswith("test_grid"))
    assert (ledger["launches"], ledger["allocations"]) == (1, 2)


@pytest.mark.parametrize(
    "fault", ["grid", "stream", "allocator", "argument", "pointer", "synchronisation", "binding", "none"]
)
def test_a_fault_is_found_by_the_name_of_its_test(
    built: Path, tmp_path: Path, good: Mapping[str, Any], fault: str
) -> None:
    found = compare.compare_results(results(built, tmp_path, fault), good)
    named = {one.test.rpartition("::test_")[2] for one in found.differences}
    if fault == "pointer":  # which allocation it is the exact digest tells, not the one with all pointers alike
        assert (found.loose, found.exact) == (7, 6)
    else:
        assert named == ({fault} if fault != "none" else set())


def test_the_recorder_of_a_real_gpu_and_the_simulated_device_say_the_same(built: Path) -> None:
    """Here the recorder stands in front of the simulated runtime, whose own ledger knows what it was asked for."""
    with use_shared_cache():
        recorder = build.make_recorder(Path("/nowhere"))
    program = f"""
theirs = Ledger(c.CDLL({str(built / "libcudart.so.12")!r}))
def totals():
    return book.read_totals(), theirs.read_totals()
cu, host = c.CDLL("libcuda.so.1"), c.create_string_buffer(64)
module, jitted = c.c_void_p(), c.c_void_p()
cuda.check(cu.cuModuleLoadData(c.byref(module), None))
cuda.check(cuda.rt.cuModuleGetFunction(c.byref(jitted), module, b"abs_kernel"))
for grid in (4, 5):
    book.reset()
    theirs.reset()
    cuda.check(cuda.rt.cuLaunchKernel(jitted, grid, 1, 1, 32, 1, 1, 0, None, None, None))
    side = cuda.stream()
    cuda.axpy(x, y, 3, grid=grid, stream=side)
    event = c.c_void_p()
    cuda.check(cuda.rt.cudaEventCreate(c.byref(event)))
    cuda.check(cuda.rt.cudaEventRecord(event, side))
    cuda.check(cuda.rt.cudaStreamWaitEvent(None, event, 0))
    cuda.check(cuda.rt.cudaEventSynchronize(event))
    cuda.check(cuda.rt.cudaStreamSynchronize(side))
    cuda.check(cuda.rt.cudaDeviceSynchronize())
    cuda.check(cuda.rt.cudaSetDevice(1))
    cuda.check(cuda.rt.cudaMemset(cuda.malloc(8), grid, c.c_size_t(8)))
    cuda.check(cuda.rt.cudaStreamWaitEvent(side, event, 0))  # of a stream of the first device
    cuda.check(cuda.rt.cudaSetDevice(0))
    z = cuda.malloc(512)
    cuda.check(cuda.rt.cudaMemcpyAsync(z, x, c.c_size_t(64), 3, None))
    cuda.check(cuda.rt.cudaMemset(z, 7, c.c_size_t(64)))
    cuda.check(cuda.rt.cudaHostRegister(host, c.c_size_t(64), 0))
    cuda.check(cuda.rt.cudaMemcpyAsync(z, host, c.c_size_t(64), 1, None))
    cuda.check(cuda.rt.cudaMemcpyPeerAsync(z, 0, x, 0, c.c_size_t(64), None))
    cuda.check(cuda.rt.cudaHostUnregister(host))
    cuda.check(cuda.rt.cudaFree(z))
    ours, simulated = totals()
    counts = (ours.launches, ours.copies, ours.sets, ours.events, ours.allocations)
    print(ours.device, ours.plain, simulated.plain, *counts)
"""
    preload = f"{recorder}:{built / 'libcudart.so.12'}"
    lines = run(built, program, LD_PRELOAD=preload, SIMCUDA_DEVICES="2").splitlines()
    first, second = (line.split() for line in lines)
    assert first[1] == first[2] and second[1] == second[2]
    assert first[1] != second[1]  # another grid
    assert first[3:] == ["2", "3", "2", "6", "5"]
