"""Read the official wheel's machine code.

It is a dump that is kept with this package, or read from the wheel on the index.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from decouple.base.errors import DecoupleError
from decouple.base.files import create_file, make_work_folder, write_atomically
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import Manifest, RemoteFile
from decouple.upstream.download import Downloader
from decouple.upstream.providers.wheel import find_wheel
from decouple.upstream.remote_zip import Member, RemoteZip
from decouple.verify.kernels import dump, fatbin
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
    bases = {fatbin.drop_variant(arch) for arch in archs}
    if len(bases) == 1 and (kept := find_kept_dump(manifest.version, *bases)).exists():
        return dump.read_dump(kept).keep_archs(archs)
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
    """Fetch the files ``members`` of a wheel on the index, of any size.

    They are in a folder for as long as the context lasts. Raises DecoupleError for one that is not there or damaged.
    """
    remote = RemoteZip(wheel, downloader, progress)
    there = {member.info.filename: member for member in remote.members}
    if lacking := [member for member in members if member not in there]:
        raise DecoupleError(f"{remote.url}: has no {lacking[0]}", next_step=f"is {wheel.name} a wheel with CUDA?")
    with make_work_folder(cache / "kernels", "members") as folder:
        wanted = [there[member] for member in members]
        size = sum(member.info.compress_size for member in wanted)
        progress.start(f"{PurePosixPath(members[0]).name} of {wheel.name}", float(size), "bytes")
        found = [_write_member(remote, member, folder) for member in wanted]
        progress.finish()
        yield found


def _write_member(remote: RemoteZip, member: Member, folder: Path) -> Path:
    """Write the content of a member into ``folder`` as it comes, and check its CRC."""
    path, crc = folder / PurePosixPath(member.info.filename).name, 0
    with create_file(path) as file:
        for piece in remote.stream_content(member):
            crc = zlib.crc32(piece, crc)
            file.write(piece)
    if crc != member.info.CRC:
        raise DecoupleError(f"{remote.url}: {member.info.filename} is damaged", next_step="try again later")
    return path
