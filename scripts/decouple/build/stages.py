"""Building the two wheels. Every step may be interrupted; the next run goes on from there."""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from decouple.base.errors import DecoupleError
from decouple.base.fault import step
from decouple.base.files import locked, sha256_of, write_atomically
from decouple.base.mounts import remove_tree
from decouple.base.process import run_logged
from decouple.base.progress import SILENT, Progress
from decouple.build import effort, inputs, probe, remote_cache, seconds, settings, shards, toolkits, wheels
from decouple.build.effort import Effort
from decouple.build.environment import Environment, Places, RootEnvironment, ask
from decouple.build.estimate import objects_in
from decouple.build.graft import graft
from decouple.build.sandbox import Bind
from decouple.build.settings import Interpreter
from decouple.release import projects
from decouple.release.wheel_manifest import OverlayContent, SeriesContent, WheelManifest

_HOW = ("MAX_JOBS", "CCACHE_MAXSIZE", "CCACHE_DEPEND", *remote_cache.VARIABLES)
"""Variables on which no wheel depends."""
_INCLUDE = "CMAKE_PROJECT_Torch_INCLUDE"
_OBJECT = re.compile(r"Building \S+ object (\S+)$")
_STATUS = re.compile(r"^\s*\[(\d+)/(\d+)[ \]]")


class Provenance(Struct, frozen=True):
    """Where the source comes from: what ``cli`` knows of the release, the series and the overlay."""

    version: str
    upstream: Mapping[str, str]
    sources: tuple[Mapping[str, Any], ...]
    series_digest: str
    patches: tuple[Mapping[str, str], ...]
    overlay_digest: str
    cuda: str | None


class Choices(Struct, frozen=True):
    """What the user chose: profile of stage 1, core and kernels of stage 2, architectures, jobs, part of stage 2.

    ``python`` ("3.13") is the one that the wheel is for; "" leaves it to the core and the environment.
    ``revision`` tells published builds of one release apart: the end of the local version (``+decoupled.2``); 0: none.
    """

    profile: str = "core"
    core: str = "built"
    kernels: str = "compiled"
    archs: tuple[str, ...] = ("9.0",)
    flash: bool = True
    jobs: int | None = None
    slice: str = "all"
    revision: int = 0
    python: str = ""
    cuda: str = ""
    """The CUDA that kernels are compiled with ("12.4"); "" leaves it to the environment."""
    wheels: tuple[Mapping[str, Any], ...] = ()
    """The wheels (name, url, size, sha256) that libraries with kernels are taken from; empty: they are compiled."""
    variables: Mapping[str, str] = field(default_factory=dict)


class StageWheel(Struct, frozen=True):
    """A stage's wheel; ``built`` is False when it was up to date. Effort and objects are of the last build."""

    stage: int
    wheel: Path
    built: bool
    effort: Effort
    objects: int


class Slice(Struct, frozen=True):
    """What one machine compiled of a stage: ``objects`` of ``total``, and how long that took, configuring apart.

    ``expected`` core-seconds of its objects and of all of them, as far as they are known.
    """

    stage: int
    shard: shards.ObjectShard
    objects: int
    total: int
    effort: Effort
    expected: tuple[float, float]


class Job(Struct, frozen=True):
    """One build: where, of what and as chosen; ``progress`` and ``say`` are told how it goes."""

    environment: Environment
    provenance: Provenance
    choices: Choices
    progress: Progress = SILENT
    say: Callable[[str], None] = lambda _: None


class Stage(ABC):
    """What both stages share: the check of the inputs, the manifest, the finished wheel, the stamp.

    A stage of its own says what it is (``number``, ``project``, ``version``) and how its wheel is made (``make``).
    """

    number: int
    project: str

    def __init__(self, job: Job) -> None:
        self.job, self.environment, self.places = job, job.environment, job.environment.places
        self.names = job.environment.names()
        self.facts = settings.stage(self.number)
        self.variables = variables_of(job.environment, self.number, job.provenance, job.choices)
        self.log = self.places.logs / f"stage{self.number}.log"
        self.held: tuple[int, ...] = ()
        """The lock of a build under way: what it starts holds it too."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The version that the wheel is made for."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where its objects lie."""

    @abstractmethod
    def ready(self) -> None:
        """Prepare and configure, as far as that is not done."""

    @abstractmethod
    def make(self) -> Path:
        """Compile and pack what is ready: the wheel as the project's own packing left it."""

    @abstractmethod
    def said(self) -> dict[str, Any]:
        """What the manifest says of this stage alone: ``flags``, and of stage 2 its CUDA."""

    def core(self) -> str:
        """What identifies the core wheel that it builds against; "" where that does not count."""
        return ""

    def layers(self) -> Sequence[str]:
        """The layers of a root that it is built with."""
        return layers_of(self.number, self.job.choices, self.environment.kind)

    def python(self) -> str:
        """The command of the Python that the wheel is for."""
        return _interpreter(self.number, self.job.choices, self.environment.kind).python

    def toolchain(self) -> dict[str, Any]:
        """What it is made with: see `toolchain_of`."""
        return toolchain_of(self.environment, self.number, self.layers(), self.variables)

    def build(self) -> StageWheel:
        """The stage's wheel in ``dist``, made unless it is up to date. Raises DecoupleError naming the failing step."""
        tree, dirty = inputs.tree_state(self.places.tree)
        toolchain = self.toolchain()
        relevant = {name: value for name, value in self.variables.items() if name not in _HOW}
        digest = inputs.digest_of(
            {
                "content": inputs.content_of(self.places.tree, self.facts.does_not_read),
                "series": self.job.provenance.series_digest,  # stands in the wheel
                "toolchain": toolchain,
                "variables": relevant,
                "included": self._included(),
                "version": self.version,
                "core": self.core(),
            }
        )
        state, say, name = self.places.state, self.job.say, f"stage {self.number}"
        stamp_path, effort_path = state / f"stage{self.number}.json", state / f"stage{self.number}.effort"
        lock = self.places.locks / f"stage{self.number}.lock"
        with locked(lock, lambda: say(f"{name}: waits for another run that builds it")) as held:
            self.held = (held,)
            stamp = inputs.up_to_date(stamp_path, digest, self.places.dist)
            if stamp:
                wheel = self.places.dist / stamp.wheel
                return StageWheel(self.number, wheel, False, Effort(stamp.seconds), stamp.objects)
            say(f"{name}: building, log {self.log}")
            began, before = time.monotonic(), effort.counters(self.environment, self.variables)
            try:
                self.ready()
                raw = self.make()
            finally:  # an interrupted run's time counts too
                after = effort.counters(self.environment, self.variables)
                took = effort.accumulate(effort_path, digest, effort.since(time.monotonic() - began, before, after))
            epoch = int(self.variables["SOURCE_DATE_EPOCH"])
            provenance = self.job.provenance
            manifest = WheelManifest(
                release=self.places.release,
                project=self.project,
                version=raw.name.split("-")[1],
                upstream=provenance.upstream,
                sources=(*provenance.sources, *self.job.choices.wheels),
                series=SeriesContent(provenance.series_digest, provenance.patches),
                overlay=OverlayContent(provenance.overlay_digest),
                tree=f"{tree}+{dirty[:12]}" if dirty else tree,
                toolchain=toolchain | {"inputs": self.environment.inputs(self.layers())},
                environment=dict(sorted(relevant.items())),
                # How long it took differs each time; it stands in the stamp and ci/status, so that wheels can be equal.
                times={"source_date_epoch": epoch},
                **self.said(),
            )
            wheel = wheels.finish(raw, self.places.dist, manifest, epoch)
            objects = objects_in(self.folder)
            inputs.write_stamp(stamp_path, inputs.Stamp(digest, wheel.name, sha256_of(wheel), took.seconds, objects))
            effort_path.unlink(missing_ok=True)  # finished: the next build starts counting anew
        return StageWheel(self.number, wheel, True, took, objects)

    def _included(self) -> str:
        """SHA-256 of our file that upstream's CMake includes: a variable only names it. "" where there is none."""
        named = self.variables.get(_INCLUDE, "")
        inside = self.names["project"]
        path = self.places.project / named.removeprefix(f"{inside}/") if named.startswith(f"{inside}/") else Path(named)
        return sha256_of(path) if named and path.is_file() else ""

    def compile_slice(self, shard: shards.ObjectShard) -> Slice:
        """Compile ``shard`` of the objects, cut by the seconds of each as far as they are known, and pack nothing.

        Raises DecoupleError naming the failing step.
        """
        name = f"stage {self.number}, shard {shard}"
        with locked(self.places.locks / f"stage{self.number}.lock"):
            self.job.say(f"{name}: building, log {self.log}")
            self.ready()
            began, before = time.monotonic(), effort.counters(self.environment, self.variables)
            weights = self._expected()
            chosen = shards.cut(weights, shard.of)[shard.number - 1]
            if chosen:
                self.compile(*chosen)
            after = effort.counters(self.environment, self.variables)
            took = effort.since(time.monotonic() - began, before, after)
        expected = (sum(weights[one] for one in chosen), sum(weights.values()))
        return Slice(self.number, shard, len(chosen), len(weights), took, expected)

    def run(
        self, what: str, command: Sequence[str], start: str, on_line: Callable[[str], None] = lambda _: None
    ) -> None:
        """Run one step of the stage into its log, in folder ``start``. Raises DecoupleError with its telling line."""
        self.job.progress.start(what, None, "objects")
        argv = self.environment.argv(command, self.variables, start)
        run_logged(argv, log=self.log, what=what, on_line=on_line, held=self.held)
        self.job.progress.finish()

    def compile(self, *targets: str) -> None:
        """Run ninja through wrapped_cmake: limits from memory, second tries."""
        folder = self.names[f"stage{self.number}"]
        expected = self._expected()
        asked = expected.keys() & set(targets) or expected.keys()
        left = {name: expected[name] for name in asked if not (self.folder / name).exists()}
        toolkit = f"{self.names['project']}/third_device/tools/wrapped_cmake"
        command = ["python3", toolkit, "build", folder, *targets, "--raw"]
        name = f"stage {self.number}"
        self.run(f"compile {name}", command, folder, _Follow(self.job.progress, name, self.job.say, left))

    def _expected(self) -> dict[str, float]:
        """Object -> the core-seconds that it is expected to take: as an earlier build recorded, else the usual mean."""
        folder = self.names[f"stage{self.number}"]
        database = ask(self.environment, ["ninja", "-C", folder, "-t", "compdb"], self.variables)
        known = seconds.load(self.places.release, self.environment.kind, self.number)
        return shards.weigh(shards.objects(database or "", folder), known, self.facts.object_seconds)

    def pack(self, command: Sequence[str], start: str) -> Path:
        """Run ``command`` and the folder that it is to leave one wheel in; that wheel."""
        raw = self.places.raw / f"stage{self.number}"
        remove_tree(raw)
        raw.mkdir(parents=True)
        self.run(f"wheel of stage {self.number}", [*command, f"{self.names['raw']}/stage{self.number}"], start)
        found = sorted(raw.glob("*.whl"))
        if len(found) != 1:
            raise DecoupleError(f"{raw}: {len(found)} wheels, expected one", next_step="run the same command again")
        return found[0]


class Stage1(Stage):
    """The core: upstream's own ``setup.py`` on the applied tree."""

    number, project = 1, projects.CORE

    @property
    def version(self) -> str:
        return self.variables["PYTORCH_BUILD_VERSION"]

    @property
    def folder(self) -> Path:
        return self.places.stage1

    def said(self) -> dict[str, Any]:
        return {"flags": {"profile": self.job.choices.profile}}

    def ready(self) -> None:
        self._clear_other_environment()
        for prepare in self.facts.prepare:
            made, needless = self.places.tree / prepare.makes, self.places.tree / prepare.unless
            if prepare.environment == self.environment.kind and not made.exists() and not needless.exists():
                made.parent.mkdir(parents=True, exist_ok=True)
                self.run(prepare.what, prepare.command, self.names["tree"])
        self._configure()

    def make(self) -> Path:
        tree = self.names["tree"]
        self._uninstall()
        self.compile("install")
        raw = self.pack([self.python(), "setup.py", "-q", "bdist_wheel", "--dist-dir"], tree)
        said = raw.name.split("-")[1]
        if said != self.version:
            raise DecoupleError(
                f"{raw.name}: its version is {said}, expected {self.version}", next_step=f"read {self.log}"
            )
        if self.environment.kind != "portable":
            return raw
        return graft(raw, lambda what, command: self.run(what, command, f"{self.names['raw']}/stage1"), self.log)

    def _clear_other_environment(self) -> None:
        """Delete a build directory that another environment configured, or the same for another Python: CMake keeps
        what it found there for good.

        The environment's name lies in it; directories from before it was written are no portable ones.
        """
        note = self.folder / "decouple-environment"
        name = " ".join(filter(None, (self.environment.kind, self.job.choices.python)))
        before = note.read_text() if note.exists() else ""
        if self.folder.exists() and (before != name if before else self.environment.kind == "portable"):
            self.job.say(f"stage 1: the objects in {self.folder} are of another environment or Python: deleted")
            self._uninstall()
            remove_tree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(note, name)

    def _configure(self) -> None:
        """Run upstream's configure step unless the same variables were configured before."""
        stamp = self.places.state / "stage1.configured"
        digest = inputs.digest_of({name: value for name, value in self.variables.items() if name not in _HOW})
        if (self.folder / "build.ninja").exists() and stamp.exists() and stamp.read_text() == digest:
            return
        command = [self.python(), "setup.py", "build", "--cmake", "--cmake-only"]
        self.run("configure stage 1", command, self.names["tree"])
        write_atomically(stamp, digest)

    def _uninstall(self) -> None:
        """Remove what earlier runs installed into the tree and gathered for the wheel: setup.py packages what it finds.

        The list is CMake's own; a file that git tracks stays.
        """
        tree, tracked = Path(self.names["tree"]), inputs.tracked(self.places.tree)
        manifest = self.folder / "install_manifest.txt"
        for line in manifest.read_text(encoding="utf-8").splitlines() if manifest.exists() else ():
            if not Path(line).is_relative_to(tree):
                continue
            name = Path(line).relative_to(tree).as_posix()
            if name not in tracked:
                (self.places.tree / name).unlink(missing_ok=True)
        for gathered in (*self.folder.glob("lib.*"), *self.folder.glob("bdist.*")):
            remove_tree(gathered)


class Stage2(Stage):
    """torch_cuda, by its own build backend against an installed core: configured, compiled and packed once each.

    Raises DecoupleError where it is made, when the core or something of CUDA's is missing.
    """

    number, project = 2, projects.CUDA

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        if job.choices.core == "built":
            unpack_core(job.environment, job.provenance.version)
        self.check()

    def check(self) -> None:
        """Whether the environment has what is built with and against. Raises DecoupleError naming what it lacks."""
        job = self.job
        prefix = self.variables["TORCH_CUDA_CORE_PREFIX"]
        cudnn = self.variables.get("USE_CUDNN", "1") not in ("0", "OFF")
        wanted = probe.Wanted(job.provenance.cuda, job.provenance.version, job.choices.archs, prefix, cudnn)
        probe.check_stage2(probe.ask_inside(job.environment, self.variables, prefix), wanted)

    @property
    def version(self) -> str:
        return f"{self.job.provenance.version}+cu{(self.job.provenance.cuda or '').replace('.', '')}"

    @property
    def folder(self) -> Path:
        return self.places.stage2

    def core(self) -> str:
        built = (self.places.core / "wheel.sha256").read_text() if self.job.choices.core == "built" else ""
        return " ".join([built, *(str(wheel["sha256"]) for wheel in self.job.choices.wheels)]).strip()

    def said(self) -> dict[str, Any]:
        choices = self.job.choices
        flags = {"core": choices.core, "flash": choices.flash}
        return {"flags": flags, "cuda": self.job.provenance.cuda, "arch_list": choices.archs}

    def backend(self) -> list[str]:
        """The command of the project's own build backend."""
        return [self.python(), "-B", "-m", "torch_cuda_build.backend"]

    def ready(self) -> None:
        project = f"{self.names['tree']}/third_device/torch_cuda"
        self.run("configure stage 2", [*self.backend(), "configure"], project)

    def make(self) -> Path:
        project = f"{self.names['tree']}/third_device/torch_cuda"
        self.compile()
        raw = self.pack([*self.backend(), "pack", "--stored"], project)  # the finished wheel is written anew
        if self.environment.kind == "portable":
            self._check_platform(raw)
        return raw

    def _check_platform(self, raw: Path) -> None:
        """The tag in the wheel's name was given to the build: auditwheel says whether its libraries keep it."""
        inside, said = f"{self.names['raw']}/stage2/{raw.name}", list[str]()
        self.run("platform of stage 2", [*settings.facts().portable.show, inside], "/", said.append)
        wheels.check_platform(raw.name, " ".join(said))


def stage_of(number: int, job: Job) -> Stage:
    """Stage 1 or 2 of a job, with all of its kernels compiled. Raises DecoupleError as `Stage2`."""
    return (Stage1 if number == 1 else Stage2)(job)


class Bindings(Stage2):
    """torch_cuda over libraries with kernels that somebody else compiled: host C++ alone."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        for name in settings.facts().bindings.unused:
            self.variables.pop(name, None)
        self.variables["TORCH_CUDA_KERNELS"] = self.names["kernels"]

    def check(self) -> None:
        """Nothing of CUDA's is needed but headers, which lie beside the kernels."""

    def layers(self) -> Sequence[str]:
        return bindings_layers(self.job.choices, self.environment.kind)

    def toolchain(self) -> dict[str, Any]:
        return toolchain_of(self.environment, 1, self.layers(), self.variables)

    def said(self) -> dict[str, Any]:
        flags = {"core": self.job.choices.core, "kernels": self.job.choices.kernels}
        return {"flags": flags, "cuda": self.job.provenance.cuda, "arch_list": self.job.choices.archs}


def layers_of(number: int, choices: Choices, kind: str) -> list[str]:
    """The layers of a root that a stage which is compiled is built with in an environment of ``kind``."""
    chosen = settings.layers(number, profile=choices.profile, core=choices.core)
    if number == 2:
        chosen = toolkits.layers(kind, choices.cuda, chosen)
    return list(dict.fromkeys([*chosen, *_interpreter(number, choices, kind).layers]))


def bindings_layers(choices: Choices, kind: str) -> list[str]:
    """The layers of a root that stage 2 over libraries with kernels is built with in an environment of ``kind``."""
    facts, core = settings.facts(), settings.core(choices.core)
    return list(dict.fromkeys([*facts.bindings.layers, *core.layers, *_interpreter(2, choices, kind).layers]))


def _interpreter(number: int, choices: Choices, kind: str) -> Interpreter:
    """The Python that a stage is configured with: the one chosen, else for stage 2 that of a core which is for another
    than the environment's own."""
    if choices.python:
        return settings.facts().portable.interpreter(choices.python)
    own = Interpreter("python3", ())
    return own if number == 1 else settings.core(choices.core).interpreters.get(kind, own)


def overrides(places: Places, kind: str = "rootfs") -> tuple[Bind, ...]:
    """Files that an environment of ``kind`` shows as upstream has them; ``stages.toml`` gives the reasons."""
    made = []
    for one in settings.stage(1).override:
        if one.environment == kind:
            copy = places.state / "overrides" / one.path
            content = inputs.upstream_file(places.tree, one.path)
            if not copy.exists() or copy.read_bytes() != content:
                write_atomically(copy, content)
            made.append(Bind(copy, f"/decouple/{places.release}/src/{one.path}"))
    return tuple(made)


def variables_of(
    environment: Environment, stage: int, provenance: Provenance, choices: Choices | None = None
) -> dict[str, str]:
    """The whole environment that a stage's commands run in."""
    choices = choices or Choices()
    names = environment.names()
    revision = str(choices.revision or "")
    if stage == 1:
        profile = settings.profile(choices.profile)
        local = ".".join(filter(None, (profile.local_version, revision)))
        more = {**profile.environment, "PYTORCH_BUILD_VERSION": f"{provenance.version}+{local}"}
    else:
        core = settings.core(choices.core)
        more = {
            **core.environments.get(environment.kind, {}),
            "TORCH_CUDA_ARCH_LIST": ";".join(choices.archs),
            "TORCH_CUDA_CORE": "built" if choices.core == "built" else "stock",
            "TORCH_CUDA_CORE_PREFIX": core.prefix.format_map(names),
            "TORCH_CUDA_SLICE": choices.slice,
            "USE_FLASH_ATTENTION": "1" if choices.flash else "0",
            "USE_MEM_EFF_ATTENTION": "1" if choices.flash else "0",
            **({"TORCH_CUDA_REVISION": revision} if revision else {}),
            **toolkits.variables(environment.kind, choices.cuda, names),
        }
    return settings.environment(stage, environment.kind, names, more) | _shared(environment, choices)


def _shared(environment: Environment, choices: Choices) -> dict[str, str]:
    """Variables of both stages: job limit, time of the sources, the host's compilers, what the user set by hand."""
    named = settings.facts().host.passes if environment.kind == "host" else ()
    made = {name: os.environ[name] for name in named if name in os.environ}
    made |= {"SOURCE_DATE_EPOCH": str(inputs.epoch_of(environment.places.tree))}
    made |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    if choices.jobs:
        made["MAX_JOBS"] = str(choices.jobs)
    return {**made, **choices.variables}


def unpack_core(environment: Environment, version: str) -> None:
    """Unpack the newest stage-1 wheel for stage 2 to build against, unless it is there. Raises DecoupleError."""
    places = environment.places
    stamp = inputs.read_stamp(places.core_state / "stage1.json")
    wheel = places.dist / stamp.wheel if stamp else None
    if wheel is None or not wheel.exists():
        raise DecoupleError(
            f"{places.dist}: no core wheel of {version} to build stage 2 against",
            next_step="build stage 1 first (--stage 1), or use --core stock",
        )
    if environment.kind == "portable" and "-manylinux" not in wheel.name:
        raise DecoupleError(
            f"{wheel}: the last core that was built is of another environment",
            next_step="build stage 1 first (--env portable --stage 1)",
        )
    marker = places.core / "wheel.sha256"
    digest = sha256_of(wheel)
    if marker.exists() and marker.read_text() == digest:
        return
    marker.unlink(missing_ok=True)
    step("unpack the core wheel")
    inputs.unpack_changed(wheel, places.core)
    write_atomically(marker, digest)


def core_folder(environment: Environment, version: str, core: str) -> Path:
    """Where this machine has what stage 2 builds against; the newest stage-1 wheel is unpacked. Raises
    DecoupleError."""
    if core == "built":
        unpack_core(environment, version)
    inside = settings.core(core).prefix.format_map(environment.names())
    if inside == environment.names()["core"]:
        return environment.places.core
    return environment.root.tree / inside.lstrip("/") if isinstance(environment, RootEnvironment) else Path(inside)


def toolchain_of(
    environment: Environment, stage: int, layers: Sequence[str], variables: Mapping[str, str]
) -> dict[str, Any]:
    """The first line that each program says of its version; in a root also the versions of the packages in ``layers``.

    What else is in the root does not count: a stage is the same wheel whether or not the other is built with it.
    """
    table = {**settings.facts().toolchain, **(settings.facts().toolchain_cuda if stage == 2 else {})}
    made: dict[str, Any] = {}
    for name, command in table.items():
        said = ask(environment, command, variables)
        made[name] = said.splitlines()[0] if said else None
    if isinstance(environment, RootEnvironment):
        root = environment.root
        named = {package for layer in layers for package in root.description.layer(layer).packages}
        versions = root.versions()
        made["packages"] = {name: versions[name] for name in sorted(named) if name in versions}
    return made


class _Follow:
    """Turns ninja's status lines into progress, weighed by the core-seconds that each object is ``expected`` to take,
    and passes on what wrapped_cmake says about a killed compiler."""

    def __init__(
        self, progress: Progress, what: str, say: Callable[[str], None], expected: Mapping[str, float]
    ) -> None:
        self._progress, self._what, self._say, self._expected = progress, what, say, expected
        self._done = 0
        self._total: int | None = None

    def __call__(self, line: str) -> None:
        match = _STATUS.search(line)
        if match is None:
            if "wrapped_cmake: " in line and "killed" in line:
                self._say(line.strip())
            return
        done, total = int(match[1]), int(match[2])
        if total != self._total:
            if self._total is not None:
                self._progress.finish()
            self._progress.start(self._what, total, "objects", sum(self._expected.values()))
            self._done, self._total = 0, total
        if done > self._done:
            built = _OBJECT.search(line)
            self._progress.advance(done - self._done, self._expected.get(built[1], 0.0) if built else 0.0)
            self._done = done
