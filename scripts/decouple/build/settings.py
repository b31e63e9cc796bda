"""The facts of ``stages.toml``: which variables, layers and estimates belong to which stage, profile and core."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decouple.base.errors import UsageError

_FILE = Path(__file__).with_name("stages.toml")


@dataclass(frozen=True)
class Cost:
    """What a stage takes: objects, core-seconds for all of them, MiB on disk, MiB of memory for one job."""

    objects: int
    core_seconds: float
    disk_mib: int
    job_mib: int


@functools.cache
def facts() -> Mapping[str, Any]:
    """The parsed file."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def choose(table: str, name: str) -> Mapping[str, Any]:
    """``[table.name]``. Raises UsageError naming the choices."""
    choices: Mapping[str, Mapping[str, Any]] = facts()[table]
    if name not in choices:
        raise UsageError(f"{table} {name!r} is unknown", next_step=f"use one of {', '.join(choices)}")
    return choices[name]


def layers(stage: int, *, profile: str, core: str) -> list[str]:
    """The layers of the root that a stage needs, in the order of the description."""
    more = choose("profile", profile)["layers"] if stage == 1 else choose("core", core)["layers"]
    return [*facts()[f"stage{stage}"]["layers"], *more]


def cost(stage: int, *, arch_count: int = 1, flash: bool = True, part: bool = False) -> Cost:
    """The estimate of a cold build of one stage, or of stage 2's runtime ``part``; a ``.cu`` costs per architecture."""
    table = facts()[f"stage{stage}"]
    objects, seconds = table["objects"], table["objects"] * table["object_seconds"]
    if stage == 2 and part:
        objects = table["slice_objects"]
        seconds = objects * table["slice_object_seconds"]
    elif stage == 2:
        if flash:
            objects += table["flash_objects"]
            seconds += table["flash_objects"] * table["flash_object_seconds"]
        seconds *= arch_count
    return Cost(objects, seconds, table["disk_mib"], table["job_mib"])


def environment(stage: int, kind: str, places: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The variables of a stage in an environment of ``kind`` ("host" or "rootfs"), with places filled in."""
    table = facts()[f"stage{stage}"]
    made = {**facts()["common"], **table["environment"], **table.get(kind, {}), **more}
    return {name: str(value).format_map(places) for name, value in made.items()}
