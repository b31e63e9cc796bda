"""Making, checking and removing the Debian root of a description.

A root lies in ``<cache>/rootfs/<name>-<digest>/``: ``root`` is the tree, ``done.json`` says which stages are in it.
Every stage is recorded after it was carried out, so a run that was interrupted goes on with the first stage that is
not recorded. A layer that only gained packages gets the new ones on top. Checkouts share the cache: a root that has
what this description lacks may be in use by another one, so it stays, and ``…-2`` is made beside it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace
from packaging.utils import parse_wheel_filename

from decouple.base import program_output
from decouple.base.background import start_work
from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.base.extras import explain_missing
from decouple.base.files import compute_sha256, hold_lock, make_work_folder, write_atomically
from decouple.base.interpreter import OWN
from decouple.base.mounts import list_mounts, remove_tree
from decouple.base.process import run_logged
from decouple.base.progress import SILENT, Progress
from decouple.base.steps import mark_step
from decouple.base.untrusted_input import read_json
from decouple.build import root_record
from decouple.build.estimate import RootEstimate
from decouple.build.root_description import Bootstrap, Description, Layer, PipTool, PypiPiece, compute_layer_digest
from decouple.build.sandbox import (
    BindMount,
    Sandbox,
    check_sandbox,
    is_root,
    make_clean_environment,
    make_mounting_prefix,
    make_owner_prefix,
)

_Piece = TypeVar("_Piece")

_APT = """
set -e
export DEBIAN_FRONTEND=noninteractive
dpkg --configure -a
apt-get -q update
apt-get -q -y -f install
apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io install "$@"
apt-get clean
"""
#: $1 prefix, then packages. Unpacks what apt gives (and has verified) without installing it.
_BESIDE = """
set -e
prefix=$1
shift
work=$(mktemp -d)
chmod 755 "$work"
cd "$work"
apt-get -q -o APT::Sandbox::User=root download "$@"
rm -rf "$prefix"
mkdir -p "$prefix"
for package in *.deb; do dpkg-deb -x "$package" "$prefix"; done
sha256sum -- *.deb >"$prefix/.decouple-sha256"
cd /
rm -rf "$work"
"""
#: $1 prefix, $2 suite, $3 mirror, $4 keyring, $5 components, $6 "alone" or not, then packages. Unpacks them, with all
#: that they need unless "alone": apt sees no package of the root, so that nothing of the root is taken for theirs.
_FOREIGN = """
set -e
prefix=$1 suite=$2 mirror=$3 keyring=$4 components=$5 how=$6
shift 6
work=$(mktemp -d)
chmod 755 "$work"
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
# those of an earlier call: apt asks whether they are the newest, and verifies them, before it takes them
cp -p "/var/lib/apt/lists/"*"_dists_${suite}_"* "$work/state/lists/" 2>/dev/null || :
: >"$work/status"
echo "deb [signed-by=$keyring] $mirror $suite $components" >"$work/sources.list"
apt() {
    apt-get -q -y -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- \\
        -o Dir::State="$work/state" -o Dir::State::Status="$work/status" -o Dir::Cache="$work/cache" "$@"
}
apt update
if [ "$how" = alone ]; then
    (cd "$work/cache/archives" && apt download "$@")
else
    apt --no-install-recommends --download-only install "$@"
fi
rm -rf "$prefix"
mkdir -p "$prefix"
for package in "$work"/cache/archives/*.deb; do dpkg-deb -x "$package" "$prefix"; done
(cd "$work/cache/archives" && sha256sum -- *.deb) >"$prefix/.decouple-sha256"
# for the record of what vouches for them; apt's next update sweeps them away
cp -p "$work"/state/lists/*_InRelease "$work"/state/lists/*_Packages /var/lib/apt/lists/
rm -rf "$work"
"""
#: $1 prefix, $2 mirror, $3 nothing, or the text of inside/host_part.py and $4 its second argument; then a path and a
#: SHA-256 for each package, which apt's own fetcher holds. One after the other: together they would fill the disk.
_DEBS = """
set -e
prefix=$1 mirror=$2 script=$3 older=$4
shift 4
work=$(mktemp -d)
chmod 755 "$work"
rm -rf "$prefix"
mkdir -p "$prefix"
while [ $# -gt 0 ]; do
    package=$work/${1##*/}
    /usr/lib/apt/apt-helper -q -o APT::Sandbox::User=root -o Acquire::Retries=3 \\
        download-file "$mirror/$1" "$package" "SHA256:$2"
    if [ -z "$script" ]; then
        dpkg-deb -x "$package" "$prefix"
    else
        mkdir "$work/whole"
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$work/whole" --wildcards --no-wildcards-match-slash "./usr/lib/*/lib*.so*"
        python3 -c "$script" "$work/whole" "$older"
        cp -al "$work/whole/." "$prefix"
        rm -r "$work/whole"
    fi
    rm "$package"
    shift 2
done
rm -rf "$work" "$prefix/usr/share/doc" "$prefix/usr/share/man"
"""
#: $1 prefix, then programs below it: they start with the loader and the libraries of the prefix. Where patchelf leaves
#: a program that does not run (python3.13, which is no position-independent one), a script in its place starts it.
_LINK_FOREIGN = """
set -e
prefix=$1
shift
# the file itself: in lib64 an older suite has a link with an absolute target, which is the root's own loader
for loader in "$prefix"/usr/lib/*-linux-gnu/ld-linux-*.so.* "$prefix"/lib/*-linux-gnu/ld-linux-*.so.*; do
    [ -e "$loader" ] && break
done
libraries=$(cd "$prefix" && ls -d "$PWD"/usr/lib/*-linux-gnu "$PWD"/lib/*-linux-gnu 2>/dev/null | paste -sd:)
for program; do
    cp -p "$prefix$program" "$prefix$program.as-it-was"
    patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$prefix$program"
    if "$prefix$program" --version; then
        rm "$prefix$program.as-it-was"
    else
        rm "$prefix$program"
        printf '#!/bin/sh\nexec %s --argv0 "$0" --library-path %s %s "$@"\n' \
            "$loader" "$libraries" "$prefix$program.as-it-was" >"$prefix$program"
        chmod 755 "$prefix$program"
    fi
    ln -sfn "$prefix$program" "/usr/local/bin/${program##*/}"
    "/usr/local/bin/${program##*/}" --version
done
"""
#: $1 prefix, then compilers below it: a script calls each with the headers and the libraries of the prefix. There the
#: loader, which a linker reads, is a link with an absolute target: the root's own.
_LINK_COMPILERS = """
set -e
prefix=$1
shift
[ $# = 0 ] || mkdir -p "$prefix/bin"
for program; do
    script=$prefix/bin/${program##*/}
    printf '#!/bin/sh\nexec %s --sysroot=%s "$@"\n' "$prefix$program" "$prefix" >"$script"
    chmod 755 "$script"
    "$script" --version
    for link in "$prefix"/lib64/*; do
        case $(readlink "$link") in "$prefix"/*) ;; /*) ln -sfn "$prefix$(readlink "$link")" "$link" ;; esac
    done
done
"""
#: A root's folder in the cache: a description's name and digest, and a number from the second on.
_ROOT_NAME = re.compile(r".+-[0-9a-f]{16}(-\d+)?")
#: Lays out a toolkit; runs in the root.
_TOOLKIT = Path(__file__).parent / "inside" / "toolkit.py"
#: Leaves of libraries what a host runs; runs in the root.
_HOST_PART = _TOOLKIT.with_name("host_part.py")


class Root(Struct, frozen=True):
    """Hold a finished root: its tree, layers, and each installed package's version."""

    description: Description
    folder: Path
    layers: tuple[str, ...]

    @property
    def tree(self) -> Path:
        """The root directory itself."""
        return self.folder / "root"

    def make_sandbox(self, binds: Sequence[BindMount] = ()) -> Sandbox:
        """Make a sandbox for commands, with ``binds`` besides the description's mounts."""
        return Sandbox(self.tree, self.description.mounts, tuple(binds))

    def read_versions(self) -> dict[str, str]:
        """Map each installed package to its version, as dpkg records it in the root."""
        return {name: version for (name, _), version in root_record.read_installed_packages(self.tree).items()}


def choose_folder(cache: Path, description: Description, wanted: Sequence[Layer] = ()) -> Path:
    """Return where the cache keeps the root of ``description``.

    The first that the layers ``wanted`` fit on.
    """
    return next(folder for folder in _list_folders(cache, description) if _can_take_layers(_read_done(folder), wanted))


def _list_folders(cache: Path, description: Description) -> Iterator[Path]:
    first = cache / "rootfs" / f"{description.name}-{description.compute_digest()}"
    yield first
    yield from (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))


def _locate_lock(folder: Path) -> Path:
    """Return the lock of the run that makes or deletes the root in ``folder``."""
    return folder.with_name(f"{folder.name}.lock")  # "ubuntu-20.04-…" has a dot


def ensure_root(
    cache: Path, description: Description, layers: Sequence[str], *, log: Path, progress: Progress = SILENT
) -> Root:
    """Make or complete the root of ``description`` with ``layers`` in it.

    A second call takes no time.

    Raises DecoupleError when mmdebstrap, apt, or a check fails, and before that when the disk cannot hold what is
    missing; what was done so far stays and the next call goes on.
    """
    wanted = [description.find_layer(name) for name in layers]
    folder = choose_folder(cache, description, wanted)
    root = Root(description, folder, tuple(layers))
    if _is_complete(_read_done(folder), wanted) and not verify_root(root):
        return root  # without the lock: whoever holds it only adds layers
    waited = False

    def report_wait() -> None:
        nonlocal waited
        progress.start(f"waits for the run that makes the Debian root {folder.name}")
        waited = True

    with hold_lock(_locate_lock(folder), report_wait) as held:
        if waited:
            progress.finish("it is over")
        done = _read_done(folder)
        if not _can_take_layers(done, wanted):  # who made it meanwhile has another description
            return ensure_root(cache, description, layers, log=log, progress=progress)
        refuse_if_full(description, wanted, folder)
        missing = [layer for layer in wanted if not _has_layer(done, layer)]
        pinned = [piece for layer in missing for piece in layer.pinned_files]
        fetched = start_work(lambda: fetch_pypi_files(pinned, cache / "pypi", log))  # while apt fetches and unpacks
        if not done.bootstrap:
            if folder.exists():
                _remove_folder(folder)
            progress.start(f"Debian {description.bootstrap.suite} root")
            _bootstrap_root(description, folder, log, held)
            root_record.update_record(root.tree, folder, Path(description.bootstrap.keyring))
            done.bootstrap = True
            _write_done(folder, done)
            progress.finish()
        for layer in missing:
            progress.start(f"layer {layer.name}", None)
            shared = {piece["prefix"] for other in done.layers.values() for piece in other.get("pypi", ())}
            lacking = _leave_out_present(done, layer)
            _install_layer(root, lacking, fetched, log, description.bootstrap, held, shared)
            prefixes = [piece.prefix for piece in layer.unpacked_parts]
            root_record.update_record(root.tree, folder, Path(description.bootstrap.keyring), prefixes)
            done.layers[layer.name] = {"digest": compute_layer_digest(layer), **layer.describe_content()}
            _write_done(folder, done)
            progress.finish()
        faults = verify_root(root)
        if faults:
            raise DecoupleError(
                f"{folder}: {faults[0]}",
                next_step=f"rm {folder / _DONE}, and run again: the root is made anew",
            )
    return root


def estimate_root(cache: Path, description: Description, layers: Sequence[str]) -> RootEstimate | None:
    """Estimate what making the root of ``description`` with ``layers`` still takes.

    None where it is there.
    """
    wanted = [description.find_layer(name) for name in layers]
    folder = choose_folder(cache, description, wanted)
    done = _read_done(folder)
    missing: list[Bootstrap | Layer] = [layer for layer in wanted if not _has_layer(done, layer)]
    if not done.bootstrap:
        missing.insert(0, description.bootstrap)
    if not missing:
        return None
    label = f"{description.name} root" if not done.bootstrap else f"{description.name} root, what it lacks"
    return RootEstimate(
        label, folder, sum(layer.seconds for layer in missing), sum(layer.disk_mib for layer in missing)
    )


def _is_complete(done: _RootRecord, wanted: Sequence[Layer]) -> bool:
    return done.bootstrap and all(_has_layer(done, layer) for layer in wanted)


def _has_layer(done: _RootRecord, layer: Layer) -> bool:
    """Return whether the layer is there, by its name or in all that it has."""
    recorded = done.layers.get(layer.name)
    if recorded:
        return bool(recorded["digest"] == compute_layer_digest(layer))
    content = _make_plain(layer.describe_content())
    return any(content.values()) and all(_is_there(done, kind, item) for kind in content for item in content[kind])


def _leave_out_present(done: _RootRecord, layer: Layer) -> Layer:
    """Return what of ``layer`` is to be installed: a foreign program may be in use.

    Its packages are left to apt, which knows them.
    """
    content = _make_plain(layer.describe_content())

    def list_missing(kind: str, pieces: Sequence[_Piece]) -> tuple[_Piece, ...]:
        items = content.get(kind, ())
        return tuple(piece for piece, item in zip(pieces, items, strict=True) if not _is_there(done, kind, item))

    return replace(
        layer,
        pip=list_missing("pip", layer.pip),
        foreign=list_missing("foreign", layer.foreign),
        pypi=list_missing("pypi", layer.pypi),
    )


def _is_there(done: _RootRecord, kind: str, item: Any) -> bool:
    return any(item in layer.get(kind, ()) for layer in done.layers.values())


def _make_plain(content: dict[str, Any]) -> dict[str, Any]:
    """Return ``content`` as it is read from JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def is_made(folder: Path) -> bool:
    """Return whether the root in ``folder`` is made, with whatever layers."""
    return _read_done(folder).bootstrap


def refuse_if_full(description: Description, wanted: Sequence[Layer], folder: Path) -> None:
    """Raise DecoupleError (another machine could) when the disk cannot hold the rest."""
    done = _read_done(folder)
    missing = sum(layer.disk_mib for layer in wanted if not _has_layer(done, layer))
    if not done.bootstrap:
        missing += description.bootstrap.disk_mib
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free >> 20
    if free < missing:
        raise DecoupleError(
            f"{folder}: {missing / 1024:.1f} GiB of disk are needed, {free / 1024:.1f} GiB are free",
            next_step=f"free {(missing - free) / 1024:.1f} GiB, or name a folder on a larger disk in DECOUPLE_CACHE",
            code=CANNOT_HERE,
        )


def verify_root(root: Root) -> list[str]:
    """List what a finished root lacks, one line each.

    Packages not installed, pieces not unpacked, mounts left behind.
    """
    faults = [f"{point} is still mounted" for point in list_mounts(root.folder)]
    versions = root.read_versions()
    for name in root.layers:
        layer = root.description.find_layer(name)
        faults += [f"package {package} is not installed" for package in layer.packages if package not in versions]
        prefixes = [piece.prefix for piece in (*layer.pypi, *layer.unpacked_parts, *layer.debs)]
        for prefix in prefixes:
            if not (root.tree / prefix.lstrip("/")).is_dir():
                faults.append(f"{prefix} was not unpacked")
    return faults


def find_changed_versions(root: Root) -> list[str]:
    """List packages whose version is not the one last seen (a notice, not a fault).

    Each is "name: seen X, now Y".
    """
    versions = root.read_versions()
    seen = {name: version for layer in root.layers for name, version in root.description.find_layer(layer).seen.items()}
    return [
        f"{name}: seen {seen[name]}, now {versions[name]}" for name in sorted(seen) if versions.get(name) != seen[name]
    ]


def list_roots(cache: Path, description: Description | None = None) -> list[Path]:
    """List the folders of the roots in the cache, made or half made.

    Those of ``description``; None: of all, also of descriptions that are no more.
    """
    if description is None:
        found = (path for path in (cache / "rootfs").glob("*") if _ROOT_NAME.fullmatch(path.name))
        return sorted(path for path in found if path.is_dir() and not path.is_symlink())
    first = next(_list_folders(cache, description))
    return [path for path in (first, *sorted(first.parent.glob(f"{first.name}-*"))) if path.is_dir()]


def remove_root(folder: Path, report_wait: Callable[[], None] = lambda: None) -> None:
    """Delete the root in ``folder``, once no run makes it.

    ``report_wait`` is called before it waits for that. Raises DecoupleError when something is mounted below it, or a
    command runs in it.
    """
    lock = _locate_lock(folder)
    with hold_lock(lock, report_wait):
        _refuse_used_root(folder)
        _remove_folder(folder)
    lock.unlink(missing_ok=True)


def _refuse_used_root(folder: Path) -> None:
    """Raise DecoupleError where a process has the root as its own, as a build has.

    A complete root is used without its lock. Processes that this user may not look at are not seen.
    """
    try:
        tree = (folder / "root").stat()
    except FileNotFoundError:
        return
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or is another user's
            if os.path.samestat((process / "root").stat(), tree):
                raise DecoupleError(
                    f"{folder}: process {process.name} runs in it; not deleted",
                    next_step="wait until it ends, or stop it",
                )


def _remove_folder(folder: Path) -> None:
    if is_root():
        remove_tree(folder)
        return
    mounted = list_mounts(folder)
    if mounted:
        raise DecoupleError(f"{folder}: {mounted[0]} is mounted there; not deleted", next_step=f"umount {mounted[0]}")
    mark_step(f"delete {folder.name}")
    check_sandbox()
    done = program_output.run_program([*make_owner_prefix(), "rm", "-rf", "--one-file-system", str(folder)])
    if done.returncode:
        raise DecoupleError(f"{folder}: not deleted: {done.stderr.strip()}", next_step="delete it as root")


_DONE = "done.json"


class _RootRecord(Struct):
    """Hold ``done.json``: what of a root is finished, and its layers' content then."""

    bootstrap: bool = False
    layers: dict[str, Any] = field(default_factory=dict)


def _read_done(folder: Path) -> _RootRecord:
    path = folder / _DONE
    if not path.exists():
        return _RootRecord()
    return read_json(path, _RootRecord, mend=f"rm {path}, and run again: the root is made anew")


def _write_done(folder: Path, done: _RootRecord) -> None:
    mark_step("record a stage of the root")
    write_atomically(folder / _DONE, json.dumps(asdict(done), indent=2, sort_keys=True) + "\n")


def _can_take_layers(done: _RootRecord, wanted: Sequence[Layer]) -> bool:
    """Return whether each layer that is there and ``wanted`` is as it should be.

    One that lacks only what can be put on top is.
    """
    return all(_is_extension(done.layers[layer.name], layer) for layer in wanted if layer.name in done.layers)


def _is_extension(recorded: dict[str, Any], layer: Layer) -> bool:
    """Return whether the layer of today is what was recorded, with nothing taken away."""
    content = _make_plain(layer.describe_content())
    return all(
        all(item in content.get(kind, ()) for item in recorded.get(kind, ()))
        for kind in ("packages", "pypi", "beside", "pip", "foreign", "toolkit", "debs")
    )


def _bootstrap_root(description: Description, folder: Path, log: Path, held: int) -> None:
    """Run mmdebstrap.

    It holds the lock ``held`` as well, also when this process is killed.
    """
    if shutil.which("mmdebstrap") is None:
        raise DecoupleError("mmdebstrap: not found", next_step="apt-get install mmdebstrap")
    bootstrap = description.bootstrap
    folder.mkdir(parents=True, exist_ok=True)
    mark_step("bootstrap the root")
    run_logged(
        [
            *make_mounting_prefix(),  # mmdebstrap's own mode "unshare" gives the root to an id that enters no home
            "mmdebstrap",
            "--quiet",
            "--mode=root",
            f"--variant={bootstrap.variant}",
            f"--components={','.join(bootstrap.components)}",
            f"--keyring={bootstrap.keyring}",
            "--dpkgopt=force-unsafe-io",  # as the layers: a root that a crash cut off is made anew
            "--skip=cleanup/apt/lists",  # the first layer asks whether they are the newest
            *([f"--include={','.join(bootstrap.include)}"] if bootstrap.include else []),
            bootstrap.suite,
            str(folder / "root"),
            bootstrap.mirror,
            *bootstrap.sources,
        ],
        log=log,
        what=f"mmdebstrap {bootstrap.suite}",
        held=(held,),
    )


def _install_layer(
    root: Root,
    layer: Layer,
    fetched: Future[dict[str, Path]],
    log: Path,
    bootstrap: Bootstrap,
    held: int,
    shared: Collection[str] = (),
) -> None:
    """Install ``layer``; ``fetched`` maps the names of PyPI's files to where they are.

    Its processes hold the lock ``held``. In the prefixes that are ``shared`` another layer has files of PyPI, too.
    """

    def run_inside(script: str, arguments: Sequence[str], what: str, *binds: BindMount, network: bool = True) -> None:
        resolver = BindMount(Path("/etc/resolv.conf"), "/etc/resolv.conf")
        argv = [*make_clean_environment({}, network=network), "sh", "-c", script, "sh", *arguments]
        command = root.make_sandbox([resolver, *binds]).make_command(argv, network=network)
        run_logged(command, log=log, what=what, held=(held,))

    if layer.packages:
        mark_step(f"install layer {layer.name}")
        run_inside(_APT, layer.packages, f"apt-get install (layer {layer.name})")
    if layer.pip:
        files = [fetched.result()[tool.file] for tool in layer.pip]
        mark_step(f"install tools of layer {layer.name}")
        binds = [BindMount(file, f"/run/pip/{file.name}") for file in files]
        script = 'exec python3 -m pip install -q --no-index --no-deps --ignore-installed "$@"'
        run_inside(script, [bind.inside for bind in binds], f"pip install (layer {layer.name})", *binds, network=False)
    for foreign in layer.foreign:
        mark_step(f"unpack {foreign.prefix}")
        keyring = BindMount(Path(bootstrap.keyring), "/run/keyring.gpg")
        given = (foreign.prefix, foreign.suite, bootstrap.mirror, keyring.inside, "main", "with all", *foreign.packages)
        run_inside(_FOREIGN, given, f"unpack {foreign.prefix}", keyring)
        run_inside(_LINK_FOREIGN, (foreign.prefix, *foreign.programs), f"link {foreign.prefix}", network=False)
        run_inside(_LINK_COMPILERS, (foreign.prefix, *foreign.compilers), f"link {foreign.prefix}", network=False)
        for path, target in foreign.links:
            run_inside('ln -sfn "$2" "$1"', (path, target), f"link {path}", network=False)
    for toolkit in layer.toolkit:
        files = [fetched.result()[wheel.file] for wheel in toolkit.wheels]
        mark_step(f"unpack {toolkit.prefix}")
        keyring, packages = BindMount(Path(bootstrap.keyring), "/run/keyring.gpg"), f"{toolkit.prefix}.packages"
        given = (packages, toolkit.suite, bootstrap.mirror, keyring.inside, " ".join(toolkit.components), "alone")
        run_inside(_FOREIGN, (*given, *toolkit.packages), f"unpack {toolkit.prefix}", keyring)
        binds = [BindMount(file, f"/run/pip/{file.name}") for file in files]
        asked = {"prefix": toolkit.prefix, "packages": packages, "wheels": [bind.inside for bind in binds]}
        words = json.dumps({**asked, "take": toolkit.take, "whole": toolkit.whole})
        script = 'exec python3 -c "$1" "$2"'
        what = f"lay out {toolkit.prefix}"
        run_inside(script, (_TOOLKIT.read_text(encoding="utf-8"), words), what, *binds, network=False)
    for debs in layer.debs:
        mark_step(f"unpack {debs.prefix}")
        code = _HOST_PART.read_text(encoding="utf-8") if debs.host_part else ""
        pinned = (word for file in debs.files for word in file)
        given = (debs.prefix, bootstrap.mirror, code, json.dumps(dict(debs.older)), *pinned)
        run_inside(_DEBS, given, f"unpack {debs.prefix}: a version that left the archive is named in the log")
    for piece in layer.beside:
        mark_step(f"unpack {piece.prefix}")
        run_inside(_BESIDE, (piece.prefix, *piece.packages), f"unpack {piece.prefix}")
    for wheel in layer.pypi:
        file = fetched.result()[wheel.file]
        mark_step(f"unpack {wheel.prefix}")
        links = "".join(
            f' && mkdir -p "$(dirname "$1/{name}")" && ln -sfn "{target}" "$1/{name}"' for name, target in wheel.links
        )
        script = f'mkdir -p "$1" && python3 -m zipfile -e "$2" "$1"{links}'
        before = {*shared, *(other.prefix for other in layer.pypi[: layer.pypi.index(wheel)])}
        if wheel.prefix not in before:  # several may share it
            script = f'rm -rf "$1" && {script}'
        bind = BindMount(file, f"/run/{wheel.file}")
        run_inside(script, (wheel.prefix, bind.inside), f"unpack {wheel.prefix}", bind, network=False)


def fetch_pypi_files(
    pieces: Sequence[PypiPiece | PipTool], folder: Path, log: Path, run: Callable[..., None] = run_logged
) -> dict[str, Path]:
    """Fetch files of PyPI into ``folder`` by pip; returns the path of each name.

    Pip verifies the hash and knows the user's own index settings. It is started once for all files of a Python.

    Raises DecoupleError when one cannot be had or is not the one described.
    """
    made = {piece.file: folder / piece.file for piece in pieces}
    missing: dict[tuple[str, ...], dict[str, PypiPiece | PipTool]] = {}
    for piece in pieces:
        if not made[piece.file].exists():
            missing.setdefault(_make_python_options(piece.file), {})[piece.file] = piece
    if missing and importlib.util.find_spec("pip") is None:
        raise explain_missing("pip", "build")
    for options, asked in missing.items():
        _download_files(list(asked.values()), options, folder, log, run)
    for piece in pieces:
        path = made[piece.file]
        if not path.exists() or compute_sha256(path) != piece.sha256:
            raise DecoupleError(
                f"{path}: not the file with SHA-256 {piece.sha256[:12]}…", next_step=f"delete {path} and run again"
            )
    return made


def _download_files(
    pieces: Sequence[PypiPiece | PipTool], options: Sequence[str], folder: Path, log: Path, run: Callable[..., None]
) -> None:
    names = ", ".join(f"{piece.project}=={piece.version}" for piece in pieces)
    platforms = sorted({platform for piece in pieces for platform in _list_platforms(piece.file)})
    lines = (f"{piece.project}=={piece.version} --hash=sha256:{piece.sha256}\n" for piece in pieces)
    told = [*(f"--platform={platform}" for platform in platforms), *options]
    # pip copies its files to their place piece by piece, and other checkouts use this folder
    with make_work_folder(folder, pieces[0].project) as work:
        wanted = work / "requirements.txt"
        write_atomically(wanted, "".join(lines))
        argv = [*OWN, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-d", str(work)]
        if all((folder / piece.file).exists() for piece in pieces):
            return  # another run fetched them while this one waited
        run([*argv, *told, "-r", str(wanted)], log=log, what=f"pip download {names}")
        for piece in pieces:
            if (work / piece.file).exists():
                (work / piece.file).replace(folder / piece.file)


def _list_platforms(file: str) -> set[str]:
    """Return the platforms that a wheel names (PEP 425): none for one of all."""
    return {tag.platform for tag in parse_wheel_filename(file)[3]} - {"any"}


def _make_python_options(file: str) -> tuple[str, ...]:
    """Make pip's options for a wheel of another Python: none for one of any."""
    tags = {(tag.interpreter, tag.abi) for tag in parse_wheel_filename(file)[3] if tag.interpreter.startswith("cp")}
    return tuple(
        option
        for interpreter, abi in sorted(tags)
        for option in (f"--python-version={interpreter[2:]}", "--implementation=cp", f"--abi={abi}")
    )
