"""Show relocated CUDA sources at their upstream paths.

Not one ``#include`` line is touched.

The series moves files (``rename from`` / ``rename to`` pairs) and nothing else may know where to: this module reads the
pairs from the patches that ``apply`` left in ``torch_patches/`` and makes the *shadow tree*, a directory of symbolic
links laid out as upstream's tree is, holding the moved files only. Include paths and source lists then use upstream's
names. An unrelocated tree has an empty shadow and builds the same way.

Used by CMake as ``python -m torch_cuda_build.relocation --source SRC --patches DIR --shadow DIR``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

STAMP = ".pairs"


class RelocationError(Exception):
    """The tree does not look as its patches say."""


def rename_pairs(patches: Iterable[Path]) -> dict[str, str]:
    """Map upstream to present path by *patches* in order (a file may move twice)."""
    present: dict[str, str] = {}
    origin: dict[str, str] = {}
    for patch in patches:
        source = ""
        for line in patch.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            if line.startswith("rename from "):
                source = line.removeprefix("rename from ")
            elif line.startswith("rename to ") and source:
                first = origin.pop(source, source)
                target = line.removeprefix("rename to ")
                present[first] = target
                origin[target] = first
                source = ""
    return present


def series_patches(directory: Path) -> list[Path]:
    """List the patches in *directory* in series order.

    The order is that of a quilt ``series`` file if there is one, else that of their names.
    """
    series = directory / "series"
    if series.is_file():
        names = (line.split("#", 1)[0].strip() for line in series.read_text(encoding="utf-8").splitlines())
        found = [directory / name.split()[0] for name in names if name]
        return [path if path.is_file() else directory / path.name for path in found]
    return sorted(directory.rglob("*.patch")) if directory.is_dir() else []


def find_links(pairs: Mapping[str, str], source: Path) -> dict[str, str]:
    """Find the fewest links that show *pairs* under their upstream names.

    Whole directories are linked where nothing stayed behind.

    Returns upstream path (file or directory) -> present path, both relative to the tree *source*.
    """
    below: dict[PurePosixPath, list[str]] = defaultdict(list)
    for old in pairs:
        for parent in PurePosixPath(old).parents:
            below[parent].append(old)
    chosen: dict[str, str] = {}
    covered: set[str] = set()
    for directory in sorted((path for path in below if path != PurePosixPath(".")), key=lambda path: len(path.parts)):
        members = below[directory]
        if members[0] in covered or (source / directory).exists():
            continue
        targets = {_cut_tail(pairs[old], str(PurePosixPath(old).relative_to(directory))) for old in members}
        target = targets.pop()
        if target and not targets:
            chosen[str(directory)] = target
            covered.update(members)
    chosen.update({old: new for old, new in pairs.items() if old not in covered})
    return chosen


def _cut_tail(path: str, tail: str) -> str:
    """*path* without its trailing *tail*, or '' when it does not end so."""
    return path.removesuffix("/" + tail) if path.endswith("/" + tail) else ""


def check_pairs(source: Path, pairs: Mapping[str, str]) -> None:
    """Check that the tree *source* is as the *pairs* say.

    Raises RelocationError when a file is at neither place, or a name leads out of the tree.
    """
    for name in (*pairs, *pairs.values()):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name:
            raise RelocationError(
                f"{source}: a patch renames {name!r}, which is no path in it; next: correct the patch"
            )
    lost = sorted(old for old, new in pairs.items() if not (source / new).exists())
    if lost:
        raise RelocationError(
            f"{source}: {len(lost)} relocated files are not where the patches put them, e.g. {pairs[lost[0]]} "
            f"(from {lost[0]}); next: apply the series anew"
        )


def make_shadow(source: Path, pairs: Mapping[str, str], shadow: Path) -> int:
    """Make *shadow* show *pairs*; return the number of links made.

    It is rewritten only when they changed, or lie elsewhere (ninja sees stable paths). Raises RelocationError when a
    file is at neither place, or a name leads out of the tree.
    """
    check_pairs(source, pairs)
    source, shadow = source.resolve(), shadow.parent.resolve() / shadow.name  # where a link's way up begins
    wanted = {
        old: os.path.relpath(source / new, (shadow / old).parent) for old, new in find_links(pairs, source).items()
    }
    text = "".join(f"{old}\t{target}\n" for old, target in sorted(wanted.items()))
    stamp = shadow / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == text:
        return 0
    if shadow.exists():
        shutil.rmtree(shadow)
    shadow.mkdir(parents=True)
    for old, target in wanted.items():
        link = shadow / old
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    stamp.write_text(text, encoding="utf-8")
    return len(wanted)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line for CMake.

    The exit code is 1, with one line on stderr, when the tree is inconsistent.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, required=True, help="root of the applied PyTorch tree")
    parser.add_argument("--patches", type=Path, required=True, help="directory with the applied patches")
    parser.add_argument("--shadow", type=Path, required=True, help="directory to make")
    options = parser.parse_args(arguments)
    try:
        pairs = rename_pairs(series_patches(options.patches))
        make_shadow(options.source, pairs, options.shadow)
    except (RelocationError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(str(len(pairs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
