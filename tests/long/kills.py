"""Kills at random moments over every verb that writes, and four verbs at once: old or new, seen from outside.

    python tests/long/kills.py [--rounds 200] [--verb NAME] [--at-once 50] [--real] [--seconds 500] [--json FILE]

Results are kept in FILE, and a verb goes on there where the last call stopped after ``--seconds``; so a long run can
be made of short ones. ``--real`` does it on PyTorch 2.6 itself, which has to be in the cache, 20 rounds by default.

Exit code 1 when a state was neither old nor new; 3 when ``--seconds`` were over first.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

SLICE = 10
"""Rounds between two looks at the clock, in one world: making it costs more than some rounds of real 2.6."""


def main() -> int:
    """Run what is left to run."""
    from tests.support import at_once, kills, real_kills

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--at-once", type=int, default=50, metavar="ROUNDS")
    parser.add_argument("--verb", action="append", metavar="NAME", help="one that writes, or several at once (all)")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--scratch", type=Path, help="a folder with space; default: the temporary one")
    asked = parser.parse_args()
    verbs = real_kills.VERBS if asked.real else kills.VERBS
    rounds = asked.rounds or (20 if asked.real else 200)
    seen: dict[str, Any] = json.loads(asked.json.read_text()) if asked.json and asked.json.exists() else {}
    ends = time.monotonic() + asked.seconds
    known = [*verbs, *at_once.names(asked.real)]
    if lost := [name for name in asked.verb or () if name not in known]:
        parser.error(f"--verb {lost[0]}: there are {'; '.join(known)}")
    jobs = [(name, rounds) for name in asked.verb or known]
    for name, wanted in jobs:
        together = name.startswith("four at once")
        key = f"real: {name}" if asked.real else name
        wanted = asked.at_once if together else wanted
        while (done := seen.get(key, {}).get("rounds", 0)) < wanted and not seen.get(key, {}).get("failed"):
            if time.monotonic() > ends:
                return 3
            count = min(SLICE, wanted - done)
            folder = Path(tempfile.mkdtemp(prefix="decouple-kills-", dir=asked.scratch))
            began, before = time.monotonic(), seen.get(key, {})
            try:
                if together:
                    tally: dict[str, Any] = at_once.run(name, folder / "world", count, asked.seed, done, asked.real)
                else:
                    heard = functools.partial(_keep, asked.json, seen, key, before)
                    tally = dataclasses.asdict(kills.run(verbs[name], folder / "world", count, asked.seed, done, heard))
            except AssertionError as error:
                tally = {"failed": str(error)}
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            found = tally | {"seconds": time.monotonic() - began}
            _keep(asked.json, seen, key, before if "failed" not in tally else seen.get(key, {}), found)
        print(key, json.dumps(seen.get(key, {})), flush=True)
    return 1 if any("failed" in one for one in seen.values()) else 0


def _keep(path: Path | None, seen: dict[str, Any], key: str, before: dict[str, Any], tally: Any) -> None:
    """Add what a slice, or the rounds of one so far, saw to what was seen ``before``."""
    found = tally if isinstance(tally, dict) else dataclasses.asdict(tally)
    sums = {
        what: value if isinstance(value, str) else round(before.get(what, 0) + value, 1)
        for what, value in found.items()
    }
    seen[key] = before | sums
    if path:
        path.write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
