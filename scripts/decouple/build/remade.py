"""Wheels made from a wheel: other members, another name, other metadata. `wheels.finish` compresses and records
them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from decouple.build import wheels
from decouple.release.wheel_manifest import WheelManifest

_KEPT = ("entry_points.txt", "top_level.txt", "LICENSE", "NOTICE", "licenses/")


def raw(
    target: Path,
    source: zipfile.ZipFile,
    names: Iterable[str],
    text: str,
    changed: Mapping[str, bytes | Path] | None = None,
) -> Path:
    """The wheel ``target``, uncompressed and without RECORD: the members ``names`` of ``source``, with METADATA
    ``text``; what is ``changed`` has other bytes, or those of a file."""
    stem = "-".join(target.name.split("-")[:2])
    tag = "-".join(target.stem.split("-")[2:])
    old = wheels.dist_info(source, target)
    with zipfile.ZipFile(target, "w") as out:
        for name in names:
            entry = zipfile.ZipInfo(name.replace(f"{old}/", f"{stem}.dist-info/"))
            entry.external_attr = source.getinfo(name).external_attr
            other = changed.get(name) if changed else None
            if isinstance(other, bytes):
                out.writestr(entry, other)
                continue
            with (
                other.open("rb") if other else source.open(name) as reader,
                out.open(entry, "w", force_zip64=True) as sink,
            ):
                while chunk := reader.read(1 << 20):
                    sink.write(chunk)
        out.writestr(f"{stem}.dist-info/METADATA", text)
        out.writestr(
            f"{stem}.dist-info/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: decouple\nRoot-Is-Purelib: false\nTag: {tag}\n",
        )
    return target


def finished(
    wheel: Path,
    source: zipfile.ZipFile,
    manifest: WheelManifest,
    text: str,
    changed: Mapping[str, bytes | Path],
    folders: tuple[Path, Path],
) -> Path:
    """The same wheel as the version of ``manifest``: METADATA is ``text``, what is ``changed`` has other bytes.
    ``folders``: to work in, and where it goes."""
    work, folder = folders
    info, stem = wheels.dist_info(source, wheel), wheel.name.split("-", 2)
    made = raw(
        work / f"{stem[0]}-{manifest.version}-{stem[2]}",
        source,
        [*payload(source, info), *kept(source, info)],
        text,
        changed,
    )
    return wheels.finish(made, folder, manifest, int(manifest.times.get("source_date_epoch", 0)))


def payload(source: zipfile.ZipFile, info: str) -> list[str]:
    """The files of a wheel outside its dist-info folder ``info``."""
    return [one for one in source.namelist() if not one.endswith("/") and not one.startswith(f"{info}/")]


def kept(source: zipfile.ZipFile, info: str) -> list[str]:
    """What of the dist-info folder ``info`` does not depend on the wheel's name and metadata."""
    return [one for one in source.namelist() if one.startswith(tuple(f"{info}/{name}" for name in _KEPT))]


def metadata(fields: Iterable[tuple[str, str]], text: str) -> str:
    """METADATA of these fields and description."""
    return "".join(f"{key}: {value}\n" for key, value in fields) + f"\n{text}"
