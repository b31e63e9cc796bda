"""NVIDIA's headers without its libraries: a few MiB by range out of wheels that have 2 GB together."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import hold_lock
from decouple.base.paths import find_cache
from decouple.upstream import pypi
from decouple.upstream.download import Downloader
from decouple.upstream.remote_zip import RemoteZip
from simcuda import vendor
from tests.support.tools import leave_test


def require_headers(version: str, wheels: Iterable[str]) -> vendor.Kit:
    """A kit of CUDA ``version`` that has the headers of ``wheels`` (keys of ``vendor.toml``) and no library.

    They stay in the cache, in a folder of the tests' own. Where PyPI cannot be reached the test that runs is left.
    """
    cache = find_cache() / "tests" / "cuda-headers"
    cache.mkdir(parents=True, exist_ok=True)
    kit = vendor.find_kit(Path("/nowhere"), cache, version)
    try:
        with hold_lock(cache / "lock"):
            for wheel in dict.fromkeys((*vendor.BASE, *wheels)):
                _fetch(kit.pins[wheel], cache)
    except DecoupleError as error:
        leave_test(f"NVIDIA's headers are not here: {error}")
    return kit


def _fetch(pin: str, cache: Path) -> None:
    project, _, version = pin.partition("==")
    folder = cache / f"{project}-{version}"
    if folder.is_dir():
        return
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    downloader = Downloader(find_cache())
    (wheel, *_) = (
        one
        for one in pypi.list_wheels(project, downloader)
        if str(one.version) == version and any("manylinux" in tag and "x86_64" in tag for tag in one.tags)
    )
    remote = RemoteZip(wheel.file, downloader)
    for member in remote.load_members(lambda info: "/include/" in info.filename and not info.is_dir()):
        file = part / member.info.filename
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(remote.read(member))
    part.rename(folder)
