"""Running a command inside a root, in a mount namespace of its own.

Mounts are made inside the namespace and vanish with its last process, whatever ends it: nothing is left on the host,
so nothing can be deleted through a mount. As root the namespace is all it takes; otherwise a user namespace maps the
user to root and the ranges of /etc/subuid to everybody else (``unshare --map-auto``, util-linux 2.38 or newer).

A command has no network unless it asks for one: what a build reads was fetched and checked before. It gets the
variables that it is given and none of the caller's; only one with network gets the caller's proxies.

The ``PATH`` of a user who is not root lacks the folders that Debian keeps ``chroot`` in, so what runs on the way in
gets them.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base import program_output
from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.build.root_description import Mount

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM_FOLDERS = "/usr/sbin:/sbin"
#: $1 root, $2 folder to start in, then pairs to mount up to "--", then the command. Runs inside the namespace.
_ENTER = rf"""
set -e
PATH=$PATH:{_SYSTEM_FOLDERS}
ip link set lo up 2>/dev/null || true
root=$1 start=$2
shift 2
while [ "$1" != -- ]; do
    case $1 in
    proc) mount -t proc proc "$root$2" ;;
    hidden) if [ -d "$root$2" ]; then mount -t tmpfs none "$root$2"; else mount --bind /dev/null "$root$2"; fi ;;
    *) mount --rbind "$1" "$root$2" ;;
    esac
    shift 2
done
shift
exec chroot "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$start" "$@"
"""


_ALLOW_MOUNTS = "start the container with `docker run --privileged` or `--cap-add SYS_ADMIN`, or use another machine"
_SYSCTL = Path("/proc/sys")
#: A setting that keeps users from making user namespaces, its value then, and one that lets them. The second is
#: Debian's, the third Ubuntu's (24.04 sets it).
_SETTINGS = (
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)


class BindMount(Struct, frozen=True):
    """A host path seen at ``inside`` in the root."""

    outside: Path
    inside: str


class Sandbox(Struct, frozen=True):
    """Hold a root and the mounts of a command; ``hidden`` paths are shown empty."""

    root: Path
    mounts: tuple[Mount, ...]
    binds: tuple[BindMount, ...] = ()
    hidden: tuple[str, ...] = ()

    def make_command(self, argv: Sequence[str], *, start: str = "/", network: bool = False) -> list[str]:
        """Make the command line that runs ``argv`` inside, in folder ``start``.

        Makes the mount points it needs.
        """
        pairs: list[str] = []
        for mount in self.mounts:
            pairs += [mount.kind if mount.kind == "proc" else mount.at, mount.at]
        for bind in self.binds:
            _make_mount_point(self.root, bind)
            pairs += [str(bind.outside), bind.inside]
        pairs += [word for path in self.hidden for word in ("hidden", path)]
        return [
            *make_unshare_prefix(network=network),
            "sh",
            "-c",
            _ENTER,
            "sh",
            str(self.root),
            start,
            *pairs,
            "--",
            *argv,
        ]


def _make_mount_point(root: Path, bind: BindMount) -> None:
    """Make the folder or empty file to mount on.

    It is made inside the user namespace when the root belongs to it. Raises DecoupleError when that fails.
    """
    point = root / bind.inside.lstrip("/")
    if point.exists():
        return
    if bind.outside.is_dir():
        argv = ["mkdir", "-p", str(point)]
    else:
        argv = ["sh", "-c", 'mkdir -p "${1%/*}" && touch "$1"', "sh", str(point)]
    done = program_output.run_program([*make_owner_prefix(), *argv])
    if done.returncode:
        raise DecoupleError(
            f"{point}: cannot be made to mount {bind.outside} on: {done.stderr.strip()}",
            next_step="free the disk, or run as the user who made the root",
        )


def is_root() -> bool:
    """Return whether no user namespace is needed."""
    return os.geteuid() == 0


def make_owner_prefix() -> list[str]:
    """Make the prefix under which a command owns the files of a root.

    Nothing as root, a user namespace otherwise.
    """
    return [] if is_root() else ["unshare", "--user", "--map-root-user", "--map-auto"]


def make_mounting_prefix() -> list[str]:
    """Make the prefix under which a program for root may mount, with the network.

    As root nothing but the folders of its programs. Otherwise a user namespace with the ids of `make_owner_prefix`, so
    that what the program makes has the owners that commands in the root see.
    """
    owner = [] if is_root() else [*make_owner_prefix(), "--mount-proc", "--pid", "--fork", "--kill-child", "--"]
    return [*owner, "env", f"PATH={add_system_folders(os.environ.get('PATH', os.defpath))}"]


def add_system_folders(path: str) -> str:
    """Return the value ``path`` of PATH with the folders of root's programs behind it."""
    return f"{path}:{_SYSTEM_FOLDERS}"


def make_unshare_prefix(*, network: bool = False) -> list[str]:
    """Make the prefix for a private mount and process namespace.

    Unless ``network``, there is also one without network; a killed parent takes everything inside with it.
    """
    check_sandbox()
    return _make_unshare_words(network)


@functools.cache
def make_offline_prefix() -> tuple[str, ...]:
    """Make the prefix that gives a command on the host no network but loopback.

    Empty where this machine does not allow that.
    """
    owner: tuple[str, ...] = ()
    plain = 'exec "$@"'
    if not is_root():  # the capabilities bring loopback up; the command is to have none, as it would without a prefix
        owner = ("--user", "--map-current-user", "--keep-caps")
        plain = 'exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"'
    loopback = ("sh", "-c", f"PATH=$PATH:{_SYSTEM_FOLDERS} ip link set lo up 2>/dev/null || true; {plain}", "sh")
    prefix = ("unshare", *owner, "--net", "--", *loopback)
    if shutil.which("unshare") is None:
        return ()
    return prefix if program_output.run_program([*prefix, "true"]).returncode == 0 else ()


def _make_unshare_words(network: bool) -> list[str]:
    private = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    if not network:
        private.append("--net")
    return ["unshare", *make_owner_prefix()[1:], *private, "--"]


def check_sandbox() -> None:
    """Raise DecoupleError naming what this machine lacks to make namespaces."""
    if shutil.which("unshare") is None:
        raise DecoupleError("unshare: not found", next_step="apt-get install util-linux")
    if not is_root() and shutil.which("newuidmap") is None:
        raise DecoupleError(
            "newuidmap: not found, so a user namespace cannot hold Debian's users",
            next_step="apt-get install uidmap, or run as root",
        )
    words = _make_unshare_words(network=False)
    # Without ranges first: what is to map them waits for ever where the kernel makes no namespace (util-linux 2.38).
    for probe in ([word for word in words if word != "--map-auto"], words):
        tried = program_output.run_program([*probe, "true"])
        if tried.returncode:
            kind = "mount" if is_root() else "user"
            raise DecoupleError(
                f"{kind} namespaces do not work here: {tried.stderr.strip() or 'unshare failed'}",
                next_step=advise_namespaces(),
                code=CANNOT_HERE,
            )
        if is_root():
            return


def advise_namespaces() -> str:
    """Return what lets this user make namespaces and mount in them.

    It is taken from what the machine says of itself.

    What ``unshare`` says does not tell: a limit of 0 is "No space left on device".
    """
    if is_root():
        return _ALLOW_MOUNTS
    for setting, refused, allowed in _SETTINGS:
        try:
            value = (_SYSCTL / setting.replace(".", "/")).read_text(encoding="ascii").strip()
        except OSError:  # a kernel without it
            continue
        if value == refused:
            return f"`sysctl -w {setting}={allowed}` as root, or run as root"
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    if all(_has_range(Path("/etc") / name, user) for name in ("subuid", "subgid")):
        return f"{_ALLOW_MOUNTS}, or run as root"
    command = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
    return f"`{command}` as root (other numbers where /etc/subuid has these), or run as root"


def _has_range(file: Path, user: str) -> bool:
    """Return whether subuid(5) or subgid(5) gives the user any id."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.split(":")[0] in (user, str(os.geteuid())) for line in lines)


def make_clean_environment(
    variables: Mapping[str, str], *, network: bool = False, inherited: tuple[str, ...] = ()
) -> list[str]:
    """Make the prefix that runs a command with ``variables`` and nothing else.

    A plain PATH and HOME are added, and nothing of the caller's. A command with network also has the caller's proxies,
    and the variables whose names begin with one of ``inherited``. They may hold a password, and a command line can be
    read by everybody on the machine: so they are inherited, and every other variable is taken away by its name.
    """
    merged = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", "TERM": os.environ.get("TERM", "dumb"), **variables}
    gone = ["-i"]
    if network:
        shells = {"PWD", "OLDPWD", "SHLVL", "_", "LINES", "COLUMNS"}  # what a shell on the way, or readline, adds
        names = {name for name in os.environ if not (name.lower().endswith("_proxy") or name.startswith(inherited))}
        names |= shells
        gone = [word for name in sorted(names) for word in ("-u", name)]
    return ["/usr/bin/env", *gone, *(f"{name}={value}" for name, value in sorted(merged.items()))]
