"""What a real ninja recorded of compiled units, and for which of them that still counts."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from decouple.base.errors import DecoupleError
from decouple.verify.ninja_deps import DependencyLog
from decouple.verify.stage1_record import BuildRecord, hold_build_lock, read_record
from decouple.verify.stage1_units import TranslationUnit, UnitsReport, check_units
from tests.support.tools import require_tool

COMPILER = "c++"

#: As CMake writes it: the compiler's depfile goes into ninja's log and is deleted.
RULES = """
rule cxx
  command = {compiler} $flags -MD -MF $out.d -o $out -c $in
  depfile = $out.d
  deps = gcc
build clean.o: cxx ../src/clean.cpp
  flags = -I../src
build coupled.o: cxx ../src/coupled.cpp
  flags = -I../src
"""


class Project:
    """A tree with two units and a build directory in which a real ninja compiled them."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "src"
        self.build = folder / "build"
        moved = self.tree / "third_device" / "torch_cuda"
        moved.mkdir(parents=True)
        (moved / "Stream.h").write_text("#pragma once\n")
        (self.tree / "own.h").write_text("#pragma once\n")
        (self.tree / "clean.cpp").write_text("#include <own.h>\n")
        (self.tree / "coupled.cpp").write_text("#include <third_device/torch_cuda/Stream.h>\n")
        self.build.mkdir()
        self.rules(RULES)
        self.ninja()

    def rules(self, text: str) -> None:
        (self.build / "build.ninja").write_text(text.format(compiler=COMPILER))

    def ninja(self, *words: str) -> None:
        subprocess.run(["ninja", "-C", str(self.build), *words], check=True, capture_output=True)

    def unit(self, name: str) -> TranslationUnit:
        source = PurePosixPath(self.tree) / f"{name}.cpp"
        command = (str(COMPILER), f"-I{self.tree}", "-o", f"{name}.o", "-c", str(source))
        return TranslationUnit(source, PurePosixPath(self.build), command)

    def look(self, *names: str) -> UnitsReport:
        units = [self.unit(name) for name in names]
        outputs = [unit.output for unit in units if unit.output]
        record = read_record(self.build, PurePosixPath(self.build), outputs)
        return check_units(units, tree=PurePosixPath(self.tree), record=record)

    def touch(self, name: str) -> None:
        """A change that ninja sees: newer than any object."""
        later = max(path.stat().st_mtime_ns for path in self.build.glob("*.o")) + 1_000_000_000
        os.utime(self.tree / name, ns=(later, later))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    require_tool("ninja", "c++")
    return Project(tmp_path)


def test_what_the_compiler_opened_is_read_from_the_record_and_nothing_is_run(project: Project) -> None:
    (project.tree / "own.h").unlink()  # a preprocessor would fail; the record is what the object was made of
    log = DependencyLog.read(project.build / ".ninja_deps", PurePosixPath(project.build))
    opened = log.opened(PurePosixPath(project.build) / "clean.o")
    assert opened is not None
    assert {PurePosixPath(project.tree) / name for name in ("clean.cpp", "own.h")} <= set(opened)
    assert log.opened(PurePosixPath(project.build) / "never.o") is None


def test_a_recorded_unit_that_opened_a_moved_file_is_named_with_it(project: Project) -> None:
    report = project.look("clean", "coupled")
    assert (report.recorded, report.preprocessed) == (2, 0)
    (finding,) = report.findings
    assert finding.unit.name == "coupled.cpp"
    assert finding.opened == (PurePosixPath(project.tree) / "third_device/torch_cuda/Stream.h",)


def test_a_unit_whose_header_changed_since_is_preprocessed(project: Project) -> None:
    (project.tree / "own.h").write_text('#include "third_device/torch_cuda/Stream.h"\n')
    project.touch("own.h")
    report = project.look("clean")
    assert (report.recorded, report.preprocessed) == (0, 1)
    assert not report.ok, "the record of before knows nothing of the new include"


def test_a_unit_whose_command_changed_since_is_preprocessed(project: Project) -> None:
    project.rules(RULES.replace("-I../src", "-I../src -DUSE_CUDA"))
    assert project.look("clean").preprocessed == 1


def test_a_unit_that_was_never_compiled_is_preprocessed_and_counted(project: Project) -> None:
    (project.tree / "later.cpp").write_text("")
    (project.tree / "broken.cpp").write_text("#include <gone.h>\n")
    report = project.look("clean", "later", "broken")
    assert (report.recorded, report.preprocessed, len(report.without_evidence)) == (1, 1, 1)
    assert not report.ok


def test_a_record_without_the_unit_s_own_source_is_not_believed(project: Project) -> None:
    (project.tree / "elsewhere").mkdir()
    project.tree.joinpath("clean.cpp").rename(project.tree / "elsewhere" / "clean.cpp")
    log = DependencyLog.read(project.build / ".ninja_deps", PurePosixPath(project.build))
    source = PurePosixPath(project.tree) / "elsewhere" / "clean.cpp"
    unit = TranslationUnit(source, PurePosixPath(project.build), (*project.unit("clean").command[:-1], str(source)))
    assert check_units([unit], tree=PurePosixPath(project.tree), record=BuildRecord(log, frozenset())).preprocessed == 1


def test_the_files_of_the_tree_that_were_opened_are_listed_once_and_sorted(project: Project) -> None:
    tracked = ["clean.cpp", "own.h", "README", "coupled.cpp"]
    report = project.look("clean", "coupled")
    assert report.tree_files(PurePosixPath(project.tree), tracked) == ["clean.cpp", "coupled.cpp", "own.h"]


def test_an_unfinished_last_record_is_not_there_and_damage_is_told(project: Project, tmp_path: Path) -> None:
    whole = (project.build / ".ninja_deps").read_bytes()
    directory = PurePosixPath(project.build)
    cut = tmp_path / "cut"
    cut.write_bytes(whole[:-3])
    assert (
        len(DependencyLog.read(cut, directory)) == len(DependencyLog.read(project.build / ".ninja_deps", directory)) - 1
    )
    cut.write_bytes(whole[:12] + b"\x09\0\0\0" + whole[16:])
    with pytest.raises(DecoupleError, match="version 4"):
        DependencyLog.read(cut, directory)
    at = whole.index(b"clean.o")
    cut.write_bytes(whole[: at + 8] + b"\0\0\0\0" + whole[at + 12 :])
    with pytest.raises(DecoupleError, match="damaged at byte"):
        DependencyLog.read(cut, directory)
    with pytest.raises(DecoupleError, match="build stage 1"):
        DependencyLog.read(tmp_path / "none", directory)


def test_looking_writes_nothing(project: Project) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in project.build.iterdir()}

    project.touch("own.h")
    before = state()
    project.look("clean", "coupled")
    assert state() == before


def test_beside_a_running_build_the_record_is_not_read(tmp_path: Path) -> None:
    lock = tmp_path / "state" / "stage1.lock"
    with hold_build_lock(lock):
        pass
    with lock.open("a") as building:
        fcntl.flock(building, fcntl.LOCK_EX)
        with pytest.raises(DecoupleError, match="a build is running"), hold_build_lock(lock):
            raise AssertionError("not reached")
