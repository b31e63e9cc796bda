"""Four commands at the same time on one small world: each ends well or in one line, and what they leave is whole."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support import kills
from tests.support.kills import Between, Scene, command
from tests.support.series import RELEASE, git, tree_of

Action = Callable[[], int]

FOUR = "four at once: "
_SAME = {name: name for name in ("rebase", "wheels", "index build", "build", "split")} | {"apply": "apply, cold"}


def names(real: bool) -> list[str]:
    """What can be run; on real 2.6 the stack's verbs."""
    if real:
        return [f"{FOUR}verbs of the stack"]
    same = [f"{FOUR}{name}" for name in _SAME]
    return [f"{FOUR}verbs of the stack", f"{FOUR}rebase, wheels, index build and build", *same]


def run(name: str, folder: Path, rounds: int, seed: int, first: int = 0, real: bool = False) -> dict[str, int]:
    """``rounds`` rounds below ``folder``, a new one; how many commands ended well and how many were refused.

    Raises Between for a traceback, a hang, or a state that none of the commands could have left.
    """
    told = {"rounds": 0, "well": 0, "refused": 0}
    for number in range(first, first + rounds):
        dice = random.Random(f"{seed}-{number}-{name}")
        try:
            if real:
                from tests.support import real_kills

                codes = real_kills.four(folder, dice)
            elif name.endswith("verbs of the stack"):
                codes = _stack(folder, dice)
            elif name.endswith("rebase, wheels, index build and build"):
                codes = _scenes(folder, ["rebase", "wheels", "index build", "build"])
            else:
                codes = _scenes(folder, [_SAME[name.removeprefix(FOUR)]] * 4, shared=True)
        except Between as error:
            raise Between(f"round {number}: {error}") from None
        told["rounds"] += 1
        told["well"] += codes.count(0)
        told["refused"] += len(codes) - codes.count(0)
        if not real:
            shutil.rmtree(folder)
    return told


def together(actions: list[Action], folder: Path) -> list[int]:
    """Start all, wait for all; the exit codes. Raises Between for a traceback or a code that is no answer."""
    said = [folder / f"said{number}" for number in range(len(actions))]
    running = [kills.start(action, place) for action, place in zip(actions, said, strict=True)]
    codes = [one.wait() for one in running]
    for code, place in zip(codes, said, strict=True):
        text = place.read_text(errors="replace")
        if code not in (0, 1, 2) or "Traceback" in text:
            raise Between(f"exit code {code}: {text[-1500:]}")
        if code and len([line for line in text.splitlines() if line.startswith("decouple: ")]) > 1:
            raise Between(f"more than one line of what is wrong: {text[-1500:]}")
    return codes


def stack_verbs(dice: random.Random, source: str, names: list[str]) -> list[list[str]]:
    """Four verbs of the stack, chosen by the dice."""
    pool = [
        ["push", RELEASE],
        ["push", RELEASE, "-a"],
        ["push", RELEASE, dice.choice(names)],
        ["pop", RELEASE],
        ["pop", RELEASE, "-a"],
        ["refresh", RELEASE],
        ["apply", RELEASE, "--source", source],
        ["series", RELEASE, "--applied"],
        ["status", RELEASE],
        ["branch", RELEASE, "--force"],
        ["export", RELEASE, "{out}"],
    ]
    return [dice.choice(pool) for _ in range(4)]


def _stack(folder: Path, dice: random.Random) -> list[int]:
    """The tree afterwards is that of some number of patches, with the overlay or without."""
    source, _ = kills.sources(folder)
    variables = {"DECOUPLE_PROJECT": str(folder / "project"), "DECOUPLE_CACHE": str(folder / "cache")}
    tree, said = folder / "project/build/2.6/src", folder / "said"
    local = f"local:{source}"
    kills.finished(command("apply", RELEASE, "--source", local, **variables), said)
    patches = [f"2.6/{path.name}" for path in sorted((folder / "project/patches/2.6").iterdir())]
    whole = {git(tree, "rev-parse", "HEAD^{tree}")}
    for _ in patches:
        kills.finished(command("pop", RELEASE, **variables), said)
        whole.add(git(tree, "rev-parse", "HEAD^{tree}"))
    kills.finished(command("push", RELEASE, "-a", **variables), said)
    whole.add(git(tree, "rev-parse", "HEAD^{tree}"))
    kills.finished(command("pop", RELEASE, str(dice.randint(1, len(patches))), **variables), said)
    verbs = stack_verbs(dice, local, patches)
    actions = [
        command(*(word.format(out=folder / f"out{number}") for word in words), **variables)
        for number, words in enumerate(verbs)
    ]
    codes = together(actions, folder)
    left_whole(tree, whole, str(verbs))
    return codes


def left_whole(source: Path, whole: set[str], what: str) -> None:
    """Raises Between unless the tree is one of ``whole``, on disk as in git, and nothing is left half-done."""
    edited = git(source, "status", "--porcelain", "-uno")
    if edited:
        raise Between(f"{what}: {edited}")
    tree = git(source, "rev-parse", "HEAD^{tree}")
    if tree not in whole:
        raise Between(f"{what}: HEAD is no state of the series: {git(source, 'log', '--oneline')}")
    if tree_of(source) != tree:
        raise Between(f"{what}: files on disk are not those of HEAD: {git(source, 'status', '--porcelain')}")
    left = [path.name for path in (source / ".git").glob("*.lock")]
    if left or (source / ".git/decouple/journal.json").exists():
        raise Between(f"{what}: left behind: {left or 'a journal'}")


def _scenes(folder: Path, wanted: list[str], shared: bool = False) -> list[int]:
    """Scenes next to each other, or the same one four times in one place: afterwards each is as one run leaves it."""
    places = [folder / "one"] * len(wanted) if shared else [folder / str(number) for number in range(len(wanted))]
    scenes: list[Scene] = []
    for name, place in zip(wanted, places, strict=True):
        place.mkdir(parents=True, exist_ok=True)
        scenes.append(kills.VERBS[name](place))
    codes = together([scene.action for scene in scenes], folder)
    if not shared and any(codes):
        raise Between(f"exit codes {codes}")
    for name, scene in zip(wanted, scenes, strict=True):
        if fault := scene.holds():
            raise Between(f"{name}: {fault}")
        seen = scene.look()
        if scene.repeats:  # once more, alone: nothing is left to do
            kills.finished(scene.action, folder / "said", scene.code)
            if (again := scene.look()) != seen:
                strange = sorted(name for name in {*seen, *again} if seen.get(name) != again.get(name))
                raise Between(f"{name}: a run alone changes {strange[:5]}")
    if 0 not in codes:
        raise Between(f"exit codes {codes}")
    return codes
