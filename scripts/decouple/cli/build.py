"""``decouple build | smoke | shell | clean | explain``: the two wheels of a release, and what they are built in."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decouple.base.errors import OK, DecoupleError, UsageError

if TYPE_CHECKING:
    from decouple.build.environment import Environment, Places
    from decouple.build.stages import Choices, Outcome, Provenance

SMOKE = "smoke"
"""The folder below ``build/<release>/`` of a slice of stage 2: never that of a whole build."""


def register(subparsers: Any) -> None:
    """Add the commands of the build room."""
    build = subparsers.add_parser("build", help="build both wheels of a release into dist/<release>/ (resumes)")
    _shared(build)
    build.add_argument("--stage", choices=["1", "2"], help="only this stage (default: both; with --core stock only 2)")
    build.add_argument("--core", choices=["built", "stock"], default="built", help="what stage 2 builds against")
    build.add_argument("--profile", default="core", help="core (no CUPTI) or kineto-cupti")
    build.add_argument("--arch", help="CUDA architectures, e.g. '8.0;9.0+PTX' (default: TORCH_CUDA_ARCH_LIST, or 9.0)")
    build.add_argument("--no-flash", action="store_true", help="leave flash and memory-efficient attention out")
    build.add_argument("--slice", choices=["all", "runtime"], default="all", help=argparse.SUPPRESS)
    build.add_argument(
        "--revision", type=int, default=0, metavar="N", help="version 2.6.0+decoupled.N, to follow what was published"
    )
    build.add_argument("--resume", action="store_true", help="go on where the last run stopped (the default)")
    build.add_argument("--estimate", action="store_true", help="say what it would cost, build nothing")
    build.set_defaults(run=_build)

    smoke = subparsers.add_parser("smoke", help="stage 2's runtime part against a stock core: a quick check")
    _shared(smoke)
    smoke.add_argument("--arch", help="one CUDA architecture (default 9.0)")
    smoke.add_argument(
        "--minutes", type=float, default=40, help="stop, with an error, when the build takes longer (default 40)"
    )
    smoke.set_defaults(run=_smoke)

    shell = subparsers.add_parser("shell", help="a shell in the build environment")
    _shared(shell)
    shell.add_argument("--stage", choices=["1", "2"], default="1", help="whose variables the shell gets")
    shell.add_argument("--core", choices=["built", "stock"], default="built", help="what stage 2 builds against")
    shell.add_argument("--run", dest="command", metavar="COMMAND", help="run this by bash -c instead")
    shell.set_defaults(run=_shell)

    clean = subparsers.add_parser("clean", help="delete what building left (not dist/)")
    clean.add_argument("release")
    clean.add_argument("--stage", choices=["1", "2"], help="only this stage's build directory")
    clean.add_argument("--rootfs", action="store_true", help="the Debian root too")
    clean.set_defaults(run=_clean)

    explain = subparsers.add_parser("explain", help="print what a wheel was made from")
    explain.add_argument("wheel", type=Path)
    explain.add_argument("--json", action="store_true", help="the manifest itself")
    explain.set_defaults(run=_explain)


def _shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("release")
    parser.add_argument("--env", choices=["auto", "host", "rootfs"], default="auto", help="whose toolchain builds")
    parser.add_argument("--jobs", type=int, help="compile jobs at once (default: what cores and memory allow)")
    parser.add_argument("--tree", type=Path, help="the applied tree (default: build/<release>/src)")


def _build(arguments: argparse.Namespace) -> int:
    from decouple.build import settings, stages
    from decouple.build.estimate import available_memory, cores, estimate, objects_in, refuse_if_too_small
    from decouple.cli import output

    wanted = _stages(arguments)
    settings.choose("profile", arguments.profile)
    choices = _choices(arguments)
    places = _places(arguments)
    jobs = arguments.jobs or cores()
    estimates = []
    for stage in wanted:
        cost = settings.cost(stage, arch_count=len(choices.archs), flash=choices.flash, part=choices.slice != "all")
        done = objects_in(places.stage1 if stage == 1 else places.stage2)
        estimates.append(estimate(f"stage {stage}", cost, done=done, jobs=jobs))
        print(estimates[-1].line())
    if arguments.estimate:
        return OK
    refuse_if_too_small(estimates, folder=places.dist, memory=available_memory())
    _need_tree(arguments, places)
    places.make()
    layers = [layer for stage in wanted for layer in settings.layers(stage, profile=choices.profile, core=choices.core)]
    environment = environment_for(arguments, places, list(dict.fromkeys(layers)))
    provenance = _provenance(places)
    builders = {1: stages.build_stage1, 2: stages.build_stage2}
    for stage in wanted:
        outcome = builders[stage](
            environment, provenance, choices, progress=output.progress(), say=lambda line: print(line, flush=True)
        )
        _report(outcome, places, provenance, choices, jobs)
    return OK


def _smoke(arguments: argparse.Namespace) -> int:
    arguments.stage, arguments.core, arguments.profile = "2", "stock", "core"
    arguments.no_flash, arguments.slice, arguments.estimate = True, "runtime", False
    from decouple.base.process import time_limit
    from decouple.cli import verify

    again = f"decouple smoke {arguments.release} goes on from there; --minutes gives it more"
    with time_limit(arguments.minutes, "smoke", again):
        _build(arguments)
        return verify.smoke(arguments, _places(arguments))


def _shell(arguments: argparse.Namespace) -> int:
    from decouple.build import settings
    from decouple.build.environment import shell
    from decouple.build.stages import Choices, variables_of

    places = _places(arguments)
    _need_tree(arguments, places)
    places.make()
    stage = int(arguments.stage)
    layers = settings.layers(stage, profile="core", core=arguments.core)
    environment = environment_for(arguments, places, layers)
    variables = variables_of(environment, stage, _provenance(places), Choices(core=arguments.core))
    if arguments.command:
        argv = environment.argv(["bash", "-c", arguments.command], variables, environment.names()["tree"])
        return subprocess.run(argv).returncode
    return shell(environment, variables)


def _clean(arguments: argparse.Namespace) -> int:
    import contextlib

    from decouple.base.files import locked
    from decouple.base.mounts import remove_tree
    from decouple.base.paths import cache_dir
    from decouple.build import description, rootfs

    arguments.tree = None
    places = _places(arguments)

    def refuse() -> None:
        raise DecoupleError(f"{places.stage2.parent}: a build is running", next_step="wait until it ends, or stop it")

    built = [places.stage1, places.stage2, places.core, places.verify, places.raw, places.state]
    folders = {"1": [places.stage1], "2": [places.stage2]}.get(
        arguments.stage or "", [*built, places.stage2.parent / SMOKE]
    )
    with contextlib.ExitStack() as held:
        for stage in arguments.stage or "12" if places.state.exists() else "":
            held.enter_context(locked(places.state / f"stage{stage}.lock", refuse))
        for folder in folders:
            if folder.exists():
                remove_tree(folder)
                print(f"deleted {folder}")
        for stamp in places.state.glob(f"stage{arguments.stage or '*'}*") if places.state.exists() else ():
            stamp.unlink()
    if arguments.rootfs and rootfs.remove(cache_dir(), description.load()):
        print("deleted the Debian root")
    return OK


def _explain(arguments: argparse.Namespace) -> int:
    from decouple.build.wheels import read_manifest

    manifest = read_manifest(arguments.wheel)
    if arguments.json:
        print(manifest.to_json().decode(), end="")
        return OK
    print(f"{manifest.project} {manifest.version} (release {manifest.release})")
    print(f"  upstream    {manifest.upstream.get('tag')} {manifest.upstream.get('commit')}")
    print(f"  tree        {manifest.tree}")
    print(f"  series      {manifest.series_digest}")
    for patch in manifest.patches:
        print(f"              {patch['path']} {patch['sha256'][:16]}")
    print(f"  overlay     {manifest.overlay_digest}")
    for source in manifest.sources:
        print(f"  source      {source['name']} {source['sha256']}")
    if manifest.cuda:
        print(f"  cuda        {manifest.cuda} for {', '.join(manifest.arch_list)}")
    for name, said in manifest.toolchain.items():
        if name != "packages":
            print(f"  {name:<11} {said or 'not there'}")
    print(f"  packages    {len(manifest.toolchain.get('packages', {}))} (--json lists them)")
    print(f"  flags       {', '.join(f'{name}={value}' for name, value in manifest.flags.items())}")
    print(f"  environment {' '.join(f'{name}={value}' for name, value in manifest.environment.items())}")
    print(f"  times       {', '.join(f'{name}={value}' for name, value in manifest.times.items())}")
    return OK


def _stages(arguments: argparse.Namespace) -> list[int]:
    if arguments.stage:
        return [int(arguments.stage)]
    return [2] if arguments.core == "stock" else [1, 2]


def _choices(arguments: argparse.Namespace) -> Choices:
    import os

    from decouple.build import settings
    from decouple.build.probe import check_archs, split_archs
    from decouple.build.stages import Choices

    asked = arguments.arch or os.environ.get("TORCH_CUDA_ARCH_LIST") or settings.facts()["stage2"]["arch_list"]
    archs = split_archs(asked)
    if not archs:
        raise UsageError("--arch is empty", next_step="name an architecture, e.g. --arch 9.0")
    check_archs(archs, (), "")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: at least one", next_step="--jobs 1, or leave it out")
    revision = getattr(arguments, "revision", 0)  # a smoke test is never published
    if revision < 0:
        raise UsageError(f"--revision {revision}: a number from 1 on", next_step="leave it out for the first build")
    jobs = arguments.jobs or (int(os.environ["MAX_JOBS"]) if os.environ.get("MAX_JOBS", "").isdigit() else None)
    passed = ("USE_", "CMAKE_", "BUILD_TEST")  # as upstream; other BUILD_* are mostly a CI host's own
    by_hand = {name: value for name, value in os.environ.items() if name.startswith(passed)}
    return Choices(
        profile=arguments.profile,
        core=arguments.core,
        archs=archs,
        flash=not arguments.no_flash,
        jobs=jobs,
        slice=arguments.slice,
        revision=revision,
        variables=by_hand,
    )


def _places(arguments: argparse.Namespace) -> Places:
    from decouple.base.paths import cache_dir, find_project
    from decouple.build.environment import Places

    places = Places.of(find_project(), arguments.release, cache_dir(), arguments.tree and arguments.tree.resolve())
    return places.beside(SMOKE) if getattr(arguments, "slice", "all") != "all" else places


def _need_tree(arguments: argparse.Namespace, places: Places) -> None:
    """Fetch and apply first when there is no fitting tree, so that one command goes from nothing to wheels.

    The Debian root has no third_party: there the tree carries Debian's own patches below ours.
    """
    if arguments.tree is not None and not places.tree.is_dir():
        raise UsageError(
            f"{places.tree}: no such folder", next_step="leave --tree out: the release is fetched and applied"
        )
    for _ in range(2):  # whether the source has submodules, and so whether the host suffices, is known once it is there
        debian = not _on_host(arguments, places, cuda=False)
        if places.tree.is_dir() and (not debian or (places.tree / "debian" / "patches").is_dir()):
            return
        _apply(arguments, places, debian=debian)


def _apply(arguments: argparse.Namespace, places: Places, *, debian: bool) -> None:
    if arguments.tree is not None:
        raise UsageError(
            f"{places.tree}: without Debian's patches, which the Debian root needs",
            next_step=f"decouple apply {arguments.release} --debian-patches",
        )
    more = ["--debian-patches"] if debian else []
    done = subprocess.run([sys.executable, "-m", "decouple", "apply", arguments.release, *more])
    if done.returncode:
        again = " ".join(["decouple apply", arguments.release, *more])
        raise DecoupleError(f"{places.tree}: there is no applied tree", next_step=again)


def _on_host(arguments: argparse.Namespace, places: Places, *, cuda: bool) -> bool:
    """Whether this machine's own toolchain builds. Raises DecoupleError when it was asked for and lacks something."""
    from decouple.build import host

    if arguments.env == "rootfs":
        return False
    lacks = host.lacks(places.tree, cuda=cuda)
    if lacks and arguments.env == "host":
        raise DecoupleError(f"--env host: {lacks[0]}", next_step="install it, or use --env rootfs")
    return not lacks


def environment_for(arguments: argparse.Namespace, places: Places, layers: list[str]) -> Environment:
    """The environment that ``--env`` names, with the layers of the root that the work needs."""
    from decouple.base.paths import cache_dir
    from decouple.build import description, rootfs
    from decouple.build.environment import HostEnvironment, RootEnvironment
    from decouple.build.stages import overrides
    from decouple.cli import output

    if _on_host(arguments, places, cuda="cuda" in layers):
        print("environment: this machine's own toolchain")
        return HostEnvironment(places)
    root = rootfs.ensure(
        cache_dir(),
        description.load(),
        layers,
        log=cache_dir() / "logs" / "rootfs.log",
        progress=output.progress(),
    )
    print(f"environment: Debian root {root.folder} with {', '.join(layers)}")
    for line in rootfs.moved(root):
        print(f"  note: {line}")
    return RootEnvironment(places, root, overrides(places))


def _provenance(places: Places) -> Provenance:
    from decouple.build.stages import Provenance
    from decouple.release.manifest import load_release
    from decouple.series.digest import patch_digests, series_digest

    manifest = load_release(places.project, places.release)
    sources = []
    for source in manifest.sources:
        for file in vars(source).values():
            if hasattr(file, "sha256") and file.sha256:
                sources.append({"name": file.name, "url": file.urls[0], "size": file.size, "sha256": file.sha256})
    patches = patch_digests(places.project, places.release)
    return Provenance(
        version=manifest.version,
        upstream={"version": manifest.version, "tag": manifest.tag, "commit": manifest.commit},
        sources=tuple(sources),
        series_digest=series_digest(places.project, places.release),
        patches=tuple({"path": path, "sha256": digest} for path, digest in patches),
        overlay_digest=_overlay_digest(places.project, places.tree),
        cuda=manifest.toolchain.cuda,
    )


def _overlay_digest(project: Path, tree: Path) -> str:
    """SHA-256 over path, mode and content of the overlay's files as the tree has them: those are built.

    Which files those are is what git knows, or would add, in the project's third_device/.
    """
    from decouple.base.git import git, names

    listed = git(
        *("ls-files", "-z", "--cached", "--others", "--exclude-standard", "third_device"),
        cwd=project,
        doing=f"{project}: git does not list third_device/",
        next_step="build from a git checkout of this repository",
    )
    total = hashlib.sha256()
    for name in sorted(name for name in set(names(listed)) if (tree / name).is_file()):
        path = tree / name
        total.update(
            f"{name}\0{path.stat().st_mode & 0o100:o}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
        )
    return total.hexdigest()


def _report(outcome: Outcome, places: Places, provenance: Provenance, choices: Choices, jobs: int) -> None:
    """Print what was made; a whole stage of the two-stage build is recorded in ``ci/status``, a slice is a check."""
    from decouple.build.estimate import object_seconds
    from decouple.release import status

    if outcome.built and choices.slice == "all" and (outcome.stage == 1 or choices.core == "built"):
        path = status.path_of(places.project, places.release)
        document = {
            "wheel": outcome.wheel.name,
            "wheel_bytes": outcome.wheel.stat().st_size,
            "objects": outcome.objects,
            "cores": jobs,
            "series": provenance.series_digest,
            "object_seconds": object_seconds(places.stage1 if outcome.stage == 1 else places.stage2),
            **status.effort(asdict(outcome.effort)),
        }
        status.update(path, f"stage{outcome.stage}", status.with_costliest(path, f"stage{outcome.stage}", document))
        known = status.read(path).get("series", {})
        series = {"patches": len(provenance.patches), "digest": provenance.series_digest}
        status.update(path, "series", {**known, **series})
    size = outcome.wheel.stat().st_size / (1 << 20)
    minutes = outcome.effort.seconds / 60
    did = "built" if outcome.built else "up to date"
    print(
        f"stage {outcome.stage}: {did}: {outcome.wheel} ({size:.1f} MiB, {outcome.objects} objects, {minutes:.1f} min)"
    )
