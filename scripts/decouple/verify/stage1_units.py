"""Prove that stage 1 is free of CUDA.

Every file that its translation units open is looked at. CMake writes the commands (``compile_commands.json``). For a
unit that is compiled, the build's own record names the files that the compiler opened
(:mod:`decouple.verify.stage1_record`). Any other is preprocessed: its command is run with ``-M`` instead of ``-c``,
which names them too; generated headers must exist for that (ninja target ``generate-torch-sources``). A unit fails if
one of the files lies in a folder it must not reach (``third_device/torch_cuda``), if it is a header of the CUDA
toolkit, or if it cannot be preprocessed, for example because a header was moved away.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct, convert

from decouple.base.errors import DecoupleError
from decouple.base.progress import SILENT, Progress
from decouple.base.untrusted_input import parse_json
from decouple.base.worker_pool import WorkerPool
from decouple.verify.ninja_deps import normalise_path
from decouple.verify.stage1_record import BuildRecord

MOVED = PurePosixPath("third_device/torch_cuda")
"""Where the series puts CUDA, below the source tree."""

TOOLKIT_HEADERS = re.compile(r"/(cuda|cudnn|cublas|cufft|curand|cusolver|cusparse|nccl|nvrtc|nvToolsExt)[\w.-]*\.h\Z")
"""Headers of CUDA, cuDNN and NCCL as they are installed: by name, because a distribution puts them in /usr/include."""

_COMPILER_CACHES = ("ccache", "sccache")
_DROPPED_WITH_VALUE = ("-o", "-MF", "-MT", "-MQ")
_DROPPED = ("-c", "-MD", "-MMD")


class TranslationUnit(Struct, frozen=True):
    """One translation unit as CMake compiles it."""

    file: PurePosixPath
    """Its source file, as the build sees it."""
    directory: PurePosixPath
    """Where its command runs."""
    command: tuple[str, ...]

    @property
    def output(self) -> PurePosixPath | None:
        """The object that the command makes, absolute; None if it names none."""
        at = self.command.index("-o") + 1 if "-o" in self.command else len(self.command)
        return normalise_path(self.directory, self.command[at]) if at < len(self.command) else None


class _Entry(Struct, frozen=True):
    """What CMake says of a unit; other generators give ``arguments``."""

    file: str
    directory: str
    command: str = ""
    arguments: tuple[str, ...] | None = None


class UnitFinding(Struct, frozen=True):
    """Why a unit is not free of CUDA."""

    unit: PurePosixPath
    opened: tuple[PurePosixPath, ...] = ()
    """Files it opened and must not open."""
    error: str = ""
    """The compiler's first error line, if it could not be preprocessed."""

    def __str__(self) -> str:
        return f"{self.unit}: {self.error or 'opens ' + ', '.join(map(str, self.opened))}"


class UnitsReport(Struct, frozen=True):
    """What `check_units` found."""

    recorded: int
    """Units whose files the build's record names."""
    preprocessed: int
    """Units whose files the preprocessor named now."""
    opened: frozenset[PurePosixPath]
    """All files that they opened, absolute."""
    findings: tuple[UnitFinding, ...]

    @property
    def units(self) -> int:
        """The number of units asked for."""
        return self.recorded + self.preprocessed + len(self.without_evidence)

    @property
    def without_evidence(self) -> tuple[UnitFinding, ...]:
        """The units that cannot be preprocessed. Nobody knows what they open."""
        return tuple(finding for finding in self.findings if finding.error)

    @property
    def ok(self) -> bool:
        """Whether there was something to look at and all of it was free of CUDA."""
        return self.units > 0 and not self.findings

    def tree_files(self, tree: PurePosixPath, tracked: Collection[str]) -> list[str]:
        """Return the opened files that git tracks in ``tree``. Sorted, relative to it."""
        below = (path.relative_to(tree).as_posix() for path in self.opened if path.is_relative_to(tree))
        return sorted(set(below) & set(tracked))


def read_units(
    compile_commands: Path, suffixes: Collection[str] = (".c", ".cc", ".cpp", ".cxx")
) -> tuple[TranslationUnit, ...]:
    """Read the units with such files in a ``compile_commands.json``.

    Raises DecoupleError if it is missing or not one.
    """
    try:
        entries = convert(parse_json(compile_commands.read_bytes()), tuple[_Entry, ...])
        return tuple(
            TranslationUnit(
                file=PurePosixPath(entry.file),
                directory=PurePosixPath(entry.directory),
                command=tuple(shlex.split(entry.command) if entry.arguments is None else entry.arguments),
            )
            for entry in entries
            if PurePosixPath(entry.file).suffix in suffixes
        )
    except OSError as error:
        raise DecoupleError(
            f"{compile_commands}: {error.strerror}", next_step="configure the stage first: decouple build RELEASE"
        ) from error
    except ValueError as error:  # msgspec's own are such
        raise DecoupleError(
            f"{compile_commands}: not CMake's compile commands ({error})",
            next_step="configure stage 1 again: `decouple build RELEASE --stage 1`",
        ) from error


def choose_units(
    units: Sequence[TranslationUnit], count: int | None, *, first: Sequence[str] = ()
) -> tuple[TranslationUnit, ...]:
    """Choose at most ``count`` units.

    Those whose path ends in one of ``first``, then others spread evenly over the rest. The choice depends on nothing
    but the arguments, so that two runs look at the same slice. None means all.
    """
    if count is None or count >= len(units):
        return tuple(units)
    wanted = [unit for unit in units if unit.file.as_posix().endswith(tuple(first))] if first else []
    chosen = set(wanted[:count])
    rest = [unit for unit in units if unit not in chosen]
    missing = count - len(chosen)
    chosen.update(rest[number * len(rest) // missing] for number in range(missing))
    return tuple(unit for unit in units if unit in chosen)


def make_dependency_command(unit: TranslationUnit) -> tuple[str, ...]:
    """Return the unit's command, preprocessing only.

    It prints a make rule with every file opened.
    """
    words = list(unit.command)
    while words and PurePosixPath(words[0]).name in _COMPILER_CACHES:
        words.pop(0)
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _DROPPED_WITH_VALUE:
            skip = True
        elif word not in _DROPPED:
            kept.append(word)
    return (*kept, "-M")


def parse_make_rule(rule: str, directory: PurePosixPath) -> Iterator[PurePosixPath]:
    """Parse the prerequisites of a make rule.

    They are made absolute and free of ``..`` without asking the file system.
    """
    _, _, prerequisites = rule.partition(": ")
    for word in shlex.split(prerequisites.replace("\\\n", " ")):
        yield normalise_path(directory, word)


def check_units(
    units: Sequence[TranslationUnit],
    *,
    tree: PurePosixPath,
    enter: Sequence[str] = (),
    record: BuildRecord | None = None,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> UnitsReport:
    """Report those of ``units`` that open what belongs to CUDA.

    All that they open of ``tree`` is looked at. That is a file below ``third_device/torch_cuda`` of the tree, or a
    header of CUDA's toolkit outside of it. What ``record`` knows is taken from there, the rest is preprocessed.
    ``enter`` is put in front of each command (``("chroot", "/path")``, say); all paths are those the build sees there.
    """
    seen: set[PurePosixPath] = set()
    forbidden: set[PurePosixPath] = set()
    findings: dict[TranslationUnit, UnitFinding] = {}

    def note_files(unit: TranslationUnit, opened: Iterable[PurePosixPath]) -> None:
        files = frozenset(opened)
        fresh = files - seen
        seen.update(fresh)
        forbidden.update(path for path in fresh if _is_forbidden(path, tree))
        if wrong := files & forbidden:
            findings[unit] = UnitFinding(unit.file, tuple(sorted(wrong)))

    left: list[TranslationUnit] = []
    for unit in units:
        known = record.opened(unit.output) if record and unit.output else None
        if known is None or unit.file not in known:  # a record without the unit itself is one of another tree
            left.append(unit)
        else:
            note_files(unit, known)
    failed = 0
    progress.start("preprocessing stage 1", total=len(left), unit="items")
    pool = WorkerPool(jobs)

    def preprocess_unit(unit: TranslationUnit) -> tuple[tuple[PurePosixPath, ...], str]:
        found = _preprocess_unit(pool, unit, enter)
        progress.advance()
        return found

    for unit, (opened, error) in zip(left, pool.map(preprocess_unit, left), strict=True):
        note_files(unit, opened)
        if error:
            failed += 1
            findings[unit] = UnitFinding(unit.file, error=error)
    progress.finish(f"{len(units)} units opened {len(seen)} files, {len(findings)} findings")
    ordered = tuple(findings[unit] for unit in units if unit in findings)
    return UnitsReport(len(units) - len(left), len(left) - failed, frozenset(seen), ordered)


def _is_forbidden(path: PurePosixPath, tree: PurePosixPath) -> bool:
    if path.is_relative_to(tree):
        return path.is_relative_to(tree / MOVED)
    return bool(TOOLKIT_HEADERS.search(path.as_posix()))


def _preprocess_unit(
    pool: WorkerPool, unit: TranslationUnit, enter: Sequence[str]
) -> tuple[tuple[PurePosixPath, ...], str]:
    script = f"cd {shlex.quote(str(unit.directory))} && exec {shlex.join(make_dependency_command(unit))}"
    done = pool.run_program([*enter, "sh", "-c", script])
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return (), next((line for line in lines if "error" in line), lines[-1])
    return tuple(parse_make_rule(done.stdout, unit.directory)), ""
