"""Read the official wheel's machine code.

It is a dump that is kept with this package, or read from the wheel on the index.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from decouple.base.errors import DecoupleError
from decouple.base.files import make_work_folder, write_atomically
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import Manifest, RemoteFile
from decouple.upstream.download import Downloader
from decouple.upstream.providers.wheel import find_wheel
from decouple.upstream.remote_zip import RemoteZip
from decouple.verify.kernels import dump
from decouple.verify.kernels.dump import KernelDump

LABEL = "official"
#: Members of the wheel with PyTorch's own device code; libtorch_cuda_linalg has MAGMA's only, another project's.
MEMBERS = ("torch/lib/libtorch_cuda.so",)
_KEPT = Path(__file__).parent / "official"


def find_kept_dump(version: str, arch: str) -> Path:
    """Return where this package keeps a dump of an official wheel.

    Of ``version`` ("2.6.0") for ``arch`` ("sm_90").
    """
    return _KEPT / f"{version}-{arch}.kernels.xz"


def load_official_dump(
    manifest: Manifest, archs: Sequence[str], cache: Path, downloader: Downloader, *, progress: Progress = SILENT
) -> KernelDump:
    """Return the official wheel's dump for ``archs``.

    The one kept here, in the cache, or made from the wheel. Only the members with device code are fetched, by HTTP
    range; a dump of all architectures is then left in ``cache``. Raises DecoupleError when the release has no wheel, or
    when the wheel has no code for one of ``archs``.
    """
    if len(archs) == 1 and find_kept_dump(manifest.version, archs[0]).exists():
        return dump.read_dump(find_kept_dump(manifest.version, archs[0]))
    wheel = find_wheel(manifest)
    if wheel is None:
        raise DecoupleError(
            f"{manifest.release}: no official wheel is known", next_step="decouple manifest fill RELEASE --write"
        )
    name = wheel.sha256 or wheel.name
    path = cache / "kernels" / f"{name}.{dump.FORMAT}.kernels.xz"
    if not path.exists():
        with fetch_members(wheel, MEMBERS, cache, downloader, progress) as libraries:
            made = dump.dump_libraries(libraries, f"{LABEL} {manifest.version}", progress=progress)
        write_atomically(path, dump.pack_dump(made))
    return dump.read_dump(path).keep_archs(archs)


@contextlib.contextmanager
def fetch_members(
    wheel: RemoteFile, members: Sequence[str], cache: Path, downloader: Downloader, progress: Progress = SILENT
) -> Iterator[list[Path]]:
    """Fetch the files ``members`` of a wheel on the index.

    They are in a folder for as long as the context lasts.
    """
    remote = RemoteZip(wheel, downloader, progress)
    with make_work_folder(cache / "kernels", "members") as folder:
        remote.load_members(lambda info: info.filename in members)
        found = []
        for member in members:
            path = folder / PurePosixPath(member).name
            path.write_bytes(remote.read(member))
            found.append(path)
        yield found
