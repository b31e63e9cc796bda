"""A wheel of the portable root made one for other machines: what it may not expect goes in, and a tag says the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.build import settings
from decouple.release.wheel_name import WheelName

Run = Callable[[str, Sequence[str]], None]
"""Runs a command (what it does, the command) in the folder of the wheel, inside the root."""


def graft_libraries(raw: Path, run: Run, log: Path) -> Path:
    """Graft libraries into the wheel ``raw``, in a folder beside it.

    Raises DecoupleError where a library needs what no old system has; what auditwheel said is in ``log``.

    auditwheel gives a grafted library a SONAME with a hash in it. Here it gets its own back, as in the official wheel:
    a library of somebody else's that needs ``libgomp.so.1`` (torchaudio's does) then takes the one that is loaded
    already, where the machine has none and where it has another.
    """
    grafted, unpacked, packed = (raw.parent / name for name in ("grafted", "unpacked", "packed"))
    table = settings.read_facts().portable
    run("graft stage 1", [*table.graft, grafted.name, raw.name])
    wheels = sorted(grafted.glob("*.whl"))
    if len(wheels) != 1 or WheelName.parse(wheels[0].name).glibc is None:
        raise DecoupleError(
            f"{raw.name}: no manylinux wheel came of it ({', '.join(wheel.name for wheel in wheels) or 'none'})",
            next_step=f"read {log}: a library needs what no old system has",
        )
    run(
        "unpack what was grafted", [*table.wheel, "unpack", "--dest", unpacked.name, f"{grafted.name}/{wheels[0].name}"]
    )
    for library in sorted(unpacked.glob("*/*.libs/*")):
        for name, soname in table.sonames.items():
            if library.name.startswith(f"{name}-"):
                path = library.relative_to(raw.parent).as_posix()
                run(f"SONAME of {library.name}", ["patchelf", "--set-soname", soname, path])
    (folder,) = unpacked.iterdir()
    packed.mkdir()
    run("pack it again", [*table.wheel, "pack", "--dest-dir", packed.name, f"{unpacked.name}/{folder.name}"])
    (made,) = packed.glob("*.whl")  # of several platforms its name may put another first
    return made
