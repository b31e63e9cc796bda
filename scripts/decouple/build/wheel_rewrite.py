"""Wheels made from a wheel: other members, another name, other metadata.

`wheel_finishing.finish_wheel` compresses and records them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.build import wheel_finishing
from decouple.release import projects
from decouple.release.wheel_manifest import WheelManifest
from decouple.release.wheel_name import WheelName

_KEPT = ("entry_points.txt", "top_level.txt", "LICENSE", "NOTICE", "licenses/")


def write_raw_wheel(
    target: Path,
    source: zipfile.ZipFile,
    names: Iterable[str],
    text: str,
    changed: Mapping[str, bytes | Path] | None = None,
) -> Path:
    """Write the wheel ``target``, uncompressed and without RECORD.

    The members ``names`` of ``source``, with METADATA ``text``; what is ``changed`` has other bytes, or those of a
    file.

    The wheel's own folders (``.dist-info``, ``.data``) and WHEEL say what the name of ``target`` does (PEP 427).
    Raises DecoupleError when ``source`` has more of them than one of a kind, or no WHEEL.
    """
    made = WheelName.parse(target.name)
    old = wheel_finishing.find_dist_info(source, target)
    own = {old: f"{made.stem}.dist-info", **dict.fromkeys(_find_data_folders(source, target), f"{made.stem}.data")}
    wheel_file = _make_wheel_file(source, old, target, made)
    with zipfile.ZipFile(target, "w") as out:
        for name in names:
            folder, slash, rest = name.partition("/")
            entry = zipfile.ZipInfo(f"{own.get(folder, folder)}{slash}{rest}")
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
        out.writestr(f"{made.stem}.dist-info/METADATA", text)
        out.writestr(f"{made.stem}.dist-info/WHEEL", wheel_file)
    return target


def parse_plain_name(wheel: Path) -> WheelName:
    """Parse a wheel's name into its parts.

    Raises UsageError for a variant wheel, whose name ends in a label of no tag's; DecoupleError for no wheel's name.
    """
    name = WheelName.parse(wheel.name)
    if name.label is not None:
        raise UsageError(
            f"{wheel.name}: a variant wheel", next_step="name the wheel that `decouple repack variants` made it of"
        )
    return name


def _find_data_folders(source: zipfile.ZipFile, target: Path) -> set[str]:
    """Return the ``.data`` folder, if there is one.

    Its content goes elsewhere than beside the packages. Installers take any of that ending for it. Raises DecoupleError
    when there are more.
    """
    folders = {name.partition("/")[0] for name in source.namelist() if name.partition("/")[0].endswith(".data")}
    if len(folders) > 1:
        raise DecoupleError(
            f"{source.filename or target}: {len(folders)} folders that end in .data, expected one",
            next_step="build the wheel again",
        )
    return folders


def _make_wheel_file(source: zipfile.ZipFile, info: str, target: Path, name: WheelName) -> str:
    """Make WHEEL for ``name``, a ``Tag`` for each that a compressed set stands for.

    Raises DecoupleError.
    """
    if f"{info}/WHEEL" not in source.namelist():
        raise DecoupleError(f"{source.filename or target}: no WHEEL in it", next_step="build the wheel again")
    purelib = projects.parse_metadata(source.read(f"{info}/WHEEL")).get("Root-Is-Purelib", "false")
    lines = ["Wheel-Version: 1.0", "Generator: decouple", f"Root-Is-Purelib: {purelib}"]
    if name.build:
        lines.append(f"Build: {name.build}")
    return "".join(f"{line}\n" for line in (*lines, *(f"Tag: {tag}" for tag in sorted(map(str, name.tags)))))


def remake_wheel(
    wheel: Path,
    source: zipfile.ZipFile,
    manifest: WheelManifest,
    text: str,
    changed: Mapping[str, bytes | Path],
    folders: tuple[Path, Path],
) -> Path:
    """Write the same wheel as the version of ``manifest``.

    METADATA is ``text``, what is ``changed`` has other bytes. ``folders``: to work in, and where it goes.
    """
    work, folder = folders
    info, name = wheel_finishing.find_dist_info(source, wheel), parse_plain_name(wheel)
    made = write_raw_wheel(
        work / str(replace(name, version=manifest.version)),
        source,
        [*list_payload(source, info), *list_kept_members(source, info)],
        text,
        changed,
    )
    return wheel_finishing.finish_wheel(made, folder, manifest, int(manifest.times.get("source_date_epoch", 0)))


def list_payload(source: zipfile.ZipFile, info: str) -> list[str]:
    """Return the files of a wheel outside its dist-info folder ``info``."""
    return [member for member in source.namelist() if not member.endswith("/") and not member.startswith(f"{info}/")]


def list_kept_members(source: zipfile.ZipFile, info: str) -> list[str]:
    """List what of dist-info ``info`` does not depend on wheel name and metadata."""
    return [member for member in source.namelist() if member.startswith(tuple(f"{info}/{name}" for name in _KEPT))]


def format_metadata(fields: Iterable[tuple[str, str]], text: str) -> str:
    """Format METADATA of these fields and description."""
    return "".join(f"{key}: {value}\n" for key, value in fields) + f"\n{text}"
