"""Reading the facts of a release off published files, for its manifest. Nothing here is typed in or guessed.

- commit and CUDA version: ``torch/version.py`` of the official Linux wheel, read by HTTP range;
- CUDA libraries: ``Requires-Dist`` of the same wheel; Python versions: the wheels that there are;
- gcc: the ``.comment`` section of the wheel's ``libc10.so``;
- newest gcc that nvcc takes: ``crt/host_config.h`` in NVIDIA's wheel of the same CUDA version;
- Debian's source package: the ``Sources`` index of its suites, checked against the signed ``InRelease``.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import (
    DebianSource,
    GithubSource,
    GitSource,
    Manifest,
    RemoteFile,
    Source,
    Toolchain,
    WheelSource,
)
from decouple.upstream import dsc, pypi
from decouple.upstream.download import HEADERS, Downloader, Refused, read_small, refuse_useless
from decouple.upstream.providers.wheel import git_version
from decouple.upstream.ranges import RemoteZip

GITHUB = "https://github.com/pytorch/pytorch"
DEBIAN = "http://deb.debian.org/debian"
SNAPSHOT = "https://snapshot.debian.org/file"
#: Suites that may carry a source package of PyTorch, most stable first.
SUITES = ("bookworm", "trixie", "forky", "sid")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Filled:
    """The facts, and remarks on how far each could be checked."""

    manifest: Manifest
    remarks: tuple[str, ...]


def fill(release: str, downloader: Downloader, *, known: Manifest | None = None, progress: Progress = SILENT) -> Filled:
    """Read all facts of ``release`` ("2.6"): its newest version that has a Linux wheel and is not yanked.

    What only GitHub could say (size and hash of the release archive) is taken over from ``known``, the manifest as it
    is. Raises DecoupleError.
    """
    progress.start(f"facts of {release}", 4)
    torch = [
        wheel
        for wheel in pypi.wheels("torch", downloader)
        if _is_linux(wheel) and not wheel.yanked and not wheel.version.is_prerelease and wheel.version.local is None
    ]
    versions = {wheel.version for wheel in torch if wheel.version.release[:2] == Version(release).release[:2]}
    if not versions:
        raise DecoupleError(f"PyPI has no Linux wheel of torch {release}", next_step="name a release that is out")
    version = max(versions)
    chosen = [wheel for wheel in torch if wheel.version == version]
    remote = RemoteZip(_reference(chosen).file, downloader)
    wheel = WheelSource(replace(remote.file, size=remote.size))
    progress.advance()
    toolchain = _toolchain(remote, chosen, downloader)
    progress.advance()
    remarks: list[str] = []
    debian = _debian(str(version), downloader, remarks)
    progress.advance()
    sources: list[Source] = [_github(str(version), known), GitSource(f"{GITHUB}.git")]
    sources += [debian] if debian else []
    manifest = Manifest(
        release=release,
        version=str(version),
        tag=f"v{version}",
        commit=git_version(remote),
        sources=(*(_pinned(source, known) for source in sources), wheel),
        toolchain=toolchain,
    )
    progress.finish()
    return Filled(manifest, tuple(remarks))


def _pinned(source: Source, known: Manifest | None) -> Source:
    """The source with the tree ids that the manifest had for these very files."""
    match source, known.source(source.provider) if known else None:
        case GithubSource(), GithubSource() as old if replace(old, tree=None) == source:
            return old
        case GitSource(), GitSource() as old if replace(old, tree=None) == source:
            return old
        case DebianSource(), DebianSource() as old if replace(old, tree=None, patched_tree=None) == source:
            return old
    return source


def _is_linux(wheel: pypi.PypiWheel) -> bool:
    return any(re.search(r"-manylinux.*_x86_64$", tag) for tag in wheel.tags)


def _pythons(wheels: Iterable[pypi.PypiWheel]) -> tuple[str, ...]:
    """("3.9", "3.13", "3.13t") from the ABI tags cp39, cp313, cp313t; oldest first."""
    found = set()
    for wheel in wheels:
        for tag in wheel.tags:
            match = re.fullmatch(r"cp\d+-cp3(\d+)(t?)-.*", tag)
            if match:
                found.add((int(match[1]), match[2]))
    return tuple(f"3.{minor}{threads}" for minor, threads in sorted(found))


def _reference(wheels: list[pypi.PypiWheel]) -> pypi.PypiWheel:
    """The wheel that facts are read from: CPython 3.12 where there is one (2.2 and later), else the newest."""
    by_tag = {tag: wheel for wheel in wheels for tag in wheel.tags}
    for tag, wheel in by_tag.items():
        if tag.startswith("cp312-cp312-"):
            return wheel
    return by_tag[max(by_tag)]


def _github(version: str, known: Manifest | None) -> GithubSource:
    name = f"pytorch-v{version}.tar.gz"
    archive = RemoteFile(name, (f"{GITHUB}/releases/download/v{version}/{name}",), None, None)
    before = known.source("github") if known else None
    if isinstance(before, GithubSource) and before.archive.name == name:
        archive = replace(archive, size=before.archive.size, sha256=before.archive.sha256)
    return GithubSource(archive)


def _toolchain(remote: RemoteZip, wheels: list[pypi.PypiWheel], downloader: Downloader) -> Toolchain:
    match = re.search(r"^cuda\b[^=]*= '([0-9.]+)'", remote.read("torch/version.py").decode(), re.M)
    cuda = match[1] if match else None
    metadata = next(name for name in remote.names() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
    compilers = set(re.findall(rb"GCC: \([^)]*\) ([0-9]+(?:\.[0-9]+)+)", remote.read("torch/lib/libc10.so")))
    return Toolchain(
        python=_pythons(wheels),
        cuda=cuda,
        libraries=cuda_pins(remote.read(metadata).decode()),
        gcc=max((text.decode() for text in compilers), key=Version, default=None),
        cuda_max_gcc=_max_gcc(cuda, downloader) if cuda else None,
    )


def cuda_pins(metadata: str) -> tuple[str, ...]:
    """The exact pins of NVIDIA's libraries in a wheel's METADATA.

    >>> cuda_pins('Requires-Dist: nvidia-nccl-cu12 (==2.21.5) ; platform_system == "Linux"')
    ('nvidia-nccl-cu12==2.21.5',)
    """
    pins = set()
    for line in HeaderParser().parsestr(metadata).get_all("Requires-Dist", []):
        need = Requirement(line)
        exact = [part.version for part in need.specifier if part.operator == "=="]
        if re.match(r"nvidia-|cuda-", need.name) and len(exact) == 1:
            pins.add(f"{need.name}=={exact[0]}")
    return tuple(sorted(pins))


def _max_gcc(cuda: str, downloader: Downloader) -> int | None:
    """What nvcc of this CUDA version refuses above; None when NVIDIA has no wheel of it."""
    project = "nvidia-cuda-nvcc-cu12" if cuda.startswith("12.") else "nvidia-cuda-crt"
    same = [
        wheel
        for wheel in pypi.wheels(project, downloader)
        if _is_linux(wheel) and ".".join(map(str, wheel.version.release[:2])) == cuda
    ]
    if not same:
        return None
    remote = RemoteZip(max(same, key=lambda wheel: wheel.version).file, downloader)
    name = next((name for name in remote.names() if name.endswith("/crt/host_config.h")), None)
    match = re.search(r"^#if __GNUC__ > (\d+)", remote.read(name).decode(), re.M) if name else None
    return int(match[1]) if match else None


def _debian(version: str, downloader: Downloader, remarks: list[str]) -> DebianSource | None:
    """The source package of this upstream version in the first suite that has it and serves it."""
    for suite in SUITES:
        release = _get(f"{DEBIAN}/dists/{suite}/InRelease", downloader)
        if release is None:
            remarks.append(f"Debian {suite}: no such suite")
            continue
        signed, trusted = check_signature(release)
        index = dsc.source_files(next(dsc.paragraphs(signed), {}), f"{suite}/InRelease")
        path = "main/source/Sources.xz"
        entry = index.get(path)
        if entry is None:
            raise DecoupleError(f"{suite}/InRelease lists no {path}", next_step="try another mirror, or later")
        file = RemoteFile("Sources.xz", (f"{DEBIAN}/dists/{suite}/{path}",), entry.size, entry.sha256)
        local, _ = downloader.get(file)
        with lzma.open(local, "rt", encoding="utf-8") as text:
            found = _paragraph(text, "pytorch", version)
        if found is None:
            continue
        source = _debian_source(found, suite)
        gone = [file.urls[0] for file in (source.dsc, source.orig, source.debian) if not _exists(file, downloader)]
        if gone:
            remarks.append(f"Debian {suite} lists pytorch {source.version}, but {gone[0]} is not served: left out")
            continue
        remarks.append(f"Debian {suite}: pytorch {source.version}, index {trusted}")
        return _with_snapshots(source, downloader)
    return None


def _paragraph(lines: Iterable[str], package: str, version: str) -> dict[str, str] | None:
    """The paragraph of ``package`` in an upstream version equal to ``version``; reads no further than it must."""
    block: list[str] = []
    wanted = f"Package: {package}\n"
    for line in lines:
        if line.strip():
            block.append(line)
            continue
        if wanted in block:
            fields = next(dsc.paragraphs("".join(block)))
            upstream = re.sub(r"[+~].*", "", fields["version"].rsplit("-", 1)[0].split(":")[-1])
            if upstream == version:
                return fields
        block = []
    return None


def _debian_source(fields: dict[str, str], suite: str) -> DebianSource:
    listed = dsc.source_files(fields, f"Sources of {suite}")

    def one(suffix: str) -> RemoteFile:
        name = next((name for name in listed if re.search(suffix, name)), None)
        if name is None:
            raise DecoupleError(
                f"Sources of {suite}: pytorch {fields['version']} has no file {suffix}",
                next_step="only 3.0 (quilt) packages can be read; look at that index",
            )
        entry = listed[name]
        return RemoteFile(name, (f"{DEBIAN}/{fields['directory']}/{name}",), entry.size, entry.sha256)

    return DebianSource(
        version=fields["version"],
        suite=suite,
        dsc=one(r"\.dsc$"),
        orig=one(r"\.orig\.tar\.\w+$"),
        debian=one(r"\.debian\.tar\.\w+$"),
    )


def _with_snapshots(source: DebianSource, downloader: Downloader) -> DebianSource:
    """Add the second place of each file: snapshot.debian.org names files by SHA-1, so they stay when the pool moves on.

    The index has no SHA-1; the ``.dsc`` lists it for the archives.
    """
    path, _ = downloader.get(source.dsc)
    control = path.read_bytes()
    listed = dsc.source_files(next(dsc.paragraphs(dsc.unsigned(control.decode())), {}), source.dsc.name)

    def second(file: RemoteFile, sha1: str | None) -> RemoteFile:
        return replace(file, urls=(*file.urls, f"{SNAPSHOT}/{sha1}")) if sha1 else file

    return replace(
        source,
        dsc=second(source.dsc, hashlib.sha1(control, usedforsecurity=False).hexdigest()),
        orig=second(source.orig, listed[source.orig.name].sha1),
        debian=second(source.debian, listed[source.debian.name].sha1),
    )


def check_signature(text: str) -> tuple[str, str]:
    """What an inline-signed text says, and in words how far that could be trusted.

    What it says is what gpgv took out of the signed block: bytes around the block, which nobody signed, are never read
    as its content, however they are dressed up. Raises DecoupleError when the signature is bad.
    """
    if not shutil.which("gpgv") or not KEYRING.is_file():
        return dsc.unsigned(text), "not checked for its signature (needs gpgv and debian-archive-keyring)"
    with tempfile.NamedTemporaryFile(suffix=".asc") as signed:
        signed.write(text.encode())
        signed.flush()
        command = ["gpgv", "--quiet", "--keyring", str(KEYRING), "--output", "-", signed.name]
        done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise DecoupleError(
            f"the signature of Debian's InRelease does not hold: {said.rpartition(chr(10))[2]}",
            next_step="update debian-archive-keyring; do not trust this mirror otherwise",
        )
    return done.stdout.decode(), "signed by Debian's archive key"


def _get(url: str, downloader: Downloader) -> str | None:
    """A small text; None when there is none. Raises DecoupleError."""

    def ask() -> str | None:
        with downloader.answer(url, HEADERS) as response:
            if response.status_code == 404:
                return None
            refuse_useless(response, url)
            try:
                return read_small(response).decode()
            except UnicodeDecodeError as error:
                raise Refused(f"no text: {error}") from None

    try:
        return downloader.patiently(ask)
    except Refused as error:
        raise DecoupleError(f"{url}: {error}", next_step="check the network and run again") from None


def _exists(file: RemoteFile, downloader: Downloader) -> bool:
    """Whether the first URL answers with the right size."""

    def ask() -> bool:
        url, timeout = file.urls[0], downloader.timeout
        with downloader.session.head(url, headers=HEADERS, timeout=timeout, allow_redirects=True) as response:
            return response.status_code == 200 and response.headers.get("Content-Length") == str(file.size)

    try:
        return downloader.patiently(ask)
    except Refused:
        return False
