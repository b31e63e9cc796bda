"""Globs of data files: what they match, and what is refused with the pattern's text."""

import warnings

import pytest

from decouple.base.errors import UsageError
from decouple.syntax.globs import compile_glob, find_fixed_text, find_match


@pytest.mark.parametrize(
    ("pattern", "matched", "left"),
    [
        ("a/*.cpp", "a/b.cpp", "a/c/b.cpp"),
        ("a/**/b", "a/b", "a/cb"),
        ("{aten,c10}/**", "c10/x/y", "torch/x"),
        ("a[0-9].txt", "a7.txt", "ax.txt"),
        ("a[!0-9].txt", "ax.txt", "a7.txt"),
        ("[[]a", "[a", "[[]a"),
        ("**/" * 1000 + "*.cpp", "a/b/c.cpp", "a/b/c.h"),
        ("a" + "*" * 1000 + "b", "a/x/b", "a/x/c"),
        ("[&~|\\]b", "\\b", "ab"),
    ],
)
def test_a_glob_matches_whole_paths(pattern: str, matched: str, left: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_match(matched, [pattern]) == pattern
        assert find_match(left, [pattern]) is None


@pytest.mark.parametrize("pattern", ["[z-a]", "[!]", "a[", "{a,b", "{" * 1500 + "}" * 1500, "a" * 5000])
def test_a_glob_that_is_none_is_told_by_its_text(pattern: str) -> None:
    with pytest.raises(UsageError) as told:
        compile_glob(pattern)
    assert pattern[:3] in str(told.value)


def test_what_stands_in_everything_a_glob_matches() -> None:
    globs = ["USE_CUFILE", "__CUDACC_*", "TORCH_CUDA_*BUILD_MAIN_LIB", "{a,bc}_USE_[XY]", "*"]
    assert [find_fixed_text(glob) for glob in globs] == ["USE_CUFILE", "__CUDACC_", "BUILD_MAIN_LIB", "_USE_", ""]
