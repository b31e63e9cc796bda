"""Release manifests: ``series/<release>.toml`` as frozen records.

A manifest holds facts that were read off published files by ``decouple manifest fill`` and nothing else: which commit a
release is, where its source can be had with which size and SHA-256, and which toolchain the official wheel was made
with. A fact that could not be read is written as ``"not known"``, never guessed; :data:`NOT_KNOWN` becomes None here.
"""

from __future__ import annotations

import contextlib
import re
from typing import Annotated, ClassVar

from msgspec import Meta, Struct
from packaging.version import InvalidVersion, Version

from decouple.base.checkout import is_name
from decouple.base.errors import UsageError

#: How a manifest says that a fact could not be read.
NOT_KNOWN = "not known"

FileName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._+~-]*\Z")]
Url = Annotated[str, Meta(pattern=r"\Ahttps?://\S+\Z")]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Dotted = Annotated[str, Meta(pattern=r"\A\d+(\.\d+)+\Z")]
Count = Annotated[int, Meta(ge=1)]
TreeId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{40}\Z")]


class RemoteFile(Struct, frozen=True):
    """A file to download.

    ``urls`` are tried in order; ``size`` in bytes; None means not known.
    """

    name: FileName
    urls: Annotated[tuple[Url, ...], Meta(min_length=1)]
    size: Count | None
    sha256: Sha256 | None


class ManifestSource(Struct, frozen=True):
    """A ``[[source]]``; its keys are a class of its ``upstream/providers`` module."""

    provider: ClassVar[str]


class Toolchain(Struct, frozen=True):
    """Tools and libraries the official wheel was made with and for; None: unknown."""

    #: Python versions that have an official Linux x86-64 wheel, e.g. ("3.9", "3.10").
    python: tuple[Annotated[str, Meta(pattern=r"\A3\.\d+t?\Z")], ...]
    #: CUDA version as torch/version.py of the wheel says, e.g. "12.4"; None also for a CPU-only wheel.
    cuda: Dotted | None
    #: PyPI pins of the CUDA libraries as the metadata of the wheel names them, e.g. "nvidia-cudnn-cu12==9.1.0.70".
    libraries: tuple[Annotated[str, Meta(pattern=r"\A(nvidia|cuda)-[a-z0-9-]+==[0-9.]+\Z")], ...]
    #: The compiler, as the .comment section of the wheel's libc10.so says, e.g. "11.2.1".
    gcc: Dotted | None
    #: Newest major version of gcc that nvcc of this CUDA takes as host compiler (crt/host_config.h).
    cuda_max_gcc: Count | None
    #: Architectures that the wheel has machine code for, as TORCH_CUDA_ARCH_LIST names them, e.g. ("8.0", "9.0");
    #: none of a CPU-only wheel.
    archs: tuple[Annotated[str, Meta(pattern=r"\A\d+\.\d[af]?(\+PTX)?\Z")], ...] = ()

    def find_library(self, name: str) -> str | None:
        """Return the pinned version of NVIDIA's library ``name`` ("cudnn", "nccl", ...).

        Returns None when the wheel pins none.
        """
        for pin in self.libraries:
            package, _, version = pin.partition("==")
            if re.fullmatch(rf"nvidia-{re.escape(name)}(-cu\d+)?", package):
                return version
        return None

    @property
    def cudnn(self) -> str | None:
        """Return the version of cuDNN, e.g. "9.1.0.70"."""
        return self.find_library("cudnn")

    @property
    def nccl(self) -> str | None:
        """Return the version of NCCL, e.g. "2.21.5"."""
        return self.find_library("nccl")


class Manifest(Struct, frozen=True):
    """The facts of one upstream release."""

    release: str
    version: str
    #: What a git repository has the commit under: a tag, or the commit itself where it has none.
    tag: str
    #: None: not known, the tree is all there is.
    commit: str | None
    #: In the order in which ``auto`` tries them; none for a tree of the user's own.
    sources: tuple[ManifestSource, ...]
    toolchain: Toolchain

    def find_source(self, provider: str) -> ManifestSource | None:
        """Return the source of this provider, or None when the release has none."""
        return next((source for source in self.sources if source.provider == provider), None)


def derive_release(version: str) -> str:
    """Return the release ("2.6") that a version ("2.6.0", "v2.6.1") belongs to.

    Any other name is a release of its own.

    So "2.7.0rc3", "main-2026-11-20" and "acme-2.7" stay what they are. Raises UsageError for
    what can be no file's name.
    """
    with contextlib.suppress(InvalidVersion):
        parsed = Version(version)
        if not (parsed.is_prerelease or parsed.is_postrelease or parsed.local or parsed.epoch):
            return f"{parsed.major}.{parsed.minor}"
    if not is_name(version):
        raise UsageError(f"{version!r} is not a release", next_step="name one like 2.6, 2.7.0 or main-2026-11-20")
    return version


def is_released(release: str) -> bool:
    """Say whether the name is that of upstream's release X.Y.

    Otherwise it is that of some other tree.
    """
    return re.fullmatch(r"\d+\.\d+", release) is not None
