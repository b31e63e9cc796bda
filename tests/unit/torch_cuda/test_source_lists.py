"""Lists come out of build_variables.bzl as upstream's CMake reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_cuda_build import source_lists

TEXT = 'base = ["a.cpp"]\n\ndef more(pattern = ":x[{}]"):\n    return base\n\nall = base + ["b.cu"]\n'


def test_lists_are_concatenated_in_order(tmp_path: Path) -> None:
    (tmp_path / "v.bzl").write_text(TEXT)
    assert source_lists.read_lists(tmp_path / "v.bzl", ["all", "base"]) == ["a.cpp", "b.cu", "a.cpp"]


def test_a_list_that_a_release_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "v.bzl").write_text(TEXT)
    with pytest.raises(KeyError, match="absent"):
        source_lists.read_lists(tmp_path / "v.bzl", ["absent"])
