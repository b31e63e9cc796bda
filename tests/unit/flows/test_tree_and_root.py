"""The tree and the root are made at once where there is neither; what is said of both stays readable."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_project
from decouple.build import preflight, rootfs, settings
from decouple.flows import build, portable_environment, work_environment
from decouple.flows.build import build_wheels
from decouple.flows.build_request import BuildRequest
from decouple.flows.listener import Listener
from decouple.flows.work_environment import WorkRequest, ensure_tree, needs_root, prepare_tree_and_root

LAYERS = ["core"]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkRequest:
    """A checkout without a tree, whose builds run in the Debian root."""
    monkeypatch.setattr(preflight, "check_root", lambda *_: None)
    missing = rootfs.RootEstimate("Debian root", tmp_path / "root", 120, 2500)
    monkeypatch.setattr(rootfs, "estimate_root", lambda *_: missing)
    return WorkRequest(tmp_path, "2.6", env="rootfs")


def stand_in(
    monkeypatch: pytest.MonkeyPatch, tree: Callable[[Listener], None], root: Callable[[Listener], None]
) -> None:
    monkeypatch.setattr(
        work_environment, "ensure_tree", lambda work, places, listener, layers, check=True: tree(listener)
    )
    monkeypatch.setattr(portable_environment, "make_root", lambda described, called, layers, listener: root(listener))


def test_neither_waits_for_the_other_and_lines_do_not_mix(work: WorkRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    tree_begun, root_made, said = threading.Event(), threading.Event(), list[str]()

    def make_tree(listener: Listener) -> None:
        listener.say("baseline")
        tree_begun.set()
        assert root_made.wait(20), "the root waited for the tree"
        listener.say("patches applied")

    def make_root(_: Listener) -> None:
        assert tree_begun.wait(20), "the tree waited for the root"
        said.append("root")
        root_made.set()

    stand_in(monkeypatch, make_tree, make_root)
    prepare_tree_and_root(work, work.places, LAYERS, Listener(said.append))
    assert said == ["root", "baseline", "patches applied"]


def test_an_error_of_the_tree_is_told_at_once_and_raised_behind_the_root(
    work: WorkRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned, told, made = list[str](), threading.Event(), list[str]()

    def warn(line: str) -> None:
        warned.append(line)
        told.set()

    def make_tree(_: Listener) -> None:
        raise DecoupleError("host: does not answer", next_step="try again")

    def make_root(_: Listener) -> None:
        assert told.wait(20), "nobody heard of the error while the root was made"
        made.append("root")

    stand_in(monkeypatch, make_tree, make_root)
    with pytest.raises(DecoupleError, match="does not answer"):
        prepare_tree_and_root(work, work.places, LAYERS, Listener(warn=warn))
    assert made and "does not answer" in warned[0]


def test_no_root_is_made_for_a_release_that_debian_has_no_source_of(
    work: WorkRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gigabytes were fetched, and then the tree could not be had."""
    made = list[str]()
    stand_in(monkeypatch, lambda _: made.append("tree"), lambda _: made.append("root"))
    (work.project / "series").mkdir()
    shutil.copy(find_project() / "series/2.7.toml", work.project / "series")
    work = replace(work, release="2.7")
    with pytest.raises(UsageError, match="Debian has no source"):
        prepare_tree_and_root(work, work.places, LAYERS, Listener())
    assert not made


@pytest.mark.parametrize("there", ["nothing", "root", "tree"])
def test_what_no_machine_builds_is_said_before_what_this_one_lacks(
    work: WorkRequest, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    def lack_namespaces(*_: object) -> None:
        raise DecoupleError("unshare does not work here", next_step="run as root")

    monkeypatch.setattr(preflight, "check_root", lack_namespaces)
    (work.project / "series").mkdir()
    shutil.copy(find_project() / "series/2.7.toml", work.project / "series")
    work = replace(work, release="2.7")
    if there == "root":
        monkeypatch.setattr(rootfs, "estimate_root", lambda *_: None)
    elif there == "tree":
        work.places.tree.mkdir(parents=True)
    with pytest.raises(UsageError, match="Debian has no source"):
        prepare_tree_and_root(work, work.places, LAYERS, Listener())


def test_a_machine_that_is_too_small_is_named_behind_a_release_that_no_machine_builds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "read_available_memory", lambda: 1)
    with pytest.raises(UsageError, match="Debian has no source"):
        build_wheels(BuildRequest(find_project(), "2.7", env="rootfs"))


def test_an_error_of_the_root_does_not_wait_for_the_tree(work: WorkRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def make_root(_: Listener) -> None:
        raise DecoupleError("mmdebstrap: no signature", next_step="try again")

    def make_tree(_: Listener) -> None:
        over.wait(60)

    stand_in(monkeypatch, make_tree, make_root)
    with pytest.raises(DecoupleError, match="no signature"):
        prepare_tree_and_root(work, work.places, LAYERS, Listener())
    over.set()


@pytest.mark.parametrize("there", ["tree", "named tree", "root"])
def test_what_is_there_leaves_nothing_to_do_at_once(
    work: WorkRequest, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    """What is wrong with a tree is said before the minutes of a root, and how far it is while nothing else goes on."""
    if there == "tree":
        work.places.tree.mkdir(parents=True)
    elif there == "named tree":
        work = replace(work, tree=work.project / "mine")
    else:
        monkeypatch.setattr(rootfs, "estimate_root", lambda *_: None)
    order, listener = list[str](), Listener()

    def make_tree(heard: Listener) -> None:
        assert heard is listener, "its lines are held back"
        order.append("tree")

    stand_in(monkeypatch, make_tree, lambda _: order.append("root"))
    prepare_tree_and_root(work, work.places, LAYERS, listener)
    assert order == ["tree", "root"]


def test_a_tree_that_is_built_in_the_debian_root_for_want_of_nvcc_needs_debians_patches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--env auto` asked whether the machine has CUDA for the root alone, and compiled a tree that the root cannot."""
    programs, tree = tmp_path / "bin", tmp_path / "tree"
    programs.mkdir()
    for name in ("cmake", "ninja", "c++", "git", "python3"):
        (programs / name).symlink_to("/bin/true")  # nothing is missing
    for name in settings.read_facts().host.submodules:
        (tree / "third_party" / name / "src").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("CUDACXX", raising=False)
    work = WorkRequest(tmp_path, "2.6", tree=tree)
    ensure_tree(work, work.places, Listener(), ["core"], check=False)
    assert not needs_root(work, work.places, ["core"])
    assert needs_root(work, work.places, ["core", "cuda"])
    with pytest.raises(UsageError, match="without Debian's patches, which the Debian root needs"):
        ensure_tree(work, work.places, Listener(), ["core", "cuda"], check=False)


def test_the_disk_is_not_checked_beside_a_root_that_is_half_there(
    work: WorkRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written of a layer is free no more, and the whole layer still counts as missing."""
    checked, applied = list[str](), threading.Event()
    monkeypatch.setattr(preflight, "check_root", lambda *_: checked.append(threading.current_thread().name))

    def apply_series(*_: object) -> None:
        (work.places.tree / "debian" / "patches").mkdir(parents=True)
        applied.set()

    monkeypatch.setattr(work_environment, "apply_series", apply_series)
    monkeypatch.setattr(portable_environment, "make_root", lambda *_: applied.wait(20))
    prepare_tree_and_root(work, work.places, LAYERS, Listener())
    assert applied.is_set()
    assert checked == ["MainThread"]


def test_an_interrupt_is_not_answered_by_the_git_that_it_ended(
    work: WorkRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted, warned = threading.Event(), list[str]()

    def make_tree(_: Listener) -> None:
        interrupted.wait(20)
        raise DecoupleError("git: ended by a signal", next_step="try again")

    def make_root(_: Listener) -> None:
        raise KeyboardInterrupt

    stand_in(monkeypatch, make_tree, make_root)
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        prepare_tree_and_root(work, work.places, LAYERS, Listener(warn=warned.append))
    interrupted.set()
    while threading.active_count() > threads:
        pass
    assert not warned


def test_third_party_code_comes_while_the_root_is_made(work: WorkRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for behind the tree, which may bring its own."""
    order, bundled = list[str](), threading.Event()

    def bundle_third_party(places: object, folder: object, listener: object, components: list[str]) -> None:
        order.append(f"third-party: {', '.join(components)}")
        bundled.set()

    def make_root(_: Listener) -> None:
        assert bundled.wait(20), "the root was made first"

    stand_in(monkeypatch, lambda _: order.append("tree"), make_root)
    monkeypatch.setattr(portable_environment, "bundle_third_party", bundle_third_party)
    work = replace(work, env="portable")
    prepare_tree_and_root(work, work.places, LAYERS, Listener(), ["fmt", "kineto"])
    assert order == ["tree", "third-party: fmt, kineto"]
