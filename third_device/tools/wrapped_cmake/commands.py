"""The command line of the toolkit: configure, build, report."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from . import features, jobs, ninja
from .errors import WrappedCMakeError
from .parameters import Settings, help_text
from .wrapper import WrappedCMake, write_report


def _parser() -> argparse.ArgumentParser:
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
    configure.set_defaults(run=_configure)
    build = verbs.add_parser("build", help="run ninja in a configured build directory")
    build.add_argument("build", type=Path)
    build.add_argument("targets", nargs="*")
    build.add_argument("--log", type=Path)
    build.add_argument("--keep-going", type=int, default=1, metavar="N", help="stop after N failures (ninja -k)")
    build.add_argument("--raw", action="store_true", help="ninja's own lines on standard output, for a program to read")
    build.set_defaults(run=_build)
    report = verbs.add_parser("report", help="the slowest objects of a build directory")
    report.add_argument("build", type=Path)
    report.add_argument("--count", type=int, default=10)
    report.set_defaults(run=_report)
    return top


def _configure(arguments: argparse.Namespace) -> int:
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


def _build(arguments: argparse.Namespace) -> int:
    build_dir: Path = arguments.build.resolve()
    if not (build_dir / "build.ninja").exists():
        raise WrappedCMakeError(f"{build_dir}: no build.ninja", "configure it first")
    environ = features.build_environment(os.environ, build_dir.parent)
    limits = jobs.plan(Settings(environ))
    result = ninja.run(
        build_dir,
        arguments.targets,
        jobs=limits.jobs,
        environ=environ,
        log=Path("/dev/stdout") if arguments.raw else arguments.log or build_dir / "wrapped_cmake.log",
        on_status=(lambda _: None) if arguments.raw else _Lines(limits),
        keep_going=arguments.keep_going,
    )
    write_report(build_dir, result, limits)
    print(f"{result.edges} steps in {_span(result.seconds)}; slowest:")
    _print_slowest(build_dir, 5)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    _print_slowest(arguments.build, arguments.count)
    return 0


def _print_slowest(build_dir: Path, count: int) -> None:
    for edge in ninja.slowest(build_dir, count):
        print(f"  {edge.seconds:8.1f} s  {edge.output}")


class _Lines:
    """A line that rewrites itself on a terminal, a line every ten seconds in a log."""

    def __init__(self, limits: jobs.JobLimits) -> None:
        self._terminal = sys.stderr.isatty()
        self._every = 0.2 if self._terminal else 10.0
        self._said = 0.0
        print(f"{limits.jobs} jobs ({limits.reason}), {limits.cuda} of them .cu, {limits.link} links", file=sys.stderr)

    def __call__(self, status: ninja.Status) -> None:
        now = time.monotonic()
        if now - self._said < self._every and status.done != status.total:
            return
        self._said = now
        left = f", {_span(status.eta)} left" if status.eta is not None else ""
        line = f"[{status.done}/{status.total}] {status.running} running{left}: {status.what}"
        if self._terminal:
            line = "\r\x1b[K" + line[: os.get_terminal_size(2).columns - 1]
        print(line, end="" if self._terminal and status.done != status.total else "\n", file=sys.stderr, flush=True)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code: 0 done, 1 failed, 2 wrong call, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        return code
    except WrappedCMakeError as error:
        print(f"wrapped_cmake: {error.what}", file=sys.stderr)
        if error.next_step:
            print(f"  next: {error.next_step}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("wrapped_cmake: interrupted; the same command goes on from there", file=sys.stderr)
        return 130
