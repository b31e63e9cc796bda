"""Stage 1's translation units are preprocessed, and what they open is looked at: examples with a real compiler."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from decouple.base.errors import DecoupleError
from decouple.verify.stage1_units import (
    TranslationUnit,
    check_units,
    choose_units,
    make_dependency_command,
    parse_make_rule,
    read_units,
)

pytestmark = pytest.mark.tools("c++")
COMPILER = "c++"


def unit(path: Path, *options: str) -> TranslationUnit:
    command = (COMPILER, *options, "-o", "x.o", "-c", str(path))
    return TranslationUnit(PurePosixPath(path), PurePosixPath(path.parent), command)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A core with one clean unit, one that includes a moved header, and one whose header is gone."""
    moved = tmp_path / "third_device" / "torch_cuda" / "csrc"
    moved.mkdir(parents=True)
    (moved / "Stream.h").write_text("#pragma once\n")
    (tmp_path / "clean.cpp").write_text("#include <stddef.h>\n#ifdef USE_CUDA\n#include <gone.h>\n#endif\n")
    (tmp_path / "coupled.cpp").write_text('#include "third_device/torch_cuda/csrc/Stream.h"\n')
    (tmp_path / "broken.cpp").write_text("#include <gone.h>\n")
    return tmp_path


def test_a_clean_unit_passes_and_a_guarded_include_is_not_followed(tree: Path) -> None:
    report = check_units([unit(tree / "clean.cpp")], tree=PurePosixPath(tree))
    assert report.ok
    assert report.preprocessed == 1
    assert len(report.opened) > 1


def test_a_unit_that_opens_a_moved_file_is_named_with_the_file(tree: Path) -> None:
    report = check_units([unit(tree / "coupled.cpp")], tree=PurePosixPath(tree))
    (finding,) = report.findings
    assert finding.opened == (PurePosixPath(tree / "third_device/torch_cuda/csrc/Stream.h"),)
    assert "coupled.cpp: opens" in str(finding)


def test_a_unit_that_cannot_be_preprocessed_is_a_finding_with_the_compilers_words(tree: Path) -> None:
    report = check_units([unit(tree / "broken.cpp"), unit(tree / "clean.cpp")], tree=PurePosixPath(tree), jobs=2)
    assert not report.ok
    assert "gone.h" in report.findings[0].error
    assert len(report.findings) == 1


def test_the_guard_counts_when_it_is_open(tree: Path) -> None:
    assert not check_units([unit(tree / "clean.cpp", "-DUSE_CUDA")], tree=PurePosixPath(tree)).ok


def test_a_header_of_the_toolkit_is_found_wherever_it_is_installed(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    toolkit = tmp_path_factory.mktemp("usr") / "include"
    toolkit.mkdir()
    (toolkit / "cuda_runtime_api.h").write_text("")
    (tree / "own" / "cuda").mkdir(parents=True)
    (tree / "own" / "cuda_enabled.h").write_text("")  # the core's own header of such a name is no finding
    (tree / "uses.cpp").write_text("#include <cuda_runtime_api.h>\n#include <own/cuda_enabled.h>\n")
    report = check_units([unit(tree / "uses.cpp", f"-I{toolkit}", f"-I{tree}")], tree=PurePosixPath(tree))
    assert [path.name for path in report.findings[0].opened] == ["cuda_runtime_api.h"]


def test_nothing_looked_at_is_no_success() -> None:
    assert not check_units([], tree=PurePosixPath("/tree")).ok


def test_the_command_loses_its_cache_and_its_output() -> None:
    command = ("/usr/bin/ccache", "c++", "-DX", "-MD", "-MF", "x.d", "-o", "x.o", "-c", "x.cpp")
    assert make_dependency_command(TranslationUnit(PurePosixPath("x.cpp"), PurePosixPath("/b"), command)) == (
        "c++",
        "-DX",
        "x.cpp",
        "-M",
    )


def test_a_make_rule_is_read_with_its_continuations_and_escaped_blanks() -> None:
    rule = "x.o: ../src/x.cpp \\\n  /usr/include/a\\ b.h sub/./c.h\n"
    opened = list(parse_make_rule(rule, PurePosixPath("/b/build")))
    assert opened == [
        PurePosixPath("/b/src/x.cpp"),
        PurePosixPath("/usr/include/a b.h"),
        PurePosixPath("/b/build/sub/c.h"),
    ]


def test_a_slice_is_even_repeatable_and_starts_with_what_was_asked_for() -> None:
    units = [
        TranslationUnit(PurePosixPath(f"/s/{number:03}.cpp"), PurePosixPath("/s"), ("c++",)) for number in range(100)
    ]
    some = choose_units(units, 10, first=["057.cpp"])
    assert some == choose_units(units, 10, first=["057.cpp"])
    assert len(some) == 10
    assert units[57] in some
    assert {int(unit.file.stem) // 50 for unit in some} == {0, 1}
    assert choose_units(units, None) == tuple(units)
    more = [units.index(unit) for unit in choose_units(units, 60)]
    assert more[-1] >= 98, "no part of the list is left out"


def test_compile_commands_are_read_and_trouble_names_the_file(tmp_path: Path) -> None:
    database = tmp_path / "compile_commands.json"
    with pytest.raises(DecoupleError, match="configure the stage first: decouple build RELEASE"):
        read_units(database)
    database.write_text("[{}]")
    with pytest.raises(DecoupleError, match=r"compile_commands\.json"):
        read_units(database)
    entries = [
        {"directory": "/b", "command": "c++ -c 'a b.cpp'", "file": "/s/a b.cpp"},
        {"directory": "/b", "command": "as -c x.S", "file": "/s/x.S"},
    ]
    database.write_text(json.dumps(entries))
    (only,) = read_units(database)
    assert only.command == ("c++", "-c", "a b.cpp")
