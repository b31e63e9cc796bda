"""Hostile inputs by the ten thousand: pages, wheels, archives, manifests, state files, environments.

    python scripts/bench/hostile.py [--count 20000] [--seed 1] [--reader NAME] [--json FILE]

Each reader runs in a process of its own. None of its inputs may end in anything but a value or a DecoupleError, write
outside the folder that the reader was given, take ten seconds, or bring the process above 512 MiB.

Exit code 1 and the smallest input that did.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

MEMORY = 512  # MiB


def main() -> int:
    """Attack every reader, or one."""
    from tests.support import hostile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", choices=sorted(hostile.ATTACKS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.reader and not arguments.json:
        return _one(arguments.reader, arguments.count, arguments.seed)
    results, bad = {}, 0
    for name in [arguments.reader] if arguments.reader else hostile.ATTACKS:
        command = [
            sys.executable,
            __file__,
            "--reader",
            name,
            "--count",
            str(arguments.count),
            "--seed",
            str(arguments.seed),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        bad += done.returncode != 0
        print(done.stdout, end="", flush=True)
        if done.returncode == 0:
            results[name] = json.loads(done.stdout.splitlines()[-1])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if bad else 0


def _one(name: str, count: int, seed: int) -> int:
    from tests.support import hostile

    began = time.monotonic()
    tally = hostile.run(name, count, seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seen = {
        "reader": name,
        "inputs": tally.inputs,
        "refused": tally.refused,
        "slowest_s": round(tally.slowest, 3),
        "memory_mib": round(peak),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(seen), flush=True)
    if peak > MEMORY:
        print(f"{name}: {peak:.0f} MiB, more than {MEMORY}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
