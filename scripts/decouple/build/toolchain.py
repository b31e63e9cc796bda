"""Choose layers, Python, programs, variables and upstream's files for a stage."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.untrusted_input import read_json
from decouple.build import inputs, settings, toolkits
from decouple.build.environment import COMPILERS_NOTE, Environment, Places, RootEnvironment, read_output
from decouple.build.options import Choices, Provenance
from decouple.build.sandbox import BindMount
from decouple.build.settings import Interpreter

_LAUNCHERS = ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")
_COMPILE_NOTHING = ("cmake", "ninja", "linker", "ccache")
"""Programs of `describe_toolchain` whose version no object depends on."""


def list_layers(number: int, choices: Choices, kind: str) -> list[str]:
    """Return the root's layers to compile a stage in an environment of ``kind``."""
    chosen = settings.list_layers(number, profile=choices.profile, core=choices.core)
    if number == 2 and choices.toolkit:
        chosen = toolkits.list_vendor_layers(choices.toolkit, chosen, part=choices.slice != "all")
    elif number == 2:
        chosen = toolkits.list_layers(kind, choices.cuda, chosen)
    return list(dict.fromkeys([*chosen, *choose_interpreter(number, choices, kind).layers]))


def list_bindings_layers(choices: Choices, kind: str) -> list[str]:
    """Return the root's layers for stage 2 over kernels, in ``kind``'s environment."""
    facts, core = settings.read_facts(), settings.find_core(choices.core)
    if kind in core.bindings_layers:
        return list(core.bindings_layers[kind])
    return list(dict.fromkeys([*facts.bindings.layers, *core.layers, *choose_interpreter(2, choices, kind).layers]))


def choose_interpreter(number: int, choices: Choices, kind: str) -> Interpreter:
    """Return the Python that a stage is configured with.

    The one chosen, else for stage 2 that of a core which is for another than the environment's own.
    """
    if choices.python:
        return settings.read_facts().portable.find_interpreter(choices.python)
    own = Interpreter("python3", ())
    return own if number == 1 else settings.find_core(choices.core).interpreters.get(kind, own)


def list_overrides(places: Places) -> tuple[BindMount, ...]:
    """List files that the root shows as upstream has them (why: ``stages.toml``)."""
    made = []
    for override in settings.find_stage(1).override:
        if override.environment == "rootfs":
            copy = places.state / "overrides" / override.path
            content = inputs.read_upstream_file(places.tree, override.path)
            if not copy.exists() or copy.read_bytes() != content:
                write_atomically(copy, content)
            made.append(BindMount(copy, f"/decouple/{places.release}/src/{override.path}"))
    return tuple(made)


def make_variables(
    environment: Environment, stage: int, provenance: Provenance, choices: Choices | None = None
) -> dict[str, str]:
    """Make the whole environment that a stage's commands run in."""
    choices = choices or Choices()
    names = environment.name_places()
    revision = str(choices.revision or "")
    if stage == 1:
        profile = settings.find_profile(choices.profile)
        local = ".".join(filter(None, (profile.local_version, revision)))
        more = {**profile.environment, "PYTORCH_BUILD_VERSION": f"{provenance.version}+{local}"}
    else:
        core = settings.find_core(choices.core)
        more = {
            **core.environments.get(environment.kind, {}),
            "TORCH_CUDA_ARCH_LIST": ";".join(choices.archs),
            "TORCH_CUDA_CORE": "built" if choices.core == "built" else "stock",
            "TORCH_CUDA_CORE_PREFIX": core.prefix.format_map(names),
            "TORCH_CUDA_SLICE": choices.slice,
            "USE_FLASH_ATTENTION": "1" if choices.flash else "0",
            "USE_MEM_EFF_ATTENTION": "1" if choices.flash else "0",
            **({"TORCH_CUDA_REVISION": revision} if revision else {}),
            **toolkits.make_variables(environment.kind, choices.cuda, names),
        }
        if choices.toolkit:
            libraries = core.find_libraries(environment.kind)
            more |= toolkits.list_vendor_variables(choices.toolkit, choices.archs, libraries)
    made = settings.make_variables(stage, environment.kind, names, more)
    if environment.kind == "host" and shutil.which("ccache") is None:  # it saves time; upstream's build needs none
        made = {name: value for name, value in made.items() if name not in _LAUNCHERS}
    return made | _make_shared_variables(environment, choices)


def _make_shared_variables(environment: Environment, choices: Choices) -> dict[str, str]:
    """Make both stages' variables: jobs, time of the sources, compilers, user's own."""
    named = settings.read_facts().host.passes if environment.kind == "host" else ()
    made = {name: os.environ[name] for name in named if name in os.environ}
    made |= {"SOURCE_DATE_EPOCH": str(inputs.read_epoch(environment.places.tree))}
    made |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    if choices.jobs:
        made["MAX_JOBS"] = str(choices.jobs)
    return {**made, **choices.variables}


def describe_toolchain(
    environment: Environment,
    stage: int,
    layers: Sequence[str],
    variables: Mapping[str, str],
    python: str = "python3",
) -> dict[str, Any]:
    """Read the first line that each program says of its version.

    ``python`` is the command of the one that the wheel is for. In a root also the versions of the packages in
    ``layers``.

    What else is in the root does not count: a stage is the same wheel whether or not the other is built with it.
    """
    facts = settings.read_facts()
    table = {**facts.toolchain, "python": (python, "--version"), **(facts.toolchain_cuda if stage == 2 else {})}
    made: dict[str, Any] = {}
    for name, command in table.items():
        output = read_output(environment, command, variables)
        made[name] = output.splitlines()[0] if output else None
    if isinstance(environment, RootEnvironment):
        root = environment.root
        named = {package for layer in layers for package in root.description.find_layer(layer).packages}
        versions = root.read_versions()
        pinned = {file.split("_")[0]: file for file in list_pins(environment, layers) if file.endswith(".deb")}
        versions |= {name: file.split("_")[1] for name, file in pinned.items()}
        made["packages"] = {name: versions[name] for name in sorted(named | pinned.keys()) if name in versions}
    return made


def list_pins(environment: Environment, layers: Sequence[str]) -> dict[str, str]:
    """Map each pinned file in a root's ``layers`` to its SHA-256; none on the host."""
    if not isinstance(environment, RootEnvironment):
        return {}
    found = (environment.root.description.find_layer(name) for name in layers)
    return {file: sha for layer in found for file, sha in layer.pins.items()}


def list_compilers(described: Mapping[str, Any]) -> dict[str, str]:
    """Return what of a described toolchain objects depend on, name -> version.

    They are the compilers and the packages of a root. What did not answer is left out, and so is Python's patch level.
    """
    made = {name: str(line) for name, line in described.items() if line and name not in (*_COMPILE_NOTHING, "packages")}
    if "python" in made:  # under a name of its own: notes of earlier versions have that of another, the root's own
        made["interpreter"] = made.pop("python").rpartition(".")[0]
    return {**made, **described.get("packages", {})}


def locate_compilers_note(folder: Path) -> Path:
    """Return the file that says what the objects in ``folder`` were compiled with."""
    return folder / COMPILERS_NOTE


def note_compilers(folder: Path, described: Mapping[str, Any]) -> None:
    """Note what the objects in ``folder`` are compiled with."""
    write_atomically(locate_compilers_note(folder), json.dumps(list_compilers(described), indent=2) + "\n")


def find_other_compilers(folder: Path, described: Mapping[str, Any]) -> str:
    """Say what the objects in ``folder`` were compiled with, where that changed.

    Ninja sees nothing of it: the headers of a package have the time at which it was packed. Only what is known of then
    and of now counts, as the answer costs hours; "" also where nothing was noted.
    """
    try:
        before = read_json(locate_compilers_note(folder), dict[str, str], mend="")
    except (OSError, DecoupleError):
        return ""
    now = list_compilers(described)
    other = [name for name in before.keys() & now if _cut_called_name(before[name]) != _cut_called_name(now[name])]
    changed = [f"{name} {before[name]}, now {now[name]}" for name in other]
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    return f"{min(changed)}{more}" if changed else ""


def _cut_called_name(line: str) -> str:
    """Return what a compiler says of its version without its own name.

    That is the name that it was called by.

    >>> _cut_called_name("cc (Debian 14.2.0-19) 14.2.0") == _cut_called_name("gcc-14 (Debian 14.2.0-19) 14.2.0")
    True
    """
    return re.sub(r"^\S+ (?=\()", "", line)
