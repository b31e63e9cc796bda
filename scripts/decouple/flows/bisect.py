"""Find the patch that breaks a command: a binary search, cheap checks first.

>>> from decouple.flows.bisect import BisectRequest, find_culprit
>>> found = find_culprit(BisectRequest(applied, "2.6", command=("grep", "-q", "line 7$", "core.txt")))
>>> found.first_bad, found.looked_at
('2.6/0002-seven.patch', 3)
"""

from __future__ import annotations

import functools
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.python_text import compile_python
from decouple.base.untrusted_input import read_json
from decouple.build import settings
from decouple.flows.listener import QUIET, Listener
from decouple.flows.shell import ShellRequest, open_runner
from decouple.stack.engine import Stack

Oracle = Callable[[Path, Sequence[str]], str | None]
"""Looks at a tree and the paths that the applied patches touch: None when it is good, else what is wrong with it."""

Run = Callable[[str], int]
"""Runs a shell command in the tree, on this machine or in the build environment; returns its exit status."""

CANNOT_TELL = 125
"""The exit status of a command that cannot tell, as in git-bisect(1). The search ends there: it guesses no answer."""


class BisectRequest(Struct, frozen=True):
    """Choose a series, and by which of three questions (at least one) to judge it."""

    project: Path
    release: str
    configure: bool = False
    """Does CMake take it?"""
    compile: bool = False
    """Do the touched sources compile? Configures first."""
    command: tuple[str, ...] = ()
    """Run in the tree: status 0 is good, 125 cannot tell, anything else is bad."""
    env: str = "auto"
    """The build environment that configures and compiles: "host", "rootfs" or "auto"."""
    here: str | None = None
    """Configure with this shell command, on this machine and not in the build environment."""


class Culprit(Struct, frozen=True):
    """Name the patch that broke it, what was said there, and the trees looked at."""

    first_bad: str
    said: str
    looked_at: int


def check_python(tree: Path, paths: Sequence[str]) -> str | None:
    """Check, as the cheapest oracle, that every touched Python file there compiles."""
    for name in paths:
        path = tree / name
        if path.suffix == ".py" and path.is_file():
            try:
                compile_python(path.read_bytes(), name)
            except SyntaxError as error:
                return f"{name} does not compile: {error}"
    return None


def make_configure_oracle(run: Run, command: str) -> Oracle:
    """Make an oracle that configures the tree with CMake by ``command``.

    One that cannot configure cannot be compiled.
    """

    def try_tree(tree: Path, paths: Sequence[str]) -> str | None:
        status = run(command)
        return f"configure fails: `{command}` exits with {status}" if status else None

    return try_tree


def make_compile_oracle(run: Run) -> Oracle:
    """Make an oracle that compiles just the objects of the touched sources.

    Before them it makes what ninja must make for them first. Which object is whose comes from
    ``build/compile_commands.json``, so what this configuration does not compile is passed over, and so is a header.
    """

    def try_tree(tree: Path, paths: Sequence[str]) -> str | None:
        objects = find_touched_objects(tree / "build/compile_commands.json", paths)
        if not objects:
            return None
        command = f"ninja -C build {shlex.join(objects)}"
        status = run(command)
        return f"compiling what is touched fails: `{command}` exits with {status}" if status else None

    return try_tree


class CompileCommand(Struct, frozen=True):
    """An entry of CMake's ``compile_commands.json``."""

    file: str
    directory: str
    command: str = ""
    arguments: tuple[str, ...] = ()
    output: str = ""


def find_touched_objects(listing: Path, paths: Sequence[str]) -> list[str]:
    """Return the objects that ``listing`` makes of ``paths``.

    ``listing`` is CMake's compile_commands.json, and objects are relative to its build folder. Paths there are those of
    the place the build ran in, so a source is known by the end of its path. Raises DecoupleError when there is no
    listing.
    """
    mend = "configure again: --configure, with CMAKE_EXPORT_COMPILE_COMMANDS on"
    try:
        entries = read_json(listing, list[CompileCommand], mend=mend)
    except FileNotFoundError:
        raise DecoupleError(
            f"{listing}: no such file", next_step="--configure, with CMAKE_EXPORT_COMPILE_COMMANDS on"
        ) from None
    endings = tuple(f"/{path}" for path in paths)
    objects = []
    for entry in entries:
        if entry.file.endswith(endings):
            try:
                words = shlex.split(entry.command) or list(entry.arguments)
                output = entry.output or words[words.index("-o") + 1]
            except (ValueError, IndexError):
                raise DecoupleError(f"{listing}: no object of {entry.file} in it", next_step=mend) from None
            objects.append(output.removeprefix(entry.directory.rstrip("/") + "/"))
    return sorted(objects)


def make_command_oracle(command: Sequence[str]) -> Oracle:
    """Make an oracle that runs ``command`` in the tree.

    Status 0 is good, 125 cannot tell, anything else is bad.
    """

    def run_command(tree: Path, paths: Sequence[str]) -> str | None:
        try:
            done = subprocess.run(command, cwd=tree, check=False, stdout=sys.stderr)
        except OSError as error:
            raise UsageError(f"{command[0]}: {error.strerror}", next_step="give a command after --") from error
        if done.returncode == CANNOT_TELL:
            raise CannotTellError
        return None if done.returncode == 0 else f"`{' '.join(command)}` exits with {done.returncode}"

    return run_command


class CannotTellError(DecoupleError):
    """The oracle cannot judge this tree."""

    def __init__(self) -> None:
        super().__init__(
            f"the command cannot judge this tree (exit status {CANNOT_TELL})",
            next_step="give a command that ends with 0 or another status on every tree of the series",
        )


def find_culprit(request: BisectRequest, listener: Listener = QUIET) -> Culprit:
    """Search for the first bad patch; leave the applied tree as it was.

    ``listener`` hears what was found of each tree. Raises UsageError when there is no question, DecoupleError as
    `bisect_stack` does or when the build environment cannot be entered.
    """
    places = Checkout(request.project).find_series(request.release)
    oracles: list[Oracle] = []
    if request.configure or request.compile or request.here:
        if request.here:
            run: Run = functools.partial(_run_here, places.tree)
        else:
            run = open_runner(ShellRequest(request.project, request.release, request.env), listener)
        oracles.append(
            make_configure_oracle(
                run, request.here or settings.find_packer(places.tree).configure.format(python="python3")
            )
        )
        if request.compile:
            oracles.append(make_compile_oracle(run))
    if request.command:
        oracles.append(make_command_oracle(request.command))
    if not oracles:
        raise UsageError("nothing to judge a tree by", next_step="--configure, --compile, or -- COMMAND")
    with Stack.open(places) as stack:
        return bisect_stack(stack, oracles, listener.say)


def _run_here(tree: Path, command: str) -> int:
    return subprocess.run(["sh", "-c", command], cwd=tree, check=False, stdout=sys.stderr).returncode


def bisect_stack(stack: Stack, oracles: Sequence[Oracle], tell: Callable[[str], None] = lambda line: None) -> Culprit:
    """Push and pop until the first bad patch is known.

    The stack is left as it was, whatever happens. Every touched Python file is compiled first, because that costs next
    to nothing; then ``oracles`` are asked in order, the cheapest first, until one finds the tree bad. Raises
    DecoupleError when the whole series is good, the pristine tree is bad, or a command cannot tell.
    """
    names = stack.series.names
    was = len(stack.applied)
    had_overlay = bool(stack.state.overlay)
    looked_at = 0

    def judge_count(count: int) -> str | None:
        nonlocal looked_at
        looked_at += 1
        _move_to(stack, count)
        touched = [file.path for name in names[:count] for file in stack.read_patch(name).files]
        answers = (oracle(stack.places.tree, touched) for oracle in (check_python, *oracles))
        said = next((answer for answer in answers if answer), None)
        tell(f"{names[count - 1] if count else 'pristine'}: {said or 'good'}")
        return said

    try:
        if said := judge_count(0):
            raise DecoupleError(f"the pristine tree fails too: {said}", next_step="no patch is to blame")
        good, bad = 0, len(names)
        said = judge_count(bad)
        if said is None:
            raise DecoupleError("the whole series is good", next_step="the command passes with every patch applied")
        while bad - good > 1:
            middle = (good + bad) // 2
            words = judge_count(middle)
            if words is None:
                good = middle
            else:
                bad, said = middle, words
        return Culprit(names[bad - 1], said, looked_at)
    finally:
        _move_to(stack, was)
        if had_overlay:
            stack.push(None)


def _move_to(stack: Stack, count: int) -> None:
    done = len(stack.applied)
    moved = stack.push(count - done, overlay=False) if count > done else stack.pop(done - count)
    if moved.stopped:
        raise moved.stopped
