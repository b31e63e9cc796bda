"""The core-seconds of each object of a stage, recorded by earlier builds and shipped as ``seconds/<release>-….tsv``.

They are processor time of one machine, so that they say how objects compare; a machine's own speed is a factor, which its
first objects tell. Written by ``decouple record --seconds`` from what a build recorded (``inside/timed.sh``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.build.settings import Cost

_FOLDER = Path(__file__).with_name("seconds")
_TIMES = re.compile(r"(\d+)m([\d.]+)s")
UNKNOWN = -1.0
"""Of an object that is known to be compiled, and not how long that takes."""


def path_of(release: str, kind: str, stage: int) -> Path:
    """The table of a release's stage in an environment of ``kind``."""
    return _FOLDER / f"{release}-{kind}-stage{stage}.tsv"


def load(release: str, kind: str, stage: int) -> dict[str, float]:
    """Object -> core-seconds; empty where nothing was recorded, without the objects whose seconds are `UNKNOWN`."""
    return {name: value for name, value in _read(path_of(release, kind, stage)).items() if value != UNKNOWN}


def cost(release: str, kind: str, stage: int, usual: Cost) -> Cost:
    """The cost of a cold build by the table: its objects; for those of unknown seconds the ``usual`` mean of one.

    ``usual`` itself where there is no table.
    """
    table = _read(path_of(release, kind, stage))
    if not table:
        return usual
    mean = usual.core_seconds / usual.objects
    return replace(
        usual, objects=len(table), core_seconds=sum(mean if value == UNKNOWN else value for value in table.values())
    )


def recorded(build_dir: Path) -> dict[str, float]:
    """What ``inside/timed.sh`` wrote while ``build_dir`` was compiled: object -> core-seconds of its last compile."""
    log = build_dir / "object-seconds.tsv"
    found: dict[str, float] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        name, *times = line.split("\t")
        parts = [_TIMES.fullmatch(one) for one in times]
        if name.endswith(".o") and len(parts) == 2 and all(parts):
            found[name] = sum(60 * int(part[1]) + float(part[2]) for part in parts if part)
    return found


def write(path: Path, names: list[str], known: Mapping[str, float]) -> None:
    """The table of these objects. Seconds that are not ``known`` stay as the table had them, or `UNKNOWN`."""
    before = _read(path)
    rows = [f"{name}\t{_text(known.get(name, before.get(name, UNKNOWN)))}\n" for name in sorted(names)]
    write_atomically(path, "".join(rows))


def _text(value: float) -> str:
    return "?" if value == UNKNOWN else f"{value:.1f}"


def _read(path: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
        name, _, value = line.partition("\t")
        try:
            found[name] = UNKNOWN if value == "?" else float(value)
        except ValueError as error:
            raise DecoupleError(f"{path}:{number}: {error}", next_step=f"git checkout {path}") from error
    return found
