"""A sample of our kernels against the same sources unpatched: same compiler, flags and machine, so no excuse.

>>> from decouple.flows.build import Build
>>> from decouple.flows.unpatched import compare
>>> compare(Build(project, "2.6", env="rootfs"), count=40)
Traceback (most recent call last):
decouple.base.errors.DecoupleError: ...compile_commands.json: ...
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.progress import Progress
from decouple.build import stages
from decouple.build.environment import Environment, RootEnvironment, with_places
from decouple.build.estimate import cores
from decouple.build.sandbox import Bind
from decouple.flows import kernels
from decouple.flows.build import Build, choices_of
from decouple.flows.environment import open_environment
from decouple.flows.listener import QUIET, Listener
from decouple.flows.relocate import Relocate, relocate
from decouple.flows.verify import record_kernels
from decouple.release.status import UNPATCHED
from decouple.upstream.fetching import fetch
from decouple.upstream.manifests import load_release
from decouple.verify.kernels import compare as comparing
from decouple.verify.kernels.compare import KernelComparison
from decouple.verify.stage1_units import TranslationUnit, read_units, take


def compare(request: Build, count: int, listener: Listener = QUIET) -> KernelComparison:
    """Compile ``count`` of the ``.cu`` files that stage 2 has objects of from the release's own tree, and compare.

    That tree's headers go before all others. What torchgen and CMake generate is the build's, on both sides. The
    figures go to ``ci/status``. Raises DecoupleError where stage 2 has no objects, or a source does not compile.
    """
    choices, places = choices_of(request), request.places
    if choices.cuda:
        places = places.of_cuda(request.env, choices.cuda)
    built = read_units(places.stage2 / "compile_commands.json", (".cu",))
    pristine = fetch(load_release(request.project, request.release), progress=listener.progress).path
    relocation = relocate(Relocate(request.project, request.release, tree=pristine))
    origins = {move.target: move.origin for move in relocation.plan.moves}
    layers = stages.layers_of(2, choices, request.env)
    environment = with_places(open_environment(request, request.places, layers, listener), places)
    names = environment.names()
    objects = {unit: places.stage2 / _below(unit.output, names["stage2"]) for unit in built if unit.output}
    sources = {unit: origins.get(_below(unit.file, names["tree"]), "") for unit in objects if objects[unit].is_file()}
    chosen = take([unit for unit, source in sources.items() if source], count)
    if not chosen:
        raise DecoupleError(f"{places.stage2}: no object of a moved .cu file", next_step="build stage 2 first")
    environment, upstream = _shown(environment, pristine)
    folder = places.stage2 / "unpatched"
    folder.mkdir(exist_ok=True)
    made = {unit: f"{number}-{unit.file.name}.o" for number, unit in enumerate(chosen)}
    commands = {unit: command(unit, names, upstream, sources[unit], made[unit]) for unit in chosen}
    _compile(environment, commands, listener.progress)
    sides = {
        "stage 2": [objects[unit] for unit in chosen],
        "the unpatched tree": [folder / made[unit] for unit in chosen],
    }
    ours, theirs = (kernels.dump(files, label, None, listener.progress) for label, files in sides.items())
    found = comparing.compare(ours, theirs, sides="built/unpatched")
    record_kernels(request.project, request.release, UNPATCHED, found)
    return found


def command(unit: TranslationUnit, names: Mapping[str, str], upstream: str, source: str, made: str) -> tuple[str, ...]:
    """The command that compiled ``unit``, for upstream's ``source`` in the tree that is shown at ``upstream``.

    The places where moved files answer to upstream's names become the tree where they have those names.
    """
    shadow = f"-I{names['stage2']}/shadow"
    words = [f"-I{upstream}{word.removeprefix(shadow)}" if word.startswith(shadow) else word for word in unit.command]
    words[words.index("-o") + 1] = f"{names['stage2']}/unpatched/{made}"
    return tuple(f"{upstream}/{source}" if word == str(unit.file) else word for word in words)


def _below(path: PurePosixPath, folder: str) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else ""


def _shown(environment: Environment, pristine: Path) -> tuple[Environment, str]:
    """The environment that sees the release's tree too, and where."""
    if not isinstance(environment, RootEnvironment):
        return environment, str(pristine)
    inside = f"{environment.names()['base']}/unpatched"
    return replace(environment, overrides=(*environment.overrides, Bind(pristine, inside))), inside


def _compile(environment: Environment, commands: Mapping[TranslationUnit, tuple[str, ...]], progress: Progress) -> None:
    """As many at once as the machine has cores; the root's compiler cache keeps what was compiled before."""
    names = environment.names()
    same_names = f"{names['project']}/scripts/decouple/build/inside/same_names.sh"
    cache = {"CCACHE_DIR": names["ccache"], "CCACHE_BASEDIR": names["base"], "CCACHE_PREFIX": same_names}
    cached = environment.kind != "host"
    progress.start("sources of the unpatched tree", len(commands))

    def one(unit: TranslationUnit, words: tuple[str, ...]) -> None:
        argv = environment.argv(["ccache", *words] if cached else words, cache if cached else {}, str(unit.directory))
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or [f"status {done.returncode}"]
            raise DecoupleError(
                f"{unit.file.name}, unpatched: {lines[0]}", next_step="decouple build RELEASE --stage 2 first"
            )
        progress.advance()

    with ThreadPoolExecutor(cores()) as pool:
        for future in [pool.submit(one, *pair) for pair in commands.items()]:
            future.result()
    progress.finish()
