"""The simulated device under HIP's names.

ROCm is not needed: the headers are made here, with the members that the stand-ins set, and so is the library that
imports. `tests/real/test_simulated_hip.py` does it with ROCm's own headers and a torch.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simcuda import build, compile, generate, hip, library, symbols, torchbuild, vendor
from simcuda.errors import SimcudaError
from tests.support.tools import leave_test
from tests.unit.simcuda.conftest import run_program, stand_ins, use_shared_cache
from tests.unit.simcuda.hip_headers import write_headers

HERE = Path(__file__).parent
#: What a library of torch would import: of CUDA's under another name, written by hand, and known to nobody here.
IMPORTED = ("hipMalloc", "hipHostFree", "hipGetDevicePropertiesR0600", "hipFrobnicate", "hiprtcVersion", "roctxMarkA")

PROGRAM = """
import ctypes as c, json, sys
from device import Dim, Wrapper
from code_object import make_bundle, make_code_object
from simcuda.ledger import Ledger
rt = c.CDLL("libamdhip64.so.6")
def ok(code): assert code == 0, code
launch, kept = rt.hipLaunchKernel, []
launch.argtypes = [c.c_void_p, Dim, Dim, c.c_void_p, c.c_size_t, c.c_void_p]
def register(bundle):
    "Register the kernel axpy with the code objects of ``bundle``, all of it kept; return what hipLaunchKernel takes."
    data, function = c.create_string_buffer(bundle), c.create_string_buffer(8)
    wrapper = Wrapper(0x48495046, 1, c.addressof(data), None)
    register_image = getattr(rt, "__hipRegisterFatBinary"); register_image.restype = c.c_void_p
    image = c.c_void_p(register_image(c.byref(wrapper)))
    getattr(rt, "__hipRegisterFunction")(image, function, b"axpy", b"axpy", -1, None, None, None, None, None)
    kept.append((data, wrapper, image, function))
    return c.addressof(function)
"""


@pytest.fixture(scope="module")
def importing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that needs three of HIP's, as torch's do."""
    folder = tmp_path_factory.mktemp("torch")
    sonames = {"libamdhip64.so.6": "hip(?!rtc)", "libhiprtc.so.6": "hiprtc", "libroctx64.so.4": "roctx"}
    for soname, names in sonames.items():
        text = "".join(f"int {name}() {{ return 0; }}\n" for name in IMPORTED if re.match(names, name))
        compile_c(folder, text, soname)
    calls = "".join(f"int {name}(); int call_{name}() {{ return {name}(); }}\n" for name in IMPORTED)
    compile_c(folder, calls, "libc10_hip.so", *(f"-l:{soname}" for soname in sonames))
    return folder / "libc10_hip.so"


MATHEMATICS = {
    "libamdhip64.so.6": ("hipMalloc",),
    "libhipblas.so.2": ("hipblasCreate", "hipblasGetPointerMode", "hipblasSgetrfBatched", "hipblasFrobnicate"),
    "libMIOpen.so.1": ("miopenFindConvolutionForwardAlgorithm", "miopenRNNForwardInference"),
}
MATHEMATICS_HEADERS = {
    "hipblas/hipblas.h": """
typedef enum { HIPBLAS_STATUS_SUCCESS = 0 } hipblasStatus_t;
typedef enum { HIPBLAS_POINTER_MODE_HOST = 0, HIPBLAS_POINTER_MODE_DEVICE = 1 } hipblasPointerMode_t;
typedef void* hipblasHandle_t;
extern "C" {
hipblasStatus_t hipblasCreate(hipblasHandle_t* handle);
hipblasStatus_t hipblasGetPointerMode(hipblasHandle_t handle, hipblasPointerMode_t* mode);
hipblasStatus_t hipblasSgetrfBatched(hipblasHandle_t handle, int n, float* const A[], int* info, const int batchCount);
}
""",
    "miopen/miopen.h": """
#include <stddef.h>
typedef enum { miopenStatusSuccess = 0, miopenStatusNotImplemented = 6 } miopenStatus_t;
typedef struct { int fwd_algo; float time; size_t memory; } miopenConvAlgoPerf_t;
extern "C" {
miopenStatus_t miopenFindConvolutionForwardAlgorithm(void* handle, const int requestAlgoCount, int* returnedAlgoCount,
                                                     miopenConvAlgoPerf_t* perfResults);
miopenStatus_t miopenRNNForwardInference(void* handle, const int sequenceLen);
}
""",
}


def compile_c(folder: Path, text: str, soname: str, *libraries: str) -> None:
    """Make a shared library of ``text``."""
    source = folder / f"{soname}.c"
    source.write_text(text)
    out = ["-o", str(folder / soname), f"-Wl,-soname,{soname}"]
    command = ["c++", "-x", "c", "-shared", "-fPIC", "-w", *out, str(source), "-x", "none", f"-L{folder}"]
    subprocess.run([*command, *libraries], check=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, rocm: Path, importing: Path) -> Path:
    """The stand-ins of HIP above those of CUDA that they need."""
    names = hip.load_libraries()[1]
    below = stand_ins(vendor.CUDA, *names)
    out = tmp_path_factory.mktemp("built")
    sonames = sorted(path.name for path in below.glob("lib*.so*"))
    for soname in sonames:
        shutil.copy(below / soname, out)
    made = hip.compile_stand_ins([importing], rocm, sonames, out, lambda line: None)
    assert made == ["libamdhip64.so.6", "libhiprtc.so.6", "libroctx64.so.4"]
    return out


def run(built: Path, program: str, **env: str) -> str:
    """What ``program`` printed with the stand-ins of ``built``."""
    env = {"SIMCUDA_DEVICES": "2", **env}
    return run_program(PROGRAM + program, built, "libcudart.so.12", "libamdhip64.so.6", **env)


@pytest.mark.tools("nm")
def test_every_name_that_is_imported_is_there_under_the_soname_that_is_needed(built: Path) -> None:
    exported = {path.name: symbols.read_defined_functions(path) for path in built.glob("lib*.so*")}
    assert {"hipMalloc", "hipHostFree", "hipGetDevicePropertiesR0600", "hipFrobnicate"} <= exported["libamdhip64.so.6"]
    assert "hiprtcVersion" in exported["libhiprtc.so.6"] and exported["libroctx64.so.4"] == {"roctxMarkA"}
    amd, rtc = hip.load_libraries()[0][:2]
    assert amd.forwards.keys() <= exported["libamdhip64.so.6"] and rtc.forwards.keys() <= exported["libhiprtc.so.6"]
    own = {name for name in exported["libamdhip64.so.6"] if not amd.choose_names([name])}
    assert own == set(), "nothing else comes before a program's own functions"


def list_libraries_below() -> list[tuple[library.Library, list[str]]]:
    """What HIP's stand-ins need of CUDA's, with the flags of each: NVIDIA's wheels with headers are fetched for it."""
    try:
        with use_shared_cache():
            kit = vendor.find_kit(Path("/nowhere"), build.find_cache_folder() / "wheels", vendor.CUDA)
            below = [one for one in library.load_libraries(kit.sonames)[0] if one.name in hip.load_libraries()[1]]
            return [(one, build.list_compiler_flags(kit, one)) for one in below]
    except SimcudaError as error:
        leave_test(str(error))


def list_written_below(folder: Path) -> set[str]:
    """The functions that somebody wrote for them, compiled in ``folder``. Where that fails it is an error, no skip."""
    written = set[str]()
    for one, flags in list_libraries_below():
        sources = [path for pattern in one.sources for path in sorted(build.NATIVE.glob(pattern))]
        for part in compile.compile_objects(sources, folder / one.name, flags):
            written |= symbols.read_defined_functions(part, dynamic=False)
    return written


@pytest.mark.tools("c++", "nm")
def test_no_function_of_cudas_behind_a_name_is_one_that_nobody_wrote(tmp_path: Path) -> None:
    """hipStreamGetCaptureInfo was CUDA's of that name, which CUDA 12 replaced: it ended 9 of upstream's tests."""
    targets = {target for one in hip.load_libraries()[0] for target in one.forwards.values()}
    assert targets - list_written_below(tmp_path) == set()


def test_a_source_that_does_not_compile_is_no_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_libraries_below()  # without NVIDIA's wheels this test is left here
    monkeypatch.setenv("CXX", "false")
    with pytest.raises((SimcudaError, pytest.skip.Exception)) as ended:
        list_written_below(tmp_path)
    assert ended.type is SimcudaError


def test_a_graph_is_captured_and_its_capture_has_a_number(built: Path) -> None:
    run(
        built,
        """
s, graph, status, number = c.c_void_p(), c.c_void_p(), c.c_int(), c.c_ulonglong()
ok(rt.hipStreamCreateWithPriority(c.byref(s), 1, 0)); ok(rt.hipStreamBeginCapture(s, 0))
ok(rt.hipStreamGetCaptureInfo(s, c.byref(status), c.byref(number))); assert status.value == 1 and number.value
ok(rt.hipStreamEndCapture(s, c.byref(graph)))
program = c.c_void_p(); ok(rt.hipGraphInstantiate(c.byref(program), graph, None, None, c.c_size_t(0)))
ok(rt.hipGraphLaunch(program, s))
""",
    )


@pytest.mark.parametrize(
    ("variables", "seen"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "0"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0"}, 1),
        ({"ROCR_VISIBLE_DEVICES": "0"}, 1),
        ({}, 2),
    ],
)
def test_a_program_sees_the_devices_that_hips_variables_leave(
    built: Path, variables: dict[str, str], seen: int
) -> None:
    assert run(built, "n = c.c_int(); ok(rt.hipGetDeviceCount(c.byref(n))); print(n.value)", **variables) == str(seen)


def test_memory_is_that_of_the_simulated_device(built: Path) -> None:
    run(
        built,
        """
p = c.c_void_p(); ok(rt.hipMalloc(c.byref(p), c.c_size_t(1024)))
here, back = c.create_string_buffer(b"x" * 1024), c.create_string_buffer(1024)
ok(rt.hipMemcpyWithStream(p, here, c.c_size_t(1024), 1, None)); ok(rt.hipMemcpy(back, p, c.c_size_t(1024), 2))
assert back.raw == here.raw[:1024]
class Attributes(c.Structure):
    _fields_ = [("marker", c.c_int), ("type", c.c_int), ("device", c.c_int), ("of", c.c_void_p), ("host", c.c_void_p)]
said = Attributes(); ok(rt.hipPointerGetAttributes(c.byref(said), p))
assert (said.type, said.device, said.of) == (2, 0, p.value)
ok(rt.hipSetDevice(1)); s = c.c_void_p(); ok(rt.hipStreamCreateWithPriority(c.byref(s), 1, 0)); ok(rt.hipSetDevice(0))
assert rt.hipGetStreamDeviceId(s) == 1
assert rt.hipSetDevice(2) == 101
version = c.c_int(); ok(rt.hipRuntimeGetVersion(c.byref(version))); assert version.value == 60443484
""",
    )


@pytest.mark.parametrize(
    ("arch", "said"),
    [
        ("9.0", ["gfx90a:sramecc+:xnack-", 9, 0, 64]),
        ("gfx942", ["gfx942", 9, 4, 64]),
        ("gfx1100", ["gfx1100", 11, 0, 32]),
    ],
)
def test_a_device_says_its_architecture(built: Path, arch: str, said: list[object]) -> None:
    program = """
room = c.create_string_buffer(2048); ok(rt.hipGetDevicePropertiesR0600(room, 0))
name = room.raw.rstrip(bytes(1)).rpartition(bytes(1))[2].decode()
numbers = [int.from_bytes(room.raw[272 + 4 * i : 276 + 4 * i], "little") for i in range(3)]
print(json.dumps([name, *numbers[1:], numbers[0]]))
"""
    assert json.loads(run(built, program, SIMCUDA_ARCH=arch)) == said


def test_a_launch_has_its_argument_bytes_by_the_code_objects_metadata(built: Path) -> None:
    """Before there was a reader of code objects the entry had no arguments."""
    program = """
axpy = register(make_bundle(make_code_object({"other": [4], "axpy": [8, 4, 24]})))
p = c.c_void_p(); ok(rt.hipMalloc(c.byref(p), c.c_size_t(1024)))
book = Ledger.find_loaded(); book.reset(keep_entries=True)
number, rest = c.c_int(7), c.create_string_buffer(b"abc".ljust(24, bytes(1)), 24)
arguments = (c.c_void_p * 3)(c.addressof(p), c.addressof(number), c.addressof(rest))
ok(launch(axpy, Dim(4, 1, 1), Dim(32, 1, 1), arguments, 0, None))
print(book.read_entries()[0])
"""
    entry = json.loads(run(built, program))
    assert entry[:3] == ["launch", "axpy", [4, 1, 1]]
    assert entry[-1].split(" ") == ["[0,0]", "07000000", b"abc".ljust(24, b"\0").hex()]


def test_a_launch_may_ask_for_what_the_device_says_that_a_block_has(built: Path) -> None:
    """Nearest-neighbour upsampling has as many threads in z as that: more than CUDA's 64 were refused."""
    program = """
axpy = register(make_bundle(make_code_object({"axpy": [8]})))
room = c.create_string_buffer(8)
arguments = (c.c_void_p * 1)(c.addressof(room))
def launched(depth, shared):
    return launch(axpy, Dim(1, 1, 1), Dim(1, 1, depth), arguments, shared, None)
ok(launched(256, 0)); ok(launched(1024, 65536))
assert launched(1025, 0) == 9 and launched(1, 65537) == 1
"""
    run(built, program)


def test_a_kernel_that_no_code_object_has_is_refused_by_name(built: Path, tmp_path: Path) -> None:
    program = """
axpy = register(make_bundle(make_code_object({"other": [4]})))
print([launch(axpy, Dim(1, 1, 1), Dim(32, 1, 1), None, 0, None) for _ in range(2)])
"""
    log = tmp_path / "log"
    assert run(built, program, SIMCUDA_LOG=str(log)) == "[98, 98]"
    assert log.read_text().split() == ["axpy"]


def test_a_kernel_may_be_in_the_code_object_of_one_architecture(built: Path) -> None:
    program = """
both = [make_code_object({"other": [4]}), make_code_object({"axpy": [8]})]
damaged = make_bundle(*both)
damaged = damaged[:40] + bytes([255] * 8) + damaged[48:]  # the size of an entry
results = []
for bundle in (make_bundle(*both), damaged):
    room = c.create_string_buffer(64)
    arguments = (c.c_void_p * 1)(c.addressof(room))
    results += [launch(register(bundle), Dim(1, 1, 1), Dim(32, 1, 1), arguments, 0, None)]
print(results)
"""
    assert run(built, program) == "[0, 0]"


def test_a_damaged_code_object_only_loses_its_sizes(built: Path) -> None:
    program = """
image, results = make_code_object({"axpy": [8]}), []
for at in range(len(image)):
    damaged = image[:at] + bytes([image[at] ^ 0x5D]) + image[at + 1 :]
    room = c.create_string_buffer(1 << 20)
    arguments = (c.c_void_p * 8)(*[c.addressof(room)] * 8)
    results += [launch(register(make_bundle(damaged)), Dim(1, 1, 1), Dim(32, 1, 1), arguments, 0, None)]
print(len(results) == len(image))
"""
    assert run(built, program) == "True"


def test_what_nobody_wrote_says_so_and_its_name_is_in_the_log(built: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run(built, "print(rt.hipFrobnicate())", SIMCUDA_LOG=str(log)) == "801"
    assert log.read_text().split() == ["hipFrobnicate"]


def test_headers_are_looked_for_where_rocm_is(rocm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PATH", str(rocm.parent))
    assert hip.find_headers() == rocm
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    with pytest.raises(SimcudaError, match="set ROCM_PATH"):
        hip.find_headers()


def test_a_jump_leaves_the_arguments_where_they_are() -> None:
    (line,) = generate.define_forwards({"hipFree": "cudaFree"}).splitlines()
    assert "hipFree: jmp cudaFree@PLT" in line


def test_the_backend_of_a_torch_is_told_by_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both in one environment the variable chooses that chooses for torch, too."""
    for package, word in (("torch", ""), ("torch_cuda", "cuda"), ("torch_hip", "hip")):
        (tmp_path / package / "lib").mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
        if word:
            (tmp_path / package / f"lib/libc10_{word}.so").touch()
    (tmp_path / "torch/lib/libc10.so").touch()
    monkeypatch.setattr(symbols, "read_defined_functions", lambda path, dynamic=True: frozenset[str]())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    python = Path(sys.executable)
    assert torchbuild.find_torch_build(python, (), ()).word == "cuda"
    monkeypatch.setenv("TORCH_CUDA_BACKEND", "hip")
    chosen = torchbuild.find_torch_build(python, (), ())
    assert chosen.word == "hip" and chosen.find_library("c10_hip").parent.parent.name == "torch_hip"
    shutil.rmtree(tmp_path / "torch_cuda")
    monkeypatch.delenv("TORCH_CUDA_BACKEND")
    assert torchbuild.find_torch_build(python, (), ()).word == "hip"


def test_a_compiler_that_fails_says_what_is_wrong_with_the_headers(rocm: Path, tmp_path: Path) -> None:
    older = tmp_path / "include"
    shutil.copytree(rocm, older)
    text = (older / "hip/hip_runtime_api.h").read_text()
    (older / "hip/hip_runtime_api.h").write_text(text.replace("gcnArchName", "gcnArch"))
    with pytest.raises(SimcudaError, match="gcnArchName"):
        compile.compile_objects([hip.NATIVE / "hip/hip.cpp"], tmp_path, [*hip.FLAGS, f"-I{hip.NATIVE}", f"-I{older}"])


@pytest.mark.tools("nm")
def test_libraries_of_mathematics_answer_as_their_headers_declare(tmp_path: Path) -> None:
    """Nothing is computed: handles, modes and how it went are there, recurrent networks are refused."""
    rocm, folder, out = write_headers(tmp_path / "include"), tmp_path / "torch", tmp_path / "built"
    folder.mkdir()
    for name, text in MATHEMATICS_HEADERS.items():
        (rocm / name).parent.mkdir()
        (rocm / name).write_text(text)
    names = [name for known in MATHEMATICS.values() for name in known]
    for soname, known in MATHEMATICS.items():
        compile_c(folder, "".join(f"int {name}() {{ return 0; }}\n" for name in known), soname)
    calls = "".join(f"int {name}(); int call_{name}() {{ return {name}(); }}\n" for name in names)
    compile_c(folder, calls, "libtorch_hip.so", *(f"-l:{soname}" for soname in MATHEMATICS))
    out.mkdir()
    below = stand_ins(vendor.CUDA, *hip.load_libraries()[1])
    sonames = sorted(path.name for path in below.glob("lib*.so*"))
    for soname in sonames:
        shutil.copy(below / soname, out)
    said: list[str] = []
    assert hip.compile_stand_ins([folder / "libtorch_hip.so"], rocm, sonames, out, said.append) == [*MATHEMATICS]
    assert said[1].endswith("0 functions of CUDA's, 0 written, 3 recorded only, 1 not supported")
    runtime = symbols.read_defined_functions(out / "libamdhip64.so.6")
    assert "hipMalloc" in runtime and not runtime & {*names[1:]}, "the first library that has a name answers for all"
    program = """
blas, dnn = c.CDLL("libhipblas.so.2"), c.CDLL("libMIOpen.so.1")
handle, mode, info = c.c_void_p(), c.c_int(5), c.c_int(5)
ok(blas.hipblasCreate(c.byref(handle))); assert handle.value
ok(blas.hipblasGetPointerMode(handle, c.byref(mode))); assert mode.value == 0
ok(blas.hipblasSgetrfBatched(handle, 2, None, c.byref(info), 1)); assert info.value == 0
assert blas.hipblasFrobnicate() == 7 and dnn.miopenRNNForwardInference(None, 1) == 6
class Perf(c.Structure): _fields_ = [("fwd_algo", c.c_int), ("time", c.c_float), ("memory", c.c_size_t)]
perf, count = Perf(3, 3, 1 << 60), c.c_int(9)
ok(dnn.miopenFindConvolutionForwardAlgorithm(None, 1, c.byref(count), c.byref(perf)))
assert count.value == 1 and perf.memory == 0
"""
    text = "import ctypes as c\ndef ok(code): assert code == 0, code\n" + program
    run_program(text, out, "libcudart.so.12", *MATHEMATICS)


def test_a_library_without_its_headers_is_named_with_its_package(tmp_path: Path) -> None:
    (blas,) = (library for library in hip.load_libraries()[0] if library.name == "hipblas")
    with pytest.raises(SimcudaError, match=r"no hipblas/hipblas\.h") as failed:
        blas.read_declared(write_headers(tmp_path / "include"))
    assert "libhipblas-dev" in str(failed.value.next_step)


def test_a_library_of_which_nothing_is_asked_is_made(tmp_path: Path, rocm: Path) -> None:
    """Torch may need one by name alone; no linker takes an empty list of exports."""
    (ranges,) = (library for library in hip.load_libraries()[0] if library.name == "roctx64")
    hip.compile_library(ranges, "libroctx64.so.4", frozenset(), rocm, (), tmp_path)
    assert symbols.read_defined_functions(tmp_path / "libroctx64.so.4") == frozenset()
