"""Building the two wheels. Every step may be interrupted; the next run goes on from there."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decouple.base.errors import DecoupleError
from decouple.base.fault import step
from decouple.base.files import locked, sha256_of, write_atomically
from decouple.base.mounts import remove_tree
from decouple.base.progress import SILENT, Progress
from decouple.build import effort, inputs, probe, settings, wheels
from decouple.build.effort import Effort
from decouple.build.environment import Environment, Places, RootEnvironment, ask, run
from decouple.build.estimate import objects_in
from decouple.build.sandbox import Bind
from decouple.release.wheel_manifest import WheelManifest

_STATUS = re.compile(r"^\s*\[(\d+)/(\d+)[ \]]")


@dataclass(frozen=True)
class Provenance:
    """Where the source comes from: what ``cli`` knows of the release, the series and the overlay."""

    version: str
    upstream: Mapping[str, str]
    sources: tuple[Mapping[str, Any], ...]
    series_digest: str
    patches: tuple[Mapping[str, str], ...]
    overlay_digest: str
    cuda: str | None


@dataclass(frozen=True)
class Choices:
    """What the user chose: profile of stage 1, core of stage 2, architectures, kernels, jobs, part of stage 2.

    ``revision`` tells published builds of one release apart: the end of the local version (``+decoupled.2``); 0: none.
    """

    profile: str = "core"
    core: str = "built"
    archs: tuple[str, ...] = ("9.0",)
    flash: bool = True
    jobs: int | None = None
    slice: str = "all"
    revision: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A stage's wheel; ``built`` is False when it was up to date. Effort and objects are of the last build."""

    stage: int
    wheel: Path
    built: bool
    effort: Effort
    objects: int


def build_stage1(
    environment: Environment,
    provenance: Provenance,
    choices: Choices,
    *,
    progress: Progress = SILENT,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """The core wheel of the applied tree. Raises DecoupleError naming the step that failed and its log."""
    names = environment.names()
    variables = variables_of(environment, 1, provenance, choices)
    version = variables["PYTORCH_BUILD_VERSION"]

    def build(log: Path) -> Path:
        for prepare in settings.facts()["stage1"]["prepare"]:
            made = environment.places.tree / prepare["unless"]
            if prepare["environment"] == environment.kind and not made.exists():
                made.parent.mkdir(parents=True, exist_ok=True)
                run(
                    environment,
                    prepare["command"],
                    variables=variables,
                    start=names["tree"],
                    log=log,
                    what=prepare["what"],
                )
        _configure(environment, variables, log, progress)
        _uninstall(environment)
        _compile(environment, 1, ("install",), variables, log, progress, say)
        return _bdist(environment, variables, log, progress)

    return _stage(environment, provenance, choices, 1, version, variables, build, say)


def build_stage2(
    environment: Environment,
    provenance: Provenance,
    choices: Choices,
    *,
    progress: Progress = SILENT,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """The torch_cuda wheel, built by the project's own PEP 517 backend. Raises DecoupleError naming what is missing."""
    names = environment.names()
    variables = variables_of(environment, 2, provenance, choices)
    prefix = variables["TORCH_CUDA_CORE_PREFIX"]
    if choices.core == "built":
        _unpack_core(environment, provenance.version)
    cudnn = variables.get("USE_CUDNN", "1") not in ("0", "OFF")
    wanted = probe.Wanted(provenance.cuda, provenance.version, choices.archs, prefix, cudnn)
    probe.check_stage2(probe.ask_inside(environment, variables, prefix), wanted)
    version = f"{provenance.version}+cu{(provenance.cuda or '').replace('.', '')}"

    def build(log: Path) -> Path:
        project = f"{names['tree']}/third_device/torch_cuda"
        progress.start("configure stage 2")
        configure = (
            "import sys; sys.path.insert(0, sys.argv[1]); from torch_cuda_build import backend; backend.configure()"
        )
        run(
            environment,
            ["python3", "-c", configure, project],
            variables=variables,
            start=project,
            log=log,
            what="configure stage 2",
        )
        progress.finish()
        # The backend would compile too; wrapped_cmake does it with limits from memory and second tries.
        _compile(environment, 2, (), variables, log, progress, say)
        raw = _fresh(environment.places.raw / "stage2")
        command = ["python3", "-m", "pip", "wheel", "-v", "--no-deps", "--no-index", "--no-build-isolation"]
        command += ["--wheel-dir", f"{names['raw']}/stage2", project]
        progress.start("wheel of stage 2")
        run(environment, command, variables=variables, start=names["stage2"], log=log, what="wheel of stage 2")
        progress.finish()
        return _only_wheel(raw)

    return _stage(environment, provenance, choices, 2, version, variables, build, say)


def overrides(places: Places) -> tuple[Bind, ...]:
    """Files of the tree that the Debian root shows as upstream has them; ``stages.toml`` gives the reasons."""
    made = []
    for table in settings.facts()["stage1"]["override"]:
        copy = places.state / "overrides" / table["path"]
        content = inputs.upstream_file(places.tree, table["path"])
        if not copy.exists() or copy.read_bytes() != content:
            write_atomically(copy, content)
        made.append(Bind(copy, f"/decouple/{places.release}/src/{table['path']}"))
    return tuple(made)


def variables_of(
    environment: Environment, stage: int, provenance: Provenance, choices: Choices | None = None
) -> dict[str, str]:
    """The whole environment that a stage's commands run in."""
    choices = choices or Choices()
    names = environment.names()
    revision = str(choices.revision or "")
    if stage == 1:
        profile = settings.choose("profile", choices.profile)
        local = ".".join(filter(None, (profile["local_version"], revision)))
        more = dict(profile["environment"], PYTORCH_BUILD_VERSION=f"{provenance.version}+{local}")
    else:
        core = settings.choose("core", choices.core)
        more = {
            **(core["environment"] if environment.kind == "rootfs" else {}),
            "TORCH_CUDA_ARCH_LIST": ";".join(choices.archs),
            "TORCH_CUDA_CORE": choices.core,
            "TORCH_CUDA_CORE_PREFIX": core["prefix"].format_map(names),
            "TORCH_CUDA_SLICE": choices.slice,
            "USE_FLASH_ATTENTION": "1" if choices.flash else "0",
            "USE_MEM_EFF_ATTENTION": "1" if choices.flash else "0",
            **({"TORCH_CUDA_REVISION": revision} if revision else {}),
        }
    return settings.environment(stage, environment.kind, names, more) | _shared(environment, choices)


def _shared(environment: Environment, choices: Choices) -> dict[str, str]:
    """Variables of both stages: job limit, time of the sources, the host's compilers, what the user set by hand."""
    named = settings.facts()["host"]["passes"] if environment.kind == "host" else ()
    made = {name: os.environ[name] for name in named if name in os.environ}
    made |= {"SOURCE_DATE_EPOCH": str(inputs.epoch_of(environment.places.tree))}
    made |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    if choices.jobs:
        made["MAX_JOBS"] = str(choices.jobs)
    return {**made, **choices.variables}


def _stage(
    environment: Environment,
    provenance: Provenance,
    choices: Choices,
    stage: int,
    version: str,
    variables: Mapping[str, str],
    build: Callable[[Path], Path],
    say: Callable[[str], None],
) -> Outcome:
    """What both stages share: the check of the inputs, the build, the manifest, the finished wheel, the stamp."""
    places = environment.places
    tree, dirty = inputs.tree_state(places.tree)
    layers = settings.layers(stage, profile=choices.profile, core=choices.core)
    toolchain = _toolchain(environment, stage, layers, variables)
    relevant = {name: value for name, value in variables.items() if name not in ("MAX_JOBS", "CCACHE_MAXSIZE")}
    core = ""
    if stage == 2 and choices.core == "built":
        core = (places.core / "wheel.sha256").read_text()
    digest = inputs.digest_of(
        {
            "content": inputs.content_of(places.tree, settings.facts()[f"stage{stage}"].get("does_not_read", ())),
            "series": provenance.series_digest,  # stands in the wheel
            "toolchain": toolchain,
            "variables": relevant,
            "version": version,
            "core": core,
        }
    )
    stamp_path = places.state / f"stage{stage}.json"
    with locked(places.state / f"stage{stage}.lock", lambda: say(f"stage {stage}: waits for another run that builds it")):
        stamp = inputs.up_to_date(stamp_path, digest, places.dist)
        if stamp:
            return Outcome(stage, places.dist / stamp.wheel, False, Effort(stamp.seconds), stamp.objects)
        log = places.logs / f"stage{stage}.log"
        say(f"stage {stage}: building, log {log}")
        began, before = time.monotonic(), effort.counters(environment, dict(variables))
        try:
            raw = build(log)
        finally:  # an interrupted run's time counts too
            after = effort.counters(environment, dict(variables))
            took = effort.since(time.monotonic() - began, before, after)
            took = effort.accumulate(places.state / f"stage{stage}.effort", digest, took)
        said = raw.name.split("-")[1]
        if stage == 1 and said != version:
            raise DecoupleError(f"{raw.name}: its version is {said}, expected {version}", next_step=f"read {log}")
        manifest = WheelManifest(
            release=places.release,
            project="torch" if stage == 1 else "torch-cuda",
            version=said,
            upstream=provenance.upstream,
            sources=provenance.sources,
            series_digest=provenance.series_digest,
            patches=provenance.patches,
            overlay_digest=provenance.overlay_digest,
            tree=f"{tree}+{dirty[:12]}" if dirty else tree,
            cuda=provenance.cuda if stage == 2 else None,
            arch_list=choices.archs if stage == 2 else (),
            toolchain=toolchain,
            flags={"profile": choices.profile} if stage == 1 else {"core": choices.core, "flash": choices.flash},
            environment=dict(sorted(relevant.items())),
            # How long it took differs each time; it stands in the stamp and in ci/status, so that wheels can be equal.
            times={"source_date_epoch": int(variables["SOURCE_DATE_EPOCH"])},
        )
        wheel = wheels.finish(raw, places.dist, manifest, int(variables["SOURCE_DATE_EPOCH"]))
        objects = objects_in(places.stage1 if stage == 1 else places.stage2)
        inputs.write_stamp(stamp_path, inputs.Stamp(digest, wheel.name, sha256_of(wheel), took.seconds, objects))
        (places.state / f"stage{stage}.effort").unlink(missing_ok=True)  # finished: the next build starts counting anew
    return Outcome(stage, wheel, True, took, objects)


def _configure(environment: Environment, variables: Mapping[str, str], log: Path, progress: Progress) -> None:
    """Run upstream's configure step unless the same variables were configured before."""
    places = environment.places
    stamp = places.state / "stage1.configured"
    digest = inputs.digest_of({name: value for name, value in variables.items() if name != "MAX_JOBS"})
    if (places.stage1 / "build.ninja").exists() and stamp.exists() and stamp.read_text() == digest:
        return
    progress.start("configure stage 1")
    command = ["python3", "setup.py", "build", "--cmake", "--cmake-only"]
    run(environment, command, variables=variables, start=environment.names()["tree"], log=log, what="configure stage 1")
    write_atomically(stamp, digest)
    progress.finish()


def _uninstall(environment: Environment) -> None:
    """Remove what earlier runs installed into the tree and gathered for the wheel: setup.py packages what it finds.

    The list is CMake's own; a file that git tracks stays.
    """
    places, tree = environment.places, Path(environment.names()["tree"])
    tracked = inputs.tracked(places.tree)
    manifest = places.stage1 / "install_manifest.txt"
    for line in manifest.read_text(encoding="utf-8").splitlines() if manifest.exists() else ():
        if not Path(line).is_relative_to(tree):
            continue
        name = Path(line).relative_to(tree).as_posix()
        if name not in tracked:
            (places.tree / name).unlink(missing_ok=True)
    for gathered in (*places.stage1.glob("lib.*"), *places.stage1.glob("bdist.*")):
        remove_tree(gathered)


def _compile(
    environment: Environment,
    stage: int,
    targets: Sequence[str],
    variables: Mapping[str, str],
    log: Path,
    progress: Progress,
    say: Callable[[str], None],
) -> None:
    """Run ninja through wrapped_cmake in the stage's build directory."""
    names = environment.names()
    folder = names[f"stage{stage}"]
    command = ["python3", f"{names['project']}/third_device/tools/wrapped_cmake", "build", folder, *targets, "--raw"]
    progress.start(f"stage {stage}", None, "objects")
    follow = _Follow(progress, f"stage {stage}", say)
    what = f"compile stage {stage}"
    run(environment, command, variables=variables, start=folder, log=log, what=what, on_line=follow)
    progress.finish()


def _bdist(environment: Environment, variables: Mapping[str, str], log: Path, progress: Progress) -> Path:
    raw = _fresh(environment.places.raw / "stage1")
    names = environment.names()
    progress.start("wheel of stage 1")
    command = ["python3", "setup.py", "-q", "bdist_wheel", "--dist-dir", f"{names['raw']}/stage1"]
    run(environment, command, variables=variables, start=names["tree"], log=log, what="wheel of stage 1")
    progress.finish()
    return _only_wheel(raw)


def _unpack_core(environment: Environment, version: str) -> None:
    """Unpack the newest stage-1 wheel for stage 2 to build against, unless it is there."""
    places = environment.places
    stamp = inputs.read_stamp(places.state / "stage1.json")
    wheel = places.dist / stamp.wheel if stamp else None
    if wheel is None or not wheel.exists():
        raise DecoupleError(
            f"{places.dist}: no core wheel of {version} to build stage 2 against",
            next_step="build stage 1 first (--stage 1), or use --core stock",
        )
    marker = places.core / "wheel.sha256"
    digest = sha256_of(wheel)
    if marker.exists() and marker.read_text() == digest:
        return
    marker.unlink(missing_ok=True)
    step("unpack the core wheel")
    inputs.unpack_changed(wheel, places.core)
    write_atomically(marker, digest)


def _toolchain(
    environment: Environment, stage: int, layers: Sequence[str], variables: Mapping[str, str]
) -> dict[str, Any]:
    """The first line that each program says of its version; in the root also the versions of the packages in ``layers``.

    What else is in the root does not count: a stage is the same wheel whether or not the other is built with it.
    """
    table: dict[str, Sequence[str]] = dict(settings.facts()["toolchain"])
    if stage == 2:
        table |= settings.facts()["toolchain_cuda"]
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


def _fresh(folder: Path) -> Path:
    remove_tree(folder)
    folder.mkdir(parents=True)
    return folder


def _only_wheel(folder: Path) -> Path:
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise DecoupleError(f"{folder}: {len(found)} wheels, expected one", next_step="run the same command again")
    return found[0]


class _Follow:
    """Turns ninja's status lines into progress, and passes on what wrapped_cmake says about a killed compiler."""

    def __init__(self, progress: Progress, what: str, say: Callable[[str], None]) -> None:
        self._progress, self._what, self._say = progress, what, say
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
            self._progress.start(self._what, total, "objects")
            self._done, self._total = 0, total
        if done > self._done:
            self._progress.advance(done - self._done)
            self._done = done
