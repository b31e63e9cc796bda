"""Measure what a change costs in the two-stage build.

The same is measured in upstream's single-stage build of the same flags.

    python scripts/bench/build.py [--release 2.6] [--monolith] [--clean 1 2] [--json FILE]

Needs a finished build in build/<release>. Objects are counted by ``ninja -n`` after touching the file, so a core header
costs seconds to ask rather than hours to rebuild. ``--monolith`` configures upstream's own build in the same root, once
(minutes), for its number of objects. ``--clean 1 2`` builds those stages again from nothing on the warm ccache; the new
build directory takes the old one's place, which is put back only where the build fails.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _timing import run_bench, time_action

from decouple.base.interpreter import OWN
from decouple.base.mounts import remove_tree
from decouple.base.paths import find_cache, find_project
from decouple.build import inputs, settings
from decouple.build.environment import Places
from decouple.build.wheel_finishing import read_manifest
from decouple.release import status
from decouple.release.wheel_manifest import WheelManifest

KERNEL = "third_device/torch_cuda/torch_cuda/csrc/aten/native/cuda/ActivationThresholdKernel.cu"
HEADER = "c10/core/TensorImpl.h"
#: How upstream's single-stage build finds CUDA in the root; the rest is as in stage 1.
MONOLITH = {
    "USE_CUDA": "1",
    "USE_CUDNN": "1",
    "USE_NCCL": "1",
    "USE_SYSTEM_NCCL": "1",
    "USE_CUDSS": "0",
    "USE_CUSPARSELT": "0",
    "USE_CUFILE": "0",
    "TORCH_CUDA_ARCH_LIST": "9.0",
    "CUDNN_ROOT": "/opt/cudnn",
    "CUDACXX": "/usr/bin/nvcc",
    "CUDAHOSTCXX": "/usr/bin/cuda-g++",
}


def run_decouple(*words: str) -> str:
    """Run the command; return its output. Raises CalledProcessError, output shown."""
    done = subprocess.run([*OWN, "-m", "decouple", *words], capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
        done.check_returncode()
    return done.stdout


def run_inside(release: str, stage: int, command: str, *more: str) -> str:
    """Run ``command`` with the variables of a stage, in its build directory."""
    folder = f"/decouple/{release}/src/build" if stage == 1 else f"/decouple/{release}/stage2"
    return run_decouple("shell", release, "--stage", str(stage), *more, "--run", f"cd {folder} && {command}")


def time_command(*words: str) -> float:
    """Wall seconds of one command."""
    return round(time_action(lambda: run_decouple(*words)).wall, 1)


def count_planned(release: str, stage: int) -> int:
    """Objects that ninja would compile now."""
    # A copy under another name: a dry run of a build.ninja that looks for new files first ends after looking.
    dry = "cp build.ninja planned.ninja && ninja -n -f planned.ninja; rm planned.ninja"
    return len(re.findall(r"Building (?:C|CXX|CUDA) object", run_inside(release, stage, dry)))


@contextmanager
def touch_file(path: Path) -> Iterator[None]:
    """``path`` looks just written; its old time comes back."""
    before = path.stat()
    os.utime(path)
    try:
        yield
    finally:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@contextmanager
def move_aside(*paths: Path) -> Iterator[None]:
    """Move ``paths`` (files and folders) away for a while.

    Finished new ones stay, otherwise the old ones come back.
    """
    kept = {path: path.with_name(path.name + ".aside") for path in paths if path.exists()}
    for path, elsewhere in kept.items():
        path.rename(elsewhere)
    try:
        yield
    except BaseException:
        for path, elsewhere in kept.items():
            _remove_path(path)
            elsewhere.rename(path)
        raise
    for elsewhere in kept.values():
        _remove_path(elsewhere)


def _remove_path(path: Path) -> None:
    if path.is_dir():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def time_clean_build(places: Places, stage: int) -> dict[str, Any]:
    """Time a build of one stage from an empty directory on a warm compiler cache."""
    stamp = inputs.read_stamp(places.state / f"stage{stage}.json")
    assert stamp is not None
    folder = places.stage1 if stage == 1 else places.stage2
    flags = list_options(places)
    with move_aside(folder, *(places.state / f"stage{stage}.{what}" for what in ("json", "configured"))):
        folder.mkdir()
        seconds = time_command("build", places.release, "--stage", str(stage), "--env", "rootfs", *flags)
    after = inputs.read_stamp(places.state / f"stage{stage}.json")
    known = status.read_status(status.locate_status(places.project, places.release))  # the build has just written it
    took = known.stage1 if stage == 1 else known.stage2
    assert took and took.object_seconds
    hits, misses, cold = took.cached or 0, took.compiled or 0, took.object_seconds / took.cores
    return {
        "seconds": seconds,
        "seconds of compiling on these cores, cold (ninja's log)": round(cold, 1),
        "of that time": round(seconds / cold, 3),
        "objects": stamp.objects,
        "ccache hits": hits,
        "ccache misses": misses,
        "hit rate": round(hits / (hits + misses), 4) if hits + misses else None,
        "same wheel bytes": after is not None and after.sha256 == stamp.sha256,
    }


def list_options(places: Places) -> list[str]:
    """Return the options of the wheels that were built: the next build is the same.

    Without them a build for another architecture would be compiled again, for hours, and replaced.
    """
    core, backend = (_read_wheel(places, stage) for stage in (1, 2))
    options = ["--arch", ";".join(backend.arch_list), "--profile", str(core.flags["profile"])]
    _, _, revision = core.version.partition("+decoupled.")
    options += ["--revision", revision] if revision else []
    return options if backend.flags["flash"] else [*options, "--no-flash"]


def _read_wheel(places: Places, stage: int) -> WheelManifest:
    stamp = inputs.read_stamp(places.state / f"stage{stage}.json")
    assert stamp is not None
    return read_manifest(places.dist / stamp.wheel)


def was_built_on_host(places: Places) -> bool:
    """Return whether the machine's own toolchain built stage 2."""
    unchecked: list[str] = _read_wheel(places, 2).toolchain["inputs"]["unchecked"]
    return "this machine" in unchecked


def count_monolith(places: Places) -> int:
    """Count the objects of upstream's single-stage build with CUDA.

    It has the same flags and is configured in the same root.
    """
    tree, ninja = places.tree.parent / "monolith", places.tree.parent / "monolith/build/build.ninja"
    attention = "1" if _read_wheel(places, 2).flags["flash"] else "0"
    given = {**MONOLITH, "USE_FLASH_ATTENTION": attention, "USE_MEM_EFF_ATTENTION": attention}
    configured = tree / "build" / "configured.json"
    if not (ninja.exists() and configured.exists() and json.loads(configured.read_text()) == given):
        if not tree.exists():
            log = ["git", "-C", str(places.tree), "log", "--format=%H %s", "--reverse"]
            commits = subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()
            first = next(number for number, line in enumerate(commits) if "elocate CUDA sources" in line)
            subprocess.run(["git", "clone", "-q", "--no-checkout", places.tree, tree], check=True)
            subprocess.run(["git", "-C", tree, "checkout", "-q", commits[first - 1].split()[0]], check=True)
        made = [(Path(one.unless).parent, shlex.join(one.command)) for one in settings.find_stage(1).prepare]
        command = "".join(f"mkdir -p {folder} && {prepare} && " for folder, prepare in made)
        variables = " ".join(f"{name}={value}" for name, value in given.items())
        command += f"env {variables} python3 setup.py build --cmake --cmake-only"
        run_decouple("shell", places.release, "--stage", "1", "--tree", str(tree), "--run", command)
        configured.write_text(json.dumps(given))
    return len(re.findall(r"^build [^\n]+?\.o: C(?:XX|UDA)?_COMPILER", ninja.read_text(), re.M))


def measure_build(release: str, monolith: bool, clean: list[int]) -> dict[str, Any] | None:
    """Measure all figures; return None without a finished build.

    Raises CalledProcessError when a build fails.
    """
    places = Places.of_release(find_project(), release, find_cache())
    if not all((places.state / f"stage{stage}.json").exists() for stage in (1, 2)):
        print(f"skipped: no finished build of both stages; nox -s build-{release} makes one (hours)")
        return None
    if was_built_on_host(places):
        print("skipped: built by this machine's own toolchain, and the figures are of the Debian root")
        return None
    flags = list_options(places)
    stamps = {stage: inputs.read_stamp(places.state / f"stage{stage}.json") for stage in (1, 2)}
    objects = {stage: stamp.objects for stage, stamp in stamps.items() if stamp}
    run_decouple("build", release, "--env", "rootfs", *flags)
    result: dict[str, Any] = {"objects": {f"stage {stage}": count for stage, count in objects.items()}}
    result["nothing changed"] = {"objects": 0, "seconds": time_command("build", release, "--env", "rootfs", *flags)}
    with touch_file(places.tree / KERNEL):
        counted = count_planned(release, 2)
        spent = time_action(lambda: run_inside(release, 2, "CCACHE_DISABLE=1 ninja")).wall
        result["one .cu touched"] = {"objects": counted, "seconds": round(spent, 1)}
        os.utime(places.tree / KERNEL)
        run_inside(release, 2, "ninja")  # the cache's object comes back: nvcc never makes the same bytes twice
    counts = {}
    for stage, folder in ((1, places.tree), (2, places.core / "torch" / "include")):
        with touch_file(folder / HEADER):
            counts[f"stage {stage}"] = count_planned(release, stage)
    result[f"{HEADER} touched"] = {"objects": counts}
    if monolith:
        whole = count_monolith(places)
        result["CUDA version or architecture changed"] = {
            "objects": objects[2],
            "of the monolith's": whole,
            "fraction": round(objects[2] / whole, 3),
        }
    for stage in clean:
        result[f"stage {stage} from nothing, warm ccache"] = time_clean_build(places, stage)
    return result


if __name__ == "__main__":
    run_bench(__doc__, measure_build, release="2.6", monolith=False, clean=(1, 2))
