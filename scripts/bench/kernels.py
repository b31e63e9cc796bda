"""How long two libraries with 19,000 kernels take to compare, against hashing the same files as a whole.

The libraries are the official wheel's and trixie's monolith's; without them this bench says so and measures nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path

from _timing import timed

from decouple.verify.kernels import compare, dump


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("libraries", type=Path, nargs="*", help="two libraries with code for --arch")
    parser.add_argument("--arch", default="sm_90")
    arguments = parser.parse_args()
    if len(arguments.libraries) != 2:
        print("kernels: name two libtorch_cuda.so: python scripts/bench/kernels.py A B; nothing measured")
        return
    one, other = arguments.libraries
    hashed = timed(lambda: [_sha(path) for path in (one, other)]).wall
    dumps: list[dump.KernelDump] = []
    read = timed(
        lambda: dumps.extend(dump.dump_libraries([path], path.name, [arguments.arch]) for path in (one, other))
    ).wall
    seen: list[compare.KernelComparison] = []
    compared = timed(lambda: seen.append(compare.compare_dumps(*dumps))).wall
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "kept.xz"
        dump.write_dump(dumps[1], kept)
        reread = timed(lambda: compare.compare_dumps(dumps[0], dump.read_dump(kept))).wall
        size = kept.stat().st_size
    result = {
        "functions": seen[0].total,
        "seconds to hash both files": round(hashed, 2),
        "seconds to read both": round(read, 2),
        "seconds to compare": round(compared, 2),
        "seconds to compare with a kept dump": round(reread, 2),
        "bytes of a kept dump": size,
        "read and compared, against hashing the files": round((read + compared) / hashed, 2),
    }
    for what, value in result.items():
        print(f"{what}: {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def _sha(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
