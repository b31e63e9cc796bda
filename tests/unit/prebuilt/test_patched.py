"""What a patch adds to libtorch_cuda, a libtorch_cuda of upstream's lacks: `csrc/imported` brings it."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[3]
IMPORTED = PROJECT / "third_device/torch_cuda/torch_cuda/csrc/imported"
#: Where the sources of libtorch_cuda and libc10_cuda are moved to; the bindings (csrc/pybinding) are always compiled.
LIBRARY = re.compile(r"^\+\+\+ b/third_device/torch_cuda/torch_cuda/csrc/(aten|framework|jit)/", re.MULTILINE)
ID = re.compile(r"^Decouple-Id: (\S+)$", re.MULTILINE)


def changing_the_library(release: str) -> set[str]:
    """Ids of the patches of a series that change text of those sources, and not only move them."""
    listed = [line.split()[0] for line in (PROJECT / "series" / release).read_text().splitlines() if line[:1].isdigit()]
    texts = [(PROJECT / "patches" / name).read_text(errors="replace") for name in listed]
    return {match[1] for text in texts if LIBRARY.search(text) and (match := ID.search(text))}


def test_each_patch_of_the_library_is_answered_by_a_file_of_ours() -> None:
    """A new one fails here until there is such a file, or until it is known that the official kernels need none."""
    assert changing_the_library("2.6") == {"generator-new-through-hooks"}
    assert "generator-new-through-hooks" in (IMPORTED / "generator.cpp").read_text()
