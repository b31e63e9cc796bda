"""Tests that the simulated device cannot pass are data."""

from __future__ import annotations

from simcuda.known import KINDS, load, reason


def test_every_entry_is_of_a_kind_that_the_page_explains_and_says_why() -> None:
    known = load()
    assert known and all(entry.kind in KINDS and entry.reason for entry in known)
    assert len({(entry.file, entry.test) for entry in known}) == len(known)


def test_a_reason_is_found_by_file_and_name() -> None:
    known = load()
    assert (
        reason("test_cuda.py::TestCuda::test_prod_large", known)
        == "compiler: prod of complex numbers is the jiterator's"
    )
    assert reason("test_cuda.py::TestCuda::test_prod", known) is None
    assert reason("test_torch.py::TestTorch::test_prod_large", known) is None
