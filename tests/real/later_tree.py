"""A tree that stands for a later release: 2.6's own text, changed by a script as that release changed it.

    python tests/real/later_tree.py 2.10 FOLDER

Then ``decouple record 2.10 --trial scripted=FOLDER`` carries the series to it and keeps what came of it. The changes
are those of tests/real/test_later.py, in words of our own; no text of the later release is in the tree.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from decouple.base.paths import find_project
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.real import test_later
from tests.real.test_evolutions import Evolve

TREES: dict[str, Evolve] = {
    "2.7": test_later.near_2_7,
    "2.8": test_later.near_2_8,
    "2.9": test_later.near_2_9,
    "2.10": test_later.near_2_10,
    "2.11": test_later.near_2_11,
    "2.12": test_later.near_2_12,
    "2.13": test_later.near_2_13,
    "2.14": test_later.near_2_14,
    "2.15": test_later.later,
}


def make_later_tree(release: str, folder: Path) -> None:
    """Copy the source of 2.6 to ``folder``, which is not there yet, and change the copy as ``release`` did."""
    source = fetch_source(load_release(find_project(), "2.6"), "debian").path
    shutil.copytree(source, folder, symlinks=True)
    TREES[release](folder)


def main() -> None:
    """Make the tree that the command line asks for."""
    parser = argparse.ArgumentParser(description="make a tree that stands for a later release")
    parser.add_argument("release", choices=TREES)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    make_later_tree(arguments.release, arguments.folder)
    print(arguments.folder)


if __name__ == "__main__":
    main()
