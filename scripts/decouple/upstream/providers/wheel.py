"""Lay out the text of an official wheel as in the source tree, read by range.

The text is Python files, headers and CMake files. Nothing can be built from it, but patches can be checked against it
on a machine that reaches only PyPI. What the build generated (``ATen/ops``) is left out; headers go back to where the
build took them from.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from decouple.base import zips
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.git import REGULAR, is_binary
from decouple.base.steps import mark_step
from decouple.release.manifest import Manifest, ManifestSource, RemoteFile
from decouple.release.projects import parse_digests
from decouple.upstream.providers.context import FetchContext, Provider, ReleaseFacts
from decouple.upstream.readers import (
    MemorySource,
    OpenedSource,
    make_shelf_path,
    read_cache,
    read_cached_names,
    write_cache,
)
from decouple.upstream.remote_zip import TEXT_TAIL, Member, RemoteZip
from decouple.upstream.unpack import TreeWriter
from decouple.upstream.unpacked_release import UnpackedRelease, VerifiedFile

#: What is not text, by its name; anything else that holds a NUL byte is left out when it is read.
_BINARY = re.compile(
    r"\.(so|dll|pyd|dylib|a|lib|exe|pyc|bin|png|jpg|npz|pt)(\.[0-9.]+)?$|^torch/(bin|lib)/|^torch\.libs/"
)
#: Where the build copied installed headers from.
_ORIGIN = (
    ("torch/include/torch/csrc/api/include/", "torch/csrc/api/include/"),
    ("torch/include/torch/", "torch/"),
    ("torch/include/ATen/", "aten/src/ATen/"),
    ("torch/include/c10/", "c10/"),
    ("torch/include/caffe2/", "caffe2/"),
)
#: Made by the build: in the wheel, but in no source tree.
_GENERATED = re.compile(r"^torch/include/ATen/ops/|^torch/version\.py$|^torch/share/cmake/")
_DIST_INFO = re.compile(r"^[^/]+\.dist-info/")
#: What installing puts around headers from 2.10 on. Seen in the wheels of 2.10.0 to 2.15.0, which also carry
#: torch/csrc/inductor/aoti_runtime/model.h as it is in the source: the same bytes without these lines.
_GUARD = (
    b"#if !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)\n",
    b"\n#else\n"
    b'#error "This file should not be included when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined."\n'
    b"#endif  // !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)\n",
)


class WheelSource(ManifestSource, frozen=True):
    """Describe an official wheel on PyPI, its text files read alone, by HTTP range."""

    wheel: RemoteFile
    provider: ClassVar[str] = "wheel"


def make_source(release: ReleaseFacts) -> WheelSource:
    """Return the wheel that the other facts are read from."""
    return WheelSource(release.wheel)


def find_wheel(manifest: Manifest) -> RemoteFile | None:
    """Return the official wheel that a manifest names."""
    source = manifest.find_source(WheelSource.provider)
    return source.wheel if isinstance(source, WheelSource) else None


def make_source_path(name: str) -> str | None:
    """Return the path in the source tree of a wheel's member.

    None for what no source tree has.

    >>> make_source_path("torch/include/c10/cuda/CUDAStream.h")
    'c10/cuda/CUDAStream.h'
    """
    if _GENERATED.match(name) or _DIST_INFO.match(name):
        return None
    for installed, origin in _ORIGIN:
        if name.startswith(installed):
            return origin + name.removeprefix(installed)
    return name


def make_source_text(name: str, data: bytes) -> bytes:
    """Return a wheel's member as the source tree has it.

    Without the guard that installing puts around it.
    """
    begin, end = _GUARD
    if name.startswith("torch/include/") and data.startswith(begin) and data.endswith(end):
        return data[len(begin) : -len(end)]
    return data


def make_identity(source: WheelSource) -> str:
    """Return the key of the unpacked text."""
    key = source.wheel.sha256 or hashlib.sha256(source.wheel.urls[0].encode()).hexdigest()
    return f"wheel-{key[:32]}"


def find_cached(manifest: Manifest, source: WheelSource, context: FetchContext) -> UnpackedRelease | None:
    """Return the text if it was read before."""
    return context.find_unpacked(manifest, make_identity(source))


def fetch_source(manifest: Manifest, source: WheelSource, context: FetchContext) -> UnpackedRelease:
    """Read the wheel's text, check each file against RECORD, and lay it out.

    Raises DecoupleError.
    """

    def fetch_text(folder: Path) -> UnpackedRelease:
        remote = RemoteZip(source.wheel, context.downloader, context.progress, tail=TEXT_TAIL)
        members = remote.load_members(is_text)
        recorded = read_record(remote)
        commit = read_git_version(remote)
        if commit != manifest.commit:
            raise DecoupleError(
                f"{source.wheel.name}: made from commit {commit}, the manifest says {manifest.commit}",
                next_step=f"correct the manifest with: decouple manifest fill {manifest.release} --write",
            )
        count = _write_members(remote, members, recorded, folder / "tree", context)
        file = VerifiedFile(
            source.wheel.name, remote.url, remote.size, source.wheel.sha256 or "", "per file, by the wheel's own RECORD"
        )
        notes = (
            f"{count} text files of the wheel in {remote.requests} requests, {remote.received / 2**20:.1f} MiB of "
            f"{remote.size / 2**20:.0f}; nothing can be built from them",
            "the SHA-256 of the whole wheel cannot be checked by range",
        )
        return UnpackedRelease("wheel", "python", folder / "tree", make_identity(source), files=(file,), notes=notes)

    return context.unpack(manifest, make_identity(source), fetch_text)


def is_text(info: zipfile.ZipInfo) -> bool:
    """Return whether a member is worth a request."""
    return not info.is_dir() and not _BINARY.search(info.filename)


def read_record(remote: RemoteZip) -> dict[str, str]:
    """Read the wheel's RECORD: member name -> SHA-256 as hex. Raises DecoupleError."""
    name = next((name for name in remote.list_names() if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)), "RECORD")
    return parse_digests(remote.read(name))


def check_member(remote: RemoteZip, name: str, data: bytes, recorded: Mapping[str, str]) -> None:
    """Raise DecoupleError where ``data`` of member ``name`` is not what RECORD says."""
    if hashlib.sha256(data).hexdigest() != recorded.get(name):
        raise DecoupleError(f"{remote.url}: {name} is not what the wheel's RECORD says", next_step="try again later")


def write_members(remote: RemoteZip, members: Iterable[Member], folder: Path) -> None:
    """Write members of a wheel below ``folder``, each checked against RECORD.

    Raises DecoupleError.
    """
    recorded = read_record(remote)
    writer = TreeWriter(folder, remote.file.name)
    for member in members:
        name = member.info.filename
        writer.count_entry(name, member.info.file_size)
        data = remote.read(member)
        check_member(remote, name, data, recorded)
        writer.write_file(name, writer.split_name(name), len(data), io.BytesIO(data), executable=False)
    writer.check_links()


def read_git_version(remote: RemoteZip) -> str:
    """Read the commit that ``torch/version.py`` of the wheel names.

    Raises DecoupleError.
    """
    match = re.search(r"^git_version = '([0-9a-f]{40})'", remote.read("torch/version.py").decode(), re.M)
    if not match:
        raise DecoupleError(
            f"{remote.url}: torch/version.py names no commit",
            next_step="is this an official wheel? take another source with --source",
        )
    return match[1]


def _write_members(
    remote: RemoteZip, members: list[Member], recorded: dict[str, str], tree: Path, context: FetchContext
) -> int:
    mark_step("write the wheel's text")
    tree.mkdir()
    writer = TreeWriter(tree, remote.file.name)
    context.progress.start("write files", len(members))
    written: dict[str, bytes] = {}  # SHA-256 by path: 2.10 and later have one header twice, from two folders
    for member in members:
        context.progress.advance()
        name = member.info.filename
        target = make_source_path(name)
        if target is None:
            continue
        writer.count_entry(name, member.info.file_size)
        data = remote.read(member)
        if is_binary(data):
            continue
        check_member(remote, name, data, recorded)
        data = make_source_text(name, data)
        digest = hashlib.sha256(data).digest()
        if written.setdefault(target, digest) is not digest:
            if written[target] != digest:
                raise DecoupleError(
                    f"{remote.url}: {name} and another member both claim to be {target}, and differ",
                    next_step="take another source with --source",
                )
            continue
        writer.write_file(name, writer.split_name(target), len(data), io.BytesIO(data), executable=False)
    context.progress.finish()
    writer.check_links()
    return len(written)


def open_files(source: WheelSource, wanted: Collection[str], context: FetchContext) -> OpenedSource:
    """Read just the wanted members of the wheel, by range.

    Each is checked against the wheel's own RECORD, and kept.
    """
    kept, published = make_shelf_path(context.cache, make_identity(source)), f"wheel, {source.wheel.name}"
    if cached := read_cache(kept, wanted):
        return OpenedSource(cached, f"{source.wheel.name}, kept in the cache", partial=True, published=published)
    wanted = {*wanted, *read_cached_names(kept)}
    remote = RemoteZip(source.wheel, context.downloader, context.progress)
    targets = {member.info.filename: make_source_path(member.info.filename) for member in remote.members}
    chosen = remote.load_members(lambda info: targets[info.filename] in wanted)
    recorded = read_record(remote)
    data: dict[str, bytes] = {}
    for member in chosen:
        name = member.info.filename
        path = targets[name]
        assert path is not None
        content = remote.read(member)
        check_member(remote, name, content, recorded)
        data[path] = make_source_text(name, content)
    modes = {path: REGULAR for path in targets.values() if path}
    write_cache(kept, modes, data)
    described = f"{source.wheel.name} by range, {remote.requests} requests, {remote.received / 2**20:.1f} MiB"
    return OpenedSource(MemorySource(modes, data), described, partial=True, published=published)


def open_wheel(path: Path, wanted: Collection[str]) -> OpenedSource:
    """Read the wanted members of a wheel on disk, by their paths in the source tree.

    Raises UsageError for a wheel of another project, of which every patch would be one that is not seen.
    """
    data: dict[str, bytes] = {}
    modes: dict[str, int] = {}
    with zips.open_zip(path, mend="fetch it again") as archive:
        for name in archive.namelist():
            target = None if name.endswith("/") else make_source_path(name)
            if target:
                modes[target] = REGULAR
                if target in wanted:
                    data[target] = make_source_text(name, archive.read(name))
    if not any(name.startswith("torch/") for name in modes):
        raise UsageError(f"{path}: no wheel of torch, it has no folder torch", next_step="name one of torch itself")
    return OpenedSource(MemorySource(modes, data), f"wheel {path.name}", partial=True)


PROVIDER = Provider(
    WheelSource,
    find_cached,
    fetch_source,
    open_files,
    make_source,
    lacks="has Python files and headers only, nothing can be built from it",
)
