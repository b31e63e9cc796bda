"""``python -m simcuda build`` and ``python -m simcuda run COMMAND``."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

from simcuda import build, launch_environment, torchbuild, unset_bytes, vendor
from simcuda.errors import SimcudaError


def size(text: str) -> int:
    """Bytes of ``16G``, ``512M`` or a plain number."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is no size; write 16G, 512M or a number of bytes")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def devices(text: str) -> int:
    """Read a number of devices from 0 to 8. Raises ArgumentTypeError otherwise."""
    if not text.isdigit() or int(text) > 8:
        raise argparse.ArgumentTypeError(f"{text} is no number of devices from 0 to 8")
    return int(text)


def arguments() -> argparse.ArgumentParser:
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
    make = commands.add_parser("build", parents=[common], help="make the stand-ins for one torch; prints their folder")
    make.add_argument("--out", type=Path, help="the folder (default: in the cache)")
    make.add_argument("--no-torch", action="store_true", help="the stand-ins only, which every torch shares")
    run = commands.add_parser("run", parents=[common], help="run a command with the simulated device")
    run.add_argument("--built", type=Path, help="a folder that build made")
    run.add_argument("--devices", type=devices, default=2)
    run.add_argument("--memory", type=size, default=16 << 30, help="of each device: 16G, 512M")
    run.add_argument("--arch", default="9.0", help="compute capability")
    run.add_argument("--ledger", type=Path, help="file for what would be launched; .PID is appended")
    run.add_argument("--log", type=Path, help="file for names of functions that are not implemented")
    run.add_argument(
        "--unset",
        type=Path,
        help="which argument bytes nobody sets, as `unset` wrote it: they are left out of the ledger",
    )
    run.add_argument(
        "--shake",
        type=int,
        default=0,
        metavar="N",
        help="addresses and unset bytes unlike those of any other run, for `unset`",
    )
    run.add_argument("--no-shadows", action="store_true", help="host calls only: device memory holds no values")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    learn = commands.add_parser(
        "unset", help="learn from runs of one build, shaken or under valgrind, which argument bytes nobody sets"
    )
    learn.add_argument("out", type=Path, help="the file to write")
    learn.add_argument(
        "results",
        type=Path,
        nargs="+",
        help="what the plug-in wrote, with entries: of two shaken runs or more, of any under valgrind",
    )
    learn.add_argument("--known", type=Path, help="a file of this kind, all of which stays in the new one")
    doubt = commands.add_parser(
        "doubt",
        help="which tests to run under valgrind for `unset`: they meet every byte in which two builds differ",
    )
    doubt.add_argument("ours", type=Path, help="what the plug-in wrote, with entries")
    doubt.add_argument("theirs", type=Path, help="the same of another build")
    record = commands.add_parser("record", parents=[common], help="run a command on a real GPU, and keep the ledger")
    record.add_argument("--ledger", type=Path, help="file for what is asked of the GPU; .PID is appended")
    record.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 ok, 1 the build failed, 2 usage; ``run`` becomes the command."""
    options = arguments().parse_args(argv)
    try:
        return {"build": make, "run": run, "record": record, "unset": learn_unset, "doubt": ask}[options.command](
            options
        )
    except SimcudaError as error:
        print(f"simcuda: {error.what}\n  next: {error.next_step}", file=sys.stderr)
        return 1


def look(options: argparse.Namespace, python: Path) -> torchbuild.TorchBuild:
    """Find the torch that the options name."""
    return torchbuild.find_torch_build(options.python or python, tuple(options.torch_include), tuple(options.torch_lib))


def make(options: argparse.Namespace) -> int:
    """``build``."""
    say = lambda line: print(line, file=sys.stderr)  # noqa: E731 - one line of a progress report
    if options.no_torch:
        print(build.make_stand_ins(Path("/nowhere"), options.cuda or vendor.CUDA, say))
    else:
        print(build.make_device_libraries(look(options, Path(sys.executable)), options.cuda, options.out, say))
    return 0


def program_of(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the program's path and the command line."""
    command = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    program = shutil.which(command[0]) if command else None
    if program is None:
        print(
            f"simcuda {options.command}: which command? for example: python -m simcuda {options.command} pytest tests",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return program, command


def record(options: argparse.Namespace) -> int:
    """``record``: replaces this process."""
    program, command = program_of(options)
    env = launch_environment.make_recording_environment(
        build.make_recorder(Path("/nowhere"), options.cuda or vendor.CUDA), ledger=options.ledger
    )
    launch_environment.fix_addresses()
    os.execve(program, command, env)
    return 0


def ask(options: argparse.Namespace) -> int:
    """``doubt``."""
    print("\n".join(unset_bytes.doubt(options.ours, options.theirs)))
    return 0


def learn_unset(options: argparse.Namespace) -> int:
    """``unset``."""
    found = unset_bytes.learn([unset_bytes.launches(path) for path in options.results])
    known = unset_bytes.read(options.known) if options.known else {}
    unset_bytes.write_table(options.out, unset_bytes.text(found, known))
    print(f"{options.out}: {len(found)} kernels, {sum(len(one) for one in found.values())} bytes")
    return 0


def made(options: argparse.Namespace, python: Path) -> Path:
    """Make the stand-ins for the torch that the options name.

    Without shadows they are those that every torch shares.
    """
    say = lambda line: print(line, file=sys.stderr)  # noqa: E731 - one line of a progress report
    torch = look(options, python)
    return (
        build.make_stand_ins(torch.site, options.cuda or build.read_cuda_version(torch), say)
        if options.no_shadows
        else build.make_device_libraries(torch, options.cuda, say=say)
    )


def run(options: argparse.Namespace) -> int:
    """``run``: replaces this process."""
    program, command = program_of(options)
    python = Path(program) if re.match(r"python[\d.]*$", Path(program).name) else Path(sys.executable)
    built = options.built or made(options, python)
    device = launch_environment.Device(options.devices, options.memory, options.arch)
    env = launch_environment.make_environment(
        built.resolve(),
        device,
        ledger=options.ledger,
        log=options.log,
        shadows=not options.no_shadows,
        unset=unset_bytes.unpack_table(options.unset.resolve(), build.find_cache_folder() / "unset")
        if options.unset
        else None,
        shake=options.shake,
    )
    if not options.shake:
        launch_environment.fix_addresses()
    os.execve(program, command, env)
    return 0
