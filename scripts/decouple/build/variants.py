"""Make variant wheels of existing torch_cuda wheels.

They have the same members, under one version and with a label each. For a machine that none of them is for there is one
without members, which asks for the core alone. Made of the bindings that `split` wrote they are small: the libraries
with the kernels are asked for, as by the wheel that each was made of.
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
from decouple.base.files import make_work_folder
from decouple.build import wheel_finishing, wheel_rewrite, wheel_split
from decouple.release import projects, variants
from decouple.release.projects import CORE, CUDA, PAIRED
from decouple.release.wheel_manifest import WheelManifest
from decouple.release.wheel_name import WheelName

_NULL_TEXT = """\
For a machine without an NVIDIA driver that runs one of this project's CUDA versions: the core alone, and nothing of
CUDA. With such a driver: install it anew, by an installer that knows variant wheels.
"""


class _SourceWheel(Struct, frozen=True):
    """A wheel of which a variant is made."""

    path: Path
    manifest: WheelManifest
    label: str
    core: str
    """The version that it is pinned to, as a requirement says it."""

    @property
    def version(self) -> str:
        return variants.make_variant_version(self.manifest.version)

    @property
    def name(self) -> WheelName:
        """The name before the label: tags are read from it."""
        return replace(WheelName.parse(self.path.name), version=self.version)


def make_variants(paths: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    """Write a variant of each torch_cuda wheel into ``folder``.

    For each Python there is also one for machines without CUDA. Raises UsageError when one is no wheel of torch_cuda
    for any core, when two have the same name as variants or are pinned to two cores, DecoupleError when one was not
    built by decouple.
    """
    sources: dict[tuple[str, str], _SourceWheel] = {}
    for path in paths:
        source = _read_wheel(path)
        other = sources.setdefault((str(source.name), source.label), source)
        if other is not source:
            raise UsageError(
                f"{path.name}, {other.path.name}: both would be {source.label}", next_step="name one of them"
            )
        other = next(iter(sources.values()))
        if source.core != other.core:
            raise UsageError(
                f"{path.name}, {other.path.name}: for two cores, {source.core} and {other.core}",
                next_step="name wheels that were built on one core",
            )
    with make_work_folder(folder, "variants") as work:
        made = [_make_variant(source, folder, work) for source in sources.values()]
        for source in {str(source.name): source for source in sources.values()}.values():
            made.append(_make_null_variant(source, folder, work))
    return tuple(made)


def _read_wheel(path: Path) -> _SourceWheel:
    manifest = wheel_finishing.read_manifest(path)
    if canonicalize_name(manifest.project) != CUDA:
        raise UsageError(f"{path.name}: a wheel of {manifest.project}", next_step=f"name wheels of {CUDA}")
    local = Version(manifest.version).local or ""
    label = projects.parse_cuda_label(local)
    if label is None or manifest.cuda is None:
        raise UsageError(f"{path.name}: its version names no CUDA", next_step="name a wheel such as 2.6.0+cu124")
    if PAIRED in local.split("."):
        raise UsageError(
            f"{path.name}: for a core that brings its CUDA",
            next_step="name the bindings that `split` wrote, which any CUDA's have one core with",
        )
    with zips.open_zip(path) as source:
        headers = projects.parse_metadata(source.read(f"{wheel_finishing.find_dist_info(source, path)}/METADATA"))
    cores = [
        str(requirement.specifier)
        for requirement in projects.parse_requirements(headers)
        if canonicalize_name(requirement.name) == CORE
    ]
    if len(cores) != 1:
        raise UsageError(f"{path.name}: pinned to no core", next_step="build it again")
    return _SourceWheel(path, manifest, label, cores[0])


def _make_variant(origin: _SourceWheel, folder: Path, work: Path) -> Path:
    with zips.open_zip(origin.path) as source:
        info = wheel_finishing.find_dist_info(source, origin.path)
        headers = projects.parse_metadata(source.read(f"{info}/METADATA"))
        fields = [(key, origin.version if key == "Version" else value) for key, value in headers.items()]
        names = [*wheel_rewrite.list_payload(source, info), *wheel_rewrite.list_kept_members(source, info)]
        text = wheel_rewrite.format_metadata(fields, str(headers.get_payload()))
        raw = wheel_rewrite.write_raw_wheel(work / str(origin.name), source, names, text)
    return _finish_variant(raw, origin, origin.manifest, origin.label, folder)


def _make_null_variant(origin: _SourceWheel, folder: Path, work: Path) -> Path:
    with zips.open_zip(origin.path) as source:
        headers = projects.parse_metadata(
            source.read(f"{wheel_finishing.find_dist_info(source, origin.path)}/METADATA")
        )
        fields = [
            (key, origin.version if key == "Version" else value)
            for key, value in headers.items()
            if key != "Requires-Dist" or wheel_split.is_requirement_of(key, value, CORE)
        ]
        raw = wheel_rewrite.write_raw_wheel(
            work / str(origin.name), source, (), wheel_rewrite.format_metadata(fields, _NULL_TEXT)
        )
    return _finish_variant(raw, origin, replace(origin.manifest, cuda=None, arch_list=()), variants.NULL, folder)


def _finish_variant(raw: Path, origin: _SourceWheel, manifest: WheelManifest, label: str, folder: Path) -> Path:
    stands_for = variants.make_properties(label, manifest.cuda, manifest.arch_list)
    with zipfile.ZipFile(raw, "a") as out:
        info = wheel_finishing.find_dist_info(out, raw)
        out.writestr(f"{info}/{variants.MEMBER}", variants.encode_document({label: stands_for}))
    labelled = raw.rename(raw.with_name(str(replace(origin.name, label=label))))
    made = replace(manifest, version=origin.version, flags={**manifest.flags, "variant": label})
    return wheel_finishing.finish_wheel(labelled, folder, made, int(manifest.times.get("source_date_epoch", 0)))
