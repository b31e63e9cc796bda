"""Time fetch, verify and unpack against ``curl`` and ``tar``.

The server is on this machine, the rounds alternate.

    python scripts/bench/fetch.py [--rounds 3] [--archive FILE] [--json FILE]

Both start as new processes with an empty cache and end with the same unpacked tree; ours also checks size and SHA-256
and every path. Without ``--archive`` the real .orig of the first release with a Debian source is taken (from the cache,
downloaded once). Aim: a ratio of at most 1.3.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _timing import run_bench, take_median, time_action

from decouple.base.files import compute_sha256
from decouple.base.interpreter import OWN
from decouple.base.paths import find_cache, find_project
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.upstream.providers.debian import DebianSource

#: What our side runs: the providers' own code on a manifest that names the local server.
_OURS = """
import sys
from pathlib import Path
from decouple.release.manifest import Manifest, RemoteFile, Toolchain
from decouple.upstream.providers.github import GithubSource
from decouple.upstream.fetch import fetch_source
url, size, sha256, cache = sys.argv[1:]
archive = RemoteFile(url.rsplit("/", 1)[1], (url,), int(size), sha256)
none = Toolchain((), None, (), None, None)
release = Manifest("2.6", "2.6.0", "v2.6.0", "0" * 40, (GithubSource(archive),), none)
fetch_source(release, "github", cache=Path(cache))
"""


def measure_fetch(archive: Path | None = None, rounds: int = 3) -> dict[str, Any]:
    """Return the times (seconds), their ratios and the physical floor.

    The floor is the bytes written, and how long plain writing of them takes.

    ``ratio`` is of the medians of the wall-clock times, ``cpu_ratio`` of processor time, which other work on the
    machine disturbs less. Raises DecoupleError when the archive cannot be had.
    """
    archive = archive or real_archive()
    size, sha256 = archive.stat().st_size, compute_sha256(archive)
    ours, reference = [], []
    with tempfile.TemporaryDirectory(prefix="decouple-bench-") as scratch, serve_folder(archive.parent) as base:
        url = f"{base}/{archive.name}"
        for number in range(rounds):
            folder = Path(scratch) / f"ours-{number}"
            command = [*OWN, "-c", _OURS, url, str(size), sha256, str(folder)]
            ours.append(time_action(functools.partial(subprocess.run, command, check=True)))
            unpacked = next(folder.glob("trees/2.6/*/tree"))
            written, files = size + tree_size(unpacked), sum(len(names) for _, _, names in os.walk(unpacked))
            shutil.rmtree(folder)
            folder = Path(scratch) / f"reference-{number}"
            folder.mkdir()
            script = f"curl -sSfo {archive.name} {url} && mkdir tree && tar -xf {archive.name} -C tree"
            reference.append(
                time_action(functools.partial(subprocess.run, ["sh", "-c", script], cwd=folder, check=True))
            )
            shutil.rmtree(folder)
        floor = time_action(lambda: _write_zeros(Path(scratch) / "floor", written)).wall
    mine, theirs = take_median(ours), take_median(reference)
    return {
        "name": "fetch+verify+unpack / curl+tar",
        "archive": archive.name,
        "ours_s": round(mine.wall, 3),
        "reference_s": round(theirs.wall, 3),
        "ratio": round(mine.wall / theirs.wall, 3),
        "ours_cpu_s": round(mine.cpu, 3),
        "reference_cpu_s": round(theirs.cpu, 3),
        "cpu_ratio": round(mine.cpu / theirs.cpu, 3),
        "aim": 1.3,
        "floor": {"bytes_written": written, "files": files, "write_s": round(floor, 3)},
        "rounds": rounds,
    }


def real_archive() -> Path:
    """Return 2.6's .orig archive in the cache. Raises DecoupleError if unobtainable."""
    source = load_release(find_project(), "2.6").find_source("debian")
    assert isinstance(source, DebianSource)
    return Downloader(find_cache()).fetch_file(source.orig)[0]


def tree_size(root: Path) -> int:
    """Bytes of all files below ``root``."""
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())


@contextlib.contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """``folder`` on a web server of its own process; gives its base URL."""
    command = [*OWN, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().split(" port ")[1].split()[0]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def _write_zeros(path: Path, size: int) -> None:
    block = bytes(1 << 20)
    with path.open("wb") as out:
        for _ in range(size >> 20):
            out.write(block)


def _format_rows(result: dict[str, Any]) -> str:
    return "".join(f"{key:16} {value}\n" for key, value in result.items())


if __name__ == "__main__":
    run_bench(__doc__, measure_fetch, _format_rows, archive=Path, rounds=3)
