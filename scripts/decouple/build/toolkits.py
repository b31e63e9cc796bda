"""Load ``toolkits.toml``: a release's CUDA, and where a root has it.

>>> check_release("2.6", "portable", "11.8")
>>> check_release("2.6", "portable", "12.9")
Traceback (most recent call last):
decouple.base.errors.UsageError: --cuda 12.9: 2.6 is not compiled with it here (use one of 11.8, 12.4)
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import UsageError
from decouple.build import settings

_FILE = Path(__file__).with_name("toolkits.toml")


class RootToolkit(Struct, frozen=True):
    """Hold a CUDA version in a kind of environment: its layers and its folder there."""

    environment: str
    cuda: str
    layers: tuple[str, ...]
    folder: str


class Vendor(Struct, frozen=True):
    """Another vendor's toolkit.

    It builds the ``project`` of third_device in the Debian root, with its ``layers`` ``instead_of`` CUDA's, and with
    ``whole_layers`` but for the slice; ``arch`` is an expression for one architecture; ``toolchain`` are programs whose
    version goes into the manifest.
    """

    summary: str
    project: str
    instead_of: tuple[str, ...]
    layers: tuple[str, ...]
    arch: str
    arch_list: str
    local_version: str
    objects: int
    slice_objects: int
    variables: Mapping[str, str]
    toolchain: Mapping[str, tuple[str, ...]] = {}
    whole_layers: tuple[str, ...] = ()


class Toolkits(Struct, frozen=True):
    """Hold ``toolkits.toml``.

    ``host_compilers``: CUDA version -> compiler -> newest major version that it takes.
    """

    releases: Mapping[str, tuple[str, ...]]
    host_compilers: Mapping[str, Mapping[str, int]]
    toolkit: tuple[RootToolkit, ...]
    environments: Mapping[str, Mapping[str, str]]
    vendors: Mapping[str, Vendor]


@functools.cache
def read_toolkits() -> Toolkits:
    """Read the file."""
    return toml.read_own_table(_FILE, Toolkits)


def find_toolkit(kind: str, cuda: str) -> RootToolkit | None:
    """Return what an environment of ``kind`` has of that version.

    None where the description of no root names it.
    """
    return next((row for row in read_toolkits().toolkit if (row.environment, row.cuda) == (kind, cuda)), None)


def check_release(release: str, kind: str, cuda: str) -> None:
    """Check that ``release`` is compiled with ``cuda`` in an environment of ``kind``.

    Raises UsageError with those that it is.
    """
    listed = read_toolkits().releases.get(release, ())
    if cuda not in listed:
        known = (
            f"use one of {', '.join(listed)}" if listed else f"--env host without --cuda, or add {release} to {_FILE}"
        )
        raise UsageError(f"--cuda {cuda}: {release} is not compiled with it here", next_step=known)
    there = [row.cuda for row in read_toolkits().toolkit if row.environment == kind and row.cuda in listed]
    if there and cuda not in there:
        elsewhere = sorted({row.environment for row in read_toolkits().toolkit if row.cuda == cuda})
        raise UsageError(
            f"--cuda {cuda}: --env {kind} has {', '.join(there)} alone", next_step=f"--env {' or '.join(elsewhere)}"
        )


def find_vendor(name: str) -> Vendor:
    """``[vendors.NAME]``. Raises UsageError naming the choices."""
    found = read_toolkits().vendors.get(name)
    if found is None:
        raise UsageError(
            f"--toolkit {name}: not described", next_step=f"use one of {', '.join(read_toolkits().vendors)}"
        )
    return found


def list_unread_paths(stage: int, toolkit: str) -> tuple[str, ...]:
    """Return the files and folders of a tree of which ``stage`` reads nothing.

    ``toolkit`` is the vendor's whose it is made with; "" for CUDA's.
    """
    others = [vendor.project for name, vendor in read_toolkits().vendors.items() if name != toolkit]
    folders = [f"third_device/{project}" for project in others] if stage == 2 else []
    return (*settings.find_stage(stage).does_not_read, *folders)


def list_vendor_layers(name: str, stage: Sequence[str], *, part: bool) -> list[str]:
    """Return the layers ``stage`` of a root with that vendor's in place of CUDA's.

    ``part``: for the slice.
    """
    found = find_vendor(name)
    own = found.layers if part else (*found.layers, *found.whole_layers)
    return [*(layer for layer in stage if layer not in found.instead_of), *own]


def list_vendor_variables(name: str, archs: Sequence[str], libraries: str) -> dict[str, str]:
    """Return what stage 2 is told of that vendor's toolkit.

    ``libraries`` is the LD_LIBRARY_PATH of the core, if any.
    """
    before = f"{libraries}:" if libraries else ""
    return {
        key: value.format(archs=";".join(archs), libraries=before) for key, value in find_vendor(name).variables.items()
    }


def list_layers(kind: str, cuda: str, stage: Sequence[str]) -> list[str]:
    """Return the layers ``stage`` of a root, with those of the version ``cuda``.

    Where ``kind`` is "auto" they are the Debian root's, which is taken if this machine does not suffice.
    """
    chosen = find_toolkit("rootfs" if kind == "auto" else kind, cuda)
    return [*(name for name in stage if chosen is None or not has_cuda([name])), *(chosen.layers if chosen else ())]


def has_cuda(layers: Iterable[str]) -> bool:
    """Return whether the ``layers`` of a root bring a CUDA, of whatever version."""
    return not {layer for row in read_toolkits().toolkit for layer in row.layers}.isdisjoint(layers)


def make_variables(kind: str, cuda: str, places: Mapping[str, str]) -> dict[str, str]:
    """Return what stage 2 is told of the toolkit in an environment of ``kind``."""
    chosen = find_toolkit(kind, cuda)
    table = read_toolkits().environments.get(kind, {}) if chosen else {}
    named = {**places, "toolkit": chosen.folder} if chosen else places
    return {name: value.format_map(named) for name, value in table.items()}


def find_newest_gcc(cuda: str) -> int | None:
    """Return the newest gcc that nvcc of that version takes as host compiler.

    None where the file does not say.
    """
    return read_toolkits().host_compilers.get(cuda, {}).get("gcc")
