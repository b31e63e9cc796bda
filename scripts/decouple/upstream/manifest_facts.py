"""Read the facts of a release off published files, for its manifest.

Nothing here is typed in or guessed.

- commit and CUDA version: ``torch/version.py`` of the official Linux wheel, read by HTTP range;
- CUDA libraries: ``Requires-Dist`` of the same wheel; Python versions: the wheels that there are;
- architectures: the flags of nvcc that ``CUDAConfig.h`` in the wheel records;
- gcc: the ``.comment`` section of the wheel's ``libc10.so``;
- newest gcc that nvcc takes: ``crt/host_config.h`` in NVIDIA's wheel of the same CUDA version;
- where the source is to be had: what each provider of the table says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from decouple.base.errors import DecoupleError
from decouple.base.progress import SILENT, Progress
from decouple.release import archs
from decouple.release.manifest import Manifest, Toolchain
from decouple.release.projects import parse_metadata, parse_requirements
from decouple.upstream import pypi
from decouple.upstream.download import Downloader
from decouple.upstream.providers.context import ReleaseFacts
from decouple.upstream.providers.table import PROVIDERS
from decouple.upstream.providers.wheel import read_git_version
from decouple.upstream.remote_zip import RemoteZip


class FillResult(Struct, frozen=True):
    """The facts, and remarks on how far each could be checked."""

    manifest: Manifest
    remarks: tuple[str, ...]


def fill_manifest(
    release: str, downloader: Downloader, *, known: Manifest | None = None, progress: Progress = SILENT
) -> FillResult:
    """Read all facts of ``release`` ("2.6").

    They are of its newest version that has a Linux wheel and is not yanked. What only GitHub could say (size and hash
    of the release archive) is taken over from ``known``, the manifest as it is. Raises DecoupleError.
    """
    progress.start(f"facts of {release}", 4)
    torch = [
        wheel
        for wheel in pypi.list_wheels("torch", downloader)
        if _is_linux(wheel) and not wheel.yanked and not wheel.version.is_prerelease and wheel.version.local is None
    ]
    versions = {wheel.version for wheel in torch if wheel.version.release[:2] == Version(release).release[:2]}
    if not versions:
        raise DecoupleError(f"PyPI has no Linux wheel of torch {release}", next_step="name a release that is out")
    version = max(versions)
    chosen = [wheel for wheel in torch if wheel.version == version]
    remote = RemoteZip(_choose_reference_wheel(chosen).file, downloader)
    wheel = replace(remote.file, size=remote.size)
    progress.advance()
    toolchain = _read_toolchain(remote, chosen, downloader)
    progress.advance()
    published = ReleaseFacts(str(version), downloader, known, wheel)
    sources = [provider.read_published(published) for provider in PROVIDERS.values() if provider.read_published]
    progress.advance()
    manifest = Manifest(
        release=release,
        version=str(version),
        tag=f"v{version}",
        commit=read_git_version(remote),
        sources=tuple(published.keep_tree_ids(source) for source in sources if source),
        toolchain=toolchain,
    )
    progress.finish()
    return FillResult(manifest, tuple(published.remarks))


def _is_linux(wheel: pypi.PypiWheel) -> bool:
    return any(re.search(r"-manylinux.*_x86_64$", tag) for tag in wheel.tags)


def _list_pythons(wheels: Iterable[pypi.PypiWheel]) -> tuple[str, ...]:
    """Return ("3.9", "3.13", "3.13t") for the ABI tags cp39, cp313, cp313t.

    Oldest first.
    """
    versions = set()
    for wheel in wheels:
        for tag in wheel.tags:
            match = re.fullmatch(r"cp\d+-cp3(\d+)(t?)-.*", tag)
            if match:
                versions.add((int(match[1]), match[2]))
    return tuple(f"3.{minor}{threads}" for minor, threads in sorted(versions))


def _choose_reference_wheel(wheels: list[pypi.PypiWheel]) -> pypi.PypiWheel:
    """Choose the wheel that facts are read from.

    CPython 3.12 where there is one (2.2 and later), else the newest; of two that differ in their build number alone
    (PEP 427) the one that pip takes, the higher.
    """
    ordered = sorted(wheels, key=lambda wheel: parse_wheel_filename(wheel.file.name)[2] or (0, ""))
    by_tag = {tag: wheel for wheel in ordered for tag in wheel.tags}
    for tag, wheel in by_tag.items():
        if tag.startswith("cp312-cp312-"):
            return wheel
    return by_tag[max(by_tag)]


def _read_toolchain(remote: RemoteZip, wheels: list[pypi.PypiWheel], downloader: Downloader) -> Toolchain:
    match = re.search(r"^cuda\b[^=]*= '([0-9.]+)'", remote.read("torch/version.py").decode(), re.M)
    cuda = match[1] if match else None
    metadata = next(name for name in remote.list_names() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
    config = f"torch/include/{archs.CONFIG}"
    compilers = set(re.findall(rb"GCC: \([^)]*\) ([0-9]+(?:\.[0-9]+)+)", remote.read("torch/lib/libc10.so")))
    return Toolchain(
        python=_list_pythons(wheels),
        cuda=cuda,
        libraries=parse_cuda_pins(remote.read(metadata)),
        gcc=max((text.decode() for text in compilers), key=Version, default=None),
        cuda_max_gcc=_read_max_gcc(cuda, downloader) if cuda else None,
        archs=tuple(archs.parse_arch_list(remote.read(config).decode())) if config in remote.list_names() else (),
    )


def parse_cuda_pins(metadata: bytes) -> tuple[str, ...]:
    """Parse the exact pins of NVIDIA's libraries in a wheel's METADATA.

    >>> parse_cuda_pins(b'Requires-Dist: nvidia-nccl-cu12 (==2.21.5) ; platform_system == "Linux"')
    ('nvidia-nccl-cu12==2.21.5',)
    """
    pins = set()
    for need in parse_requirements(parse_metadata(metadata)):
        exact = [part.version for part in need.specifier if part.operator == "=="]
        if re.match(r"nvidia-|cuda-", need.name) and len(exact) == 1:
            pins.add(f"{need.name}=={exact[0]}")
    return tuple(sorted(pins))


def _read_max_gcc(cuda: str, downloader: Downloader) -> int | None:
    """Read the newest gcc that nvcc of ``cuda`` takes; None without NVIDIA's wheel."""
    project = "nvidia-cuda-nvcc-cu12" if cuda.startswith("12.") else "nvidia-cuda-crt"
    same = [
        wheel
        for wheel in pypi.list_wheels(project, downloader)
        if _is_linux(wheel) and ".".join(map(str, wheel.version.release[:2])) == cuda
    ]
    if not same:
        return None
    remote = RemoteZip(max(same, key=lambda wheel: wheel.version).file, downloader)
    name = next((name for name in remote.list_names() if name.endswith("/crt/host_config.h")), None)
    match = re.search(r"^#if __GNUC__ > (\d+)", remote.read(name).decode(), re.M) if name else None
    return int(match[1]) if match else None
