"""Run README.md's commands as a new user would, in a bare root of a distribution.

The root has an environment of its own. `.ci/run` calls it. The root is made by mmdebstrap and entered by pivot_root in
a mount namespace of its own, so that it is the root of its mount tree and a build's own roots (namespaces, chroot) work
inside as on a machine. Only the proxies and certificates that apt and pip need come from this machine, and two caches
of downloads that README.md names. With ``--user`` a user types them who is not root, as the page says for others: what
they put sudo before runs as root, and no cache is shared.

Plain Python, so that a CI host runs it with nothing installed but mmdebstrap.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parent.parent
#: What stands below these headings of README.md is what a newcomer types, in this order.
HEADINGS = ("Begin", "Tests")
#: The command that takes hours is ended once it compiles: it has this long until then, and this long to end.
BUILD_COMMAND = re.compile(r"nox -s build-[\d.]+")
BEGIN_MINUTES = 30
END_SECONDS = 120
FIRST_OBJECTS = 3
#: Where its stages compile. What lies below has logs of its own: CMake makes and deletes such folders.
STAGES = ("build/*/src/build", "build/*/stage2")
#: Suite -> mirror and components.
SUITES = {
    "trixie": ("http://deb.debian.org/debian", "main"),
    "bookworm": ("http://deb.debian.org/debian", "main"),
    "noble": ("http://archive.ubuntu.com/ubuntu", "main universe"),
}
#: Where the package with the keys of a mirror's archive is pinned.
PINS = CHECKOUT / "scripts/decouple/build/bare_systems.toml"
NAMESPACE = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Who types with --user, with a home that nobody else enters (adduser's default) and the PATH of Debian's login.defs.
USER, USER_ID = "newcomer", 1000
USER_HOME = f"/home/{USER}"
USER_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
#: What README.md lets that user add to the line of packages.
USER_PACKAGES = "uidmap"
#: Variables of this machine that the root gets: how apt, pip and git reach the network, nothing else.
INHERITED = re.compile(r"(?:https?|ftp|all|no)_proxy|(?:SSL|REQUESTS|CURL|PIP|GIT_SSL)_(?:CERT|CA)\w*", re.IGNORECASE)
#: Downloads that README.md says are kept, below the home of whoever runs them.
CACHES = (".cache/decouple", ".cache/pip")
CERTIFICATES = Path("/usr/local/share/ca-certificates")

#: $1 root, then pairs "outside:inside" to bind up to "--", then the command. Runs in a mount namespace of its own.
ENTER = r"""
set -e
root=$1
shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
    mkdir -p "$root${1#*:}"
    mount --bind "${1%%:*}" "$root${1#*:}"
    shift
done
shift
cd "$root"
mkdir -p .host
pivot_root . .host
umount -l /.host
rmdir /.host
exec chroot . "$@"
"""


class NewcomerError(Exception):
    """A command of README.md failed, or the page lacks a part; the message names it."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where commands run: the words before each, and the clone as seen from here.

    ``as_root`` are the words before a command for apt, where who types is not root.
    """

    prefix: tuple[str, ...]
    clone: Path
    as_root: tuple[str, ...] = ()

    def start(self, script: str, *, as_root: bool = False) -> subprocess.Popen[bytes]:
        """Start a shell there, in the user's home."""
        # A shell's background job ignores SIGINT, and so would all that it starts.
        prefix = self.as_root if as_root else self.prefix
        command = ["/usr/bin/env", "--default-signal=INT", *prefix, "bash", "-c", script]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def has_compiled(self) -> bool:
        """Return whether a build in the clone has made its first objects."""
        with contextlib.suppress(OSError):  # a log that went meanwhile
            logs = [log for folder in STAGES for log in self.clone.glob(f"{folder}/.ninja_log")]
            return any(log.read_bytes().count(b"\n") > FIRST_OBJECTS for log in logs)
        return False


def read_commands(readme: str, headings: Sequence[str] = HEADINGS) -> list[str]:
    """Return the commands of the page below ``headings``, each as a shell takes it.

    They are the lines after ``$`` of the ```console blocks. Raises NewcomerError when a heading has none.
    """
    commands: list[str] = []
    for heading in headings:
        section = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", readme, re.MULTILINE | re.DOTALL)
        blocks = re.findall(r"^```console\n(.*?)^```", section[1] if section else "", re.MULTILINE | re.DOTALL)
        lines = "".join(blocks).splitlines()
        typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        if not typed:  # else a run of nothing ends well
            raise NewcomerError(f"README.md: {heading}: no ```console block with what a newcomer types")
        commands += typed
    return commands


def leave_out(package: str, commands: Sequence[str]) -> list[str]:
    """Return the commands without ``package`` in what they give to apt-get."""
    word = re.compile(rf"(?<= ){re.escape(package)}(?= |$)")
    return [word.sub("", command) if "apt-get" in command else command for command in commands]


def choose_place(suite: str, folder: Path, caches: Path, *, user: bool = False, here: bool = False) -> Place:
    """Return a bare root of ``suite``, or with ``here`` this machine itself.

    The root is made in ``folder``. Raises NewcomerError where this machine may not mount.
    """
    words = [*NAMESPACE, "mount", "--bind", str(folder), str(folder)]
    if not here and (tried := subprocess.run(words, capture_output=True, text=True)).returncode:
        raise NewcomerError(
            f"no bare root here: {tried.stderr.strip()}; run it as root where mounting is allowed, or `--here` to type "
            "README.md's commands, which install packages, on this machine itself"
        )
    repository = folder / "repository.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", "--no-local", str(CHECKOUT), str(repository)], check=True)
    if here:
        home = folder / "home"
        home.mkdir()
        return Place(clean_environment(str(home), str(repository)), home / "decouple")
    if not user:
        return enter_root(make_root(suite, folder), caches, repository)
    subprocess.run(["chown", "-R", f"{USER_ID}:{USER_ID}", str(repository)], check=True)  # else git refuses to read it
    root = make_root(suite, folder)
    add_user(root)
    return enter_root_as_user(root, repository)


def add_user(root: Path) -> None:
    """Add to ``root`` the user of ``--user``, as useradd and adduser do."""
    create = f"useradd --create-home --uid {USER_ID} --user-group --shell /bin/bash {USER} && chmod 700 {USER_HOME}"
    subprocess.run(["chroot", str(root), "sh", "-c", create], check=True, env={"PATH": PATH})


def make_root(suite: str, folder: Path) -> Path:
    """Make a bare root of ``suite`` in ``folder``.

    It holds what is essential, apt, and this machine's own authorities.
    """
    root = folder / "root"
    mirror, components = SUITES[suite]
    source, keyring = f"{mirror} {suite} {components}", fetch_keyring(mirror, folder)
    signed = f"[signed-by={keyring}] " if keyring else ""
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=apt", suite, str(root), f"deb {signed}{source}"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    if keyring:  # the root sees no path of this machine
        shutil.copy(keyring, root / "etc/apt/trusted.gpg.d")
        (root / "etc/apt/sources.list").write_text(f"deb {source}\n")
    if CERTIFICATES.is_dir():
        shutil.copytree(CERTIFICATES, root / CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf", follow_symlinks=True)
    return root


def fetch_keyring(mirror: str, folder: Path) -> Path | None:
    """Return the file with the keys of ``mirror``.

    It is None where mmdebstrap finds them by itself. Raises NewcomerError when the package with the keys is not the
    pinned one, OSError when it cannot be fetched.
    """
    systems = tomllib.loads(PINS.read_text(encoding="utf-8"))["system"]
    pins = [system["keyring"] for system in systems if system["mirror"] == mirror and "keyring" in system]
    if not pins:
        return None
    package = folder / pins[-1]["name"]
    with urllib.request.urlopen(pins[-1]["urls"][0], timeout=60) as reply:
        package.write_bytes(reply.read())
    if hashlib.sha256(package.read_bytes()).hexdigest() != pins[-1]["sha256"]:
        raise NewcomerError(f"{pins[-1]['urls'][0]}: not the file whose SHA-256 is in {PINS.name}")
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "keys")], check=True)
    return next((folder / "keys/usr/share/keyrings").glob("*-archive-keyring.gpg"))


def enter_root(root: Path, caches: Path, repository: Path) -> Place:
    """Return how commands run in ``root``.

    They see the caches of ``caches`` and what ``repository`` has committed.
    """
    home, inside_repository = "/root", "/srv/decouple.git"
    binds = [f"{repository}:{inside_repository}"]
    for cache in CACHES:
        (caches / cache).mkdir(parents=True, exist_ok=True)
        binds.append(f"{caches / cache}:{home}/{cache}")
    inside = ("sh", "-c", ENTER, "sh", str(root), *binds, "--")
    return Place((*NAMESPACE, *inside, *clean_environment(home, inside_repository)), root / "root/decouple")


def enter_root_as_user(root: Path, repository: Path) -> Place:
    """Return how commands of the user of ``--user`` run in ``root``.

    They see what ``repository`` has committed.
    """
    inside_repository = "/srv/decouple.git"
    inside = (*NAMESPACE, "sh", "-c", ENTER, "sh", str(root), f"{repository}:{inside_repository}", "--")
    become = ("setpriv", "--reuid", USER, "--regid", USER, "--init-groups")
    own = clean_environment(USER_HOME, inside_repository, USER_PATH)
    as_root = (*inside, *clean_environment("/root", inside_repository))
    return Place((*inside, *become, *own), root / USER_HOME.lstrip("/") / "decouple", as_root)


def clean_environment(home: str, repository: str, path: str = PATH) -> tuple[str, ...]:
    """Return the prefix that gives a command a new user's variables.

    It keeps this machine's proxies and certificates. Tests do not skip there what README.md's packages or pip bring.
    """
    kept = {name: value for name, value in os.environ.items() if INHERITED.fullmatch(name)}
    own = {"HOME": home, "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "REPOSITORY": repository}
    own["DECOUPLE_REQUIRE_TOOLS"] = "1"  # tests/support/tools.py
    return ("/usr/bin/env", "-i", "-C", home, *(f"{name}={value}" for name, value in sorted({**kept, **own}.items())))


def run_commands(commands: Sequence[str], place: Place) -> None:
    """Run each in turn, as one shell would.

    A folder that one changes to is the next one's. Raises NewcomerError naming the first that fails. Prints the minutes
    of those that were run.
    """
    minutes: list[str] = []
    folder = "."
    try:
        for number, command in enumerate(commands, start=1):
            print(f"\n=== README.md, command {number} of {len(commands)}: {command}", flush=True)
            begun = time.monotonic()
            keep = "pwd > ~/.newcomer-folder"
            script = f"cd {folder} || exit\n{keep}\n{command}\ncode=$?\n{keep}\nexit $code"
            alone = bool(place.as_root) and "apt-get" in command  # root's folder is not the user's
            if alone:
                code = place.start(command, as_root=True).wait()
            else:
                code = run_script(script, place, builds=bool(BUILD_COMMAND.search(command)))
            minutes.append(f"{(time.monotonic() - begun) / 60:6.1f} min  {command}")
            if code:
                raise NewcomerError(f"README.md: `{command}` failed with exit code {code}")
            folder = folder if alone else '"$(cat ~/.newcomer-folder)"'
    finally:
        print("\n" + "\n".join(minutes), flush=True)


def run_script(script: str, place: Place, *, builds: bool) -> int:
    """Run a script to its end, or interrupt it once a build has its first objects.

    A user would interrupt it then. Returns the exit code, 0 of a build that was interrupted.
    """
    process = place.start(script)
    try:
        if not builds:
            return process.wait()
        end = time.monotonic() + BEGIN_MINUTES * 60
        while process.poll() is None and time.monotonic() < end and not place.has_compiled():
            time.sleep(2)
        begun, ended = place.has_compiled(), process.poll()
        if ended is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"the build did not end in {END_SECONDS} s after it was interrupted", flush=True)
                return -signal.SIGKILL
    finally:  # whoever cancels the run cancels what it started, and the root can go
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    how = "was ended there" if ended is None else f"ended by itself with exit code {ended}"
    print(f"the build {'began' if begun else 'did not begin'} to compile, and {how}", flush=True)
    return 0 if begun and not ended else process.returncode or 1


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parse = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    where = parse.add_mutually_exclusive_group()
    where.add_argument("--suite", default="trixie", choices=SUITES, help="the release to make a root of (trixie)")
    where.add_argument("--here", action="store_true", help="make no root: install packages and type on this machine")
    parse.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="where the root is made; 20 GiB (/var/tmp)"
    )
    parse.add_argument(
        "--caches", type=Path, default=Path.home(), help="home whose caches of downloads are used (yours)"
    )
    parse.add_argument(
        "--without", default="", metavar="PACKAGE", help="leave PACKAGE out, to see that this is noticed"
    )
    parse.add_argument("--user", action="store_true", help="type as a user who is not root (needs root)")
    parse.add_argument("--only", type=int, metavar="N", help="run the first N commands only")
    parse.add_argument("--keep", action="store_true", help="keep the root")
    args = parse.parse_args(argv)
    if args.here and args.user:
        parse.error("--user needs a root, --here makes none")
    if args.only is not None and args.only < 1:
        parse.error(f"--only {args.only}: types no command; give 1 or more")
    return args


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _cancel_run(number: int, _: object) -> NoReturn:
    _ignore_signals()
    sys.exit(128 + number)


@contextlib.contextmanager
def make_folder(parent: Path, *, keep: bool) -> Iterator[Path]:
    """Make a folder in ``parent``, which goes with all below it at the end.

    With ``keep`` it stays.
    """
    folder = Path(tempfile.mkdtemp(prefix="newcomer-", dir=parent))
    try:
        yield folder
    finally:
        _ignore_signals()  # the next one would leave the root
        if keep:
            print(f"kept: {folder}")
        else:
            subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the commands in a bare root, or with ``--here`` on this machine."""
    args = read_arguments(argv)
    commands = read_commands((CHECKOUT / "README.md").read_text(encoding="utf-8"))[: args.only]
    if args.without:
        whole, commands = commands, leave_out(args.without, commands)
        if commands == whole:
            print(f"newcomer: --without {args.without}: README.md installs no such package", file=sys.stderr)
            return 2
    if args.user:
        commands[0] = f"{commands[0].split('  #')[0]} {USER_PACKAGES}"
    for number in (signal.SIGTERM, signal.SIGHUP):  # a cancelled job; under nohup the latter is ignored and stays so
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _cancel_run)
    try:
        with make_folder(args.folder, keep=args.keep) as folder:
            run_commands(commands, choose_place(args.suite, folder, args.caches, user=args.user, here=args.here))
    except (NewcomerError, subprocess.CalledProcessError, OSError) as error:
        print(f"newcomer: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
