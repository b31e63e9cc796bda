"""Wheels of others on our libraries: what a wheel like torchvision's names, and every way in which it cannot load."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.verify import audit, third_party_wheels
from tests.unit.verify.conftest import Compile

OLD_CHECK = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
NEW_CHECK = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
NODE = "_ZNK5torch8autograd4Node4name"


def calls(*symbols: str) -> str:
    """C code of a function that calls each of ``symbols``."""
    return "\n".join(
        [*(f"int {one}(void);" for one in symbols), f"int use(void) {{ return {'() + '.join(symbols)}(); }}"]
    )


def defines(*symbols: str) -> str:
    """C code that defines a function under each name."""
    return "\n".join(f"int {one}(void) {{ return 0; }}" for one in symbols)


def test_what_counts_as_torchs(compile_library: Compile) -> None:
    torchs = (OLD_CHECK, "_ZN3c10lsERSoNS_10DeviceTypeE", "_ZN2at5emptyEv", "THPVariable_Check", "aoti_torch_empty")
    others = ("puts", "_ZNSs6appendEPKc", "PyList_New", "_ZN6vision3nmsEv", "_ZN12at_something1fEv")
    made = compile_library("_C.so", calls(*torchs, *others, "_ZN5torch3ownEv"), side="wheel")
    compile_library("libown.so", defines("_ZN5torch3ownEv"), side="wheel")
    assert third_party_wheels.list_wanted_symbols(audit.list_libraries(made.parent)) == dict.fromkeys(torchs, "_C.so")


def test_a_wheel_that_fits(compile_library: Compile) -> None:
    core = compile_library("libc10.so", defines(OLD_CHECK))
    made = compile_library("_C.so", calls(OLD_CHECK), needs=[core], side="wheel")
    report = third_party_wheels.audit_elsewhere(
        "vision", audit.list_libraries(made.parent), audit.list_libraries(core.parent)
    )
    assert (report.files, report.symbols, report.faults) == (1, 1, ())


@pytest.mark.parametrize(
    ("has", "wants", "hint"),
    [
        (NEW_CHECK, OLD_CHECK, "(of the old C++ ABI; the libraries have the new one)"),
        (OLD_CHECK, NEW_CHECK, "(of the new C++ ABI; the libraries have the old one)"),
        # a function that only returns a string: the new ABI tags it
        (
            f"{NEW_CHECK}() {{ return 0; }} int {NODE}B5cxx11Ev",
            f"{NODE}Ev",
            "(of the old C++ ABI; the libraries have the new one)",
        ),
        (OLD_CHECK, "_ZN2at4cuda8warp_sizeEv", "_ZN2at4cuda8warp_sizeEv"),
    ],
)
def test_a_symbol_that_is_missing_says_which_abi_it_is_of(
    compile_library: Compile, has: str, wants: str, hint: str
) -> None:
    core = compile_library("libc10.so", f"int {has}(void) {{ return 0; }}".replace("()", "(void)"))
    made = compile_library("_C.so", calls(wants), side="wheel")
    (fault,) = third_party_wheels.audit_elsewhere(
        "x", audit.list_libraries(made.parent), audit.list_libraries(core.parent)
    ).faults
    assert str(fault).startswith(f"_C.so: needs a symbol that no library has: {wants}")
    assert str(fault).endswith(hint)


def test_a_library_of_torchs_that_has_another_name(compile_library: Compile) -> None:
    core = compile_library("libtorch.so.2.6", defines("custom"))
    linked = compile_library("libtorch.so", defines("custom"), side="official")
    made = compile_library("_C.so", calls("custom"), needs=[linked], side="wheel")
    (fault,) = third_party_wheels.audit_elsewhere(
        "x", audit.list_libraries(made.parent), audit.list_libraries(core.parent)
    ).faults
    assert str(fault) == "_C.so: needs a library that is not there: libtorch.so"


def test_the_command_takes_any_wheel(
    compile_library: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = compile_library("libc10.so", defines(NEW_CHECK))
    made = compile_library("_C.so", calls(OLD_CHECK), side="wheel")
    wheel = tmp_path / "vision-1.0-cp39-cp39-manylinux1_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(made, "vision/_C.so")
    assert main(["stages", "audit", "--core", str(core.parent), "--extension", str(wheel)]) == 1
    told = capsys.readouterr().out
    assert f"FAILED {wheel.name} on these libraries: 1 files, 1 symbols" in told
    assert "of the old C++ ABI" in told
