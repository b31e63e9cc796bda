"""Fetch a release's CUDA headers by range from NVIDIA's wheels on PyPI.

They are those of the CUDA that the release is for. A few MiB of wheels that have gigabytes together. What a release
pins is taken at that version; what is needed for compiling alone, which no wheel of torch pins, at the newest version
of the same CUDA.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

from decouple.base.errors import DecoupleError
from decouple.base.files import hold_lock
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import RemoteFile, Toolchain
from decouple.upstream import pypi
from decouple.upstream.download import Downloader
from decouple.upstream.providers.wheel import write_members
from decouple.upstream.remote_zip import RemoteZip

_TAIL = 64 << 10
"""A directory of these wheels is small."""
_TOOLKIT = "cuda-toolkit"
"""From CUDA 13 on one wheel without content pins all the others of its CUDA."""
_FOR_COMPILING = ("cuda-nvcc", "cuda-cccl", "nvml-dev", "cuda-profiler-api")
"""Of CUDA 12, whose runtime wheels a torch pins one by one."""
_MACHINE = {"sys_platform": "linux", "platform_machine": "x86_64", "extra": "all"}


def fetch_headers(
    toolchain: Toolchain, cache: Path, downloader: Downloader, *, index: str = pypi.INDEX, progress: Progress = SILENT
) -> list[Path]:
    """Return a cached folder for each of NVIDIA's wheels that has headers.

    It is fetched where it is not there. Raises DecoupleError where the release names no CUDA, or the index has not what
    it names.
    """
    if toolchain.cuda is None:
        raise DecoupleError("the official wheel names no CUDA", next_step="name a folder with CUDA's headers")
    place = cache / "cuda-headers"
    place.mkdir(parents=True, exist_ok=True)
    folders = []
    with hold_lock(place / "lock"):
        for requirement in _list_requirements(toolchain, toolchain.cuda, downloader, index):
            name, wheel = _choose_wheel(requirement, downloader, index)
            folder = place / name
            if not folder.is_dir():
                _write_headers(wheel, folder, downloader, progress)
            if any(folder.iterdir()):
                folders.append(folder)
    return folders


def _list_requirements(toolchain: Toolchain, cuda: str, downloader: Downloader, index: str) -> Iterator[Requirement]:
    """Yield what to fetch, each of NVIDIA's projects once."""
    pins = [Requirement(pin) for pin in toolchain.libraries]
    for pin in pins:
        if pin.name == _TOOLKIT:
            yield from _read_toolkit(pin, downloader, index)
    yield from (pin for pin in pins if pin.name.startswith("nvidia-"))
    if all(pin.name != _TOOLKIT for pin in pins):
        major = cuda.partition(".")[0]
        yield from (Requirement(f"nvidia-{name}-cu{major}=={cuda}.*") for name in _FOR_COMPILING)


def _read_toolkit(pin: Requirement, downloader: Downloader, index: str) -> Iterator[Requirement]:
    """Yield what the wheel without content pins for this machine."""
    _, wheel = _choose_wheel(pin, downloader, index)
    remote = RemoteZip(wheel, downloader, tail=_TAIL)
    for name in remote.list_names():
        if name.endswith(".dist-info/METADATA"):
            for line in re.findall(r"^Requires-Dist: (.+)$", remote.read(name).decode("utf-8", "replace"), re.M):
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate(dict(_MACHINE)):
                    yield requirement


def _choose_wheel(requirement: Requirement, downloader: Downloader, index: str) -> tuple[str, RemoteFile]:
    """Return the newest x86-64 Linux wheel for ``requirement``, and a name for it."""
    fitting = [
        wheel
        for wheel in pypi.list_wheels(requirement.name, downloader, index)
        if not wheel.yanked and requirement.specifier.contains(wheel.version) and _is_for_machine(wheel.tags)
    ]
    if not fitting:
        raise DecoupleError(
            f"{index}/{requirement.name}/: no wheel for x86-64 Linux meets {requirement}",
            next_step="name a folder with CUDA's headers: --headers FOLDER",
        )
    newest = max(fitting, key=lambda wheel: (wheel.version, wheel.file.name))
    return f"{requirement.name}-{newest.version}", newest.file


def _is_for_machine(tags: Iterable[str]) -> bool:
    return any(tag.endswith("-any") or re.search(r"-manylinux.*_x86_64$", tag) for tag in tags)


def _write_headers(wheel: RemoteFile, folder: Path, downloader: Downloader, progress: Progress) -> None:
    """Write what is below folder ``include``, each file checked against RECORD."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    remote = RemoteZip(wheel, downloader, progress, tail=_TAIL)
    members = remote.load_members(lambda info: "/include/" in info.filename and not info.is_dir())
    if members:
        write_members(remote, members, part)
    part.rename(folder)
