"""Making, checking and removing the Debian root of a description.

A root lies in ``<cache>/rootfs/<name>-<digest>/``: ``root`` is the tree, ``done.json`` says which stages are in it.
Every stage is recorded after it was carried out, so a run that was interrupted goes on with the first stage that is
not recorded. A layer that only gained packages gets the new ones on top. Checkouts share the cache: a root that has
what this description lacks may be in use by another one, so it stays, and ``…-2`` is made beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from decouple.base import program_output
from decouple.base.background import start_work
from decouple.base.errors import CANNOT_HERE, DecoupleError
from decouple.base.files import hold_lock, write_atomically
from decouple.base.mounts import list_mounts, remove_tree
from decouple.base.process import run_logged
from decouple.base.progress import SILENT, Progress
from decouple.base.steps import mark_step
from decouple.base.untrusted_input import read_json
from decouple.build import pypi_files, root_record
from decouple.build.estimate import RootEstimate
from decouple.build.root_description import Bootstrap, Description, Layer, compute_layer_digest
from decouple.build.root_layers import LayerInstaller
from decouple.build.sandbox import (
    BindMount,
    Sandbox,
    check_sandbox,
    is_root,
    make_mounting_prefix,
    make_owner_prefix,
)

_Piece = TypeVar("_Piece")

#: A root's folder in the cache: a description's name and digest, and a number from the second on.
_ROOT_NAME = re.compile(r".+-[0-9a-f]{16}(-\d+)?")


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
        fetched = start_work(
            lambda: pypi_files.fetch_pypi_files(pinned, cache / "pypi", log)
        )  # while apt fetches and unpacks
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
            LayerInstaller(root.make_sandbox, description.bootstrap, fetched, log, held).install_layer(lacking, shared)
            prefixes = [piece.prefix for piece in layer.unpacked_parts]
            root_record.update_record(root.tree, folder, Path(description.bootstrap.keyring), prefixes)
            done.layers[layer.name] = {"digest": compute_layer_digest(layer), **layer.describe_content()}
            _write_done(folder, done)
            progress.finish()
        faults = verify_root(root)
        if faults:
            raise DecoupleError(
                f"{folder}: {faults[0]}",
                next_step=f"rm {shlex.quote(str(folder / _DONE))}, and run again: the root is made anew",
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

    Layers and packages not installed, pieces not unpacked, mounts left behind.
    """
    faults = [f"{point} is still mounted" for point in list_mounts(root.folder)]
    versions, done = root.read_versions(), _read_done(root.folder)
    for name in root.layers:
        layer = root.description.find_layer(name)
        if not _has_layer(done, layer):  # another may have made the folders of its pieces
            faults.append(f"layer {name} was not installed")
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
    return read_json(path, _RootRecord, mend=f"rm {shlex.quote(str(path))}, and run again: the root is made anew")


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
