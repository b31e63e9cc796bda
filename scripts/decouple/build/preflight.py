"""Check programs, namespaces, mounts and disk before anything of a root is made."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from decouple.base import program_output
from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.build import rootfs, sandbox
from decouple.build.root_description import Description

PACKAGES = {"unshare": "util-linux", "mount": "mount", "newuidmap": "uidmap", "mmdebstrap": "mmdebstrap"}
"""Program -> the Debian package that has it."""
_INSIDE = f"PATH={sandbox.add_system_folders('$PATH')}; mount -t proc proc /proc && mount --rbind / / && chroot / true"
"""A little of what `sandbox` does in its namespace, where it is seen by nobody.

With all that is mounted below: in a user namespace the kernel gives no part of what it took from outside alone.
"""


def check_root(cache: Path, description: Description, layers: Sequence[str] = ()) -> None:
    """Try what making a root with ``layers`` and running a command in it takes.

    Raises DecoupleError naming every program that lacks, with the packages; which namespace or mount is refused; or how
    much disk is needed.
    """
    wanted = [description.find_layer(name) for name in layers]
    folder = rootfs.choose_folder(cache, description, wanted)
    check_programs(making=not rootfs.is_made(folder))
    check_namespaces()
    rootfs.refuse_if_full(description, wanted, folder)


def check_programs(*, making: bool = True) -> None:
    """Raise DecoupleError naming each missing program; ``making``: a root's, too."""
    needed = ["unshare", "mount", *([] if sandbox.is_root() else ["newuidmap"]), *(["mmdebstrap"] if making else [])]
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        packages = " ".join(PACKAGES[name] for name in missing)
        raise DecoupleError(f"{', '.join(missing)}: not found", next_step=f"apt-get install {packages}")


def check_namespaces() -> None:
    """Raise DecoupleError where no namespaces, or mounts in them, are allowed here."""
    sandbox.check_sandbox()
    tried = program_output.run_program([*sandbox.make_unshare_prefix(), "sh", "-c", _INSIDE])
    if tried.returncode:
        message = (tried.stderr.strip().splitlines() or ["it said nothing"])[0]  # mount's second line names dmesg
        raise DecoupleError(
            f"mounting in a namespace does not work here: {message}",
            next_step=sandbox.advise_namespaces(),
            code=CANNOT_HERE,
        )
