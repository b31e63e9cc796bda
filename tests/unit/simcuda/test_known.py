"""Tests that the simulated device cannot pass are data."""

from __future__ import annotations

from simcuda.known import KINDS, load, reason


def test_every_entry_is_of_a_kind_that_the_page_explains_and_says_why() -> None:
    known = load()
    assert known and all(entry.kind in KINDS and entry.reason for entry in known)
    assert len({(entry.file, entry.test) for entry in known}) == len(known)


def test_a_reason_is_found_by_file_and_name() -> None:
    known = load()
    why = reason("test_cuda.py::TestCuda::test_memory_snapshot", known)
    assert why == "network: the flame graph's program is fetched from GitHub"
    assert reason("test_cuda.py::TestCuda::test_memory_snapshot_script", known) is None
    assert reason("test_torch.py::TestTorch::test_memory_snapshot", known) is None


def test_a_pattern_stands_for_the_tests_that_it_names() -> None:
    known = load()
    why = reason("test_unary_ufuncs.py::TestUnaryUfuncsCUDA::test_non_contig_jiterator_unary_cuda_int8", known)
    assert why and why.startswith("compiler")
    assert reason("test_unary_ufuncs.py::TestUnaryUfuncsCUDA::test_non_contig_exp_cuda_int8", known) is None


def test_a_pattern_for_a_type_is_of_no_other() -> None:
    known = load()
    why = reason("test_torch.py::TestTorchDeviceTypeCUDA::test_deterministic_empty_cuda_uint64", known)
    assert why and why.startswith("values")
    assert reason("test_torch.py::TestTorchDeviceTypeCUDA::test_deterministic_empty_cuda_int64", known) is None
