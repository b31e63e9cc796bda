"""Whoever looks at PyTorch's own symbols looks at those of each of its namespaces."""

from __future__ import annotations

import pytest

from decouple.base.mangled_names import NAMESPACES, OWN_SYMBOL
from decouple.prebuilt import symbols
from decouple.verify import audit, parity, third_party_wheels
from tests.unit.verify.conftest import Compile

#: As nm prints them of the official 2.6.0 with CUDA 12.4.
NEEDED = {
    "at": "_ZN2at4cuda26getCurrentDevicePropertiesEv",
    "c10": "_ZN3c104cuda18device_synchronizeEv",
    "c10d": "_ZN4c10d16ProcessGroupNCCL15startCoalescingEv",
    "caffe2": "_ZN6caffe28TypeMeta13typeMetaDatasEv",
    "sdp": "_ZN3sdp23can_use_flash_attentionERKNS_10sdp_paramsEb",
    "torch": "_ZN5torch4cuda4nccl6detail16throw_nccl_errorENS1_10ncclResultE",
}


def test_every_namespace_has_its_row() -> None:
    assert set(NEEDED) == set(NAMESPACES)


@pytest.mark.parametrize("symbol", NEEDED.values(), ids=NEEDED)
def test_a_symbol_that_nobody_defines_is_missed_in_every_namespace(symbol: str, compile_library: Compile) -> None:
    """c10d's length was written wrong: no check of symbols saw what patch 0014 moves."""
    made = compile_library("libtorch_cuda.so", f"int {symbol}(void); int use(void) {{ return {symbol}(); }}")
    found = audit.list_libraries(made.parent)
    assert [fault.detail for fault in audit.audit_resolved(found).faults] == [symbol]
    (elsewhere,) = third_party_wheels.audit_elsewhere("vision", found, []).faults
    assert elsewhere.detail.startswith(symbol)
    none, theirs = (parity.ExportedSymbols(frozenset(names), frozenset()) for names in ((), (symbol,)))
    assert parity.compare_symbols("libtorch_cuda", none, theirs).missing == (symbol,)
    assert symbols.find_provider(symbol).name == "PyTorch"


@pytest.mark.parametrize("symbol", ["_ZTIN4c10d5StoreE", "_ZTVN4c10d5StoreE", "_ZNKR2at6Tensor3dimEv", "_ZGVN2at1xE"])
def test_tables_of_a_class_and_qualified_functions_are_symbols_too(symbol: str) -> None:
    assert OWN_SYMBOL.match(symbol) and third_party_wheels.TORCH.match(symbol)


@pytest.mark.parametrize("symbol", ["_ZN12at_something1fEv", "_ZNSt6vectorIN2at6TensorEE4backEv"])
def test_what_lies_in_another_namespace_is_not_pytorchs(symbol: str) -> None:
    assert not OWN_SYMBOL.match(symbol)
