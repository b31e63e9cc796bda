"""``decouple kernels dump | compare``: is the machine code in one CUDA library that of another?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decouple.base.errors import CHECK_FAILED, OK, UsageError

if TYPE_CHECKING:
    from decouple.base.progress import Progress
    from decouple.build.environment import Environment
    from decouple.verify.kernels.compare import Comparison
    from decouple.verify.kernels.dump import Dump


def register(subparsers: Any) -> None:
    """Add the commands."""
    kernels = subparsers.add_parser(
        "kernels",
        help="the machine code in CUDA libraries, kernel by kernel",
        description="Machine code is read and compared, never executed or translated. No tool of NVIDIA's is needed.",
    )
    verbs = kernels.add_subparsers(dest="verb", metavar="VERB", required=True)
    dump = verbs.add_parser("dump", help="hashes of every function, as a small file to compare with")
    dump.add_argument("library", type=Path, nargs="+", help="libtorch_cuda.so, an object, a wheel or a folder of them")
    dump.add_argument("-o", "--output", type=Path, required=True)
    dump.add_argument("--arch", action="append", help="sm_90; may be repeated (default: every one there is)")
    dump.add_argument("--label", help="what this side is called (default: the file's name)")
    dump.set_defaults(run=_dump)
    compare = verbs.add_parser(
        "compare",
        help="missing, extra and different functions",
        description="Each side is a library, a wheel, a folder, a dump, or `official:RELEASE` (kept here for sm_90; "
        "else the libraries are fetched from the wheel on the index, with --arch).",
    )
    compare.add_argument("ours", metavar="OURS")
    compare.add_argument("theirs", metavar="THEIRS")
    compare.add_argument("--arch", action="append", help="sm_90; may be repeated (default: those in both)")
    compare.add_argument("--part", action="store_true", help="OURS is part of a build: only the sources that it has")
    compare.add_argument("--bytes", action="store_true", help="two libraries: how each different function differs")
    compare.add_argument("--sides", default="", metavar="OURS/THEIRS", help="whose explanations hold: built/official")
    compare.add_argument("--all", action="store_true", help="print every function, not the first ten of a kind")
    compare.set_defaults(run=_compare)


def _dump(arguments: argparse.Namespace) -> int:
    from decouple.cli import output
    from decouple.verify.kernels import dump

    made = _of(arguments.library, arguments.label or arguments.library[0].name, arguments.arch, output.progress())
    dump.write(made, arguments.output)
    functions = sum(len(unit.kernels) for unit in made.units)
    print(
        f"{arguments.output}: {functions} functions of {len({u.source for u in made.units})} sources for "
        f"{', '.join(made.architectures())}, {arguments.output.stat().st_size / 1024:.0f} KiB"
    )
    return OK


def _of(paths: Sequence[Path], label: str, archs: Sequence[str] | None, progress: Progress) -> Dump:
    import contextlib

    from decouple.verify.kernels import dump

    with contextlib.ExitStack() as stack:
        return dump.of_libraries(_libraries(paths, stack), label, archs, progress=progress)


def _libraries(paths: Sequence[Path], stack: Any) -> list[Path]:
    """The libraries and objects with device code among ``paths``; wheels and folders are searched."""
    from decouple.base.errors import DecoupleError
    from decouple.verify import audit, elf
    from decouple.verify.kernels import fatbin

    found: list[Path] = []
    for path in paths:
        if path.is_dir() or path.suffix == ".whl":
            folder = stack.enter_context(audit.opened(path))
            files = sorted({one.resolve() for one in folder.rglob("*") if one.is_file()})
            found += [one for one in files if elf.is_elf(one) and fatbin.architectures(one)]
        else:
            found.append(path)
    if not found:
        raise DecoupleError(f"{paths[0]}: no device code in it", next_step="name a wheel or folder that has some")
    return found


def _compare(arguments: argparse.Namespace) -> int:
    import contextlib

    from decouple.cli import output
    from decouple.verify.kernels import compare, look

    progress = output.progress()
    archs = arguments.arch or _in_both(arguments.ours, arguments.theirs) or None
    ours, theirs = (_side(word, archs, progress) for word in (arguments.ours, arguments.theirs))
    found = compare.compare(ours, theirs, part=arguments.part, sides=arguments.sides)
    print_comparison(found, None if arguments.all else 10)
    if arguments.bytes:
        with contextlib.ExitStack() as stack:
            sides = [_libraries([Path(word)], stack) for word in (arguments.ours, arguments.theirs)]
            for one in look.look(sides[0], sides[1], found.found):
                print(
                    f"{one.found.source} {compare.readable(one.found.name)[:100]}: {one.ours} instructions against "
                    f"{one.theirs}, {one.moved} not the same at their place, {one.foreign} that theirs has nowhere; "
                    f"first at {one.first[0]}: {one.first[1]} {one.first[2]}"
                )
    return OK if found.ok else CHECK_FAILED


def _in_both(ours: str, theirs: str) -> list[str]:
    """The architectures that two sides share, as far as a look without reading any code tells."""
    import contextlib

    from decouple.verify.kernels import dump, fatbin

    sides = []
    for word in (ours, theirs):
        path = Path(word)
        if word.startswith("official:"):
            sides.append({"sm_90"})
        elif path.is_file() and dump.is_dump(path):
            sides.append({arch.rstrip("a") for arch in dump.read(path).architectures()})
        elif path.exists():
            with contextlib.ExitStack() as stack:
                counts = [fatbin.architectures(library) for library in _libraries([path], stack)]
            sides.append({arch.rstrip("a") for one in counts for arch in one if arch.startswith("sm_")})
    return sorted(set.intersection(*sides)) if len(sides) == 2 else []


def _side(word: str, archs: Sequence[str] | None, progress: Progress) -> Dump:
    from decouple.base.paths import cache_dir, find_project
    from decouple.release.manifest import load_release
    from decouple.upstream.download import Downloader
    from decouple.verify.kernels import dump, official

    if word.startswith("official:"):
        manifest = load_release(find_project(), word.removeprefix("official:"))
        downloader = Downloader(cache_dir(), progress=progress)
        return official.load(manifest, archs or ["sm_90"], cache_dir(), downloader, progress=progress)
    path = Path(word)
    if not path.exists():
        raise UsageError(f"{path}: not there", next_step="name a library, a wheel, a dump, or official:RELEASE")
    if path.is_file() and dump.is_dump(path):
        read = dump.read(path)
        return read.only([one for one in read.architectures() if one.rstrip("a") in archs]) if archs else read
    return _of([path], path.name, archs, progress)


def print_comparison(found: Comparison, limit: int | None) -> None:
    """One line with the verdict, then what is not the same."""
    from decouple.verify.kernels.compare import demangled

    kinds = {"code": "different", "launch": "with other resources", "missing": "missing", "extra": "extra"}
    counts = ", ".join(f"{found.count(what)} {said}" for what, said in kinds.items())
    print(
        f"{'ok' if found.ok else 'FAILED':<6} kernels of {found.ours} against {found.theirs} "
        f"({', '.join(found.archs)}, {found.sources} sources): {found.same} of {found.total} the same "
        f"({found.percent:.2f} %), {counts}; {sum(bool(one.reason) for one in found.found)} explained; "
        f"initialised variables {found.data_same} of {found.data}"
    )
    for what, said in kinds.items():
        of_kind = [one for one in found.found if one.what == what]
        for one in of_kind[:limit]:
            why = f" ({one.reason})" if one.reason else ""
            print(f"       {said}: {one.arch} {one.source} {demangled(one.name)[:160]}: {one.detail}{why}")
        if limit is not None and len(of_kind) > limit:
            print(f"       and {len(of_kind) - limit} more (--all)")


def of_backend(environment: Environment, backend: Path, against: str, *, part: bool = False) -> Comparison:
    """The machine code of the wheel ``backend`` against ``against``: "official", "monolith" (the root's), or a file.

    ``part`` compares only the sources that the wheel has; the architectures are those of the wheel.
    """
    from decouple.build.environment import RootEnvironment
    from decouple.build.wheels import read_manifest
    from decouple.cli import output
    from decouple.verify import checks, facts
    from decouple.verify.kernels import compare

    archs = [one for one in facts.arch_flags(read_manifest(backend).arch_list) if one.startswith("sm_")]
    word = against
    if against == "official":
        word = f"official:{environment.places.release}"
    elif against == "monolith":
        if not isinstance(environment, RootEnvironment):
            raise UsageError("--kernels monolith: it lies in the Debian root", next_step="add --env rootfs")
        folder = environment.root.tree / checks.MONOLITH.lstrip("/") / "lib"
        word = str(next(iter(sorted(folder.rglob("libtorch_cuda.so*"))), folder))
    progress = output.progress()
    sides = f"built/{against}" if against in ("official", "monolith") else ""
    ours = _of([backend], backend.name, archs, progress)
    return compare.compare(ours, _side(word, archs, progress), part=part, sides=sides)
