"""Load ``stages.toml``: the variables, layers and estimates of each build.

A build is a stage, its profile and its core. What is different in one environment ("host", "rootfs", …) stands in a
table ``environments`` under its name.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from decouple.base import toml
from decouple.base.errors import DecoupleError, UsageError

_FILE = Path(__file__).with_name("stages.toml")
_Choice = TypeVar("_Choice")
Variables = Mapping[str, str]


class Cost(Struct, frozen=True):
    """Hold objects, core-seconds of all, MiB of disk, and MiB of memory for one job."""

    objects: int
    core_seconds: float
    disk_mib: int
    job_mib: int


class PrepareCommand(Struct, frozen=True):
    """Hold a command before configuring: ``makes`` a file, not if ``unless`` is there."""

    environment: str
    what: str
    makes: str
    unless: str
    command: tuple[str, ...]


class FileOverride(Struct, frozen=True):
    """A file of the tree that an environment shows as upstream has it."""

    environment: str
    path: str
    why: str


class Packer(Struct, frozen=True):
    """Describe how a release with this ``backend`` is configured, installed, packed."""

    backend: str
    """How ``build-backend`` begins."""
    modules: tuple[str, ...]
    """What the Python that packs must have."""
    configure: str
    """A shell command in the tree, with ``{python}``."""
    targets: tuple[str, ...]
    """What ninja makes before packing; none: all."""
    wheel: tuple[str, ...]
    """The command; the folder for the wheel follows."""


class CompileNeeds(Struct, frozen=True):
    """What compiling needs: layers of a root, and the estimate of a cold build."""

    layers: tuple[str, ...]
    objects: int
    object_seconds: float
    disk_mib: int
    job_mib: int

    @property
    def cost(self) -> Cost:
        """The estimate of a cold build."""
        return Cost(self.objects, self.objects * self.object_seconds, self.disk_mib, self.job_mib)


class StageSettings(CompileNeeds, frozen=True):
    """Hold ``[stage1]`` or ``[stage2]``.

    ``slice_`` is stage 2's runtime part, ``flash_`` its attention kernels.
    """

    summary: str
    does_not_read: tuple[str, ...]
    environment: Variables
    environments: Mapping[str, Variables]
    prepare: tuple[PrepareCommand, ...] = ()
    packer: tuple[Packer, ...] = ()
    override: tuple[FileOverride, ...] = ()
    arch_list: str = ""
    writes: tuple[str, ...] = ()
    """Git's patterns of the places in the tree to which it writes sources."""
    objects_in: Mapping[str, int] = field(default_factory=dict)
    """Kind of environment -> objects, where they are others than ``objects``."""
    slice_objects: int = 0
    slice_object_seconds: float = 0.0
    flash_objects: int = 0
    flash_object_seconds: float = 0.0
    further_arch: float = 1.0
    """Share of the seconds for one architecture that each further one costs."""


class BindingsSettings(CompileNeeds, frozen=True):
    """``[bindings]``: stage 2 beside libraries with kernels that are compiled already.

    ``unused`` are variables of stage 2 that name what only the compilation of kernels reads, ``environment`` are its
    own, ``components`` the third-party folders that are read.
    """

    unused: tuple[str, ...]
    components: tuple[str, ...]
    environment: Variables


class Profile(Struct, frozen=True):
    """How stage 1 is built; ``local_version`` is the end of its wheel's version."""

    summary: str
    layers: tuple[str, ...]
    local_version: str
    environment: Variables


class Interpreter(Struct, frozen=True):
    """The Python that a core is for, where it is not the environment's own.

    It has a command, and layers that bring it.
    """

    python: str
    layers: tuple[str, ...]


class Core(Struct, frozen=True):
    """What stage 2 is built against, below ``prefix``.

    ``packages`` is the folder of its torch, "" when pip installs it. ``bindings_layers``: kind of environment -> the
    layers in which bindings for it are compiled, where these are fewer than other stages need.
    """

    summary: str
    layers: tuple[str, ...]
    prefix: str
    packages: str
    environments: Mapping[str, Variables] = field(default_factory=dict)
    interpreters: Mapping[str, Interpreter] = field(default_factory=dict)
    bindings_layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find_libraries(self, kind: str) -> str:
        """Return the LD_LIBRARY_PATH that wheels on this core need.

        It is for an environment of ``kind``, "" where that finds its own.
        """
        return self.environments.get(kind, {}).get("LD_LIBRARY_PATH", "")


class HostSettings(Struct, frozen=True):
    """Hold ``--env host``'s needs, and its variables for compilers and libraries."""

    tools: tuple[str, ...]
    modules: tuple[str, ...]
    submodules: tuple[str, ...]
    passes: tuple[str, ...]


class PortableSettings(Struct, frozen=True):
    """What is special about wheels for most machines.

    These are the first release with the C++11 ABI, how libraries go in, what says which systems a wheel runs on, and
    for which Pythons ("3.13") besides the root's own they are made there.
    """

    cxx11_abi_from: str
    graft: tuple[str, ...]
    wheel: tuple[str, ...]
    sonames: Mapping[str, str]
    show: tuple[str, ...]
    interpreters: Mapping[str, Interpreter] = field(default_factory=dict)

    def find_interpreter(self, version: str) -> Interpreter:
        """Find one of those Pythons. Raises UsageError naming them."""
        if version not in self.interpreters:
            raise UsageError(
                f"--python {version}: the portable root has none",
                next_step=f"use one of {', '.join(self.interpreters)}, or leave it out for the root's own",
            )
        return self.interpreters[version]


class StageFacts(Struct, frozen=True):
    """All of ``stages.toml``."""

    measured: str
    common: Variables
    stage1: StageSettings
    stage2: StageSettings
    bindings: BindingsSettings
    profile: Mapping[str, Profile]
    core: Mapping[str, Core]
    toolchain: Mapping[str, tuple[str, ...]]
    toolchain_cuda: Mapping[str, tuple[str, ...]]
    host: HostSettings
    portable: PortableSettings


@functools.cache
def read_facts() -> StageFacts:
    """Read the file."""
    return toml.read_own_table(_FILE, StageFacts)


def find_stage(number: int) -> StageSettings:
    """Return the facts of stage 1 or 2."""
    return read_facts().stage1 if number == 1 else read_facts().stage2


def find_packer(tree: Path) -> Packer:
    """Return how ``tree`` is packed: by its pyproject.toml, else as by setup.py.

    Raises DecoupleError for another backend.
    """
    known, file = find_stage(1).packer, tree / "pyproject.toml"
    try:
        named = str(tomllib.loads(file.read_text(encoding="utf-8"))["build-system"]["build-backend"])
    except (FileNotFoundError, KeyError):
        return known[0]
    except (ValueError, TypeError) as error:
        raise DecoupleError(f"{file}: {error}", next_step="mend it, or apply the series anew") from None
    match = next((packer for packer in known if named.startswith(packer.backend)), None)
    if match is None:
        raise DecoupleError(
            f"{file}: build-backend {named!r} is none that is known ({', '.join(packer.backend for packer in known)})",
            next_step=f"add a [[stage1.packer]] for it to {_FILE}",
        )
    return match


def find_profile(name: str) -> Profile:
    """Return ``[profile.NAME]``. Raises UsageError naming the choices."""
    return _find_choice("profile", read_facts().profile, name)


def find_core(name: str) -> Core:
    """Return ``[core.NAME]``. Raises UsageError naming the choices."""
    return _find_choice("core", read_facts().core, name)


def _find_choice(what: str, choices: Mapping[str, _Choice], name: str) -> _Choice:
    if name not in choices:
        raise UsageError(f"{what} {name!r} is unknown", next_step=f"use one of {', '.join(choices)}")
    return choices[name]


def list_layers(number: int, *, profile: str, core: str) -> list[str]:
    """List the root layers that a stage needs, in the order of the description."""
    chosen = (
        _find_choice("profile", read_facts().profile, profile)
        if number == 1
        else _find_choice("core", read_facts().core, core)
    )
    return [*find_stage(number).layers, *chosen.layers]


def estimate_cost(number: int, kind: str = "", *, arch_count: int = 1, flash: bool = True, part: bool = False) -> Cost:
    """Estimate a cold build of one stage in an environment of ``kind``.

    With ``part``, of stage 2's runtime part. Each architecture more than one costs a share of the first.
    """
    table = find_stage(number)
    objects = table.objects_in.get(kind, table.objects)
    seconds = objects * table.object_seconds
    if number == 2 and part:
        objects = table.slice_objects
        seconds = objects * table.slice_object_seconds
    elif number == 2:
        if flash:
            objects += table.flash_objects
            seconds += table.flash_objects * table.flash_object_seconds
        seconds *= 1 + table.further_arch * (arch_count - 1)
    return Cost(objects, seconds, table.disk_mib, table.job_mib)


def make_variables(number: int, kind: str, places: Variables, more: Variables) -> dict[str, str]:
    """Make a stage's variables in a ``kind`` ("host", "rootfs"), places filled in."""
    table = find_stage(number)
    made = {**read_facts().common, **table.environment, **table.environments.get(kind, {}), **more}
    return {name: value.format_map(places) for name, value in made.items()}
