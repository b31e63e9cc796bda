"""The ELF audit on libraries that a compiler made: what it lets pass and every promise that it can find broken."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.verify import audit, elf
from tests.unit.verify.conftest import Compile


def test_a_library_as_the_linker_wrote_it(compile_library: Compile) -> None:
    other = compile_library("libother.so", "int other(void) { return 1; }")
    made = compile_library(
        "libone.so",
        "int other(void); int maybe(void) __attribute__((weak)); __attribute__((weak)) int soft(void) { return 0; }\n"
        "int one(void) { return other() + (maybe ? maybe() : 0); }",
        needs=[other],
    )
    library = elf.read_library(made)
    assert library.name == "libone.so"
    assert library.needed[0] == "libother.so"
    assert "one" in library.defined
    assert "soft" in library.vague
    assert "other" in library.undefined
    assert "maybe" in library.optional


def test_a_clean_core(compile_library: Compile) -> None:
    made = compile_library("libtorch_cpu.so", "int at_add(int a) { return a; } int custom(void) { return 0; }")
    report = audit.audit_core(audit.list_libraries(made.parent))
    assert report.faults == ()
    assert report.files == 1


def test_needing_a_cuda_library(compile_library: Compile) -> None:
    cudart = compile_library("libcudart.so.12", "int cudaGetDevice(int* d) { return *d; }", side="toolkit")
    made = compile_library("libtorch_cpu.so", "int nothing(void) { return 0; }", needs=[cudart])
    assert [str(fault) for fault in audit.audit_core(audit.list_libraries(made.parent)).faults] == [
        "libtorch_cpu.so: needs a CUDA library: libcudart.so.12"
    ]


@pytest.mark.parametrize(
    "symbol",
    [
        *("cudaGetDevice", "cuModuleLoadData", "cublasCreate_v2", "cudnnCreate", "ncclAllReduce", "nvrtcVersion"),
        *("_ZN3c104cuda14device_synchronizeEv", "_ZN2at4cuda4blas4gemmEv", "nvtxRangePushA", "cusparseCreate"),
    ],
)
def test_naming_a_cuda_symbol(compile_library: Compile, symbol: str) -> None:
    made = compile_library("libtorch_cpu.so", f"int {symbol}(void); int use(void) {{ return {symbol}(); }}")
    (fault,) = audit.audit_core(audit.list_libraries(made.parent)).faults
    assert fault.rule == "names CUDA symbols"
    assert symbol in fault.detail


def test_a_cuda_symbol_that_may_stay_away_is_named_all_the_same(compile_library: Compile) -> None:
    """Undefined and weak: the core loads without it, and calls it where another library brings it."""
    code = "int cudaFree(void) __attribute__((weak)); int use(void) { return cudaFree ? cudaFree() : 0; }"
    made = compile_library("libtorch_cpu.so", code)
    (fault,) = audit.audit_core(audit.list_libraries(made.parent)).faults
    assert str(fault) == "libtorch_cpu.so: names CUDA symbols: cudaFree"


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ("int cudaFree(void *it) { return 0; } int use(void) { return cudaFree(0); }", ["cudaFree"]),
        ("int _ZN5torch4cuda12is_availableEv(void) { return 0; }", []),
    ],
    ids=["the runtime, linked in", "torch's own question"],
)
def test_cuda_that_the_core_has_itself_is_no_core_without(
    compile_library: Compile, code: str, faults: list[str]
) -> None:
    """Nothing is undefined where a static library was linked in."""
    made = compile_library("libtorch_cpu.so", code)
    report = audit.audit_core(audit.list_libraries(made.parent))
    assert [str(fault) for fault in report.faults] == [
        f"libtorch_cpu.so: has CUDA inside it: {name}" for name in faults
    ]


@pytest.mark.parametrize("symbol", ["customary", "cuckoo", "_ZN2at6detail12getCUDAHooksEv", "ncurses", "cube"])
def test_names_that_only_look_like_it(compile_library: Compile, symbol: str) -> None:
    made = compile_library("libtorch_cpu.so", f"int {symbol}(void); int use(void) {{ return {symbol}(); }}")
    assert audit.audit_core(audit.list_libraries(made.parent)).faults == ()


@pytest.mark.parametrize(
    "name", ["libcufile.so.0", "libtorch_cuda_linalg.so", "libnccl.so.2", "libcudnn_ops.so.9", "libtorch_hip.so"]
)
def test_every_line_of_the_rules_counts(name: str) -> None:
    assert audit.make_library_pattern().match(name)  # rules wrapped over lines once lost every name after a line's end
    assert not audit.make_library_pattern().match("libcustom.so")


def test_only_nvrtc_may_need_the_driver(compile_library: Compile) -> None:
    driver = compile_library("libcuda.so.1", "int cuInit(void) { return 0; }", side="driver")
    nvrtc = compile_library("libcaffe2_nvrtc.so", "int lazy(void) { return 0; }", needs=[driver], side="backend")
    compile_library("libtorch_cuda.so", "int kernels(void) { return 0; }", side="backend")
    assert audit.audit_backend(audit.list_libraries(nvrtc.parent)).faults == ()
    compile_library("libtorch_cuda.so", "int kernels(void) { return 0; }", needs=[nvrtc], side="backend")
    (fault,) = audit.audit_backend(audit.list_libraries(nvrtc.parent)).faults
    assert str(fault) == "libtorch_cuda.so: needs the driver: libcuda.so.1 (by libcaffe2_nvrtc.so)"


def test_what_loads_before_torch_c_needs_no_libtorch_python(compile_library: Compile) -> None:
    python = compile_library("libtorch_python.so", "int THPVariable(void) { return 0; }")
    made = compile_library("libtorch_cuda.so", "int kernels(void) { return 0; }", needs=[python], side="backend")
    compile_library("libtorch_python_cuda.so", "int bindings(void) { return 0; }", needs=[python], side="backend")
    (fault,) = audit.audit_backend(audit.list_libraries(made.parent)).faults
    assert (fault.file, fault.rule) == ("libtorch_cuda.so", "needs libtorch_python")


def test_what_another_vendors_toolkit_built_needs_no_library_of_cudas(compile_library: Compile) -> None:
    amd = compile_library("libamdhip64.so.6", "int hipFree(void) { return 0; }", side="toolkit")
    made = compile_library("libc10_hip.so", "int here(void) { return 0; }", needs=[amd])
    compile_library("libtorch_hip.so", "int there(void) { return 0; }", needs=[made])
    assert audit.audit_backend(audit.list_libraries(made.parent)).faults == ()
    wrong = compile_library("libcudart.so.12", "int cudaFree(void) { return 0; }", side="toolkit")
    compile_library("libc10_hip.so", "int here(void) { return 0; }", needs=[wrong])
    assert [str(fault) for fault in audit.audit_backend(audit.list_libraries(made.parent)).faults] == [
        "libc10_hip.so: needs another vendor's library: libcudart.so.12"
    ]


def test_nothing_strong_is_defined_twice(compile_library: Compile) -> None:
    one = compile_library(
        "libtorch_cpu.so", "int both(void) { return 0; } __attribute__((weak)) int vague(void) { return 0; }"
    )
    two = compile_library(
        "libtorch_cuda.so",
        "int both(void) { return 0; } __attribute__((weak)) int vague(void) { return 0; }",
        side="backend",
    )
    report = audit.audit_pair(audit.list_libraries(one.parent), audit.list_libraries(two.parent))
    assert [str(fault) for fault in report.faults] == ["libtorch_cuda.so: defines what libtorch_cpu.so defines: both"]


def test_bindings_of_another_registry_of_pybind11_are_named(compile_library: Compile) -> None:
    """As gcc 10 makes it of a core with -fabi-version=11: such a pair was audited and clean, and import was its end."""

    def bindings(version: int, side: str) -> list[elf.Library]:
        text = f"__pybind11_internals_v5_gcc_libstdcpp_cxxabi{version}__"
        made = compile_library(f"lib{side}.so", f'const char* {side}(void) {{ return "{text}"; }}', side=side)
        return audit.list_libraries(made.parent)

    core = bindings(1011, "core")
    assert audit.audit_registry(core, bindings(1011, "same")).faults == ()
    (fault,) = audit.audit_registry(core, bindings(1014, "other")).faults
    assert (fault.file, fault.rule) == ("libother.so", "has another registry of pybind11")
    assert "cxxabi1014" in fault.detail


def test_bindings_beside_a_core_without_a_registry_are_named(compile_library: Compile) -> None:
    """As where libtorch_python is not among what is audited: such a pair was clean, too."""
    core = compile_library("libc10.so", "int c10(void) { return 0; }", side="core")
    text = "__pybind11_internals_v5_gcc_libstdcpp_cxxabi1011__"
    made = compile_library("libbindings.so", f'const char* name(void) {{ return "{text}"; }}', side="backend")
    sides = [audit.list_libraries(library.parent) for library in (core, made)]
    assert [str(fault) for fault in audit.audit_registry(*sides).faults] == [
        f"libbindings.so: has another registry of pybind11: {text}; the core has none"
    ]
    assert audit.audit_registry(sides[0], sides[0]).faults == (), "kernels alone need none"


def test_a_symbol_that_neither_wheel_defines(compile_library: Compile) -> None:
    one = compile_library("libtorch_cpu.so", "int _ZN2at3addEv(void) { return 0; }")
    two = compile_library(
        "libtorch_cuda.so",
        "int _ZN2at3addEv(void); int _ZN2at8getHooksEv(void); int puts(const char*);\n"
        'int use(void) { return _ZN2at3addEv() + _ZN2at8getHooksEv() + puts(""); }',
        side="backend",
    )
    (fault,) = audit.audit_resolved(audit.list_libraries(two.parent), audit.list_libraries(one.parent)).faults
    assert fault.detail == "_ZN2at8getHooksEv"


def test_looking_at_nothing_is_not_a_pass(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="no ELF file in it"):
        audit.list_libraries(tmp_path)


def test_a_wheel_is_looked_into(compile_library: Compile, tmp_path: Path) -> None:
    made = compile_library("libtorch_cpu.so", "int f(void) { return 0; }")
    wheel = tmp_path / "torch-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(made, "torch/lib/libtorch_cpu.so")
        archive.writestr("torch/__init__.py", "")
    with audit.open_folder(wheel) as folder:
        assert [library.name for library in audit.list_libraries(folder)] == ["libtorch_cpu.so"]


def test_a_truncated_library_is_named(compile_library: Compile) -> None:
    made = compile_library("libtorch_cpu.so", "int f(void) { return 0; }")
    made.write_bytes(made.read_bytes()[:1000])
    with pytest.raises(DecoupleError, match=r"libtorch_cpu\.so"):
        audit.list_libraries(made.parent)


def test_a_neighbour_is_found_by_the_run_path(compile_library: Compile) -> None:
    c10 = compile_library("libc10.so", "int c10(void) { return 0; }")
    lost = compile_library("libtorch_cpu.so", "int c10(void); int at(void) { return c10(); }", needs=[c10])
    assert [str(fault) for fault in audit.audit_layout(audit.list_libraries(lost.parent)).faults] == [
        "libtorch_cpu.so: does not find its neighbour: libc10.so (run path: none)"
    ]
    flags = ["-Wl,-rpath,$ORIGIN"]
    compile_library("libtorch_cpu.so", "int c10(void); int at(void) { return c10(); }", needs=[c10], flags=flags)
    assert audit.audit_layout(audit.list_libraries(lost.parent)).faults == ()


def test_links_that_became_copies_are_named(compile_library: Compile) -> None:
    made = compile_library("libc10.so", "int c10(void) { return 0; }")
    (made.parent / "libc10.so.2.6").write_bytes(made.read_bytes())
    (fault,) = audit.audit_layout(audit.list_libraries(made.parent)).faults
    assert str(fault).startswith("libc10.so, libc10.so.2.6: are one library several times: soname libc10.so")


def test_a_library_that_a_newer_glibc_refuses_is_named(compile_library: Compile) -> None:
    """One assembler file without its note is enough; glibc 2.41 said so of the first portable core on Debian 13."""
    compile_library("libtorch_cpu.so", 'int f(void) { return 0; } __asm__(".text");')
    made = compile_library("libc10.so", "int c10(void) { return 0; }", flags=["-Wl,-z,execstack"])
    (fault,) = audit.audit_layout(audit.list_libraries(made.parent)).faults
    assert str(fault).startswith("libc10.so: asks for an executable stack: glibc 2.41 (Debian 13) opens none such")


def test_a_core_that_nobody_could_load_is_seen_before_it_is_loaded(compile_library: Compile) -> None:
    symbol = "_ZN2at6native12DispatchStub4AVX2E"  # declared, used, and defined by no kernel
    made = compile_library("libtorch_cpu.so", f"extern int {symbol}; int use(void) {{ return {symbol}; }}")
    (fault,) = audit.audit_resolved(audit.list_libraries(made.parent)).faults
    assert str(fault) == f"libtorch_cpu.so: undefined: {symbol}"
