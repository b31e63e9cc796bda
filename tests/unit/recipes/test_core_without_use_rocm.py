"""The recipe of patch 0024 on the forms in which releases choose a BLAS library."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from decouple.recipes.make import make_texts
from decouple.recipes.model import load_recipe

PATH = "aten/src/ATen/Context.cpp"
DLPACK = "aten/src/ATen/DLConvertor.cpp"
COLLECTION = "torch/csrc/profiler/collection.cpp"
SPARSE = "aten/src/ATen/native/sparse/SparseBlasImpl.cpp"
PREFERRED = """\
static const bool hipblaslt_preferred = ask();
if (hipblaslt_preferred) {
  to = from;
}
"""
UNSUPPORTED = """\
#ifdef USE_ROCM
  // not everywhere
  if (blas_preferred_backend == at::BlasBackend::Cublaslt) {
    fall_back();
  }
#endif
  return blas_preferred_backend;
}
"""


def make(text: str, file: str = PATH) -> str:
    """Return what the edits of ``file`` make of its text."""
    recipe = load_recipe(Path(__file__).parents[3] / "series/recipes/core-without-use-rocm.toml")
    alone = structs.replace(recipe, edit=[edit for edit in recipe.edit if edit.file == file])
    return make_texts(alone, lambda path: text if path == file else None)[file]


def indent(text: str, by: str) -> str:
    return "".join(f"{by}{line}" for line in text.splitlines(keepends=True))


def test_a_default_of_its_own_is_asked_for_when_it_runs() -> None:
    """As 2.8 has it: the list of GPUs is in the function, by ROCm's version."""
    listed = "    // some GPUs\n" + indent(PREFERRED, "    ").replace(
        "ask()", "ask({\n#if ROCM_VERSION >= 1\n7\n#endif\n})"
    )
    made = make(
        "at::BlasBackend Context::blasPreferredBackend() {\n"
        "  if (blas_preferred_backend == at::BlasBackend::Default) {\n"
        f"#ifdef USE_ROCM\n{listed}#endif\n  }}\n{UNSUPPORTED}"
    )
    assert "#" not in made
    assert made.count("if (hasROCM()) {\n    static const bool hipblaslt_preferred = ask({\n7\n})") == 1
    assert "at::BlasBackend::Cublaslt && hasROCM()) {" in made
    assert made.count("{") == made.count("}")


def test_a_default_in_a_function_of_its_own_is_too() -> None:
    """As later releases have it."""
    made = make(
        "at::BlasBackend Context::blasDefaultBackend() {\n"
        f"#ifdef USE_ROCM\n{indent(PREFERRED, '  ')}#endif\n  return to;\n}}\n\n"
        "at::BlasBackend Context::blasPreferredBackend() {\n"
        "  if (blas_preferred_backend == at::BlasBackend::Default) {\n    ask();\n  }\n\n" + UNSUPPORTED
    )
    assert "#" not in made
    assert "  if (hasROCM()) {\n  static const bool hipblaslt_preferred" in made
    assert "at::BlasBackend::Cublaslt && hasROCM()) {" in made
    assert made.count("{") == made.count("}")


@pytest.mark.parametrize("above", ["#include <ATen/Config.h>\n", ""])
def test_sparse_products_need_no_include_of_the_configuration(above: str) -> None:
    """Upstream tidies its includes: in 2.15's text that one is gone."""
    asked = "#ifndef USE_ROCM\n  if (operands_support_triton_mm_kernel(one, other)) {\n    call();\n  }\n#endif\n"
    made = make(
        f"{above}#include <ATen/mkl/Sparse.h>\n\n"
        "#ifndef USE_ROCM\nbool operands_support_triton_mm_kernel(int one, int other) {\n  return one;\n}\n#endif\n\n"
        f"void first() {{\n{asked}}}\n\nvoid second() {{\n{asked}}}\n",
        SPARSE,
    )
    assert made.startswith(f"{above}#include <ATen/Context.h>\n#include <ATen/mkl/Sparse.h>\n")
    assert "USE_ROCM" not in made
    assert made.count("!at::globalContext().hasROCM() &&") == 2


@pytest.mark.parametrize("kind", ["ctx.device_type", "type"])
def test_dlpack_names_what_the_function_is_given(kind: str) -> None:
    """Up to 2.9 a struct, from 2.10 on its parts."""
    made = make(
        "#include <ATen/DLConvertor.h>\n\n"
        "void to() {\n#ifdef USE_ROCM\n      ctx.device_type = DLDeviceType::kDLROCM;\n#else\n"
        "      ctx.device_type = DLDeviceType::kDLCUDA;\n#endif\n}\n\n"
        f"Device from() {{\n  switch ({kind}) {{\n#ifndef USE_ROCM\n    // if we are compiled under HIP, not\n"
        "    case DLDeviceType::kDLCUDA:\n      return at::Device(DeviceType::CUDA, index);\n#endif\n"
        "    case DLDeviceType::kDLROCM:\n#ifdef USE_ROCM\n      return at::Device(DeviceType::CUDA, index);\n#else\n"
        "      return at::Device(DeviceType::HIP, index);\n#endif\n  }\n}\n",
        DLPACK,
    )
    assert "USE_ROCM" not in made
    assert f'"Unsupported device_type: ", std::to_string({kind}));' in made
    assert made.count("std::to_string") == 1


def test_a_flow_that_starts_twice_is_left_to_upstream_where_it_minds_it() -> None:
    """In 2.15's text no macro of ROCm's is left there."""
    recipe = load_recipe(Path(__file__).parents[3] / "series/recipes/core-without-use-rocm.toml")
    text = "void setParents() {\n  if (!inserted.second) {\n    drop();\n  }\n}\n"
    kept = structs.replace(recipe, edit=[edit for edit in recipe.edit if edit.file in (COLLECTION, SPARSE)])
    sparse = (
        "#include <ATen/mkl/Sparse.h>\n"
        "#ifndef USE_ROCM\nbool operands_support_triton_mm_kernel(int one) {\n  return one;\n}\n#endif\n"
        "void first() {\n#ifndef USE_ROCM\n  if (operands_support_triton_mm_kernel(one)) {\n  }\n#endif\n}\n"
    )
    made = make_texts(kept, {COLLECTION: text, SPARSE: sparse}.get)
    assert made.get(COLLECTION, text) == text
