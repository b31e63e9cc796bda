"""Measure what an architecture list costs stage 2.

A sample of its .cu files is measured, the whole is computed.

    python scripts/bench/archs.py --release 2.6 --env portable --cuda 12.4 [--core official] [--files 8] [--json FILE]

Stage 2 of that build is compiled already. Each file of the sample is compiled once for each list, one after the other,
without a compiler cache; processor seconds and bytes are compared with those for the first list. The hours of the
whole are those of the sample times all of stage 2's .cu files over its own: the larger the sample, the nearer. What the
build itself took is no measure: its log tells the newest run of each compiler, which the cache may have answered.

For who chooses an architecture list: docs/build.md gives its figures.
"""

from __future__ import annotations

import sys
from typing import Any

from _timing import run_bench, time_action

from decouple.base.paths import find_project
from decouple.base.progress import SILENT
from decouple.flows import stage2_commands
from decouple.flows.build_request import BuildRequest
from decouple.flows.stage2_commands import Stage2Commands
from decouple.release.manifest import Manifest
from decouple.upstream.manifests import load_release
from decouple.verify.facts import list_arch_flags
from decouple.verify.stage1_units import TranslationUnit, choose_units


def measure_lists(release: str, env: str, python: str, cuda: str, core: str, files: int) -> dict[str, Any]:
    """Measure each list: processor seconds and bytes of the sample, hours of all.

    Seconds and bytes are also given as multiples of those for 9.0.
    """
    built = stage2_commands.open_commands(
        BuildRequest(find_project(), release, env=env, python=python, cuda=cuda, core=core)
    )
    sample = choose_units(list(built.objects), files)
    seen: dict[str, Any] = {"files": [unit.file.name for unit in sample], "of": len(built.objects)}
    least: tuple[float, float] | None = None
    for name, archs in list_arch_lists(load_release(find_project(), release)).items():
        spent = size = 0.0
        for unit in sample:
            print(f"{name}: {unit.file.name}", file=sys.stderr)
            seconds, taken = compile_unit(built, unit, list_arch_flags(archs))
            spent, size = spent + seconds, size + taken
        least = least or (spent, size)
        seen[name] = {
            "seconds": round(spent, 1),
            "MiB": round(size / 2**20, 2),
            "times the seconds of 9.0": round(spent / least[0], 2),
            "times the bytes of 9.0": round(size / least[1], 2),
            "core-hours of all": round(spent / len(sample) * len(built.objects) / 3600, 1),
        }
    return seen


def list_arch_lists(release: Manifest) -> dict[str, list[str]]:
    """Return the lists that docs/build.md speaks of."""
    return {"9.0": ["9.0"], "9.0+PTX": ["9.0+PTX"], "official": list(release.toolchain.archs)}


def compile_unit(built: Stage2Commands, unit: TranslationUnit, flags: list[str]) -> tuple[float, int]:
    """Processor seconds of a compile for those architectures, and the object's bytes."""
    words = list(unit.command)
    at = words.index("-gencode")
    while "-gencode" in words:
        del words[words.index("-gencode") : words.index("-gencode") + 2]
    for flag in flags:
        number = flag.partition("_")[2]
        words[at:at] = ["-gencode", f"arch=compute_{number},code={flag}"]
    words[words.index("-o") + 1] = f"{built.environment.name_places()['stage2']}/archs.o"
    spent = time_action(lambda: built.compile_units({unit: words}, SILENT, "archs", cached=False)).cpu
    made = built.folder / "archs.o"
    size = made.stat().st_size
    made.unlink()
    return spent, size


if __name__ == "__main__":
    if {"--release", "-h", "--help"} & {word.partition("=")[0] for word in sys.argv}:
        run_bench(__doc__, measure_lists, release=str, env="auto", python="", cuda="", core="", files=8)
    else:
        print("archs: name a build whose stage 2 is compiled: --release 2.6 --env …; nothing measured")
