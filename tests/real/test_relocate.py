"""Relocation on the real 2.6.0 source: the patch, applied by three tools, and the proof of what stage 1 needs."""

from __future__ import annotations

import lzma
import posixpath
import shutil
import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.inventory import rules as rule_files
from decouple.inventory.rules import RuleFile
from decouple.inventory.tree import list_files
from decouple.relocate import stage2
from decouple.relocate.plan import Plan, make_plan
from decouple.relocate.relocation_patch import render_patch
from decouple.syntax.conditions import Macros
from decouple.syntax.preprocessor import parse_includes
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.support.tools import require_tool

pytestmark = pytest.mark.real

#: The tree's files that a whole stage-1 build of the patched tree opened, all 1,528 translation units
#: (`decouple stages units 2.6 --opened FILE`: trixie's 2.6.0 with Debian's patches and the series, gcc 14, USE_CUDA=0).
#: Kept, not derived: it takes that build of hours, and the include graph that could give it is what it is held against.
OPENED = Path(__file__).with_name("stage1_opened_2.6.xz")
PATCH = "0001-relocate-cuda-sources.patch"


@pytest.fixture(scope="module")
def rules() -> RuleFile:
    return rule_files.load_rules()


@pytest.fixture(scope="module")
def tree() -> Path:
    return fetch_source(load_release(find_project(), "2.6"), "debian").path


@pytest.fixture(scope="module")
def plan(tree: Path, rules: RuleFile) -> Plan:
    return make_plan(tree, rules)


def test_the_patch_is_what_the_rules_generate(plan: Plan, rules: RuleFile) -> None:
    stored = (find_project() / "patches" / "2.6" / PATCH).read_text(encoding="utf-8")
    assert render_patch(plan.moves, rules, "2.6") == stored


def test_the_guide_says_how_many_move_and_stay(plan: Plan) -> None:
    page = (find_project() / "docs" / "split.md").read_text(encoding="utf-8")
    assert f"{len(plan.moves)} files move, {len(plan.stays)} that look like CUDA's stay." in page


def test_nothing_that_a_real_stage_1_build_opened_moves(plan: Plan) -> None:
    opened = set(lzma.decompress(OPENED.read_bytes()).decode().split())
    assert len(opened) == 2852
    assert opened & plan.mapping.keys() == set()


def test_the_include_closure_knows_everything_that_build_opened(plan: Plan, rules: RuleFile) -> None:
    opened = set(lzma.decompress(OPENED.read_bytes()).decode().split())
    opened = {path for path in opened if path.startswith(rules.scope.folders)}
    assert len(opened) == 2848, "the others are four headers and sources of third_party, where nothing moves"
    assert opened - plan.stage1.keys() == set()


def test_the_design_s_directories_are_empty_afterwards(plan: Plan, tree: Path, rules: RuleFile) -> None:
    left = set(list_files(tree, rules.scope.folders)) - plan.mapping.keys()
    gone = (
        "aten/src/ATen/cuda/",
        "aten/src/ATen/cudnn/",
        "aten/src/THC/",
        "c10/cuda/",
        "torch/csrc/cuda/",
        "torch/cuda/",
    )
    assert [path for path in left if path.startswith((*gone, "torch/backends/cu"))] == []
    suffixes = [path for path in left if path.endswith((".cu", ".cuh"))]
    assert suffixes == ["aten/src/ATen/templates/UfuncCUDA.cu"], "only torchgen's template keeps the suffix"


def test_git_and_gnu_patch_give_one_tree(plan: Plan, tree: Path, tmp_path: Path) -> None:
    patch = find_project() / "patches" / "2.6" / PATCH
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "core.autocrlf=false"]
    trees = set()
    require_tool("patch")
    for tool in (["git", "apply"], [*git, "am", "-q"], ["patch", "-p1", "-s", "-F0", "-i"]):
        folder = tmp_path / tool[-1].strip("-")
        for source in plan.mapping:
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / source, folder / source)
        for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-qm", "upstream"]):
            subprocess.run([*git, *command], cwd=folder, check=True)
        subprocess.run([*tool, str(patch)], cwd=folder, check=True)
        subprocess.run([*git, "add", "-A", "-f"], cwd=folder, check=True)
        trees.add(subprocess.run([*git, "write-tree"], cwd=folder, check=True, capture_output=True).stdout)
    assert len(trees) == 1


def test_every_include_of_a_moved_file_still_opens_the_same_file(plan: Plan, tree: Path, rules: RuleFile) -> None:
    """No include line changes: stage 2 shows each moved file at its upstream path in a folder of links, searched first.

    What can go wrong is a quoted include of a neighbour that stays behind, or a name that another file now answers.
    """
    files = frozenset(list_files(tree, rules.scope.folders))
    moved = plan.mapping.keys()
    gone = frozenset(moved)
    staying = files - gone
    folders = rules.stage1.include_folders

    def opens(name: str, places: list[tuple[str, frozenset[str]]]) -> str | None:
        for folder, present in places:
            path = posixpath.normpath(posixpath.join(folder, name))
            if path in present:
                return path
        return None

    checked, wrong = 0, []
    for source in moved:
        if not source.endswith((".h", ".hpp", ".cuh", ".cpp", ".cu")):
            continue
        here = posixpath.dirname(source)
        for include in parse_includes((tree / source).read_text(encoding="utf-8", errors="replace"), Macros()):
            beside = [here] if include.quoted else []
            before = [(folder, files) for folder in (*beside, *folders)]
            after = [(folder, gone) for folder in (*beside, *folders)]
            after += [(folder, staying) for folder in folders]
            wanted = opens(include.name, before)
            if wanted is None:
                continue
            checked += 1
            if opens(include.name, after) != wanted:
                wrong.append(f"{source}:{include.line}: {include.name}")
    assert checked > 3000
    assert wrong == []


def test_stage_2_compiles_every_unit_that_moves(tree: Path, plan: Plan) -> None:
    found = stage2.check_lists(tree, plan.mapping, find_project())
    assert found.faults == ()
    assert (found.units, found.compiled) == (495, 465), "the others are tests, and one that upstream lists nowhere"
