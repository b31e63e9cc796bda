"""The tree and the root are made at once where there is neither; what is said of both stays readable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.build import preflight
from decouple.flows import portable_environment, work_environment
from decouple.flows.listener import Listener
from decouple.flows.work_environment import WorkRequest, prepare_tree_and_root

LAYERS = ["core"]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkRequest:
    """A checkout without a tree, whose builds run in the Debian root."""
    monkeypatch.setattr(preflight, "check_root", lambda *_: None)
    return WorkRequest(tmp_path, "2.6", env="rootfs")


def stand_in(
    monkeypatch: pytest.MonkeyPatch, tree: Callable[[Listener], None], root: Callable[[Listener], None]
) -> None:
    monkeypatch.setattr(work_environment, "ensure_tree", lambda work, places, listener, layers: tree(listener))
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


def test_a_tree_that_is_there_comes_first_as_does_one_that_was_named(
    work: WorkRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with it is said before the minutes of a root."""
    work.places.tree.mkdir(parents=True)
    order = list[str]()
    stand_in(monkeypatch, lambda _: order.append("tree"), lambda _: order.append("root"))
    prepare_tree_and_root(work, work.places, LAYERS, Listener())
    assert order == ["tree", "root"]
