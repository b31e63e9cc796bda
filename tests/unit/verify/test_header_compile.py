"""Stage 2's own units against a wheel's headers: what the series changes there first, then a compiler's word."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.upstream.download import Downloader
from decouple.verify.header_compile import Headers, InstalledHeaders, compile_units, lay_out_headers
from tests.support.files import write_files
from tests.support.releases import remote, wheel_of
from tests.support.server import FaultyServer, http_server

__all__ = ["http_server"]


@pytest.fixture
def headers(tmp_path: Path) -> Headers:
    include = tmp_path / "torch/include"
    once = "#pragma once\n"
    files = {"ATen/Context.h": f"{once}int asked();\n", "torch/csrc/utils.h": once}
    return Headers(write_files(include, {**files, "torch/csrc/api/include/torch/all.h": once}), 17)


@pytest.fixture
def cuda(tmp_path: Path) -> Path:
    folder = tmp_path / "nvidia/cu13/include"
    folder.mkdir(parents=True)
    (folder / "cuda.h").write_text("#define CUDA_VERSION 13020\n")
    inner = folder / "cuda/std/detail/libcxx/include"
    inner.mkdir(parents=True)
    (inner / "cstdlib").write_text('#error "not the library of the host"\n')
    return tmp_path / "nvidia"


def test_each_unit_has_its_first_error_or_none(headers: Headers, cuda: Path, tmp_path: Path) -> None:
    units = tmp_path / "units"
    (units / "pybinding").mkdir(parents=True)
    (units / "pybinding/good.cpp").write_text(
        "#include <ATen/Context.h>\n#include <cstdlib>\n#include <cuda.h>\n#include <Python.h>\n"
        "#include <torch/all.h>\n"
        "const char* version() { return asked() ? TORCH_CUDA_VERSION : nullptr; }\n"
    )
    (units / "bad.cpp").write_text("#include <ATen/native/Hidden.h>\nint never;\n")
    found = compile_units(units, headers, [cuda])
    assert found.cuda == "13.2"
    assert "g++" in found.compiler
    assert found.units["pybinding/good.cpp"] == ""
    assert found.units["bad.cpp"].startswith("bad.cpp:1:10: fatal error: ATen/native/Hidden.h"), "no folder of ours"


def test_headers_have_the_paths_of_the_source(headers: Headers) -> None:
    installed = InstalledHeaders(headers.include)
    for path in ("aten/src/ATen/Context.h", "torch/csrc/utils.h", "torch/csrc/api/include/torch/all.h"):
        assert installed.mode(path), path
    assert installed.mode("aten/src/ATen/Context.cpp") is None
    assert installed.read("aten/src/ATen/Context.h").endswith(b"int asked();\n")


def test_a_folder_without_cuda_and_no_compiler_are_told(headers: Headers, cuda: Path, tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match=r"no cuda\.h"):
        compile_units(tmp_path, headers, [headers.include])
    with pytest.raises(DecoupleError, match="no such command"):
        compile_units(tmp_path, headers, [cuda], "no-such-compiler")


@pytest.mark.parametrize("forged", [False, True])
def test_headers_of_a_wheel_are_those_of_its_record(tmp_path: Path, http_server: FaultyServer, forged: bool) -> None:
    path, header = "/torch-2.15.0-py3-none-any.whl", "torch/include/ATen/Context.h"
    config = {"torch/share/cmake/Torch/TorchConfig.cmake": b"set_property(TARGET torch CXX_STANDARD 20)\n"}
    sent = wheel_of({header: b"int asked();\n", **config})
    if forged:
        with zipfile.ZipFile(io.BytesIO(sent)) as honest, zipfile.ZipFile(changed := io.BytesIO(), "w") as other:
            for name in honest.namelist():
                other.writestr(name, b"int asker();\n" if name == header else honest.read(name))
        sent = changed.getvalue()
    http_server.files[path] = sent
    wheel, folder = remote(http_server.url(path), sent), tmp_path / "wheel"
    with pytest.raises(DecoupleError, match=r"ATen/Context\.h") if forged else contextlib.nullcontext():
        headers = lay_out_headers(wheel, folder, Downloader(tmp_path / "cache"))
        assert headers.standard == 20
        assert [file.name for file in headers.include.rglob("*") if file.is_file()] == ["Context.h"]
