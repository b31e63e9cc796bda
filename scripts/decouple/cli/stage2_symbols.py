"""``decouple stage2-symbols``: would libraries with kernels find in a core what they need?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decouple.base.errors import CHECK_FAILED, OK

if TYPE_CHECKING:
    from decouple.prebuilt.symbols import Report

OFFICIAL = "official"


def register(subparsers: Any) -> None:
    """Add ``stage2-symbols``."""
    command = subparsers.add_parser(
        "stage2-symbols",
        description="Compare the dynamic symbols of compiled CUDA libraries with those of a core. Of an official wheel "
        "only the parts of its libraries that hold names are fetched. Exit code 1 when a symbol is lacking, or the C++ "
        "ABI is another.",
    )
    command.add_argument("release", nargs="+", help="for example 2.6")
    command.add_argument(
        "--core", type=Path, metavar="DIR", help="a torch package or its lib (default: official wheel)"
    )
    command.add_argument(
        "--kernels", default=OFFICIAL, metavar="official|DIR", help="libraries with kernels (default: official wheel)"
    )
    command.add_argument("--all", action="store_true", help="name every symbol that is lacking, not the first five")
    command.add_argument("--json", action="store_true", help="the whole report, on standard output")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from decouple.base.errors import UsageError

    if len(arguments.release) > 1 and (arguments.core or arguments.kernels != OFFICIAL):
        raise UsageError("--core and --kernels are of one release", next_step="name one release")
    documents, good = {}, True
    for release in arguments.release:
        report, received = _report(release, arguments.core, arguments.kernels)
        good &= not report.lacking and not report.other_abi
        documents[release] = {**report.to_dict(), "received": received}
        if not arguments.json:
            _print(release, report, received, None if arguments.all else 5)
    if arguments.json:
        print(json.dumps(documents, indent=2))
    return OK if good else CHECK_FAILED


def _report(release: str, core: Path | None, kernels: str) -> tuple[Report, int]:
    from decouple.prebuilt import official, symbols

    received = 0
    core_faces = official.of_folder(core, official.CORE) if core else ()
    kernel_faces = official.of_folder(Path(kernels), official.KERNELS) if kernels != OFFICIAL else ()
    if not core_faces or not kernel_faces:
        faces = _of_wheel(release, core=core is None)
        received = faces.received
        core_faces, kernel_faces = core_faces or faces.core, kernel_faces or faces.kernels
    return symbols.compare(kernel_faces, core_faces), received


def _of_wheel(release: str, *, core: bool) -> Any:
    from decouple.base.errors import DecoupleError
    from decouple.base.paths import cache_dir, find_project
    from decouple.prebuilt import official
    from decouple.release.manifest import WheelSource, load_release
    from decouple.upstream.download import Downloader
    from decouple.upstream.ranges import RemoteZip

    source = load_release(find_project(), release).source("wheel")
    if not isinstance(source, WheelSource):
        raise DecoupleError(f"{release}: its manifest names no wheel", next_step=f"decouple manifest fill {release}")
    return official.of_wheel(RemoteZip(source.wheel, Downloader(cache_dir())), core=core)


def _print(release: str, report: Report, received: int, limit: int | None) -> None:
    from decouple.prebuilt.symbols import source_of

    total = sum(report.asked.values())
    fetched = f", {received / (1 << 20):.1f} MiB fetched" if received else ""
    print(f"{release}: {', '.join(report.libraries)} ask a core for {total} symbols{fetched}")
    if report.other_abi:
        print(f"  another C++ ABI: these kernels are {report.kernels_abi}, the core is {report.core_abi}: no symbol of "
              "either with a std::string in it fits the other; take kernels and core of one ABI")  # fmt: skip
        return
    print(f"  C++ ABI     {report.kernels_abi} (core: {report.core_abi})")
    for provider, count in sorted(report.asked.items()):
        lacking = [lack for lack in report.lacking if lack.provider == provider]
        verdict = f"{len(lacking)} lacking" if lacking else "all there"
        print(f"  {provider:<11} {count} asked, {verdict}")
        if lacking:
            print(f"              from {source_of(provider)}")
        for lack in lacking[:limit]:
            print(f"              {lack.symbol} (for {lack.library})")
        if limit is not None and len(lacking) > limit:
            print(f"              and {len(lacking) - limit} more (--all)")
    least = ", ".join(f"{name} {version}" for name, version in sorted(report.versions.items()) if version != name)
    print(f"  at least    {least}")
