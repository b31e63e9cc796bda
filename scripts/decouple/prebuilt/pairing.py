"""Which official wheel's kernels go under our bindings: ``pairing.toml``."""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import UsageError
from decouple.release.manifest import RemoteFile, derive_release

_FILE = Path(__file__).with_name("pairing.toml")


class RemoteWheel(Struct, frozen=True):
    """A wheel on a server, with the hashes that identify it.

    ``record`` is the SHA-256 of its RECORD, ``members`` a pattern of what is fetched of it.
    """

    name: str
    url: str
    size: int
    sha256: str
    record: str
    members: str = ""

    @property
    def file(self) -> RemoteFile:
        """The wheel as the downloader expects it."""
        return RemoteFile(self.name, (self.url,), self.size, self.sha256)


class Pair(Struct, frozen=True):
    """The official wheel of a release and NVIDIA's wheels to compile against.

    ``abi`` is its C++ ABI ("C++11", "pre-C++11").
    """

    abi: str
    wheel: RemoteWheel
    cuda: tuple[RemoteWheel, ...]

    def hash_content(self) -> str:
        """Return 64 hex digits over what is fetched."""
        fetched = "".join(f"{wheel.sha256} {wheel.record} {wheel.members}\n" for wheel in (self.wheel, *self.cuda))
        return hashlib.sha256(fetched.encode()).hexdigest()


class Pairing(Struct, frozen=True):
    """The content of ``pairing.toml``."""

    release: dict[str, Pair]


def load_pair(release: str) -> Pair:
    """Return the pair of a release. Raises UsageError when there is none."""
    pairs = toml.read_own_table(_FILE, Pairing).release
    if derive_release(release) not in pairs:
        raise UsageError(
            f"{_FILE.name}: no official kernels are named for {release}",
            next_step=f"use one of {', '.join(pairs)}, or compile them: --kernels compiled",
        )
    return pairs[derive_release(release)]
