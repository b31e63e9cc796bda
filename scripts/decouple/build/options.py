"""What is built, and how: what a user chose, and what is known of the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Provenance(Struct, frozen=True):
    """Describe the source: what ``cli`` knows of the release, series and overlay."""

    version: str
    upstream: Mapping[str, str]
    sources: tuple[Mapping[str, Any], ...]
    series_digest: str
    patches: tuple[Mapping[str, str], ...]
    overlay_digest: str
    cuda: str | None
    tree: str = ""
    """HEAD's git tree when it was read: a stage of another one is refused. Empty: not known."""
    series_tree: str = ""
    """The git tree that the patches and the overlay made, which HEAD's is not where a person committed. Empty: not
    known."""


class Choices(Struct, frozen=True):
    """Hold what the user chose for a build.

    These are profile of stage 1, core and kernels of stage 2, architectures, jobs, part of stage 2. ``python`` ("3.13")
    is the one that the wheel is for; "" leaves it to the core and the environment. ``revision`` tells published builds
    of one release apart: the end of the local version (``+decoupled.2``); 0: none.
    """

    profile: str = "core"
    core: str = "built"
    kernels: str = "compiled"
    archs: tuple[str, ...] = ("9.0",)
    flash: bool = True
    jobs: int | None = None
    slice: str = "all"
    revision: int = 0
    python: str = ""
    cuda: str = ""
    """The CUDA that kernels are compiled with ("12.4"); "" leaves it to the environment."""
    toolkit: str = ""
    """Another vendor's toolkit that stage 2 is compiled with ("rocm"); "": NVIDIA's."""
    wheels: tuple[Mapping[str, Any], ...] = ()
    """The wheels (name, url, size, sha256) that libraries with kernels are taken from; empty: they are compiled."""
    variables: Mapping[str, str] = field(default_factory=dict)
