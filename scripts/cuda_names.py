"""List the names of ``torch.cuda`` that a backend of the layer has or lacks.

Those that it lacks have the reasons.

    python scripts/cuda_names.py --torch PYTHON [--check]    # writes docs/backends.md

``decouple new-device sim`` makes torch_sim, and prints how PYTHON gets it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from decouple.base.files import replace_sections
from decouple.base.paths import find_project

PAGE = "docs/backends.md"
SECTION = "cuda-names"
CODE = """
import json, torch
reasons = torch.sim.names_without()
told = {name: None if hasattr(torch.sim, name) else reasons.get(name, "") for name in torch.cuda.__all__}
print(json.dumps([torch.__version__, told]))
"""


def ask_interpreter(interpreter: Path, environment: Mapping[str, str]) -> tuple[str, dict[str, str | None]]:
    """Ask for the version of PyTorch, and which names torch.sim lacks.

    Each name has the reason why it lacks it, None where it does not. Raises CalledProcessError.
    """
    command = [str(interpreter), "-W", "ignore", "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(environment))
    version, told = json.loads(done.stdout)
    return version, told


def format_table(version: str, told: Mapping[str, str | None]) -> str:
    """Return the names as Markdown: how many there are, and a row for each reason."""
    lacking = defaultdict(list)
    for name, reason in told.items():
        if reason is not None:
            lacking[reason or "no reason is given"].append(name)
    there = sum(reason is None for reason in told.values())
    release = version.partition("+")[0]
    lines = [
        f"Of the {len(told)} public names of `torch.cuda` in {release} `torch.sim` has {there}. The others:",
        "",
        "| `torch.cuda` has | `torch.sim` has not, because |",
        "|---|---|",
    ]
    for reason, names in sorted(lacking.items(), key=lambda row: sorted(row[1])):
        lines.append(f"| {', '.join(f'`{name}`' for name in sorted(names))} | {reason} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the table, or with --check tell whether it is out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", type=Path, required=True, metavar="PYTHON", help="an interpreter with torch_sim")
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if the page is out of date")
    arguments = parser.parse_args()
    text = format_table(*ask_interpreter(arguments.torch, os.environ))
    changed = replace_sections(find_project() / PAGE, {SECTION: text}, write=not arguments.check)
    return int(changed and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
