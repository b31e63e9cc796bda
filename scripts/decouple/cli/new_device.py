"""``decouple new-device NAME``: make a backend from the template, or update one."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK, DecoupleError, UsageError
from decouple.base.paths import find_project
from decouple.device.scaffold import check_name, scaffold_backend
from decouple.device.size import measure_files


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    command = subparsers.add_parser(
        "new-device",
        description="Make a PyTorch backend that builds and passes the contract tests on a simulated device, or merge "
        "a newer template into one that was made before.",
    )
    command.add_argument(
        "name", nargs="?", metavar="NAME", help="of the device: device='NAME', torch.NAME, package torch_NAME"
    )
    command.add_argument(
        "--key", choices=["PrivateUse1", "CUDA"], default="PrivateUse1", help="the dispatch key it takes"
    )
    command.add_argument("--into", type=Path, metavar="FOLDER", help="default: third_device/torch_NAME")
    command.add_argument(
        "--count",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="make nothing: lines of code of these backends (files or folders), no comments, docstrings or blank lines",
    )
    command.set_defaults(run=run_new_device)


def run_new_device(arguments: argparse.Namespace) -> int:
    """Scaffold, and tell what to do next; 1 if the merge left conflicts."""
    if arguments.count:
        return _print_sizes(arguments.count)
    if arguments.name is None:
        raise UsageError("a name is needed", next_step="e.g. decouple new-device acme")
    home = find_project() / "third_device"
    template = home / ("template_key" if arguments.key == "CUDA" else "template")
    folder: Path = arguments.into or home / f"torch_{check_name(arguments.name)}"
    if not arguments.into and folder.is_symlink():
        raise DecoupleError(f"{folder} is a link to {folder.readlink()}", next_step="name a folder: --into FOLDER")
    done = scaffold_backend(template, folder, arguments.name, arguments.key)
    for kind in ("created", "merged", "removed", "conflicts"):
        for path in getattr(done, kind):
            print(f"{kind:<10}{folder / path}")
    if not (done.created or done.merged or done.removed or done.conflicts):
        print(f"{folder} is up to date with the template")
    if done.conflicts:
        print(f"next: resolve the markers in {len(done.conflicts)} file(s), then build")
        return CHECK_FAILED
    if arguments.key == "CUDA":
        stem = folder / arguments.name
        print(f"next: fill in {stem}.cmake, then see what is open (docs/backends.md):")
        words = ["decouple", "stages", "reuse", "2.6", "--names", f"{stem}.toml", "--header", f"{stem}_names.h"]
        print(f"      {shlex.join(words)}")
        made = shlex.join(["cmake", "-S", str(folder), "-B", f"build/{arguments.name}"])
        print(f"      {made} -DTORCH_CUDA_HOME=PATH")
        print("      where PATH is third_device/torch_cuda of an applied tree (decouple apply 2.6)")
        return OK
    elsewhere = "" if folder.resolve().parent == home else f"THIRD_DEVICE={shlex.quote(str(home))} "
    install = ["pip", "install", "--no-build-isolation", str(folder), str(home / "contract")]
    print(f"next: {elsewhere}{shlex.join(install)}")
    print(f"      pytest -p third_device_contract.plugin --pyargs third_device_contract --device {arguments.name}")
    return OK


def _print_sizes(places: list[Path]) -> int:
    """Print the size of each place, by language."""
    for place in places:
        sizes = measure_files(place)
        languages = {size.language: 0 for size in sizes}
        for size in sizes:
            languages[size.language] += size.lines
        shares = ", ".join(f"{count} {language}" for language, count in sorted(languages.items()))
        print(f"{sum(languages.values()):7} lines in {len(sizes):3} files  {place}  ({shares})")
    return OK
