"""Run the commands again that compiled stage 2's ``.cu`` files, with changes.

>>> from decouple.flows.build_request import BuildRequest
>>> from decouple.flows.stage2_commands import open_commands
>>> open_commands(BuildRequest(project, "2.6", env="rootfs"))
Traceback (most recent call last):
decouple.base.errors.DecoupleError: ...compile_commands.json: ...
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256
from decouple.base.progress import Progress
from decouple.base.worker_pool import WorkerPool
from decouple.build import inputs, toolchain, toolkits, tree_status
from decouple.build.environment import Environment, Places, RootEnvironment, replace_places
from decouple.build.estimate import count_cores
from decouple.build.sandbox import BindMount
from decouple.build.wheel_finishing import find_series
from decouple.flows.build_request import BuildRequest, settle_choices
from decouple.flows.listener import QUIET, Listener
from decouple.flows.work_environment import open_environment
from decouple.verify.stage1_units import TranslationUnit, read_units


class Stage2Commands(Struct, frozen=True):
    """Hold where stage 2 was compiled, and the host's object of each compiled unit."""

    environment: Environment
    objects: Mapping[TranslationUnit, Path]
    variables: Mapping[str, str] = {}
    """What a command has in its environment beside those of the compiler cache."""

    @property
    def folder(self) -> Path:
        """Return stage 2's build folder on the host; inside, ``names()["stage2"]``."""
        return self.environment.places.stage2

    def find_source_path(self, unit: TranslationUnit) -> str:
        """Return the source's path below the applied tree.

        Empty for one that was generated.
        """
        return _strip_folder(unit.file, self.environment.name_places()["tree"])

    def show_folder(self, folder: Path, name: str) -> tuple[Stage2Commands, str]:
        """Return the same where ``folder`` can be read, too, and what it is called there."""
        if not isinstance(self.environment, RootEnvironment):
            return self, str(folder)
        inside = f"{self.environment.name_places()['base']}/{name}"
        overrides = (*self.environment.overrides, BindMount(folder, inside))
        return replace(self, environment=replace(self.environment, overrides=overrides)), inside

    def compile_units(
        self,
        commands: Mapping[TranslationUnit, Sequence[str]],
        progress: Progress,
        what: str,
        minutes: float | None = None,
        *,
        cached: bool = True,
    ) -> list[TranslationUnit]:
        """Run what stands for each unit's command, as many at once as there are cores.

        Begin none after ``minutes``, and return the units that were compiled; ``cached``: through the root's compiler
        cache. Raises DecoupleError with the compiler's first error, and KeyboardInterrupt after the compilers have
        ended.
        """
        end = None if minutes is None else time.monotonic() + 60 * minutes
        pool = WorkerPool(count_cores())
        progress.start(what, len(commands))

        def compile_unit(unit: TranslationUnit) -> bool:
            if end is not None and time.monotonic() > end:
                return False
            done = pool.run_program(self._make_command(unit, commands[unit], cached))
            if done.returncode:
                lines = [line for line in done.stderr.splitlines() if "error" in line]
                raise DecoupleError(
                    f"{unit.file.name}: {lines[0] if lines else f'status {done.returncode}'}",
                    next_step="decouple build RELEASE --stage 2 first",
                )
            progress.advance()
            return True

        compiled = pool.map(compile_unit, commands)
        progress.finish()
        return [unit for unit, there in zip(commands, compiled, strict=True) if there]

    def _make_command(self, unit: TranslationUnit, words: Sequence[str], cached: bool) -> list[str]:
        """Make the command that runs ``words`` where ``unit`` was compiled."""
        names = self.environment.name_places()
        same_names = f"{names['project']}/scripts/decouple/build/inside/same_names.sh"
        variables = {
            **self.variables,
            "CCACHE_DIR": names["ccache"],
            "CCACHE_BASEDIR": names["base"],
            "CCACHE_PREFIX": same_names,
        }
        launcher = "ccache" if cached and self.environment.kind != "host" else same_names
        return self.environment.argv([launcher, *words], variables, str(unit.directory))


def open_commands(
    request: BuildRequest, listener: Listener = QUIET, suffixes: Sequence[str] = (".cu",)
) -> Stage2Commands:
    """Open a compiled stage 2's commands of sources with one of ``suffixes``.

    Raises DecoupleError where stage 2 of that build is not configured, or has no object of such a file.
    """
    choices, places = settle_choices(request), request.places
    if choices.cuda:
        places = places.with_cuda(request.env, choices.cuda)
    built = read_units(places.stage2 / "compile_commands.json", suffixes)
    layers = toolchain.list_layers(2, choices, request.env)
    environment = replace_places(open_environment(request, request.places, layers, listener), places)
    inside = environment.name_places()["stage2"]
    objects = {unit: places.stage2 / _strip_folder(unit.output, inside) for unit in built if unit.output}
    there = {unit: path for unit, path in objects.items() if path.is_file()}
    if not there:
        raise DecoupleError(
            f"{places.stage2}: no object of a {' or '.join(suffixes)} file", next_step="build stage 2 first"
        )
    return Stage2Commands(environment, there)


def find_series_digest(places: Places, request: BuildRequest, listener: Listener = QUIET) -> str | None:
    """Return the digest of the series that stage 2's objects in ``places`` are of.

    The wheel that they were linked for names it; the checkout's may be another by now. None, and it is said that
    nothing is recorded, without that wheel, and where the tree is not as it was compiled: a build that did not end may
    have left objects of both. So it is where the tree had edits then.
    """
    stamp, again = inputs.read_stamp(places.state / "stage2.json"), _format_build(request)
    wheel = places.dist / stamp.wheel if stamp else None
    if not (stamp and wheel and wheel.is_file() and compute_sha256(wheel) == stamp.sha256):
        listener.warn(f"not recorded: no wheel in {places.dist} says of which series stage 2's objects are; `{again}`")
        return None
    unread = toolkits.list_unread_paths(2, request.toolkit)
    known = stamp.content and tree_status.is_applied(places.tree)  # not of a stamp of an earlier version
    if known and inputs.hash_tree_content(places.tree, unread) != stamp.content:
        listener.warn(f"not recorded: {places.tree} changed since stage 2 was built; `{again}` takes that up")
        return None
    return find_series([wheel], again, listener.warn)


def _format_build(request: BuildRequest) -> str:
    """Return the command that makes the objects."""
    if request.toolkit and request.part != "all":
        return f"decouple smoke {request.release} --toolkit {request.toolkit}"
    env = "" if request.env == "auto" else request.env
    chosen = {"--env": env, "--python": request.python, "--cuda": request.cuda, "--toolkit": request.toolkit}
    words = [f"{option} {value}" for option, value in {**chosen, "--core": request.core}.items() if value]
    return " ".join([f"decouple build {request.release} --stage 2", *words])


def _strip_folder(path: PurePosixPath, folder: str) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else ""
