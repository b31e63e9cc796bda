"""Show relocated CUDA sources at their upstream paths.

They are shown as upstream's hipify translates them.

Upstream's ROCm build runs ``tools/amd_build/build_amd.py`` of its tree, which rewrites files beside themselves and in
place. So that it writes nothing into the tree, the relocated files are copied to their upstream paths in a staging
folder (`relocation.find_links` says which: with them come the files that patches add beside moved ones), and the same
tree's script runs there. Only what differs from the last time is taken over, so that a build system sees stable
files.

Used by CMake as ``python -m torch_cuda_build.hipify --source SRC --patches DIR --shadow DIR``.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from torch_cuda_build import relocation

SCRIPT = "tools/amd_build/build_amd.py"
UPSTREAM = """\
import functools, os, runpy, sys
tree, folder = sys.argv[1:]
sys.path.insert(0, os.path.join(tree, "torch", "utils"))
from hipify import hipify_python
translate = hipify_python.hipify
@functools.wraps(translate)
def hipify(**given):
    given["extra_files"] = [name for name in given.get("extra_files", ()) if os.path.exists(os.path.join(folder, name))]
    return translate(**given)
hipify_python.hipify = hipify
sys.argv = ["build_amd.py", "--project-directory", folder]
runpy.run_path(os.path.join(tree, "{script}"), run_name="__main__")
""".replace("{script}", SCRIPT)
"""Runs the script on another folder. Its ``extra_files`` are Python of the core, which that folder does not have."""


class HipifyError(Exception):
    """Upstream's hipify did not run on this tree."""


def translate_tree(source: Path, patches: Path, out: Path) -> tuple[int, int]:
    """Make ``out`` hold the translated files.

    Returns the numbers of files that it holds and that were written. Raises RelocationError when the tree is not as the
    patches say, HipifyError when upstream's script fails.
    """
    source = source.absolute()
    if not (source / SCRIPT).is_file():
        raise HipifyError(f"{source} has no {SCRIPT}; next: name a whole PyTorch tree")
    pairs = relocation.rename_pairs(relocation.series_patches(patches))
    relocation.check_pairs(source, pairs)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
        staging = Path(name).absolute()
        for old, new in relocation.find_links(pairs, source).items():
            (staging / old).parent.mkdir(parents=True, exist_ok=True)
            if (source / new).is_dir():
                shutil.copytree(source / new, staging / old)
            else:
                shutil.copyfile(source / new, staging / old)
        command = (sys.executable, "-c", UPSTREAM, str(source), str(staging))
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=staging, env=environment, capture_output=True, text=True, errors="replace")
        if done.returncode:
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise HipifyError(
                f"{source / SCRIPT} failed on the relocated files: {said}; next: run it on the pristine tree"
            )
        return take_over(staging, out)


def take_over(staging: Path, out: Path) -> tuple[int, int]:
    """Make ``out`` hold what ``staging`` holds, writing what differs only.

    Returns the numbers of files, all and written.
    """
    wanted = {path.relative_to(staging) for path in staging.rglob("*") if path.is_file()}
    for path in sorted(out.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(out) not in wanted:
            path.unlink()
    written = 0
    for name in sorted(wanted):
        target = out / name
        if target.is_file() and filecmp.cmp(staging / name, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(target)
        written += 1
    return len(wanted), written


def main(arguments: list[str] | None = None) -> int:
    """Run the command line for CMake: print how many files there are.

    The exit code is 1, with one line on stderr, on failure.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, required=True, help="root of the applied PyTorch tree")
    parser.add_argument("--patches", type=Path, required=True, help="directory with the applied patches")
    parser.add_argument("--shadow", dest="out", type=Path, required=True, help="directory to make")
    options = parser.parse_args(arguments)
    try:
        files, _ = translate_tree(options.source, options.patches, options.out)
    except (relocation.RelocationError, HipifyError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(str(files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
