"""Hostile inputs by the ten thousand: pages, wheels, archives, manifests, state files, environments.

    python tests/long/hostile.py [--count 20000] [--seed 1] [--reader NAME] [--seconds 500] [--json FILE]

Results are kept in FILE, and a reader goes on there where the last call stopped after ``--seconds``. Each reader runs
in processes of its own. None of its inputs may end in anything but a value or a DecoupleError, write
outside the folder that the reader was given, compute for ten seconds, or take 512 MiB
from when the reader began until it ended.

Exit code 1 and the smallest input that did; 3 when ``--seconds`` were over first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

MEMORY = 512  # MiB


BATCH = 2_000
"""Inputs of one process; the next has another seed."""


def main() -> int:
    """Attack every reader, or one."""
    from tests.support import hostile_files

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    readers = sorted(hostile_files.ATTACKS)
    parser.add_argument("--reader", choices=readers, action="append", metavar="NAME", help="; ".join(readers))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--batch", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.batch:
        return _one(asked.reader[0], asked.count, asked.seed)
    results: dict[str, Any] = json.loads(asked.json.read_text()) if asked.json and asked.json.exists() else {}
    bad, ends = 0, time.monotonic() + asked.seconds
    for name in asked.reader or hostile_files.ATTACKS:
        while (done := results.get(name, {}).get("inputs", 0)) < asked.count:
            if time.monotonic() > ends:
                return 3
            count, seed = min(BATCH, asked.count - done), asked.seed + done
            command = [sys.executable, __file__, "--batch", "--reader", name, f"--count={count}", f"--seed={seed}"]
            run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if run.returncode:
                print(run.stdout, end="", flush=True)
                bad += 1
                break
            seen, before = json.loads(run.stdout.splitlines()[-1]), results.get(name, {})
            for key in ("inputs", "calls", "refused", "seconds"):
                seen[key] = round(seen[key] + before.get(key, 0), 1)
            seen["refused_in"] = sorted({*seen["refused_in"], *before.get("refused_in", ())})
            for key in ("slowest_s", "memory_mib"):
                seen[key] = max(seen[key], before.get(key, 0))
            results[name] = seen
            if asked.json:
                asked.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        shown = results.get(name, {"reader": name})
        print(json.dumps({**shown, "refused_in": len(shown.get("refused_in", ()))}), flush=True)
    return 1 if bad else 0


def _one(name: str, count: int, seed: int) -> int:
    from tests.support import hostile, hostile_files

    attack = hostile_files.ATTACKS[name]
    began = time.monotonic()
    tally = hostile.run(attack, count, seed)
    seen = {
        "reader": name,
        "inputs": tally.inputs,
        "counted": attack.counted or "values",
        "calls": tally.calls,
        "refused": tally.refused,
        "refused_in": sorted(tally.lines),
        "slowest_s": round(tally.slowest, 3),
        "memory_mib": round(tally.memory),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(seen), flush=True)
    if tally.memory > MEMORY:
        print(f"{name}: {tally.memory:.0f} MiB, more than {MEMORY}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
