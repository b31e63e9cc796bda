"""Remove other architectures' machine code from a torch_cuda or torch_hip wheel.

The wheel for many GPUs becomes one for some. Nothing is compiled. In each library the container of device images that
nvcc wrote for a source keeps the images that such a GPU would load, moved to its start, and zeros stand where the
others were: they take no room in the wheel, but what is installed is as large as before. A bundle of clang's keeps its
images in their places. ``torch.cuda.get_arch_list()`` says what is left.
"""

from __future__ import annotations

import json
import mmap
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from decouple.base import zips
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import compute_sha256, make_work_folder
from decouple.build import wheel_finishing, wheel_rewrite
from decouple.release import projects
from decouple.release.projects import CUDA, name_libraries

_CHANGED = "machine code for other architectures than {archs} taken out"
_TEXT = f"""
Of a wheel for more GPUs: {_CHANGED}, so the libraries with kernels are not byte for byte those that are named above.
"""
_ARCH = re.compile(r"(\d+)\.(\d)([af]?)")
_IMAGE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")
_SIZE = struct.Struct("<Q")


class KeptImages(Struct, frozen=True):
    """A container of a library.

    It has the place of the field with its size, where its images begin and end, and which (offset, size) stay.
    """

    size_at: int
    begin: int
    end: int
    images: tuple[tuple[int, int], ...]


Thinner = Callable[[Path, Sequence[str]], None]
"""Takes out of a library what no GPU of one of these architectures ("9.0", "gfx90a") loads; the file keeps its size."""


def select_loadable(names: Collection[str], arch: str) -> set[str]:
    """Select a container's images that a GPU of ``arch`` ("8.6") may load.

    Images are "sm_80", "sm_90a", "compute_90".

    That is machine code for itself, else for the nearest older one of its generation, else PTX that is not newer
    (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility"); empty when there is neither. What is
    specific to an architecture ("sm_90a") is for that one alone, what is to a family ("sm_100f") for its generation.

    >>> sorted(select_loadable({"sm_80", "sm_90", "sm_90a"}, "9.0")), select_loadable({"sm_75", "sm_80"}, "8.6")
    (['sm_90', 'sm_90a'], {'sm_80'})
    """
    major, minor, _ = _split_arch(arch)
    code: dict[tuple[int, int], set[str]] = {}
    ptx: dict[tuple[int, int], set[str]] = {}
    for name in names:
        if (match := _IMAGE.fullmatch(name)) is None:
            continue
        version = int(match[2]), int(match[3])
        specific = {"a": version == (major, minor), "f": version[0] == major}
        if specific.get(match[4], True):
            (code if match[1] == "sm" else ptx).setdefault(version, set()).add(name)
    own = [version for version in code if version[0] == major and version[1] <= minor]
    if own:
        return code[max(own)]
    older = [version for version in ptx if version <= (major, minor)]
    return ptx[max(older)] if older else set()


def thin_wheel(wheel: Path, archs: Sequence[str], folder: Path, thinners: Mapping[str, Thinner]) -> Path:
    """Write the wheel for ``archs`` ("9.0") alone into ``folder``.

    Its version is X+cu124.sm90. ``thinners`` are those of the projects whose wheels can be thinned. Raises UsageError
    when it is no whole wheel of such a project or was not made for those, DecoupleError when its libraries are not of a
    known layout.
    """
    manifest = wheel_finishing.read_manifest(wheel)
    wheel_rewrite.parse_plain_name(wheel)
    project = canonicalize_name(manifest.project)
    if project not in thinners:
        raise UsageError(
            f"{wheel.name}: a wheel of {manifest.project}", next_step=f"name one of {' or '.join(thinners)}"
        )
    package = project.replace("-", "_")
    about_name, origin_name = f"{package}/build_info.json", f"{package}/kernels.json"
    has = [arch.removesuffix("+PTX") for arch in manifest.arch_list]
    unknown = [arch for arch in archs if arch not in has]
    if unknown or not archs:
        raise UsageError(
            f"{wheel.name}: has no {', '.join(unknown) or 'architecture that was named'}",
            next_step=f"name some of {', '.join(has)}",
        )
    if set(archs) == set(has):
        raise UsageError(f"{wheel.name}: is for {', '.join(has)} as it is", next_step="name fewer with --arch")
    kept = tuple(sorted(set(archs), key=_split_arch if project == CUDA else None))
    # of one that is thinned already the label says what it has
    whole = manifest.version.removesuffix(f".{_make_label(manifest.arch_list, project)}")
    version = f"{whole if manifest.flags.get('thinned') else manifest.version}.{_make_label(kept, project)}"
    with make_work_folder(folder, "thin") as work, zips.open_zip(wheel) as source:
        info = wheel_finishing.find_dist_info(source, wheel)
        headers = projects.parse_metadata(source.read(f"{info}/METADATA"))
        fields = [(key, version if key == "Version" else value) for key, value in headers.items()]
        names = wheel_rewrite.list_payload(source, info)
        apart = name_libraries(project)
        if about_name not in names or any(apart in value for key, value in fields if key == "Requires-Dist"):
            raise UsageError(
                f"{wheel.name}: without its libraries", next_step="name the wheel as it was built, and split that"
            )
        about = json.loads(source.read(about_name))
        left = [arch for arch in about["arch_list"] if arch in archs or _read_sm(arch) in archs]
        libraries = {
            name: Path(source.extract(name, work / "members"))
            for name in names
            if name.startswith(f"{package}/lib/") and ".so" in name
        }
        for path in libraries.values():
            thinners[project](path, kept)
        _replace_arch_list(libraries.values(), " ".join(about["arch_list"]), " ".join(left), wheel)
        changed: dict[str, bytes | Path] = dict(libraries)
        changed[about_name] = _format_json(about | {"arch_list": left, "version": version})
        if origin_name in names:
            by_name = {path.name: path for path in libraries.values()}
            changed[origin_name] = _make_origin(json.loads(source.read(origin_name)), by_name, kept)
        text = wheel_rewrite.format_metadata(fields, f"{headers.get_payload()}{_TEXT.format(archs=', '.join(kept))}")
        flags = {**manifest.flags, "thinned": True}
        made = replace(manifest, version=version, arch_list=kept, flags=flags)
        return wheel_rewrite.remake_wheel(wheel, source, made, text, changed, (work, folder))


def rewrite_library(library: Path, containers: Iterable[KeptImages]) -> None:
    """Leave in each container what is kept of it; change neither size nor places."""
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as text:
        for container in containers:
            kept = b"".join(text[at : at + size] for at, size in container.images)
            text[container.begin : container.end] = kept.ljust(container.end - container.begin, b"\0")
            _SIZE.pack_into(text, container.size_at, len(kept))


def _replace_arch_list(libraries: Iterable[Path], said: str, now: str, wheel: Path) -> None:
    """Change the one string that torch.cuda.get_arch_list() is made of.

    Raises DecoupleError unless there is one.
    """
    old = said.encode() + b"\0"
    places = []
    for path in libraries:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as text:
            at = text.find(b"\0" + old)
            while at >= 0:
                places.append(path)
                text[at + 1 : at + 1 + len(old)] = now.encode().ljust(len(old), b"\0")
                at = text.find(b"\0" + old, at + 1)
    if len(places) != 1:
        raise DecoupleError(
            f"{wheel.name}: {len(places)} libraries say {said!r}, expected one",
            next_step="build for those architectures with --arch",
        )


def _make_origin(document: dict[str, object], libraries: dict[str, Path], archs: Sequence[str]) -> bytes:
    """Make ``kernels.json`` of somebody else's libraries.

    What was changed in them, and what they are now.
    """
    rows = document.get("libraries")
    for name, row in rows.items() if isinstance(rows, dict) else ():
        path = libraries.get(name)
        if path is not None and isinstance(row, dict):
            row["sha256_thinned"] = compute_sha256(path)
    document["changed"] = f"{document.get('changed')}; {_CHANGED.format(archs=', '.join(archs))}"
    return _format_json(document)


def _read_sm(word: str) -> str:
    """Return "9.0a" of "sm_90a"; empty for what is no machine code of NVIDIA's."""
    match = _IMAGE.fullmatch(word)
    return f"{match[2]}.{match[3]}{match[4]}" if match and match[1] == "sm" else ""


def _make_label(archs: Iterable[str], project: str) -> str:
    """Return what of a version names the GPUs, "sm80.sm90"."""
    return ".".join(f"sm{arch.replace('.', '')}" if project == CUDA else _make_gfx_label(arch) for arch in archs)


def _make_gfx_label(arch: str) -> str:
    """Return an AMD architecture as part of a version, without colon and sign.

    >>> _make_gfx_label("gfx90a:xnack-")
    'gfx90axnackoff'
    """
    return arch.replace(":", "").replace("+", "on").replace("-", "off")


def _format_json(document: object) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def _split_arch(arch: str) -> tuple[int, int, str]:
    match = _ARCH.fullmatch(arch)
    if match is None:
        raise UsageError(f"--arch {arch}: no architecture", next_step="e.g. --arch 9.0")
    return int(match[1]), int(match[2]), match[3]
