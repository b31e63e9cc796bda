"""The command line of the toolkit: configure, build, report."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import features, jobs, ninja, standalone
from .errors import WrappedCMakeError
from .parameters import Settings, help_text
from .progress import Lines, format_span
from .project import Project, read_project
from .wrapper import WrappedCMake, write_report


def _build_parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="wrapped_cmake",
        description="Configure and build a backend's CMake project with upstream's conventions.",
        epilog=help_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = top.add_subparsers(dest="verb", required=True)
    configure = verbs.add_parser("configure", help="run CMake (not again when nothing changed)")
    configure.add_argument("source", type=Path)
    configure.add_argument("build", type=Path)
    configure.add_argument("-D", dest="definitions", action="append", default=[], metavar="NAME=VALUE")
    configure.add_argument("--prefix", type=Path, help="where `install` puts things")
    configure.set_defaults(run=_run_configure)
    build = verbs.add_parser("build", help="run ninja in a configured build directory")
    build.add_argument("build", type=Path)
    build.add_argument("targets", nargs="*")
    build.add_argument("--log", type=Path)
    build.add_argument("--keep-going", type=int, default=1, metavar="N", help="stop after N failures (ninja -k)")
    build.add_argument("--raw", action="store_true", help="ninja's own lines on standard output, for a program to read")
    build.set_defaults(run=_run_build)
    parameters = verbs.add_parser("parameters", help="what a project takes beside the variables below")
    parameters.add_argument("source", type=Path)
    parameters.set_defaults(run=_show_parameters)
    report = verbs.add_parser("report", help="the slowest objects of a build directory")
    report.add_argument("build", type=Path)
    report.add_argument("--count", type=int, default=10)
    report.set_defaults(run=_run_report)
    return top


def _run_configure(arguments: argparse.Namespace) -> int:
    extra = {}
    for definition in arguments.definitions:
        name, equals, value = definition.partition("=")
        if not equals:
            raise WrappedCMakeError(f"-D {definition}: not NAME=VALUE")
        extra[name] = value
    project = WrappedCMake(arguments.source, arguments.build, install_prefix=arguments.prefix)
    ran = project.configure(extra)
    print(f"{arguments.build}: {'configured' if ran else 'already configured so'}; log {project.log}")
    return 0


def _run_build(arguments: argparse.Namespace) -> int:
    build_dir: Path = arguments.build.resolve()
    for made in ("build.ninja", "CMakeCache.txt"):  # without a cache ninja would run CMake without our definitions
        if not (build_dir / made).exists():
            raise WrappedCMakeError(f"{build_dir}: no {made}", "configure it first")
    environ = features.build_environment(os.environ, build_dir.parent)
    cache = standalone.read_cache(build_dir)
    place = Path(cache.get("CMAKE_CACHEFILE_DIR", build_dir)).resolve()
    if place != build_dir:  # what CMake wrote installs from there
        raise WrappedCMakeError(f"{build_dir}: a copy of {place}, or moved from there", "configure it first")
    project = read_project(Path(cache["CMAKE_HOME_DIRECTORY"])) if "CMAKE_HOME_DIRECTORY" in cache else Project()
    limits = jobs.plan_jobs(Settings(environ, project.parameters), project)
    result = ninja.run_ninja(
        build_dir,
        arguments.targets,
        jobs=limits.jobs,
        environ=environ,
        log=Path("/dev/stdout") if arguments.raw else arguments.log or build_dir / "wrapped_cmake.log",
        on_status=(lambda _: None) if arguments.raw else Lines(limits),
        keep_going=arguments.keep_going,
    )
    write_report(build_dir, result, limits)
    print(f"{result.edges} steps in {format_span(result.seconds)}; slowest:")
    _print_slowest(build_dir, 5)
    return 0


def _show_parameters(arguments: argparse.Namespace) -> int:
    if not arguments.source.is_dir():
        raise WrappedCMakeError(f"{arguments.source}: no such folder", "name that of a project's CMakeLists.txt")
    project = read_project(arguments.source)
    print(help_text(project.parameters))
    for compiler in project.compilers:
        print(f"{' '.join(compiler.suffixes)}: {' '.join(compiler.command)}")
    return 0


def _run_report(arguments: argparse.Namespace) -> int:
    if not (arguments.build / ninja.LOG).is_file():
        raise WrappedCMakeError(f"{arguments.build}: nothing was built here", "name a folder in which ninja built")
    _print_slowest(arguments.build, arguments.count)
    return 0


def _print_slowest(build_dir: Path, count: int) -> None:
    for edge in ninja.list_slowest(build_dir, count):
        print(f"  {edge.seconds:8.1f} s  {edge.output}")


def main(argv: list[str] | None = None) -> int:
    """Run the command; return 0 done, 1 failed, 2 wrong call, 130 interrupted."""
    arguments = _build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        return code
    except WrappedCMakeError as error:
        print(f"wrapped_cmake: {error.what}", file=sys.stderr)
        if error.next_step:
            print(f"  next: {error.next_step}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"wrapped_cmake: {error.filename or 'error'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("wrapped_cmake: interrupted; the same command goes on from there", file=sys.stderr)
        return 130
