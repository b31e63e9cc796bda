"""Commands in the environment that a stage is built in.

>>> from decouple.flows.shell import ShellRequest, run_shell
>>> run_shell(ShellRequest(project, "2.6", env="host", tree=source, command="true"))
Traceback (most recent call last):
decouple.base.errors.DecoupleError: --env host: ...
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext

from decouple.base.errors import DecoupleError
from decouple.build import tree_status
from decouple.build.environment import Environment, open_shell
from decouple.build.toolchain import make_variables
from decouple.flows.build_environment import open_build, select_stage
from decouple.flows.build_request import BuildRequest
from decouple.flows.listener import QUIET, Listener


class ShellRequest(BuildRequest, frozen=True):
    """The build whose environment it is, of one stage, and what runs there."""

    stage: int | None = 1
    command: str | None = None
    """Given to ``bash -c``, and what it leaves in the tree `git status` does not tell, but for sources; None: a shell
    to type in."""


def run_shell(request: ShellRequest, listener: Listener = QUIET) -> int:
    """Run it, with this process's own input and output; returns its exit status."""
    environment, variables = _open_shell(request, listener)
    tree = environment.places.tree
    if request.command is None:
        if tree_status.is_applied(tree):  # what is typed there may make files that a person wants: the usual ones alone
            tree_status.exclude_patterns(tree)
        return open_shell(environment, variables)
    argv = environment.argv(["bash", "-c", request.command], variables, environment.name_places()["tree"])
    keeps = tree_status.is_applied(tree)
    with tree_status.keep_clean(tree, "shell", say=listener.say) if keeps else nullcontext():
        return subprocess.run(argv, check=False).returncode


def open_runner(request: ShellRequest, listener: Listener = QUIET) -> Callable[[str], int]:
    """Return what runs shell commands there, one after the other.

    Their output goes to standard error. Raises DecoupleError when the environment cannot be entered: else every command
    would seem to fail by itself.
    """
    here = f"the build environment ({request.env}) cannot be entered"
    entering = f"decouple shell {request.release} --env {request.env} --run true"
    try:
        environment, variables = _open_shell(request, listener)
    except DecoupleError as error:
        raise DecoupleError(f"{here}: {error.what}", next_step=error.next_step, code=error.code) from error

    def run_command(text: str) -> int:
        argv = environment.argv(["bash", "-c", text], variables, environment.name_places()["tree"])
        return subprocess.run(argv, check=False, stdout=sys.stderr).returncode

    if status := run_command("true"):
        raise DecoupleError(
            f"{here}: `true` exits with {status} there", next_step=f"see the message above; `{entering}` until it works"
        )
    return run_command


def _open_shell(request: ShellRequest, listener: Listener = QUIET) -> tuple[Environment, dict[str, str]]:
    environment, known, choices = open_build(request, listener)
    (stage,) = request.stages
    environment = select_stage(environment, stage, choices)
    return environment, make_variables(environment, stage, known, choices)
