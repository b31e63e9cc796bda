"""Globs of data files: what they match, and what is refused with the pattern's text."""

import subprocess
import sys
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

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
        ("a[!b]c", "axc", "a/c"),
        ("a/**", "a/b\nc", "b/a"),
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


def step(pattern: str, path: str) -> bool:
    """Match by the set of places that each part of the glob may end at: slow, without a choice to regret."""
    places, i = {0}, 0
    while i < len(pattern):
        stars = len(pattern) - i - len(pattern[i:].lstrip("*"))
        if stars == 2 and pattern.startswith("/", i + 2):
            for at in sorted(places):
                end = path.find("/", at)
                while end > at and end >= 0:
                    places.add(end + 1)
                    at, end = end + 1, path.find("/", end + 1)
            i += 3
        elif stars >= 2:
            places = set(range(min(places, default=len(path) + 1), len(path) + 1))
            i += stars
        elif pattern[i] == "*":
            places = {end for at in places for end in range(at, len(path) + 1) if "/" not in path[at:end]}
            i += 1
        else:
            fits = "/" if pattern[i] == "/" else "ab" if pattern[i] == "?" else pattern[i]
            places = {at + 1 for at in places if at < len(path) and path[at] in fits}
            i += 1
    return len(path) in places


NAMES = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=5).map("/".join)
GLOBS = st.lists(st.sampled_from(["a", "b", "?", "*", "/", "**/", "/**/", "**"]), max_size=10).map("".join)


@settings(max_examples=1000, deadline=None)
@given(GLOBS, NAMES)
@example("a*b**/c", "abbb")
@example("**/*a/**/b*b", "a/ba/a/bb")
def test_a_star_that_takes_little_loses_no_match(pattern: str, path: str) -> None:
    assert (find_match(path, [pattern]) is not None) == step(pattern, path), (pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 30 + "*b", "a" * 4000),
        ("*[ab]?" * 30 + "*c", "ab" * 2000),
        ("**/a/" * 30 + "b", "a/" * 1000 + "c"),
        ("**/*a/" * 30 + "b", "aa/" * 1000 + "c"),
        ("**a" * 30 + "b", "a/" * 1000),
    ],
    ids=["stars", "sets", "folders", "folders and stars", "spans"],
)
def test_many_stars_end(pattern: str, path: str) -> None:
    """Each of them tried at every place takes longer than anybody waits: the bound is no measure."""
    asked = "import sys; from decouple.syntax.globs import find_match; print(find_match(sys.argv[2], [sys.argv[1]]))"
    done = subprocess.run([sys.executable, "-c", asked, pattern, path], capture_output=True, text=True, timeout=120)
    assert done.stdout == "None\n"
