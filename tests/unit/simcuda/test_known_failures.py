"""Tests that the simulated device cannot pass are data."""

from __future__ import annotations

from simcuda.known_failures import KINDS, find_reason, load_known_failures


def test_every_entry_is_of_a_kind_that_the_page_explains_and_says_why() -> None:
    known = load_known_failures()
    assert known and all(entry.kind in KINDS and entry.reason for entry in known)
    assert len({(entry.file, entry.test, entry.said) for entry in known}) == len(known)


def test_a_reason_is_found_by_file_and_name() -> None:
    known = load_known_failures()
    why = find_reason("test_cuda.py::TestCuda::test_memory_snapshot", known)
    assert why == "network: the flame graph's program is fetched from GitHub"
    assert find_reason("test_cuda.py::TestCuda::test_memory_snapshot_script", known) is None
    assert find_reason("test_torch.py::TestTorch::test_memory_snapshot", known) is None


def test_a_pattern_stands_for_the_tests_that_it_names() -> None:
    known = load_known_failures()
    said = "AssertionError: Quantized tensor-likes are not close!"
    why = find_reason("test_shape_ops.py::TestShapeOpsCUDA::test_flip_cuda_int8", known, said)
    assert why and why.startswith("values")
    assert find_reason("test_shape_ops.py::TestShapeOpsCUDA::test_fliplr_cuda_int8", known, said) is None


def test_a_known_test_that_fails_in_another_way_is_a_new_failure() -> None:
    known = load_known_failures()
    assert find_reason("test_shape_ops.py::TestShapeOpsCUDA::test_flip_cuda_int8", known, "IndexError: 3") is None


def test_a_test_that_failed_with_the_words_of_a_stand_in_is_known_whatever_its_name() -> None:
    known = load_known_failures()
    test = "test_jiterator.py::TestPythonJiteratorCUDA::test_extra_args_cuda_int8"
    said = "RuntimeError: #define POS_INFINITY __int_as_float(0x7f800000)\nthe simulated device compiles nothing"
    why = find_reason(test, known, said)
    assert why and why.startswith("compiler")
    assert find_reason(test, known) is None and find_reason(test, known, "AssertionError: not equal") is None


def test_a_pattern_for_a_type_is_of_no_other() -> None:
    known = load_known_failures()
    why = find_reason("test_torch.py::TestTorchDeviceTypeCUDA::test_deterministic_empty_cuda_uint64", known)
    assert why and why.startswith("values")
    assert find_reason("test_torch.py::TestTorchDeviceTypeCUDA::test_deterministic_empty_cuda_int64", known) is None
