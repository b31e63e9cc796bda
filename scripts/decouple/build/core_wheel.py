"""Unpack the stage-1 wheel that stage 2 is built against, or use a torch there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import hold_lock, write_atomically
from decouple.base.steps import mark_step
from decouple.build import inputs, settings, toolchain
from decouple.build.environment import Environment, Places, RootEnvironment, read_output
from decouple.build.options import Choices
from decouple.release.wheel_name import WheelName

_LOCK = "core.lock"
"""Held by all who compile against the unpacked core, and alone by who exchanges it."""
_PYTHON_TAG = "import sys; print(f'cp{sys.version_info[0]}{sys.version_info[1]}')"


def unpack_core(
    environment: Environment, version: str, choices: Choices | None = None, say: Callable[[str], None] = lambda _: None
) -> None:
    """Unpack the newest stage-1 wheel for stage 2 to build against, if needed.

    Waits, and says so, while others compile against the one that is there. Raises DecoupleError.
    """
    places = environment.places
    stamp = inputs.read_stamp(places.core_state / "stage1.json")
    if stamp is None or not (places.dist / stamp.wheel).exists():
        raise DecoupleError(
            f"{places.dist}: no core wheel of {version} to build stage 2 against",
            next_step="build stage 1 first (--stage 1), or use --core stock",
        )
    again = _format_build(environment, choices or Choices())
    wheel = inputs.locate_wheel(stamp, places.dist, again)
    _refuse_other_environment(wheel, environment, choices or Choices(), again)
    marker = places.core / "wheel.sha256"
    if read_core_digest(places) == stamp.sha256:
        return
    with hold_lock(places.core_state / _LOCK, lambda: say("waits: another run compiles against an older core")):
        marker.unlink(missing_ok=True)
        mark_step("unpack the core wheel")
        inputs.unpack_changed_files(wheel, places.core)
        write_atomically(marker, stamp.sha256)


def _format_build(environment: Environment, choices: Choices) -> str:
    """Return the command that builds stage 1."""
    chosen = f" --python {choices.python}" if choices.python else ""
    return f"decouple build {environment.places.release} --env {environment.kind}{chosen} --stage 1"


def _refuse_other_environment(wheel: Path, environment: Environment, choices: Choices, again: str) -> None:
    """Raise DecoupleError where the tags of the core say another system or Python.

    What is compiled against it would go with no core: its wheel gets the tags of ``environment``.
    """
    name, portable = WheelName.parse(wheel.name), environment.kind == "portable"
    python = toolchain.choose_interpreter(2, choices, environment.kind).python
    if (name.glibc is not None) != portable:
        other = f"platform {name.platform}"
    else:
        own = read_output(environment, [python, "-c", _PYTHON_TAG], {})
        theirs = {tag.interpreter for tag in name.tags}
        if own is None or theirs & {own, "py3"}:
            return
        other = f"Python {', '.join(sorted(theirs))}, and {python} is {own}"
    raise DecoupleError(
        f"{wheel}: the last core that was built is of another environment ({other})",
        next_step=f"build stage 1 first: {again}",
    )


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


def find_core_folder(environment: Environment, version: str, choices: Choices) -> Path:
    """Return where this machine has what stage 2 builds against.

    The newest stage-1 wheel is unpacked. Raises DecoupleError.
    """
    if choices.core == "built":
        unpack_core(environment, version, choices)
    inside = settings.find_core(choices.core).prefix.format_map(environment.name_places())
    if inside == environment.name_places()["core"]:
        return environment.places.core
    return environment.root.tree / inside.lstrip("/") if isinstance(environment, RootEnvironment) else Path(inside)
