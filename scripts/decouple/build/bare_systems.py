"""Describe bare systems as wheel users have: which Python, and how a root is made."""

from __future__ import annotations

import functools
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import UsageError
from decouple.build.root_description import Bootstrap, Description, Mount
from decouple.release.manifest import RemoteFile

_FILE = Path(__file__).with_name("bare_systems.toml")
_DEBIAN = "/usr/share/keyrings/debian-archive-keyring.gpg"
_MOUNTS = (Mount("proc", "/proc"), Mount("host", "/dev"), Mount("host", "/sys"))


class System(Struct, frozen=True):
    """Describe a distribution's release with ``packages`` on top of the usual ones."""

    name: str
    suite: str
    mirror: str
    components: tuple[str, ...]
    python: str
    packages: tuple[str, ...]
    seconds: int
    disk_mib: int
    sources: tuple[str, ...] = ()
    old_pip: bool = False
    keyring: RemoteFile | None = None

    def make_description(self, keyring: str = _DEBIAN) -> Description:
        """Describe its root; ``keyring`` is the file with the keys of its archive."""
        bootstrap = Bootstrap(
            suite=self.suite,
            variant="minbase",
            components=self.components,
            mirror=self.mirror,
            keyring=keyring,
            seconds=self.seconds,
            disk_mib=self.disk_mib,
            include=self.packages,
            sources=self.sources,
        )
        return Description(_FILE, self.name, bootstrap, _MOUNTS, (), ())


class _SystemsFile(Struct, frozen=True):
    system: tuple[System, ...]


@functools.cache
def read_systems() -> tuple[System, ...]:
    """Read those of ``bare_systems.toml``."""
    return toml.read_own_table(_FILE, _SystemsFile).system


def find_system(name: str) -> System:
    """Find the system ``name`` ("debian-12").

    Raises UsageError naming the others.
    """
    for system in read_systems():
        if system.name == name:
            return system
    raise UsageError(
        f"{name}: no such system", next_step=f"use one of {', '.join(system.name for system in read_systems())}"
    )
