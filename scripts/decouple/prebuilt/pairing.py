"""Which official wheel's kernels go under our bindings: ``pairing.toml`` as frozen values."""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import UsageError
from decouple.release.manifest import RemoteFile, release_of

_FILE = Path(__file__).with_name("pairing.toml")
_MEND = "restore it from git"


class RemoteWheel(Struct, frozen=True):
    """A wheel on a server. ``record`` is the SHA-256 of its RECORD, ``members`` a pattern of what is fetched of it."""

    name: str
    url: str
    size: int
    sha256: str
    record: str
    members: str = ""

    @property
    def file(self) -> RemoteFile:
        """As the downloader wants it."""
        return RemoteFile(self.name, (self.url,), self.size, self.sha256)


class Pair(Struct, frozen=True):
    """The official wheel of a release, its C++ ABI ("C++11", "pre-C++11"), and NVIDIA's wheels to compile against."""

    abi: str
    wheel: RemoteWheel
    cuda: tuple[RemoteWheel, ...]

    def digest(self) -> str:
        """64 hex digits over what is fetched."""
        fetched = "".join(f"{one.sha256} {one.record} {one.members}\n" for one in (self.wheel, *self.cuda))
        return hashlib.sha256(fetched.encode()).hexdigest()


class Pairing(Struct, frozen=True):
    """``pairing.toml``."""

    release: dict[str, Pair]


def pair_of(release: str, path: Path = _FILE) -> Pair:
    """The pair of a release. Raises UsageError when there is none."""
    known = toml.read(path, Pairing, mend=_MEND).release
    if release_of(release) not in known:
        raise UsageError(
            f"{path.name}: no official kernels are named for {release}",
            next_step=f"use one of {', '.join(known)}, or compile them: --kernels compiled",
        )
    return known[release_of(release)]
