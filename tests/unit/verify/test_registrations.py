"""Operators that torchgen registers, and an installed torch that has some of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.verify.registrations import compare_registrations, read_registrations
from decouple.verify.venvs import TorchEnvironment

WRITTEN = """
namespace {
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("add.Tensor",
TORCH_FN(wrapper_CUDA_add_Tensor));
m.impl("mul.out", TORCH_FN(wrapper));
}
}
TORCH_LIBRARY_IMPL(aten, SparseCUDA, m) {
m.impl("abs", TORCH_FN(wrapper_SparseCUDA__abs));
}
"""


def test_an_operator_that_was_left_out_is_missing_by_name(tmp_path: Path) -> None:
    (tmp_path / "RegisterCUDA.cpp").write_text(WRITTEN)
    wanted = read_registrations(tmp_path)
    assert wanted == {
        "CUDA": frozenset({"aten::add.Tensor", "aten::mul.out"}),
        "SparseCUDA": frozenset({"aten::abs"}),
    }
    has = {"CUDA": ["aten::add.Tensor", "aten::sub.out"], "SparseCUDA": ["aten::abs"]}
    torch = tmp_path / "torch/__init__.py"
    torch.parent.mkdir()
    torch.write_text(
        f"import types\nhas = {json.dumps(has)}\n_C = types.SimpleNamespace("
        "_dispatch_get_all_op_names=lambda: sorted({n for names in has.values() for n in names}),"
        "_dispatch_has_kernel_for_dispatch_key=lambda name, key: name in has[key])\n"
    )
    python = TorchEnvironment("made up", ("env", f"PYTHONPATH={tmp_path}", sys.executable), tmp_path, str(tmp_path))
    cuda, sparse = compare_registrations(python, wanted)
    assert (cuda.category, cuda.total, cuda.missing, cuda.ok) == ("operators on CUDA", 2, ("aten::mul.out",), False)
    assert (sparse.total, sparse.ok) == (1, True)


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="no registration"):
        read_registrations(tmp_path)
