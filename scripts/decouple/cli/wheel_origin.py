"""Print what a wheel was made from (``decouple verify WHEEL --explain``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from decouple.base import zips
from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import parse_json
from decouple.build.wheel_finishing import BOM, count_components, read_manifest

_COMPILED_HERE = "only the Python bindings, and what a patch adds to libtorch_cuda, were compiled from the tree"
KERNELS = {
    "official": "machine code of upstream's own wheel (the last source), repacked under its licence, unmodified but "
    f"for run paths; {_COMPILED_HERE}",
    "installed": "machine code of another CUDA build of this release (kernels.json in the wheel names its libraries), "
    f"repacked under its licence, unmodified but for names and run paths; {_COMPILED_HERE}",
}
"""Whose the kernels of a wheel are, where they were not compiled from the tree."""

UNPINNED = (
    "a source without a pinned hash is not listed: its first use was trusted, and the tree above is what came of it"
)


class _BuildInfo(msgspec.Struct, frozen=True):
    libraries: Mapping[str, str] = {}


def print_origin(wheel: Path, *, as_json: bool) -> None:
    """Print the wheel's manifest. Raises DecoupleError when decouple did not build it."""
    manifest = read_manifest(wheel)
    if as_json:
        print(manifest.to_json().decode(), end="")
        return
    libraries = describe_libraries(wheel)  # before the first line: it may refuse the wheel
    print(f"{manifest.project} {manifest.version} (release {manifest.release})")
    print(f"  upstream    {manifest.upstream.get('tag')} {manifest.upstream.get('commit')}")
    print(f"  tree        {manifest.tree}")
    print(f"  series      {manifest.series.digest}")
    for patch in manifest.series.patches:
        print(f"              {patch['path']} {patch['sha256'][:16]}")
    print(f"  overlay     {manifest.overlay.digest}")
    for source in manifest.sources:
        print(f"  source      {source.get('name') or source.get('file')} {source['sha256']}")
    print(f"              {UNPINNED}")
    listed = count_components(wheel)
    print(f"  components  {f'{listed[0]} in it, {listed[1]} asked for ({BOM})' if listed else 'not listed in it'}")
    if manifest.cuda:
        print(f"  cuda        {manifest.cuda} for {', '.join(manifest.arch_list)}")
    elif manifest.arch_list:
        toolkit = str(manifest.flags.get("toolkit", "toolkit"))
        print(f"  {toolkit:<11} {manifest.version.partition('+')[2] or 'not said'} for {', '.join(manifest.arch_list)}")
    for line in libraries:
        print(f"  libraries   {line}")
    if whose := KERNELS.get(kind := str(manifest.flags.get("kernels", "compiled"))):
        print(f"  kernels     {kind}: {whose}")
    if manifest.flags.get("thinned"):
        print("  thinned     machine code for other architectures was taken out of its libraries (repack thin)")
    for name, text in manifest.toolchain.items():
        if name not in ("packages", "inputs"):
            print(f"  {name:<11} {text or 'not there'}")
    print(f"  packages    {len(manifest.toolchain.get('packages', {}))} (--json lists them)")
    for line in describe_checks(manifest.toolchain.get("inputs")):
        print(f"  inputs      {line}")
    print(f"  flags       {', '.join(f'{name}={value}' for name, value in manifest.flags.items())}")
    print(f"  environment {' '.join(f'{name}={value}' for name, value in manifest.environment.items())}")
    print(f"  times       {', '.join(f'{name}={value}' for name, value in manifest.times.items())}")


def describe_libraries(wheel: Path) -> list[str]:
    """Return which libraries beside the toolkit a wheel was made with, and without.

    ``build_info.json`` in the wheel says so; a core has none.
    """
    with zips.open_zip(wheel) as archive:
        member = next(
            (name for name in archive.namelist() if PurePosixPath(name).match("torch_*/build_info.json")), None
        )
        text = archive.read(member).decode(errors="replace") if member else "{}"
    try:
        libraries = msgspec.convert(parse_json(text), _BuildInfo).libraries
    except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
        raise DecoupleError(f"{wheel.name}: {member}: {str(error)[:200]}", next_step="build the wheel again") from None
    there = [
        name if version == "on" else f"{name} {version}" for name, version in libraries.items() if version != "off"
    ]
    absent = [name for name, version in libraries.items() if version == "off"]
    lines = [f"with {', '.join(there)}"] if there else []
    return lines + ([f"without {', '.join(absent)}: its METADATA says what is missed"] if absent else [])


def describe_checks(known: Any) -> list[str]:
    """Return how ``known``, a manifest's ``toolchain.inputs``, was checked or not."""
    if not isinstance(known, dict):
        return ["nothing is recorded of how the toolchain was checked"]
    lines = [f"network of the build: {known.get('network', 'not recorded')}"]
    if known.get("packages_sha256"):
        keys = ", ".join(known.get("signed_by", ()))
        lines.append(f"{len(known['packages_sha256'])} Debian packages by SHA-256 from lists signed by {keys}")
    lines += [
        f"{name} by the SHA-256 {sha256[:16]}… in the description" for name, sha256 in known.get("pypi", {}).items()
    ]
    lines += [f"not checked: {name}" for name in known.get("unchecked", ())]
    return lines
