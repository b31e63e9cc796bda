"""Open the applied tree and the layered environment where builds' commands run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.background import await_work, start_work
from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import hold_lock
from decouple.base.git import Repository
from decouple.base.paths import find_cache
from decouple.build import host, preflight, root_description, rootfs, toolkits
from decouple.build.environment import Environment, HostEnvironment, Places, RootEnvironment
from decouple.build.toolchain import list_overrides
from decouple.flows import portable_environment
from decouple.flows.apply import ApplyRequest, apply_series
from decouple.flows.listener import QUIET, Listener
from decouple.stack.journal import Journal
from decouple.upstream.manifests import load_release


class WorkRequest(Struct, frozen=True):
    """What every flow that builds, or tries what was built, is told."""

    project: Path
    """The checkout."""
    release: str
    env: str = "auto"
    """Whose toolchain: "host", "rootfs", "portable", or "auto" (the host's when it suffices, else "rootfs")."""
    tree: Path | None = None
    """The applied tree; None: ``build/<release>/src``, made when it is not there."""
    third_party: Path | None = None
    """With "portable": a folder laid out as upstream's third_party; None: the source's, or the listed components."""

    @property
    def places(self) -> Places:
        """The folders of this release's build."""
        return Places.of_release(self.project, self.release, find_cache(), self.tree and self.tree.resolve())


@contextlib.contextmanager
def hold_trials(places: Places, command: str = "") -> Iterator[None]:
    """Keep `clean`, and a second ``command``, away from environments of trials.

    Without ``command`` `clean` alone. Raises DecoupleError while either is at work there.
    """

    def refuse_clean() -> None:
        raise DecoupleError(f"{places.verify}: `decouple clean` deletes it", next_step="run the command again")

    def refuse_second() -> None:
        raise DecoupleError(
            f"{places.verify}: another `decouple {command}` works there", next_step="wait until it ends, or stop it"
        )

    places.verify.mkdir(parents=True, exist_ok=True)
    own = places.verify / f".{command.replace(' ', '-')}.lock"
    with hold_lock(places.verify, refuse_clean, shared=True):
        with hold_lock(own, refuse_second) if command else contextlib.nullcontext():
            yield


def open_environment(
    work: WorkRequest, places: Places, layers: list[str], listener: Listener, components: Collection[str] = ()
) -> Environment:
    """Open the environment that ``work.env`` names, with ``layers`` of the root.

    Raises DecoupleError naming what lacks.

    ``components`` are the third-party folders that are read, where not all are.
    """
    if work.env == portable_environment.KIND:
        check_machine(work, places, layers)
        bundled = portable_environment.bundle_third_party(places, work.third_party, listener, components)
        return portable_environment.open_portable(places, layers, bundled, listener)
    if _can_use_host(work, places, cuda=toolkits.has_cuda(layers)):
        listener.say("environment: this machine's own toolchain")
        return HostEnvironment(places)
    root = portable_environment.make_root(root_description.load_description(), "Debian", layers, listener)
    return RootEnvironment(places, root, list_overrides(places))


def check_machine(work: WorkRequest, places: Places, layers: Sequence[str] = ()) -> None:
    """Raise DecoupleError where this machine cannot make or enter the root.

    The root is the one that the work needs. That is seconds before the first download, not minutes behind it. What no
    machine can build is said first.
    """
    refuse_without_debian(work, places, layers)
    if work.env == portable_environment.KIND:
        preflight.check_root(find_cache(), root_description.load_description(root_description.PORTABLE), layers)
    elif not _can_use_host(work, places, cuda=toolkits.has_cuda(layers)):
        preflight.check_root(find_cache(), root_description.load_description(), layers)


def ensure_tree(
    work: WorkRequest, places: Places, listener: Listener, layers: Sequence[str] = (), *, check: bool = True
) -> None:
    """Fetch and apply first when there is no fitting tree.

    So one command goes from nothing to wheels. ``layers`` are those of the root in which it will be used: whether this
    machine can hold it is tried before, without ``check`` by the caller.

    The Debian root has no third_party: there the tree carries Debian's own patches below ours. The portable one builds
    upstream's own tree, with the components shown in it.
    """
    check_named_tree(work, places)
    for _ in range(2):  # whether the source has submodules, and so whether the host suffices, is known once it is there
        bundled = work.env == portable_environment.KIND
        debian = not bundled and not _can_use_host(work, places, cuda=toolkits.has_cuda(layers))
        if check:
            check_machine(work, places, layers)
        has = (places.tree / "debian" / "patches").is_dir()
        if places.tree.is_dir() and (has or not debian) and not (has and bundled):
            return
        if work.tree is not None:
            raise UsageError(
                f"{places.tree}: with Debian's patches, which replace the third-party code that portable wheels bundle"
                if bundled
                else f"{places.tree}: without Debian's patches, which the Debian root needs",
                next_step=f"decouple apply {work.release}" + ("" if bundled else " --debian-patches"),
            )
        apply_series(
            ApplyRequest(
                work.project, work.release, _choose_source(work, places, debian=debian), debian_patches=debian
            ),
            listener,
        )


def check_named_tree(work: WorkRequest, places: Places) -> None:
    """Raise UsageError where ``--tree`` names no folder."""
    if work.tree is not None and not places.tree.is_dir():
        raise UsageError(
            f"{places.tree}: no such folder", next_step="leave --tree out: the release is fetched and applied"
        )


def prepare_tree_and_root(
    work: WorkRequest, places: Places, layers: list[str], listener: Listener, components: Collection[str] = ()
) -> None:
    """Make the tree with its third-party code, and the root where one is needed.

    Both at once where there is neither. The tree is made in a thread, as its steps are short and a kill may end them;
    the root, whose programs are ended with this one, is made here. What is to be said of the tree is said in one piece
    behind the root, an error at once, and it is raised then. The disk is checked once before both: a root that is half
    there would count twice.
    """
    if work.tree is not None or places.tree.is_dir() or not _lacks_root(work, places, layers):
        ensure_tree(work, places, listener, layers)
        _make_root(work, places, layers, listener)
        return
    check_machine(work, places, layers)
    told: list[tuple[Callable[[str], None], str]] = []
    held = Listener(
        lambda line: told.append((listener.say, line)), warn=lambda line: told.append((listener.warn, line))
    )

    ended = threading.Event()

    def make_tree() -> None:
        try:
            ensure_tree(work, places, held, layers, check=False)
            if work.env == portable_environment.KIND:
                portable_environment.bundle_third_party(places, work.third_party, QUIET, components)
        except DecoupleError as error:
            if not ended.is_set():  # an interrupt ends the git of this thread, too
                listener.warn(f"{error}: ends the command when the root is made, which the next run will find")
            raise

    tree = start_work(make_tree)
    try:
        _make_root(work, places, layers, listener)
    except BaseException:
        ended.set()
        raise
    try:
        await_work(tree, f"the tree of {work.release}", listener.progress)
    finally:
        for tell, line in told:
            tell(line)


def refuse_without_debian(work: WorkRequest, places: Places, layers: Collection[str]) -> None:
    """Raise UsageError where Debian has no source of a release for its root.

    That is before gigabytes are fetched for that root, and before anything that this machine lacks for it.
    """
    if (
        work.release not in Checkout(work.project).list_manifest_releases()
        or work.env == portable_environment.KIND
        or (places.tree / "debian" / "patches").is_dir()
        or not needs_root(work, places, layers)
    ):
        return
    if load_release(work.project, work.release).find_source("debian") is None:
        raise UsageError(
            f"release {work.release}: Debian has no source of it, and its root builds no other",
            next_step="--env host builds it, with your own toolchain and a source that has its submodules",
        )


def _lacks_root(work: WorkRequest, places: Places, layers: Sequence[str]) -> bool:
    """Return whether a root, or a layer of it, has to be made for the work."""
    name = [root_description.PORTABLE] if work.env == portable_environment.KIND else []
    described = root_description.load_description(*name)
    return needs_root(work, places, layers) and rootfs.estimate_root(find_cache(), described, layers) is not None


def _make_root(work: WorkRequest, places: Places, layers: list[str], listener: Listener) -> None:
    """Make the root that the environment will be opened in, which says so then."""
    quiet = Listener(progress=listener.progress)
    if work.env == portable_environment.KIND:
        described = root_description.load_description(root_description.PORTABLE)
        portable_environment.make_root(described, "portable", layers, quiet)
    elif needs_root(work, places, layers):
        portable_environment.make_root(root_description.load_description(), "Debian", layers, quiet)


def _choose_source(work: WorkRequest, places: Places, *, debian: bool) -> str:
    """Return the source that the tree is to be laid from.

    The one that it was made from, so that a tree of the user's is never exchanged for the release's. Raises UsageError
    where that has no patches of Debian's and they are needed.
    """
    state = Journal(Repository(places.tree))
    word = state.load_state().source.get("source", "auto") if places.tree.is_dir() and state.exists else "auto"
    if debian and word not in ("auto", "debian"):
        raise UsageError(
            f"{places.tree}: made from {word}, without Debian's patches, which the Debian root needs",
            next_step=f"--env portable builds it; decouple apply {work.release} --source debian --debian-patches lays "
            "Debian's source in its place",
        )
    return word


def needs_root(work: WorkRequest, places: Places, layers: Collection[str]) -> bool:
    """Return whether work runs in a Debian root, as far as is known without a tree."""
    return work.env != "host" and (
        work.env == portable_environment.KIND or not _can_use_host(work, places, cuda=toolkits.has_cuda(layers))
    )


def _can_use_host(work: WorkRequest, places: Places, *, cuda: bool) -> bool:
    """Return whether this machine's own toolchain builds.

    Raises DecoupleError when it was asked for and lacks something.
    """
    if work.env == "rootfs":
        return False
    lacks = host.list_missing(places.tree, cuda=cuda)
    if lacks and work.env == "host":
        raise DecoupleError(f"--env host: {lacks[0]}", next_step="install it, or use --env rootfs")
    return not lacks
