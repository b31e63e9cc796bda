"""Unpack the stage-1 wheel that stage 2 is built against, or use a torch there."""

from __future__ import annotations

from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, write_atomically
from decouple.base.steps import mark_step
from decouple.build import inputs, settings
from decouple.build.environment import Environment, RootEnvironment
from decouple.release.wheel_name import WheelName


def unpack_core(environment: Environment, version: str) -> None:
    """Unpack the newest stage-1 wheel for stage 2 to build against, if needed.

    Raises DecoupleError.
    """
    places = environment.places
    stamp = inputs.read_stamp(places.core_state / "stage1.json")
    wheel = places.dist / stamp.wheel if stamp else None
    if wheel is None or not wheel.exists():
        raise DecoupleError(
            f"{places.dist}: no core wheel of {version} to build stage 2 against",
            next_step="build stage 1 first (--stage 1), or use --core stock",
        )
    if environment.kind == "portable" and WheelName.parse(wheel.name).glibc is None:
        raise DecoupleError(
            f"{wheel}: the last core that was built is of another environment",
            next_step="build stage 1 first (--env portable --stage 1)",
        )
    marker = places.core / "wheel.sha256"
    digest = compute_sha256(wheel)
    if marker.exists() and marker.read_text() == digest:
        return
    marker.unlink(missing_ok=True)
    mark_step("unpack the core wheel")
    inputs.unpack_changed_files(wheel, places.core)
    write_atomically(marker, digest)


def find_core_folder(environment: Environment, version: str, core: str) -> Path:
    """Return where this machine has what stage 2 builds against.

    The newest stage-1 wheel is unpacked. Raises DecoupleError.
    """
    if core == "built":
        unpack_core(environment, version)
    inside = settings.find_core(core).prefix.format_map(environment.name_places())
    if inside == environment.name_places()["core"]:
        return environment.places.core
    return environment.root.tree / inside.lstrip("/") if isinstance(environment, RootEnvironment) else Path(inside)
