"""``decouple relocate`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.inventory.rules import load_rules
from tests.support.files import write_files
from tests.unit.relocate.trees import FILES

PATCH = "patches/2.6/0001-relocate-cuda-sources.patch"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with nothing in it but the folders that make it one, and a tree beside it."""
    for name in ("series", "patches/2.6"):
        (tmp_path / "project" / name).mkdir(parents=True)
    (tmp_path / "project/series/2.6.toml").touch()
    monkeypatch.setenv("DECOUPLE_PROJECT", str(tmp_path / "project"))
    write_files(tmp_path / "pytorch", FILES)
    return tmp_path / "project"


def run(project: Path, *options: str) -> int:
    return main(["relocate", "2.6", "--tree", str(project.parent / "pytorch"), *options])


def test_write_then_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(project, "--check") == 1, "there is no patch yet"
    assert run(project, "--write") == 0 and "10 renames, written" in capsys.readouterr().out
    stamp = (project / PATCH).stat().st_mtime_ns
    assert run(project, "--check") == 0
    assert run(project, "--write") == 0 and "unchanged" in capsys.readouterr().out
    assert (project / PATCH).stat().st_mtime_ns == stamp, "an unchanged patch is not written again"
    (project / PATCH).write_text((project / PATCH).read_text().replace("rename to", "rename  to", 1))
    assert run(project, "--check") == 1


def test_a_version_writes_to_the_patches_of_its_release(project: Path) -> None:
    assert main(["relocate", "2.6.0", "--tree", str(project.parent / "pytorch"), "--write"]) == 0
    assert (project / PATCH).is_file() and not (project / "patches/2.6.0").exists()


def test_the_table_has_a_line_for_each_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(project, "--table") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [
        "move",
        "aten/src/THC/THCAtomics.cuh",
        "third_device/torch_cuda/torch_cuda/csrc/aten/THC/THCAtomics.cuh",
        "thc",
    ] in rows
    assert [row[1] for row in rows if row[0] == "stay"] == ["torch/csrc/utils/cuda_enabled.h"]


def test_each_file_is_printed_under_its_rule_with_the_reason(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(project) == 0
    lines = capsys.readouterr().out.splitlines()
    moved = lines.index("  aten/src/THC/THCAtomics.cuh -> csrc/aten/THC/THCAtomics.cuh")
    rule = next(line for line in reversed(lines[:moved]) if not line.startswith(" "))
    reason = next(one.reason for one in load_rules().rules if one.name == "thc")
    assert rule == f"move by thc: {reason} (1)"
    stays = next(line for line in lines if "cuda_enabled.h" in line)
    assert "stage 1 includes it through torch/csrc/a.cpp" in stays
    assert lines.index(stays) < next(at for at, line in enumerate(lines) if line.startswith("10 files move")), (
        "counts end it"
    )


def test_json_holds_the_chain_that_proves_a_stay(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(project, "--json") == 0
    (stay,) = json.loads(capsys.readouterr().out)["stays"]
    assert stay["chain"] == ["torch/csrc/a.cpp", "torch/csrc/utils/cuda_enabled.h"]


def test_what_no_rule_places_is_listed_and_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(project, "--unclassified") == 0
    write_files(project.parent / "pytorch", {"torch/headeronly/cuda/A.h": ""})
    assert run(project, "--unclassified") == 1 and "torch/headeronly/cuda/A.h" in capsys.readouterr().out
    assert run(project) == 1
    said = capsys.readouterr().err
    assert "unclassified CUDA file" in said
    assert f"`decouple relocate 2.6 --tree {project.parent / 'pytorch'} --unclassified` lists all" in said


def test_a_hollow_unit_stops_the_patch_and_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Carrying a series stops there: by hand, too, no patch leaves a unit to no library."""
    assert run(project, "--write") == 0
    before, hollow = (project / PATCH).read_bytes(), "torch/csrc/inductor/launcher/cuda.cpp"
    lists = FILES["build_variables.bzl"].replace("core = [", f'core = ["{hollow}", ')
    tree = write_files(
        project.parent / "pytorch", {"build_variables.bzl": lists, hollow: "#ifdef USE_CUDA\nint a;\n#endif\n"}
    )
    capsys.readouterr()
    assert run(project, "--check") == 1 and f"{hollow}: stage 1 compiles it" in capsys.readouterr().out
    write_files(tree, {"aten/src/ATen/cuda/New.h": "#pragma once\n"})
    assert run(project, "--write") == 1 and (project / PATCH).read_bytes() == before
    assert f"{hollow}: stage 1 compiles it" in capsys.readouterr().err
    assert run(project) == 0 and f"{hollow}: stage 1 compiles it" in capsys.readouterr().out
    assert run(project, "--json") == 0 and json.loads(capsys.readouterr().out)["hollow"] == [hollow]


def test_a_tree_that_is_not_there_is_a_usage_error(project: Path) -> None:
    assert main(["relocate", "2.6", "--tree", str(project / "nowhere")]) == 2
