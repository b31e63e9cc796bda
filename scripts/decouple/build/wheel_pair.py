"""Name a core ``torch 2.6.0+cu124``, as users know CUDA.

It brings ``torch-cuda`` with it. The payload is that of the bare core, but for the version that it says of itself. The
bare core and its ``torch-cuda`` stay as they are: what goes with the new name is a second wheel of the bindings, which
asks for that name (a requirement can name one local version only, PEP 440). The libraries with the kernels are the same
file for both.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import Version

from decouple.base import zips
from decouple.base.errors import UsageError
from decouple.base.files import make_work_folder
from decouple.build import wheel_finishing, wheel_rewrite, wheel_split
from decouple.release import projects
from decouple.release.projects import CORE, CUDA, LIBRARIES, PAIRED
from decouple.release.wheel_manifest import WheelManifest

_VERSION = "torch/version.py"


class PairedWheels(Struct, frozen=True):
    """The core that asks for CUDA, and the bindings that ask for it."""

    core: Path
    bindings: Path


def pair_wheels(core: Path, bindings: Path, folder: Path) -> PairedWheels:
    """Write ``torch-X+cuNNN`` and ``torch_cuda-X+cuNNN.paired`` into ``folder``.

    They are made of a bare core and the bindings for it.

    Raises UsageError when they do not belong together or the bindings were not split from the libraries, DecoupleError
    when one is no wheel of decouple.
    """
    of_core, of_bindings = wheel_finishing.read_manifest(core), wheel_finishing.read_manifest(bindings)
    if canonicalize_name(of_core.project) != CORE or canonicalize_name(of_bindings.project) != CUDA:
        raise UsageError(
            f"{core.name}, {bindings.name}: of {of_core.project} and {of_bindings.project}",
            next_step=f"name a wheel of {CORE}, then one of {CUDA}",
        )
    with zips.open_zip(bindings) as source:
        asked = projects.parse_requirements(
            projects.parse_metadata(source.read(f"{wheel_finishing.find_dist_info(source, bindings)}/METADATA"))
        )
    pins = {str(canonicalize_name(requirement.name)): str(requirement.specifier) for requirement in asked}
    if LIBRARIES not in pins:
        raise UsageError(
            f"{bindings.name}: has the libraries in it, which two wheels would then have",
            next_step=f"decouple repack split {shlex.quote(str(bindings))}",
        )
    if pins.get(CORE) != f"=={of_core.version}":
        raise UsageError(
            f"{bindings.name}: made for torch{pins.get(CORE, '')}, not for {of_core.version}",
            next_step="name the core of the same build",
        )
    for_python = [
        {(tag.interpreter, tag.abi) for tag in wheel_rewrite.parse_plain_name(requirement).tags}
        for requirement in (core, bindings)
    ]
    if for_python[0] != for_python[1]:
        raise UsageError(f"{core.name}, {bindings.name}: for two Pythons", next_step="name wheels of one Python")
    local, public = str(Version(of_bindings.version).local), Version(of_core.version).public
    version, paired = f"{public}+{local}", f"{public}+{local}.{PAIRED}"
    with make_work_folder(folder, "paired") as work:
        return PairedWheels(
            _rewrite_wheel(core, of_core, version, {CUDA: f"{CUDA}=={paired}"}, folder, work),
            _rewrite_wheel(bindings, of_bindings, paired, {CORE: f"{CORE}=={version}"}, folder, work),
        )


def _rewrite_wheel(
    wheel: Path, manifest: WheelManifest, version: str, asks: dict[str, str], folder: Path, work: Path
) -> Path:
    """Write the same wheel as ``version``, with only requirements in ``asks`` changed."""
    with zips.open_zip(wheel) as source:
        info = wheel_finishing.find_dist_info(source, wheel)
        headers = projects.parse_metadata(source.read(f"{info}/METADATA"))
        fields = [
            (key, version if key == "Version" else value)
            for key, value in headers.items()
            if not any(wheel_split.is_requirement_of(key, value, project) for project in asks)
        ]
        fields += [("Requires-Dist", value) for value in asks.values()]
        names = wheel_rewrite.list_payload(source, info)
        changed: dict[str, bytes | Path] = {}
        if _VERSION in names:
            said = source.read(_VERSION)
            changed[_VERSION] = said.replace(f"'{manifest.version}'".encode(), f"'{version}'".encode())
        text = wheel_rewrite.format_metadata(fields, str(headers.get_payload()))
        return wheel_rewrite.remake_wheel(
            wheel, source, replace(manifest, version=version), text, changed, (work, folder)
        )
