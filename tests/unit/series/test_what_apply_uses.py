"""check and forecast judge with all that a rebase has: recipes, merges, and a release that has no series of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_project
from decouple.cli import main
from decouple.flows.check import CheckRequest, list_dependencies
from decouple.flows.check import check_series as check_source
from decouple.flows.patch_regeneration import PatchRemaker, SeriesMerge
from decouple.patch import parse as patches
from decouple.patch.parse import Patch
from decouple.recipes.model import load_recipe
from decouple.series.check import Fit, PatchFit, check_series
from tests.support.reader import Reader
from tests.support.releases import tar_of, wheel_of
from tests.unit.rebase.releases import numbered
from tests.unit.rebase.test_session import Project, project

__all__ = ["project"]

OLD = {"torch/a.cpp": b"a\nb\nc\n#ifdef USE_CUDA\ncuda(1);\n#endif\nd\ne\nf\n"}
TEXT = b"""Decouple-Id: cut
---
--- a/torch/a.cpp
+++ b/torch/a.cpp
@@ -1,9 +1,6 @@
 a
 b
 c
-#ifdef USE_CUDA
-cuda(1);
-#endif
 d
 e
 f
"""
RECIPE = """schema = 1
id = "cut"
[[edit]]
file = "torch/a.cpp"
undefine = ["USE_CUDA"]
gone = ['cuda\\(1']
"""


def patch() -> Patch:
    return patches.parse_patch(TEXT, name="1.0/0001-cut.patch")


def judged(workshop: PatchRemaker, files: dict[str, bytes], *, partial: bool = False) -> PatchFit:
    opened = Reader(files.get)
    (found,) = check_series(
        [patch()],
        opened,
        partial=partial,
        remade=lambda one, tree: (
            (Fit.MADE, changes) if workshop.merging and (changes := workshop.merging.merge_patch(one, tree)) else None
        ),
        lost=workshop.find_lost_changes,
        hidden=workshop.find_hidden_files,
    )
    return found


@pytest.fixture
def with_recipe(tmp_path: Path) -> PatchRemaker:
    (tmp_path / "cut.toml").write_text(RECIPE)
    return PatchRemaker({"cut": load_recipe(tmp_path / "cut.toml")})


def test_what_merges_is_no_conflict() -> None:
    """Upstream changed the context: a rebase merges it, and a forecast said conflict."""
    new = {"torch/a.cpp": b"a\nB\nc\n#ifdef USE_CUDA\ncuda(1);\n#endif\nd\ne\nf\n"}
    assert judged(PatchRemaker({}), new).status is Fit.CONFLICT
    assert judged(PatchRemaker({}, SeriesMerge([patch()], Reader(OLD.get))), new).status is Fit.MADE


def test_what_does_not_merge_is_one() -> None:
    new = {"torch/a.cpp": b"a\nb\nc\n#ifdef USE_CUDA\ncuda(2);\n#endif\nd\ne\nf\n"}
    assert judged(PatchRemaker({}, SeriesMerge([patch()], Reader(OLD.get))), new).status is Fit.CONFLICT


def test_text_that_a_recipe_would_lose_is_a_conflict_where_the_old_text_fits(with_recipe: PatchRemaker) -> None:
    assert judged(with_recipe, OLD).status is Fit.CLEAN
    more = {"torch/a.cpp": OLD["torch/a.cpp"] + b"#ifdef USE_CUDA\ncuda(2);\n#endif\n"}
    found = judged(with_recipe, more)
    assert found.status is Fit.CONFLICT
    assert found.conflicts[0].path == "torch/a.cpp"
    assert "cuda(2);" in found.conflicts[0].failure.message


def test_each_release_is_judged_by_its_own_text(with_recipe: PatchRemaker) -> None:
    """What a recipe made of one release is kept for the next that has the same files, and for no other."""
    more = {"torch/a.cpp": OLD["torch/a.cpp"] + b"#ifdef USE_CUDA\ncuda(2);\n#endif\n"}
    found = [judged(with_recipe, files).status for files in (OLD, more, OLD, more)]
    assert found == [Fit.CLEAN, Fit.CONFLICT, Fit.CLEAN, Fit.CONFLICT]
    assert len(with_recipe.kept) == 2


def test_of_a_patch_whose_recipe_reads_what_a_wheel_does_not_show_nothing_is_said(tmp_path: Path) -> None:
    other = '[[edit]]\nfile = "torch/hidden.cpp"\nat = [{ line = "x" }]\nput = "y"\n'
    (tmp_path / "cut.toml").write_text(RECIPE + other)
    workshop = PatchRemaker({"cut": load_recipe(tmp_path / "cut.toml")})
    new = {"torch/a.cpp": b"a\nb\n"}
    assert judged(workshop, new).status is Fit.CONFLICT
    found = judged(workshop, new, partial=True)
    assert found.status is Fit.UNSEEN
    assert found.unseen == ("torch/hidden.cpp",)


def test_an_archive_is_judged_as_its_folder_is(project: Project) -> None:
    """A recipe reads files that its patch does not change; an archive gives only those that it is asked for."""
    other = '[[edit]]\nfile = "d"\nat = [{ line = "x" }]\nwhere = [{ line = "x" }]\nput = "y"\n'
    sign = '[[upstream]]\nsince = "2.0"\nfile = "e"\nat = [{ line = "z" }]\n'
    cut = RECIPE.replace('"cut"', '"second"').replace("torch/a.cpp", "b")
    project.write("series/recipes/second.toml", cut + other + sign)
    project.upstream("1.0", {"b": numbered(1, 60) + "more\n", "d": "d\n", "e": "e\n"})
    archive = project.root / "vendor.tar"
    archive.write_bytes(tar_of(project.sources["1.0"], "pytorch", "w"))
    verdicts = [
        [verdict.status for verdict in check_source(CheckRequest(project.root, "1.0", source=str(source))).verdicts]
        for source in (project.sources["1.0"], archive)
    ]
    assert verdicts == [[Fit.CLEAN] * 3] * 2


def test_whatever_a_recipe_of_ours_reads_a_source_is_asked_for() -> None:
    remaker = PatchRemaker.of_project(find_project())
    assert {path for recipe in remaker.recipes.values() for path in recipe.files} <= remaker.recipe_paths
    assert {sign.file for recipe in remaker.recipes.values() for sign in recipe.upstream} <= remaker.recipe_paths


def test_a_byte_that_is_not_utf_8_stays_as_it_is(project: Project) -> None:
    """A vendor's comment in Latin-1 ended the check of all patches."""
    cut = '[[edit]]\nfile = "b"\nat = [{ line = "^line 20$" }]\nput = "second"\n'
    project.write("series/recipes/second.toml", f'schema = 1\nid = "second"\n{cut}')
    for lines in ({}, {19: "another line\n"}):
        text = numbered(1, 60, lines).encode() + b"# Andr\xe9\n"
        (project.sources["1.0"] / "b").write_bytes(text)
        found = check_source(CheckRequest(project.root, "1.0", source=str(project.sources["1.0"])))
        second = found.verdicts[1]
        assert second.status is (Fit.MADE if lines else Fit.CLEAN)
        made = second.changes["b"]
        assert made and made.data == text.replace(b"line 20\n", b"second\n")


def test_a_wheel_does_not_show_what_patches_need_of_each_other(project: Project) -> None:
    """What it lacks looked like a patch that does not apply, which `check` denied."""
    wheel = project.root / "torch-1.0.0-py3-none-any.whl"
    wheel.write_bytes(wheel_of({"torch/a.py": b"a\n"}))
    with pytest.raises(UsageError, match="part of the tree only") as error:
        list_dependencies(CheckRequest(project.root, "1.0", source=str(wheel)))
    assert "--source" in error.value.next_step


def test_a_wheel_of_another_project_is_no_source(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it was seen, and `check` ended with 0."""
    wheel = project.root / "other-1.0.0-py3-none-any.whl"
    wheel.write_bytes(wheel_of({"other/a.py": b"a\n"}))
    assert main(["check", "1.0", "--source", str(wheel)]) == 2
    assert "no wheel of torch" in capsys.readouterr().err


def test_where_a_patch_does_not_apply_the_check_that_says_why_is_named(project: Project) -> None:
    source = str(project.sources["1.0"])
    assert set(list_dependencies(CheckRequest(project.root, "1.0", source=source)).values()) == {()}
    project.upstream("1.0", {"b": "another\n"})
    with pytest.raises(DecoupleError, match="0002-second") as error:
        list_dependencies(CheckRequest(project.root, "1.0", source=source))
    assert error.value.next_step == f"`decouple check 1.0 --source {source}` says why"


def test_a_release_without_a_series_is_judged_with_the_nearest(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.upstream("1.1", {name: "new\n" + numbered(1, 60) for name in "abc"})
    assert main(["check", "1.1", "--source", str(project.sources["1.1"])]) == 0
    said = capsys.readouterr()
    assert "judged is the one of 1.0" in said.out + said.err
    assert "1.0/0002-second.patch" in said.out
