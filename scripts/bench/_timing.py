"""What benches share: wall-clock and processor seconds, and their command line."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a program is compiled once, not at each start


@dataclass(frozen=True)
class Sample:
    """One run: wall-clock and processor seconds of all its processes."""

    wall: float
    cpu: float


def time_action(action: Callable[[], object], *, own: bool = False) -> Sample:
    """Run ``action``; return its wall-clock time and its children's processor time.

    Children are the processes that it waited for. With ``own`` that of this process as well.
    """
    whose = [resource.RUSAGE_CHILDREN, *([resource.RUSAGE_SELF] if own else [])]
    before, began = _sum_processor_seconds(whose), time.perf_counter()
    action()
    wall = time.perf_counter() - began
    return Sample(wall, _sum_processor_seconds(whose) - before)


def _sum_processor_seconds(whose: Iterable[int]) -> float:
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))


def take_median(samples: Sequence[Sample]) -> Sample:
    """Return the median of the wall-clock times, and that of the processor times."""
    return Sample(statistics.median(one.wall for one in samples), statistics.median(one.cpu for one in samples))


def run_bench(
    about: str | None, measure: Callable[..., Any], show: Callable[[Any], str] | None = None, **options: object
) -> None:
    """Run the command line of a bench: ``measure`` with its ``options``.

    What ``measure`` returns is printed, by ``show``, else as JSON.

    ``options``: name -> default, or the type of one without. False is a switch, a tuple of choices as many of them as
    are named. ``--json FILE`` keeps what was measured; nothing is printed or kept where that is None.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    for name, default in options.items():
        word = f"--{name}"
        if default is False:
            parser.add_argument(word, action="store_true")
        elif isinstance(default, tuple):
            parser.add_argument(word, nargs="*", type=type(default[0]), choices=default, default=[])
        elif isinstance(default, type):
            parser.add_argument(word, type=default)
        else:
            parser.add_argument(word, type=type(default), default=default)
    asked = vars(parser.parse_args())
    file = asked.pop("json")
    found = measure(**asked)
    if found is None:
        return
    text = json.dumps(found, indent=2) + "\n"
    print(show(found) if show else text, end="")
    if file:
        file.write_text(text, encoding="utf-8")
