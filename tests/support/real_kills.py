"""The scenes of `kills` on PyTorch 2.6 itself: this checkout's series on the source that the shared cache holds."""

from __future__ import annotations

import functools
import hashlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.real.later_tree import make_later_tree
from tests.support import at_once, kills
from tests.support.kills import Look, Scene, command
from tests.support.series import RELEASE, git


def _project(folder: Path) -> tuple[Path, dict[str, str]]:
    """A checkout of our series below ``folder``, applied once; and the variables that name it."""
    project = folder / "project"
    variables = {"DECOUPLE_PROJECT": str(project)}
    if not project.exists():
        for name in ("series", "patches", "third_device"):
            shutil.copytree(kills.ROOT / name, project / name, symlinks=True)
        kills.finished(command("apply", RELEASE, "--offline", **variables), folder / "said")
    return project, variables


def _series(project: Path) -> dict[str, bytes]:
    """The project's series and patches."""
    return {
        f"{name}/{key}": data for name in ("series", "patches") for key, data in kills.files(project / name).items()
    }


def _look(project: Path) -> Look:
    """Every file of the tree by content, what git has of it, and the project's series and patches."""
    tree = project / "build/2.6/src"
    head, edited = git(tree, "rev-parse", "HEAD^{tree}"), git(tree, "status", "-s", "-uno")
    seen: dict[str, object] = {"HEAD": head, "status": edited, "files": _digest(tree)}
    return seen | _series(project)


def _digest(tree: Path) -> str:
    """One hash over every name and content outside .git; a third of the time of `contents`, 17,000 files each round."""
    whole = hashlib.sha256()
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            path = Path(folder, name)
            data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            whole.update(f"{path}\0{path.lstat().st_mode}\0".encode() + hashlib.sha256(data).digest())
    return whole.hexdigest()


def _verb(prepare: tuple[tuple[str, ...], ...], *words: str, edit: bool = False) -> Callable[[Path], Scene]:
    def make(folder: Path) -> Scene:
        fresh = not (folder / "project").exists()
        project, variables = _project(folder)
        tree = project / "build/2.6/src"
        if fresh:
            for before in prepare:
                kills.finished(command(before[0], RELEASE, *before[1:], **variables), folder / "said")
            if edit:
                path = tree / "torch/functional.py"
                path.write_text(path.read_text() + "# edited\n")
        return Scene(
            command(words[0], RELEASE, *words[1:], **variables),
            lambda: _look(project),
            command("series", RELEASE, "--applied", **variables),
            repeats=False,
        )

    return make


def _cold(folder: Path) -> Scene:
    """No tree yet; the source is in the cache."""
    project, variables = folder / "project", {"DECOUPLE_PROJECT": str(folder / "project")}
    if not project.exists():
        for name in ("series", "patches", "third_device"):
            shutil.copytree(kills.ROOT / name, project / name, symlinks=True)
    tree = project / "build/2.6/src"

    def look() -> Look:
        made = tree.exists() and git(tree, "rev-parse", "HEAD") != git(tree, "rev-parse", "refs/decouple/base")
        return _look(project) if made else {"tree": "none"}

    return Scene(command("apply", RELEASE, "--offline", **variables), look, repeats=False)


def _rebase(folder: Path) -> Scene:
    """2.6 to its own text as 2.7 changed it, in a checkout that has no series of 2.7 yet."""
    project, newer, later = folder / "project", "2.7", folder.parent / "near-2.7"
    if not project.exists():
        for name in ("series", "patches", "third_device"):
            shutil.copytree(kills.ROOT / name, project / name, symlinks=True)
    if not later.exists():
        make_later_tree(newer, later)
        (later / "version.txt").write_text(f"{newer}.1\n")

    def look() -> Look:
        seen = _series(project)
        listed = f"series/{newer}" in seen  # bodies that no series names are not yet of the project
        return {name: data for name, data in seen.items() if listed or not name.startswith(f"patches/{newer}/")}

    words = ("rebase", RELEASE, newer, "--replace", "--source", f"local:{later}")
    return Scene(command(*words, DECOUPLE_PROJECT=str(project)), look, repeats=False)


def _of_wheels(scene: str) -> Callable[[Path], Scene]:
    """A scene of the small world in a checkout of the real series; the wheels say so, and have small payloads."""

    def make(folder: Path) -> Scene:
        project = folder / "project"
        if not project.exists():
            for name in ("series", "patches"):
                shutil.copytree(kills.ROOT / name, project / name, symlinks=True)
        return kills.VERBS[scene](folder)

    return make


def _build(folder: Path, before: str = "2/764") -> Scene:
    """Stage 1 in the Debian root up to its first objects, in a tree where the slice ``before`` is built.

    A slice of it is what `--shard` compiles; the server of its cache is not there, and no compiler cache is used, so
    that kills meet compilers. What ninja says it has finished has to be whole. ``9999/9999`` is no object: then it is
    configured, and the code of ATen is generated as well, which takes minutes where two cores are busy.
    """
    project, nobody = folder / "project", "redis://127.0.0.1:1/0"
    variables = {
        "DECOUPLE_PROJECT": str(project), "CMAKE_C_COMPILER_LAUNCHER": "", "CMAKE_CXX_COMPILER_LAUNCHER": "",
    }  # fmt: skip
    words = ("build", RELEASE, "--env", "rootfs", "--stage", "1", "--cache", nobody)
    if not project.exists():
        for name in ("series", "patches", "third_device", "scripts"):
            shutil.copytree(kills.ROOT / name, project / name, symlinks=True)
        (project / ".gitignore").write_text("/build/\n/dist/\n")
        git(project, "init", "-q")
        git(project, "add", "-A")
        git(project, "commit", "-qm", "a checkout")
        kills.finished(command(*words, "--shard", before, **variables), folder / "said")
    tree = project / "build/2.6/src"

    def look() -> Look:
        seen: dict[str, object] = {
            "HEAD": git(tree, "rev-parse", "HEAD^{tree}"), "status": git(tree, "status", "-s", "-uno"),
        }  # fmt: skip
        return seen | _series(project) | kills.files(project / "dist") | _finished(tree)

    settle = command("series", RELEASE, "--applied", **variables)
    return Scene(command(*words, "--shard", "1/764", **variables), look, settle, between=True)


def _finished(tree: Path) -> dict[str, object]:
    """What ninja has finished: name -> SHA-256. Its log: https://ninja-build.org/manual.html#ref_log"""
    lines = (tree / "build/.ninja_log").read_text().splitlines() if (tree / "build/.ninja_log").exists() else []
    names = {line.split("\t")[3] for line in lines if line.count("\t") == 4}
    there = {name: tree / "build" / name.replace("/decouple/2.6/src", str(tree)) for name in names}
    return {
        f"built {name}": hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "not there"
        for name, path in there.items()
    }


VERBS: dict[str, Callable[[Path], Scene]] = {
    "rebase": _rebase,
    "push": _verb((("pop", "-a"),), "push", "-a"),
    "pop": _verb((), "pop", "-a"),
    "refresh": _verb((("pop", "1"),), "refresh", edit=True),
    "apply": _verb((("pop", "5"),), "apply", "--offline"),
    "apply, cold": _cold,
    "wheels": _of_wheels("wheels"),
    "index build": _of_wheels("index build"),
    "build": _build,
    "build, generators too": functools.partial(_build, before="9999/9999"),
}
"""Verbs on the real source, and those of wheels on the real series; of a build its first objects."""

_WHOLE: set[str] = set()


def four(folder: Path, dice: random.Random) -> list[int]:
    """Four verbs of the stack at once on the real tree; the tree stays for the next round."""
    project, variables = _project(folder)
    tree, said = project / "build/2.6/src", folder / "said"
    patches = (project / "series" / RELEASE).read_text().split("\n")
    patches = [line.split()[0] for line in patches if line.strip() and not line.startswith("#")]
    if not _WHOLE:
        kills.finished(command("apply", RELEASE, "--offline", **variables), said)
        _WHOLE.add(git(tree, "rev-parse", "HEAD^{tree}"))
        for _ in patches:
            kills.finished(command("pop", RELEASE, **variables), said)
            _WHOLE.add(git(tree, "rev-parse", "HEAD^{tree}"))
        kills.finished(command("push", RELEASE, "-a", **variables), said)
        _WHOLE.add(git(tree, "rev-parse", "HEAD^{tree}"))
    verbs = at_once.stack_verbs(dice, "auto", patches)
    actions = [
        command(*(word.format(out=folder / f"out{number}") for word in words), **variables)
        for number, words in enumerate(verbs)
    ]
    codes = at_once.together(actions, folder)
    at_once.left_whole(tree, _WHOLE, str(verbs))
    return codes
