"""Finish a wheel: add manifest and bill of materials, remove zip's time and place."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import time
import zipfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from decouple.base import zips
from decouple.base.deflate import Deflater
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import create_file, write_atomically
from decouple.base.path_names import is_relative_path
from decouple.base.steps import mark_step
from decouple.base.untrusted_input import parse_json
from decouple.release.installed_wheels import EDITED, name_series
from decouple.release.wheel_manifest import MEMBER, SUFFIX, WheelManifest
from decouple.release.wheel_name import WheelName

#: The earliest time a zip member can carry.
_ZIP_EPOCH = 315532800
_CHUNK = 1 << 20
_PLATFORM = re.compile(r"manylinux_(\d+)_(\d+)_")  # PEP 600: the glibc that is needed
LEVEL = 6
BOM = "sboms/decouple.cdx.json"
"""The bill of materials, in the dist-info folder: the place is PEP 770's, the ending CycloneDX's."""


def finish_wheel(raw: Path, folder: Path, manifest: WheelManifest, epoch: int, level: int = LEVEL) -> Path:
    """Write ``raw`` into ``folder`` with ``manifest`` and bill of materials in it.

    Returns the wheel. The manifest also lies beside it.

    The same members give the same bytes: they are sorted (the dist-info last, as PEP 427 recommends), carry ``epoch``
    (seconds since 1970) as their time, 0644 or 0755 as their mode, and what was in ``raw`` is
    compressed with zlib's ``level``. Raises DecoupleError when ``raw`` is not a wheel.
    """
    from decouple.build import sbom  # a quarter of a second, for which only packing has a use

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / raw.name
    partial = target.with_name(f".{target.name}.part")
    payload = manifest.to_json()
    mark_step(f"write {target.name}")
    try:
        with (
            zips.open_zip(raw, mend="build the wheel again") as source,
            create_file(partial) as file,
            zipfile.ZipFile(file, "w") as out,
            Deflater(level) as deflater,
        ):
            info = find_dist_info(source, raw)
            record_name, text_name = f"{info}/RECORD", f"{info}/METADATA"
            made = {f"{info}/{BOM}": b"", f"{info}/{MEMBER}": payload}
            names = sorted(
                {name for name in source.namelist() if not name.endswith("/")} - {record_name, *made},
                key=lambda name: (name.startswith(f"{info}/"), name),
            )
            for name in names:
                if not is_relative_path(name):
                    raise DecoupleError(f"{raw}: {name!r} leads out of the wheel", next_step="build the wheel again")
            if text_name not in names:
                raise DecoupleError(f"{raw}: no METADATA in it", next_step="build the wheel again")
            rows, digests = list[tuple[str, str, str]](), dict[str, str]()
            for name in names:
                executable = bool(source.getinfo(name).external_attr >> 16 & 0o111)
                digest, size = _copy_member(source, out, name, _make_member(name, executable, epoch), deflater)
                rows.append(_make_row(name, digest, size))
                digests[name] = digest.hex()
            made[f"{info}/{BOM}"] = sbom.make_bom(manifest, source.read(text_name), digests, epoch)
            for name, data in made.items():
                with out.open(_make_member(name, False, epoch), "w") as sink:
                    sink.write(data)
                rows.append(_make_row(name, hashlib.sha256(data).digest(), len(data)))
            with out.open(_make_member(record_name, False, epoch), "w") as sink:
                sink.write(_format_record([*sorted(rows), (record_name, "", "")]))
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(target)
    write_atomically(target.with_name(target.name + SUFFIX), payload)
    return target


def check_platform(name: str, report: str) -> None:
    """Check that the tag in ``name`` promises no more than its libraries keep.

    ``name`` is a wheel's. ``report`` is what auditwheel says of their symbols. Raises DecoupleError where it promises
    more.
    """
    tagged, asked = WheelName.parse(name).glibc, _PLATFORM.search(report.partition("constrains the platform tag")[2])
    if tagged is None or asked is None:
        raise DecoupleError(
            f"{name}: auditwheel names no manylinux platform for its libraries",
            next_step="`auditwheel show` of that wheel says which symbols are in the way",
        )
    if tuple(map(int, asked.groups())) > tagged:
        raise DecoupleError(
            f"{name}: its libraries need {asked[0].rstrip('_')}",
            next_step="`auditwheel show` of that wheel names the symbols; link what is as old as the tag",
        )


def find_dist_info(wheel: zipfile.ZipFile, path: Path) -> str:
    """Return the one ``*.dist-info`` folder of a wheel.

    Raises DecoupleError when there is none, or more.
    """
    folders = {name.split("/")[0] for name in wheel.namelist() if name.split("/")[0].endswith(".dist-info")}
    if len(folders) != 1:
        raise DecoupleError(
            f"{path}: {len(folders)} dist-info folders, expected one", next_step="build the wheel again"
        )
    return folders.pop()


def read_manifest(wheel: Path) -> WheelManifest:
    """Return the manifest in a wheel.

    Raises DecoupleError when it is no wheel, or not one of ours.
    """
    try:
        with zips.open_zip(wheel, mend="build it again, or name another file") as archive:
            name = f"{find_dist_info(archive, wheel)}/{MEMBER}"
            if name not in archive.namelist():
                raise DecoupleError(
                    f"{wheel}: no {MEMBER} in it, so decouple did not build it",
                    next_step="`decouple build RELEASE` makes one that has it",
                )
            return WheelManifest.from_json(archive.read(name), f"{wheel.name}:{name}")
    except OSError as error:
        raise DecoupleError(
            f"{wheel}: not a wheel: {error}", next_step="build it again, or name another file"
        ) from error


def find_series(wheels: Iterable[Path], again: str, warn: Callable[[str], None]) -> str | None:
    """Return the digest of the series that what is seen of the wheels is recorded of.

    "" of no wheel. None, and ``warn`` tells why, where nothing is to be recorded of them; ``again`` is the command that
    builds them.
    """
    made = {wheel: read_manifest(wheel) for wheel in wheels}
    series = {wheel.name: name_series(one.series.digest, one.tree) for wheel, one in made.items()}
    edited = [name for name, one in series.items() if one.endswith(EDITED)]
    return choose_series(set(series.values()), ", ".join(sorted(edited or series)), again, warn)


def choose_series(series: Collection[str], what: str, again: str, warn: Callable[[str], None]) -> str | None:
    """Return the one of ``series``, None where wheels of them are a proof of none.

    They are as `installed_wheels.name_series` says them, and ``what`` says of what; the rest is as of `find_series`.
    """
    if any(name.endswith(EDITED) for name in series):
        why, first = "a tree with edits that are in no patch", "`decouple refresh RELEASE` takes them into one, then "
    elif len(series) > 1:
        why, first = "different series", ""
    else:
        return "".join(series)
    warn(f"{what}: made of {why}, so nothing is recorded; {first}`{again}`")
    return None


def refuse_mixed_series(series: Collection[str], what: str, again: str) -> None:
    """Raise DecoupleError where there are several ``series``.

    They are as `installed_wheels.name_series` says them.
    """
    if len({name.removesuffix(EDITED) for name in series}) > 1:
        raise DecoupleError(f"{what}: its wheels are made of different series, so nothing is recorded", next_step=again)


def refuse_other_core(wheel: Path, core: str, again: str) -> None:
    """Raise UsageError where a wheel of stage 2 was built against another ``core``.

    One for an unmodified core may be named as one for ours. ``again`` is the command that builds it.
    """
    made = read_manifest(wheel).flags.get("core", core)  # the first manifests do not say it
    if made != core:
        raise UsageError(f"{wheel}: built against the core {made!r}, not {core!r}", next_step=again)


def refuse_portable_wheels(wheels: Iterable[Path], again: str) -> None:
    """Raise UsageError where one is portable, and the root is Debian's.

    Builds of before the two had records of their own may have left it. ``again`` is the command that builds for the
    root.
    """
    for wheel in wheels:
        if WheelName.parse(wheel.name).glibc:
            raise UsageError(f"{wheel}: the last build of that stage was one with --env portable", next_step=again)


def count_components(wheel: Path) -> tuple[int, int] | None:
    """Count the components in the wheel's bill of materials.

    Returned are those in the wheel and those asked for beside it; None without one. Raises DecoupleError when it is
    none that can be read.
    """
    with zips.open_zip(wheel) as archive:
        name = f"{find_dist_info(archive, wheel)}/{BOM}"
        if name not in archive.namelist():
            return None
        try:
            listed = msgspec.convert(parse_json(archive.read(name)), _Bom).components
        except (ValueError, msgspec.ValidationError) as error:
            raise DecoupleError(f"{wheel.name}:{name}: {error}", next_step="build the wheel again") from None
    beside = sum(_BESIDE in component.properties for component in listed)
    return len(listed) - beside, beside


class _Property(Struct, frozen=True):
    name: str
    value: str = ""


class _Component(Struct, frozen=True):
    properties: tuple[_Property, ...] = ()


class _Bom(Struct, frozen=True):
    components: tuple[_Component, ...] = ()


_BESIDE = _Property("decouple:bundled", "false")


def _make_member(name: str, executable: bool, epoch: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, time.gmtime(max(epoch, _ZIP_EPOCH))[:6])
    info.create_system = 3
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    info._compresslevel = LEVEL  # type: ignore[attr-defined]  # ZipFile.open(ZipInfo) takes the level from here
    return info


def _copy_member(
    source: zipfile.ZipFile, out: zipfile.ZipFile, name: str, info: zipfile.ZipInfo, deflater: Deflater
) -> tuple[bytes, int]:
    """Copy a member; returns digest (SHA-256) and bytes of what was copied."""
    digest, size = hashlib.sha256(), 0
    info.file_size = source.getinfo(name).file_size  # decides zip64 before the first byte
    with source.open(name) as reader, out.open(info, "w", force_zip64=info.file_size > 1 << 31) as sink:
        sink._compressor = deflater  # type: ignore[attr-defined]  # where ZipFile keeps zlib's own, which has one thread
        while chunk := reader.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            sink.write(chunk)
    return digest.digest(), size


def _make_row(name: str, digest: bytes, size: int) -> tuple[str, str, str]:
    return name, f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}", str(size)


def _format_record(rows: Iterable[tuple[str, str, str]]) -> bytes:
    """Format RECORD, which is CSV: a name may hold a comma or a quotation mark."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
