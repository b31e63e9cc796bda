"""Comparing what two torches offer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from decouple.base.errors import DecoupleError
from decouple.verify import parity
from decouple.verify.inside.dump import describe_thing


def offer(**changes: Any) -> dict[str, Any]:
    return {
        "dispatcher": {"CUDA": ["aten::add", "aten::mm"]},
        "bindings": ["_CudaStreamBase", "_cuda_init"],
        "api": {"torch.cuda.is_available": "def() -> bool", "torch.cuda.Stream": "class(query)"},
        **changes,
    }


def test_the_same_is_a_hundred_percent() -> None:
    assert [one.percent for one in parity.compare_parity(offer(), offer())] == [100.0, 100.0, 100.0]


def test_every_missing_extra_and_different_name_is_told() -> None:
    ours = offer(
        dispatcher={"CUDA": ["aten::add", "mine::op"]},
        bindings=["_CudaStreamBase"],
        api={"torch.cuda.is_available": "def(device) -> bool", "torch.cuda.Stream": "class(query)"},
    )
    dispatcher, bindings, api = parity.compare_parity(ours, offer())
    assert (dispatcher.percent, dispatcher.missing, dispatcher.extra) == (50.0, ("aten::mm",), ("mine::op",))
    assert bindings.missing == ("_cuda_init",)
    assert api.percent == 50.0
    assert api.different == ("torch.cuda.is_available: def(device) -> bool instead of def() -> bool",)


def test_a_dispatch_key_that_is_not_there_at_all_is_all_missing() -> None:
    assert parity.compare_parity(offer(dispatcher={}), offer())[0].percent == 0.0


def test_nothing_to_compare_with_is_not_a_pass() -> None:
    nothing = parity.compare_parity(offer(bindings=[]), offer(bindings=[]))[1]
    assert (nothing.percent, nothing.ok) == (0.0, False)


def test_what_an_unmodified_core_is_without_has_its_reason_and_still_counts() -> None:
    nccl, stream = "_distributed_c10d.ProcessGroupNCCL.abort", "_CudaStreamBase"
    _, names, _ = parity.compare_parity(offer(bindings=[]), offer(bindings=[nccl, stream]))
    stock = parity.explain_missing(names, "stock")
    assert (stock.percent, list(stock.reasons), stock.ok) == (0.0, [nccl], False)
    assert not parity.explain_missing(names, "built").reasons


def test_what_another_cuda_is_without_has_its_reason_there_alone() -> None:
    reduce, sparse = "symm_mem::one_shot_all_reduce", "_cusparselt.mm_search"
    operators, names, _ = parity.compare_parity(
        offer(dispatcher={"CUDA": []}, bindings=[]), offer(dispatcher={"CUDA": [reduce]}, bindings=[sparse])
    )
    for found, why in ((operators, "from CUDA 12.3 on"), (names, "no registry has cuSPARSELt for CUDA 11")):
        old = parity.explain_missing(found, "built", "11.8")
        assert old.ok
        assert why in next(iter(old.reasons.values()))
        assert not parity.explain_missing(found, "built", "12.4").ok
        assert not parity.explain_missing(found, "built").ok, "the official wheel's own CUDA has it"


@pytest.mark.parametrize("order", ["'aten::a', 'prim::b', 'c'", "'c', 'prim::b', 'aten::a'"])
def test_a_set_in_a_signature_is_the_same_in_any_order(order: str) -> None:
    """Its order is that of the hashes under which pip compiled the module, and not of this process."""

    class Printed:
        def __repr__(self) -> str:
            return f"frozenset({{{order}}})"

    def kinds(wanted: Any = Printed(), by: Any = {"b": 1, "a": 2}) -> None: ...  # noqa: B006, B008

    said = "(wanted: 'Any' = frozenset({'aten::a', 'c', 'prim::b'}), by: 'Any' = {'b': 1, 'a': 2}) -> 'None'"
    assert describe_thing(kinds) == f"def{said}"


def exported(*strong: str, vague: tuple[str, ...] = ()) -> parity.ExportedSymbols:
    return parity.ExportedSymbols(frozenset(strong), frozenset(vague))


def test_symbols_of_other_namespaces_do_not_count() -> None:
    ours = exported("_ZN3c104cuda3fooEv", "_ZSt4cout")
    theirs = exported("_ZN3c104cuda3fooEv", "_ZN3c104cuda3barEv", "printf")
    found = parity.compare_symbols("libc10_cuda", ours, theirs)
    assert (found.total, found.missing) == (2, ("_ZN3c104cuda3barEv",))


def test_what_nobody_outside_can_link_does_not_count() -> None:
    anonymous = "_ZN2at46_GLOBAL__N__780f21a8_13_SummaryOps_cu_68b272b83fooEv"  # the hash is of one compilation
    theirs = exported("_ZN2at3addEv", anonymous, vague=("_ZN2at6inlineEv",))
    found = parity.compare_symbols("libtorch_cuda", exported(vague=("_ZN2at3addEv",)), theirs)
    assert (found.total, found.missing, found.extra) == (1, (), ())


def test_what_is_missing_on_purpose_lowers_the_figure_and_is_no_fault() -> None:
    linalg = "_ZN2at6native4cuda6detail22registerLinalgDispatchERKNS2_14LinalgDispatchE"
    found = parity.compare_symbols("libtorch_cuda", exported("_ZN2at3addEv"), exported("_ZN2at3addEv", linalg))
    assert (found.percent, found.missing, found.ok) == (50.0, (linalg,), True)
    assert "one library" in found.reasons[linalg]
    more = exported("_ZN2at3addEv", "_ZN2at3mulEv", linalg)
    assert not parity.compare_symbols("libtorch_cuda", exported("_ZN2at3addEv"), more).ok


def test_a_python_without_torch_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match="ModuleNotFoundError"):
        parity.dump_torch([sys.executable, "-I", "-S"], tmp_path)


def test_a_hundred_percent_is_all_of_them() -> None:
    """With one name of 162639 missing `verify` printed "100.00 %"."""
    one = parity.Parity("API", 162639, ("torch.f",), ())
    assert f"{one.percent:.2f}" == "99.99"
    assert parity.Parity("API", 162639, (), ()).percent == 100.0
    assert parity.Parity("API", 100, tuple("abc"), ()).percent == 97.0
