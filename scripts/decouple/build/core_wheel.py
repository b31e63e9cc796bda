"""Unpack the stage-1 wheel that stage 2 is built against, or use a torch there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, hold_lock, write_atomically
from decouple.base.steps import mark_step
from decouple.build import inputs, settings
from decouple.build.environment import Environment, Places, RootEnvironment
from decouple.release.wheel_name import WheelName

_LOCK = "core.lock"
"""Held by all who compile against the unpacked core, and alone by who exchanges it."""


def unpack_core(environment: Environment, version: str, say: Callable[[str], None] = lambda _: None) -> None:
    """Unpack the newest stage-1 wheel for stage 2 to build against, if needed.

    Waits, and says so, while others compile against the one that is there. Raises DecoupleError.
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
    if read_core_digest(places) == digest:
        return
    with hold_lock(places.core_state / _LOCK, lambda: say("waits: another run compiles against an older core")):
        marker.unlink(missing_ok=True)
        mark_step("unpack the core wheel")
        inputs.unpack_changed_files(wheel, places.core)
        write_atomically(marker, digest)


@contextlib.contextmanager
def hold_core(places: Places, digest: str) -> Iterator[int]:
    """Let nobody exchange the unpacked core.

    Yields the lock's number, for what is started.

    Raises DecoupleError where it is not the one of ``digest`` any more.
    """
    with hold_lock(places.core_state / _LOCK, shared=True) as held:
        if read_core_digest(places) != digest:
            raise DecoupleError(
                f"{places.core}: another core was unpacked there since this run began",
                next_step="run the same command again; it builds against that one",
            )
        yield held


def read_core_digest(places: Places) -> str:
    """Return the SHA-256 of the wheel unpacked in ``core``, "" where none is whole."""
    marker = places.core / "wheel.sha256"
    return marker.read_text() if marker.exists() else ""


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
