"""Variant wheels of torch_cuda wheels that exist: the same members, under one version and with a label each.

For a machine that none of them is for there is one without members, which asks for the core alone. Made of the bindings
that `split` wrote they are small: the libraries with the kernels are asked for, as by the wheel that each was made of.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import Version

from decouple.base import zips
from decouple.base.errors import UsageError
from decouple.base.files import work_folder
from decouple.build import remade, split, wheels
from decouple.release import projects, variants
from decouple.release.projects import CORE, CUDA, PAIRED
from decouple.release.wheel_manifest import WheelManifest
from decouple.release.wheel_name import WheelName

_NULL_TEXT = """\
For a machine without an NVIDIA driver that runs one of this project's CUDA versions: the core alone, and nothing of
CUDA. With such a driver: install it anew, by an installer that knows variant wheels.
"""


class _Given(Struct, frozen=True):
    """A wheel of which a variant is made."""

    path: Path
    manifest: WheelManifest
    label: str
    core: str
    """The version that it is pinned to, as a requirement says it."""

    @property
    def version(self) -> str:
        return variants.version_of(self.manifest.version)

    @property
    def name(self) -> WheelName:
        """The name before the label: tags are read from it."""
        return replace(WheelName.parse(self.path.name), version=self.version)


def make(given: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    """Write a variant of each torch_cuda wheel into ``folder``, and for each Python one for machines without CUDA.

    Raises UsageError when one is no wheel of torch_cuda for any core, when two have the same name as variants or are
    pinned to two cores, DecoupleError when one was not built by decouple.
    """
    found: dict[tuple[str, str], _Given] = {}
    for path in given:
        one = _read(path)
        other = found.setdefault((str(one.name), one.label), one)
        if other is not one:
            raise UsageError(f"{path.name}, {other.path.name}: both would be {one.label}", next_step="name one of them")
        other = next(iter(found.values()))
        if one.core != other.core:
            raise UsageError(
                f"{path.name}, {other.path.name}: for two cores, {one.core} and {other.core}",
                next_step="name wheels that were built on one core",
            )
    with work_folder(folder, "variants") as work:
        made = [_variant(one, folder, work) for one in found.values()]
        for one in {str(one.name): one for one in found.values()}.values():
            made.append(_null(one, folder, work))
    return tuple(made)


def _read(path: Path) -> _Given:
    manifest = wheels.read_manifest(path)
    if canonicalize_name(manifest.project) != CUDA:
        raise UsageError(f"{path.name}: a wheel of {manifest.project}", next_step=f"name wheels of {CUDA}")
    local = Version(manifest.version).local or ""
    label = projects.cuda_label(local)
    if label is None or manifest.cuda is None:
        raise UsageError(f"{path.name}: its version names no CUDA", next_step="name a wheel such as 2.6.0+cu124")
    if PAIRED in local.split("."):
        raise UsageError(
            f"{path.name}: for a core that brings its CUDA",
            next_step="name the bindings that `split` wrote, which any CUDA's have one core with",
        )
    with zips.opened(path) as source:
        headers = projects.headers(source.read(f"{wheels.dist_info(source, path)}/METADATA"))
    cores = [str(one.specifier) for one in projects.requirements(headers) if canonicalize_name(one.name) == CORE]
    if len(cores) != 1:
        raise UsageError(f"{path.name}: pinned to no core", next_step="build it again")
    return _Given(path, manifest, label, cores[0])


def _variant(one: _Given, folder: Path, work: Path) -> Path:
    with zips.opened(one.path) as source:
        info = wheels.dist_info(source, one.path)
        headers = projects.headers(source.read(f"{info}/METADATA"))
        fields = [(key, one.version if key == "Version" else value) for key, value in headers.items()]
        names = [*remade.payload(source, info), *remade.kept(source, info)]
        text = remade.metadata(fields, str(headers.get_payload()))
        raw = remade.raw(work / str(one.name), source, names, text)
    return _finished(raw, one, one.manifest, one.label, folder)


def _null(one: _Given, folder: Path, work: Path) -> Path:
    with zips.opened(one.path) as source:
        headers = projects.headers(source.read(f"{wheels.dist_info(source, one.path)}/METADATA"))
        fields = [
            (key, one.version if key == "Version" else value)
            for key, value in headers.items()
            if key != "Requires-Dist" or split.asks_for(key, value, CORE)
        ]
        raw = remade.raw(work / str(one.name), source, (), remade.metadata(fields, _NULL_TEXT))
    return _finished(raw, one, replace(one.manifest, cuda=None, arch_list=()), variants.NULL, folder)


def _finished(raw: Path, one: _Given, manifest: WheelManifest, label: str, folder: Path) -> Path:
    stands_for = variants.properties(label, manifest.cuda, manifest.arch_list)
    with zipfile.ZipFile(raw, "a") as out:
        info = wheels.dist_info(out, raw)
        out.writestr(f"{info}/{variants.MEMBER}", variants.document({label: stands_for}))
    labelled = raw.rename(raw.with_name(str(replace(one.name, label=label))))
    made = replace(manifest, version=one.version, flags={**manifest.flags, "variant": label})
    return wheels.finish(labelled, folder, made, int(manifest.times.get("source_date_epoch", 0)))
