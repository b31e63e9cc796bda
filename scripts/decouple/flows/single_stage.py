"""Compare a vendor's objects with those of upstream's own build for it.

That build is the pristine tree, hipified in place, in one stage. Upstream's build of ROCm is not run: each unit of ours
is compiled again with its own command, while that tree stands where the translated files and the applied tree do. So
both have the same compiler, flags, file names and generated headers.

>>> from decouple.flows.build_request import BuildRequest
>>> from decouple.flows.single_stage import compare_single_stage
>>> compare_single_stage(BuildRequest(project, "2.6", toolkit="rocm", core="stock", part="runtime"), count=40)
Traceback (most recent call last):
decouple.base.errors.DecoupleError: ...compile_commands.json: ...
"""

from __future__ import annotations

import posixpath
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import program_output
from decouple.base.errors import DecoupleError
from decouple.base.git import Repository
from decouple.build import settings, toolkits
from decouple.build.environment import Places, RootEnvironment
from decouple.build.inputs import read_stamp
from decouple.build.sandbox import BindMount
from decouple.build.wheel_finishing import find_series
from decouple.flows import stage2_commands
from decouple.flows.build_request import BuildRequest, settle_choices
from decouple.flows.listener import QUIET, Listener
from decouple.flows.stage2_commands import Stage2Commands
from decouple.flows.verify import make_parity_section, record_kernels
from decouple.flows.work_environment import hold_trials
from decouple.release import status
from decouple.release.status import SINGLE_STAGE
from decouple.verify import registrations, venvs
from decouple.verify.kernels import code_object, host_code
from decouple.verify.kernels import compare as comparing
from decouple.verify.kernels.compare import KernelComparison
from decouple.verify.kernels.dump import KernelDump, KernelUnit
from decouple.verify.parity import Parity
from decouple.verify.stage1_units import TranslationUnit, choose_units
from decouple.verify.venvs import Workplace

#: Dispatch keys of third_device/torch_cuda/cmake/Codegen.cmake.
_KEYS = ("CUDA", "NestedTensorCUDA", "QuantizedCUDA", "SparseCUDA", "SparseCsrCUDA")
_SUFFIXES = (".cpp", ".cu", ".hip")
_DEVICE = (".cu", ".hip")
_BASE = "refs/decouple/base"
#: Upstream's way to a tree for ROCm (its README, "From Source").
_HIPIFY = "tools/amd_build/build_amd.py"
#: Below stage 2's folder: the applied tree's headers that an unmodified core lacks. Upstream's tree has its own.
_INSTEAD = "generated/instead"
#: Of these what stands for the toolkit's own, so that both sides have it (``cmake/toolkit/rocm.cmake``).
_OF_TOOLKIT = ("rocm-core", "nv")


class SingleStageComparison(Struct, frozen=True):
    """Report how objects compare, and which upstream operators have a linked kernel."""

    code: KernelComparison
    registrations: tuple[Parity, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing differs or is missing without a reason."""
        return self.code.ok and all(table.ok for table in self.registrations)


def compare_single_stage(
    request: BuildRequest, count: int, minutes: float | None = None, listener: Listener = QUIET
) -> SingleStageComparison:
    """Compare ``count`` objects with device code and as many of the others.

    The figures go to ``ci/status``, as of the series that the objects are of. After ``minutes`` for each kind no
    further one is compiled: those that are there are compared, the next run finds them cached. Raises DecoupleError
    where stage 2 has no objects or wheel, hipify fails, or a source does not compile, and while another run does it.
    """
    built = stage2_commands.open_commands(request, listener, _SUFFIXES)
    with hold_trials(built.environment.places, "kernels unpatched"):
        return _compare_sample(built, request, count, minutes, listener)


def _compare_sample(
    built: Stage2Commands, request: BuildRequest, count: int, minutes: float | None, listener: Listener
) -> SingleStageComparison:
    """Do what `compare_single_stage` says with the commands of ``built``."""
    wheel = _find_wheel(built.environment.places, request)
    of_objects = stage2_commands.find_series_digest(built.environment.places, request, listener)
    pristine = hipify_pristine(built, listener)
    units = {unit: name for unit in built.objects if (name := find_upstream_name(built, unit, pristine)) is not None}
    device = [unit for unit in units if unit.file.suffix in _DEVICE]
    host = [unit for unit in units if unit not in device]
    kinds = [  # of device code a bounded run begins with the small sources
        choose_units(host, count),
        sorted(choose_units(device, count), key=lambda unit: (pristine / units[unit]).stat().st_size),
    ]
    asked = [unit for kind in kinds for unit in kind]
    folder = built.folder / SINGLE_STAGE
    shutil.rmtree(folder, ignore_errors=True)
    for name in _OF_TOOLKIT:
        if (own := built.folder / _INSTEAD / name).is_dir():
            shutil.copytree(own, folder / _INSTEAD / name)
    made = {unit: f"{number}-{unit.file.name}.o" for number, unit in enumerate(asked)}
    stage2 = built.environment.name_places()["stage2"]
    seeing, chosen = _show_pristine(built, pristine, request), list[TranslationUnit]()
    for kind in kinds:
        commands = {unit: make_command(unit, stage2, made[unit]) for unit in kind}
        chosen += seeing.compile_units(commands, listener.progress, "sources of the pristine tree", minutes)
    listener.say(f"{len(chosen)} of {len(asked)} chosen sources of the pristine tree compiled")
    folders = _list_header_folders(chosen)
    ours = _dump_objects("stage 2", {built.objects[unit]: units[unit] for unit in chosen}, folders)
    theirs = _dump_objects(
        "the single-stage build of the pristine tree",
        {folder / made[unit]: units[unit] for unit in chosen},
        folders,
    )
    comparison = comparing.compare_dumps(ours, theirs, sides=f"{request.toolkit}/single stage")
    registered = _compare_registrations(seeing, request, wheel)
    again = f"decouple smoke {request.release} --toolkit {request.toolkit}"
    series = of_objects if of_objects is not None else find_series([wheel], again, listener.warn)
    if series is not None:
        section = status.VerifySection(core=request.against, parity=make_parity_section(registered), series=series)
        status.update_status(status.locate_status(request.project, request.release), vendors={request.toolkit: section})
    if of_objects is not None:
        label = f"{request.toolkit}/{SINGLE_STAGE}"
        record_kernels(request.project, request.release, label, comparison, of_objects)
    return SingleStageComparison(comparison, registered)


def choose_part(request: BuildRequest) -> BuildRequest:
    """Choose the whole backend where it was built, else the runtime part of ``smoke``."""
    whole = replace(request, part="all")
    return whole if read_stamp(whole.places.state / "stage2.json") else replace(request, part="runtime")


def hipify_pristine(built: Stage2Commands, listener: Listener = QUIET) -> Path:
    """Return the pristine tree as upstream's hipify leaves it.

    The applied tree was made from it. It is kept beside stage 2. Raises DecoupleError where upstream's script fails.
    """
    tree = Repository(built.environment.places.tree)
    base = tree.resolve_commit(_BASE)
    if base is None:
        raise DecoupleError(f"{tree.root}: not applied by decouple", next_step="decouple apply RELEASE")
    folder = built.folder.parent / f"hipified-{base[:12]}"
    if not folder.is_dir():
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        index = folder.with_name(f".{folder.name}.index")
        listener.say("hipifying the pristine tree")
        tree.run("read-tree", base, index=index)
        tree.run("checkout-index", "-a", f"--prefix={part}/", index=index)
        index.unlink()
        done = program_output.run_program([sys.executable, str(part / _HIPIFY), "--project-directory", str(part)])
        if done.returncode:
            raise DecoupleError(
                f"{_HIPIFY}: {(done.stderr.strip().splitlines() or [f'status {done.returncode}'])[-1]}",
                next_step="run it by hand on a copy of the release's source",
            )
        part.rename(folder)
    return folder


def find_upstream_name(built: Stage2Commands, unit: TranslationUnit, pristine: Path) -> str | None:
    """Return what hipify calls the unit's source in upstream's tree.

    None for a source of ours, and for what torchgen writes: both sides would compile the build's.
    """
    names = built.environment.name_places()
    for folder in ("shadow", ""):
        below = f"{names['stage2']}/{folder}" if folder else names["tree"]
        if unit.file.is_relative_to(below):
            name = str(unit.file.relative_to(below))
            return name if (pristine / name).is_file() else None
    return None


def make_command(unit: TranslationUnit, stage2: str, made: str) -> tuple[str, ...]:
    """Make ``unit``'s command for another object, with the applied headers not first."""
    words = list(unit.command)
    words[words.index("-o") + 1] = f"{stage2}/{SINGLE_STAGE}/{made}"
    own = f"-I{stage2}/{_INSTEAD}"
    return tuple(f"-I{stage2}/{SINGLE_STAGE}/{_INSTEAD}" if word == own else word for word in words)


def _show_pristine(built: Stage2Commands, pristine: Path, request: BuildRequest) -> Stage2Commands:
    """Return the same with ``pristine`` in place of the applied and translated files."""
    environment, names = built.environment, built.environment.name_places()
    if not isinstance(environment, RootEnvironment):
        raise DecoupleError(f"{request.toolkit}: built outside of the Debian root", next_step="leave --env out")
    places = [BindMount(pristine, names["tree"]), BindMount(pristine, f"{names['stage2']}/shadow")]
    libraries = settings.find_core(request.against).find_libraries(environment.kind)
    told = toolkits.list_vendor_variables(request.toolkit, settle_choices(request).archs, libraries)
    environment = replace(environment, overrides=(*environment.overrides, *places))
    return replace(built, environment=environment, variables={"LD_LIBRARY_PATH": told["LD_LIBRARY_PATH"]})


def _find_wheel(places: Places, request: BuildRequest) -> Path:
    """Return the wheel of the last build. Raises DecoupleError where there is none."""
    stamp = read_stamp(places.state / "stage2.json")
    if stamp is None:
        raise DecoupleError(f"{places.dist}: no wheel", next_step=f"decouple smoke RELEASE --toolkit {request.toolkit}")
    return places.dist / stamp.wheel


def _compare_registrations(stage2: Stage2Commands, request: BuildRequest, wheel: Path) -> tuple[Parity, ...]:
    """Compare torchgen's registrations for this vendor with our wheel's.

    The pristine tree's torchgen writes them. ``stage2`` shows that tree in place of the applied one. Raises
    DecoupleError where torchgen fails.
    """
    environment, names, places = stage2.environment, stage2.environment.name_places(), stage2.environment.places
    out = f"{names['stage2']}/{SINGLE_STAGE}/torchgen"
    (stage2.folder / SINGLE_STAGE / "torchgen").mkdir(parents=True, exist_ok=True)
    words = ["python3", "-m", "torchgen.gen", "--source-path", f"{names['tree']}/aten/src/ATen", "--install-dir", out]
    words += ["--rocm", "--per-operator-headers", "--generate", "sources", "--backend-whitelist", *_KEYS]
    done = program_output.run_program(environment.argv([*words], {"PYTHONDONTWRITEBYTECODE": "1"}, names["tree"]))
    if done.returncode:
        raise DecoupleError(
            f"torchgen of the pristine tree: {(done.stderr.strip().splitlines() or ['no word'])[-1]}",
            next_step="run it by hand in the root: decouple shell RELEASE",
        )
    every = registrations.read_registrations(stage2.folder / SINGLE_STAGE / "torchgen")
    wanted = {key: every.get(key, frozenset()) for key in _KEYS}  # the other keys' are the core's
    table = settings.find_core(request.against)
    libraries = stage2.variables["LD_LIBRARY_PATH"]
    place = Workplace(environment, places.verify, names["verify"], places.logs / "verify.log")
    name = f"unpatched-{request.toolkit}"  # of its own: `smoke` may try another wheel in its environment meanwhile
    both = venvs.install_wheels(place, name, [wheel], packages=table.packages, libraries=libraries)
    return tuple(registrations.compare_registrations(both, wanted))


def _list_header_folders(units: Sequence[TranslationUnit]) -> list[str]:
    """List where the units' headers are found.

    The core's are in the core's folder, and in upstream's own tree. The compiler cache gives the compiler names from
    where it runs, so these are listed, too.
    """
    found = {(unit.directory, word.removeprefix("-I")) for unit in units for word in unit.command if word[:3] == "-I/"}
    return sorted({name for start, folder in found for name in (folder, posixpath.relpath(folder, start))})


def _dump_objects(label: str, objects: Mapping[Path, str], folders: Sequence[str]) -> KernelDump:
    """Dump host and device functions of objects compiled from the named files."""
    units: list[KernelUnit] = []
    for path, file in objects.items():
        units += [host_code.read_host_object(path, file, folders), *code_object.read_device_objects(path, file)]
    images: dict[str, int] = {}
    for unit in units:
        images[unit.arch] = images.get(unit.arch, 0) + 1
    return KernelDump(label, tuple(path.name for path in objects), images, tuple(units))
