"""``python -m simcuda build`` and ``python -m simcuda run COMMAND``."""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from simcuda import build, launch_environment, torchbuild, unset_bytes, vendor
from simcuda.errors import SimcudaError, explain_os_error


def parse_size(text: str) -> int:
    """Bytes of ``16G``, ``512M`` or a plain number."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is no size; write 16G, 512M or a number of bytes")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def parse_device_count(text: str) -> int:
    """Read a number of devices from 0 to 8. Raises ArgumentTypeError otherwise."""
    if not text.isdigit() or int(text) > 8:
        raise argparse.ArgumentTypeError(f"{text} is no number of devices from 0 to 8")
    return int(text)


def parse_architecture(text: str) -> str:
    """Read ``9.0`` or ``gfx90a``. Raises ArgumentTypeError otherwise."""
    if not re.fullmatch(r"\d+\.\d+|gfx[0-9a-f]{3,}(:.+)?", text):
        raise argparse.ArgumentTypeError(
            f"{text} is no compute capability, as 9.0, or architecture of AMD's, as gfx90a"
        )
    return text


def parse_output(text: str) -> Path:
    """Return where a file is to be written, whatever folder its writer is in then.

    Raises ArgumentTypeError where it cannot be a file.
    """
    path = Path(text).absolute()
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} has no folder; mkdir -p {shlex.quote(str(path.parent))}")
    return path


def build_parser() -> argparse.ArgumentParser:
    """Define the command line."""
    parser = argparse.ArgumentParser(prog="python -m simcuda", description=__import__("simcuda").__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--python", type=Path, help="the interpreter whose torch is meant (default: the command's, or this)"
    )
    common.add_argument("--torch-include", type=Path, action="append", default=[], help="a folder of torch's headers")
    common.add_argument("--torch-lib", type=Path, action="append", default=[], help="a folder of torch's libraries")
    common.add_argument(
        "--cuda", default="", help="version of the CUDA libraries to stand in for (default: that of torch)"
    )
    build_command = commands.add_parser(
        "build", parents=[common], help="make the stand-ins for one torch; prints their folder"
    )
    build_command.add_argument("--out", type=Path, help="a new folder for a copy (default: in the cache alone)")
    build_command.add_argument("--no-torch", action="store_true", help="the stand-ins only, which every torch shares")
    run_command = commands.add_parser("run", parents=[common], help="run a command with the simulated device")
    run_command.add_argument("--built", type=Path, help="a folder that build made")
    run_command.add_argument("--devices", type=parse_device_count, default=2)
    run_command.add_argument("--memory", type=parse_size, default=16 << 30, help="of each device: 16G, 512M")
    run_command.add_argument(
        "--arch",
        type=parse_architecture,
        default="9.0",
        help="compute capability; with HIP the architecture, as gfx90a",
    )
    run_command.add_argument("--ledger", type=parse_output, help="file for what would be launched; .PID is appended")
    run_command.add_argument("--log", type=parse_output, help="file for names of functions that are not implemented")
    run_command.add_argument(
        "--unset",
        type=Path,
        help="which argument bytes nobody sets, as `unset` wrote it: they are left out of the ledger",
    )
    run_command.add_argument(
        "--shake",
        type=int,
        default=0,
        metavar="N",
        help="addresses and unset bytes unlike those of any other run, for `unset`",
    )
    run_command.add_argument("--no-shadows", action="store_true", help="host calls only: device memory holds no values")
    run_command.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    unset_command = commands.add_parser(
        "unset", help="learn from runs of one build, shaken or under valgrind, which argument bytes nobody sets"
    )
    unset_command.add_argument("out", type=parse_output, help="the file to write")
    unset_command.add_argument(
        "results",
        type=Path,
        nargs="+",
        help="what the plug-in wrote, with entries: of two shaken runs or more, of any under valgrind",
    )
    unset_command.add_argument("--known", type=Path, help="a file of this kind, all of which stays in the new one")
    unset_command.add_argument(
        "--between",
        type=Path,
        nargs=2,
        metavar=("OURS", "THEIRS"),
        help="learn only bytes in which these two builds differ: what the plug-in wrote of each, with entries",
    )
    doubt_command = commands.add_parser(
        "doubt",
        help="which tests to run under valgrind for `unset`: they meet every byte in which two builds differ",
    )
    doubt_command.add_argument("ours", type=Path, help="what the plug-in wrote, with entries")
    doubt_command.add_argument("theirs", type=Path, help="the same of another build")
    record_command = commands.add_parser(
        "record", parents=[common], help="run a command on a real GPU, and keep the ledger"
    )
    record_command.add_argument(
        "--ledger", type=parse_output, help="file for what is asked of the GPU; .PID is appended"
    )
    record_command.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 ok, 1 the build failed, 2 usage; ``run`` becomes the command."""
    options = build_parser().parse_args(argv)
    try:
        commands = {
            "build": run_build,
            "run": run_simulated,
            "record": run_record,
            "unset": run_unset,
            "doubt": run_doubt,
        }
        return commands[options.command](options)
    except SimcudaError as error:
        print(f"simcuda: {error.what}\n  next: {error.next_step}", file=sys.stderr)
        return 1


def find_torch(options: argparse.Namespace, python: Path) -> torchbuild.TorchBuild:
    """Find the torch that the options name."""
    return torchbuild.find_torch_build(options.python or python, tuple(options.torch_include), tuple(options.torch_lib))


def say_progress(line: str) -> None:
    """Print a line of a report; what a command answers goes to the other output."""
    print(line, file=sys.stderr)


def run_build(options: argparse.Namespace) -> int:
    """``build``."""
    if options.no_torch:
        version = options.cuda or vendor.CUDA
        folder = build.locate_stand_ins(version)
        make = functools.partial(build.make_stand_ins, Path("/nowhere"), version, say_progress)
    else:
        torch = find_torch(options, Path(sys.executable))
        version = options.cuda or build.read_cuda_version(torch)
        folder = build.locate_device_libraries(torch, version)
        make = functools.partial(build.make_device_libraries, torch, version, say_progress)
    if options.out:
        build.prepare_copy_folder(folder, options.out)  # before the minutes that it takes
    made = make()
    print(build.copy_made_folder(made, options.out) if options.out else made)
    return 0


def find_program(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the program's path and the command line."""
    command = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    program = shutil.which(command[0]) if command else None
    if program is None:
        problem = f"no program {command[0]}" if command else "which command?"
        print(
            f"simcuda {options.command}: {problem}; for example: python -m simcuda {options.command} pytest tests",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return program, command


def choose_python(program: str) -> Path:
    """Return the Python that a command starts, else the one that runs this."""
    return Path(program) if re.match(r"python[\d.]*t?$", Path(program).name) else Path(sys.executable)


def choose_recorded_version(options: argparse.Namespace, python: Path) -> str:
    """Return the CUDA version that ``record`` is for.

    It is that of the torch, or `vendor.CUDA` for a program that has none.
    """
    if options.cuda:
        return str(options.cuda)
    try:
        torch = find_torch(options, python)
        torch.find_library("c10_cuda")
    except SimcudaError as error:
        if options.python or options.torch_lib:
            raise
        say_progress(f"simcuda record: for CUDA {vendor.CUDA}: {error.what}; --cuda names another")
        return vendor.CUDA
    return build.read_cuda_version(torch)


def fix_addresses(command: str) -> None:
    """Switch address randomisation off, and tell where that is not allowed."""
    if not launch_environment.fix_addresses():
        say_progress(
            f"simcuda {command}: address randomisation stays on, so bytes that nobody set differ between two ledgers; "
            "in Docker: --security-opt seccomp=unconfined"
        )


def replace_process(program: str, command: list[str], env: dict[str, str]) -> NoReturn:
    """Replace this process. Raises SimcudaError where the system refuses."""
    with explain_os_error(program, "name the interpreter before it, as in: sh FILE"):
        os.execve(program, command, env)


def run_record(options: argparse.Namespace) -> int:
    """``record``: replaces this process."""
    program, command = find_program(options)
    launch_environment.check_preloadable(build.find_cache_folder())  # before it is made
    recorder = build.make_recorder(Path("/nowhere"), choose_recorded_version(options, choose_python(program)))
    env = launch_environment.make_recording_environment(recorder, ledger=options.ledger)
    fix_addresses(options.command)
    replace_process(program, command, env)


def run_doubt(options: argparse.Namespace) -> int:
    """``doubt``."""
    print("\n".join(unset_bytes.choose_tests(options.ours, options.theirs)))
    return 0


def run_unset(options: argparse.Namespace) -> int:
    """``unset``."""
    gaps = unset_bytes.learn_gaps([unset_bytes.read_launches(path) for path in options.results])
    if options.between:
        gaps = unset_bytes.keep_differing(gaps, *(unset_bytes.read_launches(path) for path in options.between))
    known = unset_bytes.read_table(options.known) if options.known else {}
    unset_bytes.write_table(options.out, unset_bytes.format_table(gaps, known))
    print(f"{options.out}: {len(gaps)} kernels, {sum(len(places) for places in gaps.values())} bytes")
    return 0


def make_libraries(options: argparse.Namespace, python: Path) -> Path:
    """Make the stand-ins for the torch that the options name.

    Without shadows they are those that every torch shares, but for HIP's.
    """
    torch = find_torch(options, python)
    return (
        build.make_stand_ins(torch.site, options.cuda or build.read_cuda_version(torch), say_progress)
        if options.no_shadows and torch.word == "cuda"
        else build.make_device_libraries(torch, options.cuda, say_progress)
    )


def run_simulated(options: argparse.Namespace) -> int:
    """``run``: replaces this process."""
    program, command = find_program(options)
    if options.built and (options.cuda or options.python or options.torch_include or options.torch_lib):
        raise SimcudaError(
            f"--built {options.built} is there; --python, --torch-include, --torch-lib and --cuda say what to build",
            next_step="leave out --built, or all of the others",
        )
    cache = build.find_cache_folder()
    launch_environment.check_preloadable((options.built or cache).resolve())  # before it is made
    unset = unset_bytes.unpack_table(options.unset.resolve(), cache / "unset") if options.unset else None
    built = options.built or make_libraries(options, choose_python(program))
    device = launch_environment.Device(options.devices, options.memory, options.arch)
    env = launch_environment.make_environment(
        built.resolve(),
        device,
        ledger=options.ledger,
        log=options.log,
        shadows=not options.no_shadows,
        unset=unset,
        shake=options.shake,
    )
    if not options.shake:
        fix_addresses(options.command)
    replace_process(program, command, env)
