"""``decouple record``: write what is proven of a series, without building it, to ``ci/status/<release>.json``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decouple.base.errors import CHECK_FAILED, OK, DecoupleError

if TYPE_CHECKING:
    from decouple.patch.parse import Patch
    from decouple.upstream.readers import Opened

_FINE = {"clean", "offset"}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("record", help="write what is proven of a series without building it to ci/status/")
    parser.add_argument("release")
    parser.add_argument("--census", type=Path, metavar="FILE", help="what `census --json` wrote")
    parser.add_argument("--offline", action="store_true", help="use only what is in the cache")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the series on every tree there is of its release; 1 when a patch does not apply to one of them.

    A whole series: the pristine tree and Debian's patched one, where Debian has the release. A partial one: what the
    official wheel shows.
    """
    from decouple.base.paths import find_project
    from decouple.patch import seriesfile
    from decouple.release import status
    from decouple.series import check
    from decouple.series import evidence as proven
    from decouple.series.digest import series_digest

    project, release = find_project(), arguments.release
    path = status.path_of(project, release)
    series = check.load(project, release)
    lacking = seriesfile.read(project / "series" / release).not_carried
    applies: dict[str, dict[str, str]] = {patch.name: {} for patch in series}
    levels: dict[str, tuple[proven.Level, str]] = {}
    sources = {}
    for name, opened, under in _sources(project, release, series, partial=bool(lacking), offline=arguments.offline):
        sources[name] = _described(project, release, opened)
        for verdict in check.check(series, opened.source, under=under, partial=opened.partial):
            applies[verdict.patch.name][name] = verdict.status.value
        levels = levels or proven.levels(series, opened.source, partial=opened.partial)
    if not lacking and _configured(project, release, series):
        better = {proven.Level.FULL: proven.Level.CONFIGURED}
        levels = {name: (better.get(level, level), why) for name, (level, why) in levels.items()}
    digest = series_digest(project, release)
    status.update(path, "series", {"patches": len(series), "not_carried": len(lacking), "digest": digest})
    status.update(path, "applies", {"sources": sources, "patches": applies})
    rows: dict[str, dict[str, str]] = {}
    for patch in series:
        level, why = levels[patch.name]
        identity = patch.header.decouple_id or patch.name
        rows[identity] = {"patch": patch.name, "level": level.value, **({"why": why} if why else {})}
    for one in lacking:
        identity = _identity(project, one.name)
        rows[identity] = {"patch": one.name, "level": proven.Level.NOTHING.value, "why": one.why}
    status.update(path, "proven", rows)
    if arguments.census:
        status.update(path, "census", _key_number(arguments.census, release))
    bad = [name for name, found in applies.items() if not set(found.values()) <= _FINE]
    said = f"{len(series) - len(bad)} of {len(series)} patches apply to {' and '.join(sources)}"
    print(f"{path}: {said}{f'; {len(lacking)} are not carried' if lacking else ''}")
    return CHECK_FAILED if bad else OK


def _sources(
    project: Path, release: str, series: list[Patch], *, partial: bool, offline: bool
) -> list[tuple[str, Opened, list[Patch]]]:
    """Name, source, and what Debian lays under the series, of each tree; the first decides what is proven."""
    from decouple.release.manifest import load_release
    from decouple.series import check
    from decouple.upstream.source_word import open_named

    wanted = check.wanted(series)
    if partial:
        return [("wheel", *open_named(project, release, "wheel", wanted, offline=offline))]
    found = [("pristine", *open_named(project, release, "auto", wanted, offline=offline))]
    if load_release(project, release).source("debian"):
        found.append(("debian", *open_named(project, release, "auto", wanted, offline=offline, debian_patches=True)))
    return found


def _described(project: Path, release: str, opened: Opened) -> str:
    """What the source is, whether it came by range or from the cache, so that a second record is the same file."""
    from decouple.release.manifest import WheelSource, load_release

    source = load_release(project, release).source("wheel")
    return source.wheel.name if opened.partial and isinstance(source, WheelSource) else opened.described


def _configured(project: Path, release: str, series: list[Patch]) -> bool:
    """Whether CMake has run on the tree that the series makes: no build file in it is newer than the result."""
    from decouple.base.paths import build_dir
    from decouple.series.digest import patch_digests
    from decouple.stack.journal import State

    tree = build_dir(project, release) / "src"
    state, made = tree / ".git" / "decouple" / "state.json", tree / "build" / "build.ninja"
    if not state.is_file() or not made.is_file():
        return False
    applied = [item.sha256 for item in State.from_json(state.read_text(encoding="utf-8")).applied]
    if applied != [digest for _, digest in patch_digests(project, release)]:
        return False
    touched = {path for patch in series for path in patch.touched if path.endswith((".cmake", "CMakeLists.txt"))}
    return all((tree / path).stat().st_mtime <= made.stat().st_mtime for path in touched if (tree / path).is_file())


def _identity(project: Path, name: str) -> str:
    """The Decouple-Id of a patch that another series lists; its name where the file is gone."""
    from decouple.patch import parse as patches

    path = project / "patches" / name
    return (patches.read(path, name=name).header.decouple_id if path.is_file() else None) or name


def _key_number(census: Path, release: str) -> dict[str, Any]:
    import json

    try:
        key: dict[str, Any] = json.loads(census.read_bytes())["summary"]["key_number"]
    except (ValueError, KeyError, TypeError) as error:
        raise DecoupleError(
            f"{census}: not a census: {error!r}", next_step=f"decouple census {release} --json FILE"
        ) from error
    return key
