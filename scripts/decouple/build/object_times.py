"""The core-seconds of objects of a stage, recorded by earlier builds and shipped as ``seconds/<release>-….tsv``.

They are processor time of one machine, so that they say how objects compare; a machine's own speed is a factor, which
its first objects tell. Written by ``decouple record --seconds`` from what a build recorded (``inside/timed.sh``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.build import settings, toolkits
from decouple.build.options import Choices
from decouple.build.settings import Cost

_FOLDER = Path(__file__).with_name("seconds")
_TRIAL = "CMakeFiles/cmTC_"  # the target of CMake's try_compile
_TIMES = re.compile(r"(\d+)m([\d.]+)s")


def locate_table(release: str, kind: str, stage: int) -> Path:
    """Return the table of a release's stage in an environment of ``kind``."""
    return _FOLDER / f"{release}-{kind}-stage{stage}.tsv"


def load_seconds(release: str, kind: str, stage: int) -> dict[str, float]:
    """Load object -> core-seconds of those objects that a recorded build has compiled.

    Empty where there was none.
    """
    return _read_table(locate_table(release, kind, stage))


def _read_table(path: Path) -> dict[str, float]:
    table: dict[str, float] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
        name, _, value = line.partition("\t")
        try:
            table[name] = float(value)
        except ValueError as error:
            raise DecoupleError(f"{path}:{number}: {error}", next_step=f"git checkout {path}") from error
    return table


def load_nearest(release: str, kind: str, stage: int) -> dict[str, float]:
    """Load as `load_seconds` does.

    Where there is no such table, the one of another environment, else of another release: an object is as large beside
    others there.
    """
    paths = _FOLDER.glob(f"*-stage{stage}.tsv")
    of_release = sorted(paths, key=lambda path: (not path.name.startswith(f"{release}-"), path.name))
    tables = (_read_table(path) for path in (locate_table(release, kind, stage), *of_release))
    return next((table for table in tables if table), {})


def estimate_stage_cost(release: str, kind: str, stage: int, choices: Choices) -> Cost:
    """Estimate what a cold stage takes as chosen."""
    part = choices.slice != "all"
    usual = settings.estimate_cost(stage, kind, arch_count=len(choices.archs), flash=choices.flash, part=part)
    if stage == 2 and part and choices.toolkit:  # measured for CUDA alone
        objects = toolkits.find_vendor(choices.toolkit).slice_objects
        usual = replace(usual, objects=objects, core_seconds=usual.core_seconds * objects / usual.objects)
    return estimate_cost(release, kind, stage, usual)


def compute_share_left(names: Iterable[str], done: Collection[str], known: Mapping[str, float], usual: float) -> float:
    """Return how much of the seconds of all objects (``names``) those take that are not ``done``.

    By number they say little, as the large ones come last. What ``known`` has not takes ``usual``.
    """
    weights = {name: known.get(name, usual) for name in names}
    whole = sum(weights.values())
    return sum(value for name, value in weights.items() if name not in done) / whole if whole else 0.0


def estimate_cost(release: str, kind: str, stage: int, usual: Cost) -> Cost:
    """Estimate the cost of a cold stage by the table.

    Objects that it does not have cost the mean of ``usual``.

    Of stage 1: what an object of stage 2 takes depends on architectures, which ``usual`` knows and a table does not.
    """
    if stage != 1:
        return usual
    table = load_seconds(release, kind, stage)
    others = max(usual.objects - len(table), 0)
    return replace(
        usual,
        objects=len(table) + others,
        core_seconds=sum(table.values()) + others * usual.core_seconds / usual.objects,
    )


def record_seconds(release: str, kind: str, stage: int, build_dir: Path) -> tuple[Path, int]:
    """Put what a build in ``build_dir`` measured into the table.

    An object that it did not compile stays as it was.

    Gives the table and how many objects were measured. Raises DecoupleError where nothing was.
    """
    seconds = read_measured_seconds(build_dir)
    if not seconds:
        raise DecoupleError(
            f"{build_dir}: no object's seconds are recorded there",
            next_step=f"decouple build {release} --env {kind} --stage {stage}",
        )
    rows: Mapping[str, float] = load_seconds(release, kind, stage) | seconds
    path = locate_table(release, kind, stage)
    write_atomically(path, "".join(f"{name}\t{value:.1f}\n" for name, value in sorted(rows.items())))
    return path, len(seconds)


def read_measured_seconds(build_dir: Path) -> dict[str, float]:
    """Read object -> core-seconds of its last compile in ``build_dir``, as ``inside/timed.sh`` wrote it.

    A torn line counts for nothing, and so does what CMake tried while it configured: its names are made up anew each
    time.
    """
    log = build_dir / "object-seconds.tsv"
    seconds: dict[str, float] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        name, *times = line.split("\t")
        parts = [_TIMES.fullmatch(path) for path in times]
        if name.endswith(".o") and _TRIAL not in name and len(parts) == 2 and all(parts):
            seconds[name] = sum(60 * int(part[1]) + float(part[2]) for part in parts if part)
    return seconds
