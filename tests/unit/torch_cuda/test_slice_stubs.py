"""Stubs let a part of libtorch_cuda load; calling what is missing says so."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from pathlib import Path

import pytest
from torch_cuda_build import slice_stubs

pytestmark = [
    pytest.mark.tools("c++"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the stubs are code for x86-64"),
]

USER = """
#include <stdexcept>
#include <string>
namespace at { int absent(int); int present(int x) { return x + 1; } }
extern "C" [[noreturn]] void torch_cuda_missing(const char* name) { throw std::runtime_error(name); }
extern "C" int use() { return at::present(1); }
extern "C" int try_absent() {
  try {
    return at::absent(1);
  } catch (const std::runtime_error& e) {
    return std::string(e.what()) == "_ZN2at6absentEi" ? 42 : 1;
  }
}
"""


def test_a_stub_throws_its_name_into_the_caller(tmp_path: Path) -> None:
    (tmp_path / "user.cpp").write_text(USER)
    subprocess.run(["c++", "-fPIC", "-c", "user.cpp"], cwd=tmp_path, check=True)
    assert slice_stubs.main(["--out", str(tmp_path / "stubs.S"), str(tmp_path / "user.o")]) == 0
    subprocess.run(
        ["c++", "-shared", "-Wl,--no-undefined", "-Wl,-z,now", "user.o", "stubs.S", "-o", "lib.so"],
        cwd=tmp_path,
        check=True,
    )
    library = ctypes.CDLL(str(tmp_path / "lib.so"))
    assert library.use() == 2
    assert library.try_absent() == 42


def test_only_functions_of_ours_are_stubbed() -> None:
    undefined = {"_ZN2at3fooEv", "cublasCreate_v2", "_ZTVN2at5ThingE", "_ZSt4cout", "THCPStream_init", "_ZN2at4hereEv"}
    assert slice_stubs.list_missing(undefined, {"_ZN2at4hereEv"}) == ["THCPStream_init", "_ZN2at3fooEv"]


def test_functions_of_a_vendor_are_stubbed_where_its_library_is_not_there() -> None:
    used = {"_ZN2at6absentEi", "hipblasCreate", "hipMalloc", "memcpy"}
    assert slice_stubs.list_missing(used, set()) == ["_ZN2at6absentEi"]
    assert slice_stubs.list_missing(used, set(), "^hipblas") == ["_ZN2at6absentEi", "hipblasCreate"]
    assert slice_stubs.list_missing(used, {"hipblasCreate"}, "^hipblas") == ["_ZN2at6absentEi"]
