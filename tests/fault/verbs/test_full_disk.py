"""A disk that is full for verbs that write many things: one line that says so, nothing half-written, and a way on."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support import kills
from tests.support.small_disk import fill, small_disk

__all__ = ["small_disk"]  # a fixture

VERBS = {
    "apply, cold": (0, 96 << 10, 400 << 10),
    "apply, warm": (0, 64 << 10),
    "rebase": (0, 64 << 10),
    "wheels": (0, 1 << 20),
    "index build": (0, 12 << 10),
    "index build, a new site": (1 << 20,),
    "build": (0, 48 << 10),
    "split": (0, 1 << 20, 3 << 20),
    "pair": (0, 1 << 20),
}
VERBS |= {verb: (0, 12 << 10) for verb in kills.VERBS if verb not in VERBS and verb != "clean"}
"""Verb -> how many bytes are left: at once none, or so many that it fails in the middle. ``clean`` needs none."""


@pytest.mark.disk(48)
@pytest.mark.parametrize(("verb", "leave"), [(verb, leave) for verb, leaves in VERBS.items() for leave in leaves])
def test_a_full_disk_is_named_and_the_command_goes_on_when_there_is_space(
    small_disk: Path, tmp_path: Path, verb: str, leave: int
) -> None:
    make, place, said, kept = kills.VERBS[verb], small_disk / "world", tmp_path / "said", tmp_path / "kept"
    place.mkdir()
    make(place)
    shutil.copytree(place, kept, symlinks=True)
    scene = make(place)
    old = scene.look()
    kills.finished(scene.action, said, scene.code)
    new = scene.look()
    shutil.rmtree(place)
    shutil.copytree(kept, place, symlinks=True)
    scene = make(place)

    filler = fill(small_disk, leave)
    code = kills.start(scene.action, said).wait()
    text = said.read_text()
    filler.unlink()
    if code:
        lines = [line for line in text.splitlines() if line.startswith(("decouple: ", "  next: "))]
        assert 1 <= len(lines) <= 2 and lines[0].startswith("decouple: "), text
        assert "Traceback" not in text
        assert re.search(r"no space|disk is full", lines[0], re.I), text
        assert "network" not in lines[-1], text
        seen = scene.look()
        assert not kills.strange(seen, old, new)
        assert scene.between or seen in (old, new)
    else:
        assert leave, "it cannot have worked without a byte to write to"
    assert scene.holds() == ""
    if scene.look() != new:
        kills.finished(scene.action, said, scene.code)
        assert scene.look() == new
