"""Hold and record the core-seconds that a stage's objects take.

They are shipped as ``seconds/<release>-….tsv``: a mean for each kind of object. A kind is a folder of the build
directory, or one object that is unlike its neighbours; an object is of the longest kind that its name begins with. A
table has a line for each: the kind ("." is all of the build directory), how many objects it had and their mean. They
are processor time of one machine, so that they say how objects compare; a machine's own speed is a factor, which its
first objects tell. Estimates, the time to go and the shards go by them. Written by ``decouple record --seconds`` from
what a build recorded (``inside/timed.sh``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.toml import format_restore
from decouple.build import settings, toolkits
from decouple.build.estimate import read_planned_objects
from decouple.build.options import Choices
from decouple.build.settings import Cost

_FOLDER = Path(__file__).with_name("seconds")
_TRIAL = "CMakeFiles/cmTC_"  # the target of CMake's try_compile
_TIMES = re.compile(r"(\d+)m([\d.]+)s")
_ALL = "."
_WORTH = 20.0
"""Core-seconds that a kind of its own must put right; a smaller value makes longer tables, and little better shards."""
_ENOUGH = 0.9
"""Share of its objects, and of those of the table before, that a build must have measured to make a table: means cannot
be mended by parts."""


class ObjectKind(Struct, frozen=True):
    """How many objects are of a kind, and the mean of their core-seconds."""

    objects: int
    seconds: float


class SecondsTable(Struct, frozen=True):
    """Kind -> its mean; empty where no build was recorded."""

    kinds: Mapping[str, ObjectKind] = {}

    @property
    def objects(self) -> int:
        """How many objects the recorded build had."""
        return sum(kind.objects for kind in self.kinds.values())

    @property
    def core_seconds(self) -> float:
        """What all of them took."""
        return sum(kind.objects * kind.seconds for kind in self.kinds.values())

    def estimate_object(self, name: str, otherwise: float) -> float:
        """Return the mean of the kind of ``name``, ``otherwise`` where it is of none."""
        found = next((self.kinds[kind] for kind in _list_kinds(name) if kind in self.kinds), None)
        return found.seconds if found else otherwise


def average_seconds(measured: Mapping[str, float]) -> SecondsTable:
    """Return the table of the seconds of objects that were ``measured``.

    A folder or an object is a kind of its own where its seconds are `_WORTH` away from the mean of the kind around it.
    """
    members: defaultdict[str, list[str]] = defaultdict(list)
    for name in measured:
        for kind in _list_kinds(name):
            members[kind].append(name)
    means = {kind: sum(measured[name] for name in names) / len(names) for kind, names in members.items()}
    chosen: set[str] = set()
    for kind in sorted(members, key=lambda kind: (kind != _ALL, kind)):  # a folder before what is in it
        around = next((means[wider] for wider in _list_kinds(kind) if wider in chosen), None)
        if around is None or abs(means[kind] - around) * len(members[kind]) > _WORTH:
            chosen.add(kind)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for name, value in measured.items():
        found[next(kind for kind in _list_kinds(name) if kind in chosen)].append(value)
    return SecondsTable(
        {kind: ObjectKind(len(found[kind]), round(sum(found[kind]) / len(found[kind]), 1)) for kind in sorted(found)}
    )


def _list_kinds(name: str) -> Iterator[str]:
    """Yield the kinds that an object may be of, the longest first."""
    while name:
        yield name
        name = name.rpartition("/")[0]
    yield _ALL


def locate_table(release: str, kind: str, stage: int) -> Path:
    """Return the table of a release's stage in an environment of ``kind``."""
    return _FOLDER / f"{release}-{kind}-stage{stage}.tsv"


def load_seconds(release: str, kind: str, stage: int) -> SecondsTable:
    """Load the table of a recorded build, an empty one where there was none."""
    return _read_table(locate_table(release, kind, stage))


def _read_table(path: Path) -> SecondsTable:
    kinds: dict[str, ObjectKind] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
        try:
            name, count, value = line.split("\t")
            kinds[name] = ObjectKind(int(count), float(value))
        except ValueError as error:
            raise DecoupleError(f"{path}:{number}: {error}", next_step=format_restore(path)) from error
    return SecondsTable(kinds)


def load_nearest(release: str, kind: str, stage: int) -> SecondsTable:
    """Load as `load_seconds` does.

    Where there is no such table, the one of another environment, else of another release: an object is as large beside
    others there.
    """
    paths = _FOLDER.glob(f"*-stage{stage}.tsv")
    of_release = sorted(paths, key=lambda path: (not path.name.startswith(f"{release}-"), path.name))
    tables = (_read_table(path) for path in (locate_table(release, kind, stage), *of_release))
    return next((table for table in tables if table.kinds), SecondsTable())


def estimate_stage_cost(release: str, kind: str, stage: int, choices: Choices) -> Cost:
    """Estimate what a cold stage takes as chosen."""
    part = choices.slice != "all"
    usual = settings.estimate_cost(stage, kind, arch_count=len(choices.archs), flash=choices.flash, part=part)
    if stage == 2 and choices.toolkit:  # measured for CUDA alone
        vendor = toolkits.find_vendor(choices.toolkit)
        objects = vendor.slice_objects if part else vendor.objects
        usual = replace(usual, objects=objects, core_seconds=usual.core_seconds * objects / usual.objects)
    return estimate_cost(release, kind, stage, usual)


def compute_share_left(names: Iterable[str], done: Collection[str], known: SecondsTable, usual: float) -> float:
    """Return the share of all objects' seconds that those not ``done`` take.

    ``names`` are all objects. By number they say little, as the large ones come last. What ``known`` has not takes
    ``usual``.
    """
    weights = {name: known.estimate_object(name, usual) for name in names}
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
    others = max(usual.objects - table.objects, 0)
    return replace(
        usual,
        objects=table.objects + others,
        core_seconds=table.core_seconds + others * usual.core_seconds / usual.objects,
    )


def record_seconds(release: str, kind: str, stage: int, folders: Iterable[Path]) -> tuple[Path, int]:
    """Make the table anew from what builds in ``folders`` measured.

    Of an object in several folders the last one counts. Gives the table and how many objects were measured. Raises
    DecoupleError where nothing was, or far less than the builds or the table have.
    """
    folders = list(folders)
    measured: dict[str, float] = {}
    planned: set[str] = set()
    for folder in folders:
        measured |= read_measured_seconds(folder)
        planned |= read_planned_objects(folder)
    command = f"decouple build {release} --env {kind} --stage {stage}"
    if not measured:
        raise DecoupleError(f"{folders[0]}: no object's seconds are recorded there", next_step=command)
    path, before = locate_table(release, kind, stage), load_seconds(release, kind, stage)
    for whole, objects in (("the build has", len(planned)), (f"{path.name} is of", before.objects)):
        if len(measured) < _ENOUGH * objects:
            raise DecoupleError(
                f"{folders[0]}: the seconds of {len(measured)} objects, and {whole} {objects}",
                next_step=f"{command}, whole and without --shard",
            )
    rows = average_seconds(measured).kinds.items()
    write_atomically(path, "".join(f"{name}\t{row.objects}\t{row.seconds:.1f}\n" for name, row in rows))
    return path, len(measured)


def read_measured_seconds(build_dir: Path) -> dict[str, float]:
    """Read object -> core-seconds of its last compile in ``build_dir``.

    ``inside/timed.sh`` wrote them. A torn line counts for nothing, and so does what CMake tried while it configured:
    its names are made up anew each time.
    """
    log = build_dir / "object-seconds.tsv"
    seconds: dict[str, float] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        name, *times = line.split("\t")
        parts = [_TIMES.fullmatch(path) for path in times]
        if name.endswith(".o") and _TRIAL not in name and len(parts) == 2 and all(parts):
            seconds[name] = sum(60 * int(part[1]) + float(part[2]) for part in parts if part)
    return seconds
