"""What CUDA sources ask of another vendor, on three small files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.device import reuse
from tests.support.tools import require_tool

FILES = {
    "plain.cpp": "// cudaMalloc\nint three() { return 3; }\n",
    "ours.h": "#pragma once\n#include <cuda_runtime.h>\nat::cuda::CUDAStream s = getCurrentCUDAStream();\n",
    "names.cpp": '#include "cublas_v2.h"\nvoid f() { cudaMalloc(&p, 8); cudaMalloc(&q, 8); cublasSgemm_v2(h); }\n'
    'const char* text = "cudaFree";\nauto a = cudaFlags_of_ours();\n',
    "kernel.cu": "__global__ void k() { if (threadIdx.x) __syncthreads(); __shfl_down_sync(m, v, 1); }\n",
    "ptx.cu": 'void k() { asm volatile("bfe.u32 %0;"); }\nconst char* s = R"(int i = blockIdx.x;)";\n',
    "notes.md": "cudaMalloc\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_file_is_as_hard_as_its_hardest_name(tree: Path) -> None:
    report = reuse.count_names(tree, FILES, reuse.load_families())
    assert {path: kind for path, (kind, _) in report.files.items()} == {
        "plain.cpp": "",
        "ours.h": "framework",
        "names.cpp": "library",
        "kernel.cu": "device",
        "ptx.cu": "hand",
    }
    assert report.uses["runtime"] == {"cudaMalloc": 2, "cudaFlags_of_ours": 1}
    assert report.uses["cuBLAS"] == {"cublasSgemm_v2": 1}
    assert report.headers == {"cuda_runtime.h": 1, "cublas_v2.h": 1}
    assert report.texts["device code in strings"] == {"ptx.cu"}
    assert report.count_by_kind()["hand"] == (1, 2)


def test_an_enumerator_behind_its_type_and_a_name_of_the_global_namespace_count(tmp_path: Path) -> None:
    """Found by compiling for a made-up vendor: the header left them as they were."""
    (tmp_path / "it.cpp").write_text(
        "auto a = int(cudaMemcpyKind::cudaMemcpyHostToDevice);\nvoid f() { ::cudaFree(at::cuda::cudaOurs()); }\n"
    )
    report = reuse.count_names(tmp_path, ["it.cpp"], reuse.load_families())
    assert report.uses["runtime"] == {"cudaMemcpyKind": 1, "cudaMemcpyHostToDevice": 1, "cudaFree": 1}


def test_with_the_toolkit_s_headers_look_alikes_are_not_counted(tree: Path) -> None:
    (tree / "include").mkdir()
    (tree / "include" / "cuda_runtime_api.h").write_text("cudaError_t cudaMalloc(void** p, size_t n);\n")
    (tree / "include" / "stdio.h").write_text("int cublasSgemm_v2;\n")  # not the toolkit's
    families = reuse.load_families()
    declared = reuse.read_declared_words([tree / "include"], families.headers)
    report = reuse.count_names(tree, FILES, families, declared=declared)
    assert report.count_library_names() == {"cudaMalloc": 2}
    with pytest.raises(DecoupleError, match="no toolkit header"):
        reuse.read_declared_words([tree / "nowhere"], families.headers)


def test_a_vendor_s_names(tree: Path) -> None:
    table = tree / "acme.toml"
    table.write_text('missing = ["cublasSgemm_v2"]\n[prefix]\ncuda = "acme"\n[name]\ncudaFlags_of_ours = "flags"\n')
    names = reuse.load_names(table)
    report = reuse.count_names(tree, FILES, reuse.load_families())
    assert names.find_name("cudaMalloc") == "acmeMalloc" and names.find_name("cudaFlags_of_ours") == "flags"
    assert report.list_open_names(names) == [("cublasSgemm_v2", 1)]
    text = reuse.format_header(report, names, "PyTorch 2.6")
    assert "#define cudaMalloc acmeMalloc\n" in text and "// open: cublasSgemm_v2\n" in text


def test_the_header_maps_a_real_compiler_s_input(tree: Path) -> None:
    require_tool("c++")
    names = reuse.VendorNames(prefixes={"cuda": "acme", "cublas": "acmeblas"})
    report = reuse.count_names(tree, FILES, reuse.load_families())
    (tree / "acme_names.h").write_text(reuse.format_header(report, names, "PyTorch 2.6"))
    (tree / "cublas_v2.h").write_text("")
    command = ["c++", "-E", "-P", "-I", str(tree), "-include", str(tree / "acme_names.h"), str(tree / "names.cpp")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "acmeMalloc(&p, 8); acmeMalloc(&q, 8); acmeblasSgemm_v2(h);" in text and '"cudaFree"' in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prefixes = 1", r"\$.prefixes: no such key .did you mean prefix"),
        ("[name]\na = 1", r"\$.name.*Expected `str`, got `int`"),
        ("missing = 'x'", r"\$.missing: Expected `array`, got `str`"),
        ("[", "(?i)line|end of document|character"),
    ],
)
def test_a_wrong_table_is_named(text: str, message: str, tmp_path: Path) -> None:
    table = tmp_path / "acme.toml"
    table.write_text(text)
    with pytest.raises(DecoupleError, match=message) as error:
        reuse.load_names(table)
    assert str(table) in error.value.what
