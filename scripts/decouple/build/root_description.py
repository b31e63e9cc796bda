"""Describe a build root: TOML to frozen values, and digests that show changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.build.inputs import compute_digest

DEFAULT = Path(__file__).with_name("rootfs-trixie.toml")
#: The root with an old C library, whose wheels run on most machines.
PORTABLE = Path(__file__).with_name("rootfs-bullseye.toml")


class Bootstrap(Struct, frozen=True):
    """Describe what mmdebstrap gets.

    ``sources`` are further lines of apt's list, ``seconds`` and ``disk_mib`` estimates.
    """

    suite: str
    variant: str
    components: tuple[str, ...]
    mirror: str
    keyring: str
    seconds: int
    disk_mib: int
    include: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class Mount(Struct, frozen=True):
    """``proc``: a new procfs; ``host``: the host's folder of the same path."""

    kind: str
    at: str


class Trap(Struct, frozen=True):
    """A package that is handled in its own way, and why."""

    package: str
    what: str
    why: str


class PipTool(Struct, frozen=True):
    """Describe a PyPI wheel that the root's Python installs for all (a build tool)."""

    project: str
    version: str
    file: str
    sha256: str


class PypiPiece(PipTool, frozen=True):
    """Describe a PyPI file, unpacked into ``prefix`` (a path in the root).

    Symbolic links (name, target) are made there.
    """

    prefix: str
    links: tuple[tuple[str, str], ...] = ()


class ForeignPrograms(Struct, frozen=True):
    """Programs of another suite, for a root whose own are too old.

    ``packages`` and all that they need are unpacked into ``prefix``; each of ``programs`` (a path below it) runs with
    the loader and the libraries from there and is linked into /usr/local/bin. What they start is the root's own.
    ``links`` (path, target) are made in the root, for what others look for at its usual place. ``compilers`` are paths,
    too: these run with the root's libraries, and a script in ``bin`` of the prefix calls each with the headers and the
    libraries from there.
    """

    suite: str
    prefix: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    why: str
    links: tuple[tuple[str, str], ...] = ()
    compilers: tuple[str, ...] = ()

    def describe_content(self) -> dict[str, Any]:
        """Describe what of it is in the root."""
        made = {**asdict(self), "why": ""}
        for addition in ("links", "compilers"):  # one that has none keeps the digest that it had
            if not made[addition]:
                del made[addition]
        return made


class UnpackedPackages(Struct, frozen=True):
    """Debian packages unpacked into ``prefix`` without being installed."""

    prefix: str
    packages: tuple[str, ...]


class DebianPackages(Struct, frozen=True):
    """Describe Debian packages of a moving suite by path in the archive and SHA-256.

    The path has the version. They are unpacked into ``prefix``, without what they depend on. With ``host_part`` only
    their shared libraries, without the code for GPUs. ``older``: library -> a symbol's version that the C library of
    the root lacks, and an older one that it has (``inside/host_part.py``).
    """

    prefix: str
    files: tuple[tuple[str, str], ...]
    why: str
    host_part: bool = False
    older: Mapping[str, tuple[str, str]] = {}

    def content(self) -> dict[str, Any]:
        """Return what of it is in the root."""
        made = {**asdict(self), "why": ""}
        if not self.host_part:  # one that has all keeps the digest that it had
            del made["host_part"], made["older"]
        return made


class Toolkit(Struct, frozen=True):
    """Describe a CUDA toolkit in ``prefix`` of Debian packages and NVIDIA's wheels.

    The packages are of ``suite``, without what they depend on. Nothing of it is installed. ``take`` and ``whole`` are
    explained in ``inside/toolkit.py``, which lays it out.
    """

    prefix: str
    suite: str
    components: tuple[str, ...]
    packages: tuple[str, ...]
    take: tuple[tuple[str, str], ...]
    whole: tuple[str, ...]
    wheels: tuple[PipTool, ...]
    why: str

    def describe_content(self) -> dict[str, Any]:
        """Describe what of it is in the root."""
        return {**asdict(self), "wheels": [asdict(wheel) for wheel in self.wheels], "why": ""}


class Layer(Struct, frozen=True):
    """Packages installed together; ``seen`` are versions of the last whole build.

    With ``toolkit_of``, the file name of another description, the toolkit is that of its layer of the same name.
    ``of`` names what it takes of other layers of this description: LAYER:NAME, where NAME is a project of PyPI or the
    prefix of foreign programs.
    """

    name: str
    summary: str
    packages: tuple[str, ...]
    seconds: int
    disk_mib: int
    pypi: tuple[PypiPiece, ...] = ()
    beside: tuple[UnpackedPackages, ...] = ()
    seen: Mapping[str, str] = field(default_factory=dict)
    pip: tuple[PipTool, ...] = ()
    foreign: tuple[ForeignPrograms, ...] = ()
    toolkit: tuple[Toolkit, ...] = ()
    debs: tuple[DebianPackages, ...] = ()
    toolkit_of: str = ""
    of: tuple[str, ...] = ()

    @property
    def unpacked_parts(self) -> tuple[UnpackedPackages | ForeignPrograms | Toolkit, ...]:
        """What is unpacked into a prefix of its own."""
        return (*self.beside, *self.foreign, *self.toolkit)

    @property
    def pinned_files(self) -> tuple[PypiPiece | PipTool, ...]:
        """The files of PyPI."""
        return (*self.pypi, *self.pip, *(wheel for piece in self.toolkit for wheel in piece.wheels))

    @property
    def pins(self) -> dict[str, str]:
        """The SHA-256 of each file that is pinned by one, PyPI's and Debian's."""
        debs = {path.rpartition("/")[2]: sha for piece in self.debs for path, sha in piece.files}
        return {**{piece.file: piece.sha256 for piece in self.pinned_files}, **debs}

    def describe_content(self) -> dict[str, Any]:
        """Describe what makes the layer different when it changes.

        Not the texts, estimates or versions seen.
        """
        made: dict[str, Any] = {
            "packages": sorted(self.packages),
            "pypi": [asdict(piece) for piece in self.pypi],
            "beside": [asdict(piece) for piece in self.beside],
        }
        if self.pip:  # a layer that has none keeps the digest that it had
            made["pip"] = [asdict(tool) for tool in self.pip]
        if self.foreign:
            made["foreign"] = [piece.describe_content() for piece in self.foreign]
        if self.toolkit:
            made["toolkit"] = [piece.describe_content() for piece in self.toolkit]
        if self.debs:
            made["debs"] = [piece.content() for piece in self.debs]
        return made


class Description(Struct, frozen=True):
    """A whole root. ``path`` names it in errors."""

    path: Path
    name: str
    bootstrap: Bootstrap
    mounts: tuple[Mount, ...]
    traps: tuple[Trap, ...]
    layers: tuple[Layer, ...]

    def find_layer(self, name: str) -> Layer:
        """Return one layer. Raises DecoupleError for a name that is not there."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        known = ", ".join(layer.name for layer in self.layers)
        raise DecoupleError(f"{self.path}: no layer {name!r}", next_step=f"use one of {known}")

    def compute_digest(self) -> str:
        """Make the name of the root in the cache: 16 hex digits over what mmdebstrap gets.

        Layers have their own records.
        """
        content = {"schema": toml.SCHEMA, **asdict(self.bootstrap)}
        for estimate in ("seconds", "disk_mib"):
            del content[estimate]
        for addition in ("include", "sources"):  # a root without them keeps the name that it had
            if not content[addition]:
                del content[addition]
        return compute_digest(content)[:16]


def compute_layer_digest(layer: Layer) -> str:
    """Return 64 hex digits over what the layer puts into the root."""
    return compute_digest(layer.describe_content())


class _DescriptionFile(Struct, frozen=True):
    """The keys of the file."""

    name: str
    bootstrap: Bootstrap
    layer: tuple[Layer, ...]
    mount: tuple[Mount, ...] = ()
    trap: tuple[Trap, ...] = ()


def load_description(path: Path = DEFAULT) -> Description:
    """Read a description. Raises DecoupleError naming the file and the key."""
    try:
        file = toml.read_toml(path, _DescriptionFile, mend=f"compare with {DEFAULT.name}")
    except OSError as error:
        raise DecoupleError(f"{path}: {error.strerror}", next_step=f"name a description such as {DEFAULT}") from error
    layers = tuple(_take_pieces(path, _take_toolkit(path, layer), file.layer) for layer in file.layer)
    return Description(path, file.name, file.bootstrap, file.mount, file.trap, layers)


def _take_toolkit(path: Path, layer: Layer) -> Layer:
    """Return the layer with the toolkit of the description that it names, if any."""
    if not layer.toolkit_of:
        return layer
    other = load_description(path.with_name(layer.toolkit_of)).find_layer(layer.name)
    return replace(layer, toolkit=other.toolkit)


def _take_pieces(path: Path, layer: Layer, others: tuple[Layer, ...]) -> Layer:
    """Return the layer with the pieces of ``others`` that it names, in their order."""
    taken = dict.fromkeys(layer.of, False)

    def is_taken(other: Layer, name: str) -> bool:
        key = f"{other.name}:{name}"
        taken.update({key: True} if key in taken else {})
        return key in taken

    pip = [tool for other in others for tool in other.pip if is_taken(other, tool.project)]
    pypi = [piece for other in others for piece in other.pypi if is_taken(other, piece.project)]
    foreign = [piece for other in others for piece in other.foreign if is_taken(other, piece.prefix)]
    for name in (name for name, found in taken.items() if not found):
        raise DecoupleError(
            f"{path}: layer {layer.name!r}: no other layer has {name!r}",
            next_step="name LAYER:NAME, a project of PyPI or the prefix of foreign programs",
        )
    return replace(layer, pip=(*layer.pip, *pip), pypi=(*layer.pypi, *pypi), foreign=(*layer.foreign, *foreign))
