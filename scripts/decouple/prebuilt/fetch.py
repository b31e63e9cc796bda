"""Fetch members of a wheel on a server, each verified against its RECORD.

The hash of the RECORD itself is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import create_file
from decouple.base.path_names import is_relative_path
from decouple.base.progress import SILENT, Progress
from decouple.prebuilt.pairing import RemoteWheel
from decouple.release.projects import parse_digests
from decouple.upstream.download import Downloader
from decouple.upstream.remote_zip import Member, RemoteZip

#: What is larger is written as it comes.
_LARGE = 8 << 20
_TAMPERED = "do not use it; compare pairing.toml with the project's index page, then try again"


def fetch_members(
    wheel: RemoteWheel,
    place: Callable[[str], Path | None],
    downloader: Downloader,
    progress: Progress = SILENT,
) -> tuple[dict[str, tuple[Path, str]], int]:
    """Fetch every member that ``place`` has a path for.

    Returns member name -> (path, SHA-256), and the bytes that came over the network. Raises DecoupleError, naming the
    member, when the wheel is another one, or a byte of it is not as its RECORD says.
    """
    remote = RemoteZip(wheel.file, downloader)
    recorded = _read_record(remote, wheel)
    fetched: dict[str, tuple[Path, str]] = {}
    files = [member for member in remote.members if not member.info.is_dir()]
    wanted = [(member, target) for member in files if (target := place(member.info.filename)) is not None]
    large = {member.info.filename for member, _ in wanted if member.info.file_size > _LARGE}
    small = {member.info.filename for member, _ in wanted} - large
    remote.load_members(lambda info: info.filename in small)
    progress.start(wheel.name, float(sum(member.info.compress_size for member, _ in wanted)), "bytes")
    for member, target in wanted:
        name = member.info.filename
        if not is_relative_path(name):
            raise DecoupleError(f"{remote.url}: {name!r} leads out of the folder of a wheel", next_step=_TAMPERED)
        if name not in recorded:
            raise DecoupleError(f"{remote.url}: {name} is not in its RECORD", next_step=_TAMPERED)
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = _write_member(remote, member, target, streamed=name in large)
        progress.advance(member.info.compress_size)
        if digest != recorded[name]:
            target.unlink()
            raise DecoupleError(f"{remote.url}: {name} is not the file that its RECORD lists", next_step=_TAMPERED)
        fetched[name] = (target, digest)
    progress.finish()
    return fetched, remote.received


def _read_record(remote: RemoteZip, wheel: RemoteWheel) -> dict[str, str]:
    """Return member -> SHA-256 in hex from the wheel's RECORD.

    It must be the one that ``wheel`` means.
    """
    names = [name for name in remote.list_names() if name.endswith(".dist-info/RECORD")]
    if len(names) != 1:
        raise DecoupleError(f"{remote.url}: {len(names)} RECORD files, expected one", next_step=_TAMPERED)
    data = remote.read(names[0])
    if hashlib.sha256(data).hexdigest() != wheel.record:
        raise DecoupleError(f"{remote.url}: its RECORD is not the one of {wheel.name}", next_step=_TAMPERED)
    return {names[0]: wheel.record, **parse_digests(data)}


def _write_member(remote: RemoteZip, member: Member, target: Path, *, streamed: bool) -> str:
    digest = hashlib.sha256()
    with create_file(target) as file:
        for chunk in remote.stream_content(member) if streamed else (remote.read(member),):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()
