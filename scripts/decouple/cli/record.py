"""``decouple record``: write what is proven of a series, without building it, to ``ci/status/<release>.json``."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK, DecoupleError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("record", help="write what is proven of a series without building it to ci/status/")
    parser.add_argument("release")
    parser.add_argument("--census", type=Path, metavar="FILE", help="what `census --json` wrote")
    parser.add_argument("--offline", action="store_true", help="use only what is in the cache")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the series on the pristine and on Debian's patched tree; 1 when a patch does not apply to one of them."""
    import json

    from decouple.base.paths import find_project
    from decouple.series import check
    from decouple.series.digest import series_digest
    from decouple.series.named import open_named
    from decouple.verify import status

    project = find_project()
    path = status.path_of(project, arguments.release)
    series = check.load(project, arguments.release)
    wanted = check.wanted(series)
    applies: dict[str, dict[str, str]] = {patch.name: {} for patch in series}
    sources = {}
    for name, debian in (("pristine", False), ("debian", True)):
        opened, under = open_named(
            project, arguments.release, "auto", wanted, offline=arguments.offline, debian_patches=debian
        )
        sources[name] = opened.described
        for verdict in check.check(series, opened.source, under=under, partial=opened.partial):
            applies[verdict.patch.name][name] = verdict.status.value
    status.update(
        path,
        "series",
        {"patches": len(series), "digest": series_digest(project, arguments.release)},
    )
    status.update(path, "applies", {"sources": sources, "patches": applies})
    if arguments.census:
        try:
            key = json.loads(arguments.census.read_bytes())["summary"]["key_number"]
        except (ValueError, KeyError, TypeError) as error:
            raise DecoupleError(
                f"{arguments.census}: not a census: {error!r}",
                next_step=f"decouple census {arguments.release} --json FILE",
            ) from error
        status.update(path, "census", key)
    bad = [name for name, found in applies.items() if not set(found.values()) <= {"clean", "offset"}]
    print(f"{path}: {len(series)} patches, {len(series) - len(bad)} of them apply to {' and '.join(sources)}")
    return CHECK_FAILED if bad else OK
