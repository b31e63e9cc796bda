"""Compare a sample of our kernels with the same sources unpatched.

Compiler, flags and machine are the same, so no difference is excused.

>>> from decouple.flows.build_request import BuildRequest
>>> from decouple.flows.unpatched_kernels import compare_unpatched
>>> compare_unpatched(BuildRequest(project, "2.6", env="rootfs"), count=40)
Traceback (most recent call last):
decouple.base.errors.DecoupleError: ...compile_commands.json: ...
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from decouple.base.errors import DecoupleError
from decouple.flows import kernels, stage2_commands
from decouple.flows.build_request import BuildRequest
from decouple.flows.listener import QUIET, Listener
from decouple.flows.relocate import RelocateRequest, relocate_files
from decouple.flows.stage2_commands import Stage2Commands
from decouple.flows.verify import record_kernels
from decouple.flows.work_environment import hold_trials
from decouple.release.status import UNPATCHED
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from decouple.verify.kernels import compare as comparing
from decouple.verify.kernels.compare import KernelComparison
from decouple.verify.stage1_units import TranslationUnit, choose_units


def compare_unpatched(request: BuildRequest, count: int, listener: Listener = QUIET) -> KernelComparison:
    """Compile ``count`` of stage 2's ``.cu`` files from the release's own tree.

    They are such that stage 2 has objects of, and are compared with those. That tree's headers go before all others.
    What torchgen and CMake generate is the build's, on both sides. The figures go to ``ci/status``, as of the series
    that the objects are of. Raises DecoupleError where stage 2 has no objects, or a source does not compile, and while
    another run does it.
    """
    built = stage2_commands.open_commands(request, listener)
    with hold_trials(built.environment.places, "kernels unpatched"):
        return _compare_sample(built, request, count, listener)


def _compare_sample(built: Stage2Commands, request: BuildRequest, count: int, listener: Listener) -> KernelComparison:
    """Do what `compare_unpatched` says with the commands of ``built``."""
    series = stage2_commands.find_series_digest(built.environment.places, request, listener)
    pristine = fetch_source(load_release(request.project, request.release), progress=listener.progress).path
    relocation = relocate_files(RelocateRequest(request.project, request.release, tree=pristine))
    origins = {move.target: move.origin for move in relocation.plan.moves}
    chosen = choose_units([unit for unit in built.objects if built.find_source_path(unit) in origins], count)
    seeing, upstream = built.show_folder(pristine, "unpatched")
    folder, names = built.folder / "unpatched", built.environment.name_places()
    folder.mkdir(exist_ok=True)
    made = {unit: f"{number}-{unit.file.name}.o" for number, unit in enumerate(chosen)}
    commands = {
        unit: make_command(unit, names, upstream, origins[built.find_source_path(unit)], made[unit]) for unit in chosen
    }
    seeing.compile_units(commands, listener.progress, "sources of the unpatched tree")
    ours = kernels.dump_kernels([built.objects[unit] for unit in chosen], "stage 2", None, listener.progress)
    theirs = kernels.dump_kernels(
        [folder / made[unit] for unit in chosen], "the unpatched tree", None, listener.progress
    )
    comparison = comparing.compare_dumps(ours, theirs, sides="built/unpatched")
    if series is not None:
        record_kernels(request.project, request.release, UNPATCHED, comparison, series)
    return comparison


def make_command(
    unit: TranslationUnit, names: Mapping[str, str], upstream: str, source: str, made: str
) -> tuple[str, ...]:
    """Make the command that compiled ``unit`` for upstream's ``source``.

    That lies in the tree that is shown at ``upstream``. The places where moved files answer to upstream's names become
    the tree where they have those names. Raises DecoupleError where the command does not name its source: it would
    compile our own again.
    """
    if str(unit.file) not in unit.command:
        raise DecoupleError(
            f"{unit.file}: the command that compiled it names its source otherwise: {shlex.join(unit.command)}",
            next_step="build stage 2 again",
        )
    shadow = f"-I{names['stage2']}/shadow"
    words = [f"-I{upstream}{word.removeprefix(shadow)}" if word.startswith(shadow) else word for word in unit.command]
    words[words.index("-o") + 1] = f"{names['stage2']}/unpatched/{made}"
    return tuple(f"{upstream}/{source}" if word == str(unit.file) else word for word in words)
