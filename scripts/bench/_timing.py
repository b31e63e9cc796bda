"""What benches share: one run in wall-clock and processor seconds, and their command line."""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a program is compiled once, not at each start


@dataclass(frozen=True)
class Sample:
    """One run: wall-clock and processor seconds of all its processes."""

    wall: float
    cpu: float


def timed(action: Callable[[], object]) -> Sample:
    """Run ``action``; its wall-clock time, and the processor time of the child processes that it waited for."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    action()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Sample(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def run(
    about: str | None, measure: Callable[..., Any], show: Callable[[Any], str] | None = None, **options: object
) -> None:
    """Run the command line of a bench: ``measure`` with its ``options``.

    What ``measure`` returns is printed, by ``show``, else as JSON.

    ``options``: name -> default, or the type of one without; ``--json FILE`` keeps what was measured.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    for name, default in options.items():
        typed = isinstance(default, type)
        parser.add_argument(f"--{name}", type=default if typed else type(default), default=None if typed else default)  # type: ignore[arg-type]
    asked = vars(parser.parse_args())
    file = asked.pop("json")
    found = measure(**asked)
    text = json.dumps(found, indent=2) + "\n"
    print(show(found) if show else text, end="")
    if file:
        file.write_text(text, encoding="utf-8")
