"""Relocation on the real 2.6.0 source: the patch, its application by three tools, and the proof of what stage 1 needs."""

from __future__ import annotations

import posixpath
import shutil
import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.relocate import rules as rule_files
from decouple.relocate.patch import render
from decouple.relocate.plan import Plan, list_files, make_plan
from decouple.relocate.rules import RuleFile
from decouple.relocate.shadow import links
from decouple.release.manifest import load_release
from decouple.source.conditions import Macros
from decouple.source.preprocessor import includes
from decouple.upstream import fetch

pytestmark = pytest.mark.real

#: The tree's files that a real stage-1 build had opened (`ninja -t deps`: 766 of its 1,528 translation units, trixie's
#: 2.6.0 with Debian's patches, gcc 14, USE_CUDA=0).
OPENED = Path(__file__).with_name("stage1_opened_2.6.txt")
PATCH = "0001-relocate-cuda-sources.patch"


@pytest.fixture(scope="module")
def rules() -> RuleFile:
    return rule_files.load()


@pytest.fixture(scope="module")
def tree() -> Path:
    return fetch(load_release(find_project(), "2.6"), "debian").path


@pytest.fixture(scope="module")
def plan(tree: Path, rules: RuleFile) -> Plan:
    return make_plan(tree, rules)


def test_the_patch_is_what_the_rules_generate(plan: Plan, rules: RuleFile) -> None:
    stored = (find_project() / "patches" / "2.6" / PATCH).read_text(encoding="utf-8")
    assert render(plan, rules, "2.6") == stored


def test_nothing_that_a_real_stage_1_build_opened_moves(plan: Plan) -> None:
    opened = set(OPENED.read_text().split())
    assert len(opened) == 1518
    assert opened & plan.mapping.keys() == set()


def test_the_include_closure_knows_everything_that_build_opened(plan: Plan) -> None:
    assert set(OPENED.read_text().split()) - plan.stage1.keys() == set()


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
    """No include line changes, so the shadow links alone must mend what the move breaks, in all moved sources."""
    folders = [*rules.stage1.include_folders]
    files = frozenset(list_files(tree, rules.scope.folders))
    staying = files - plan.mapping.keys()
    shadow = {link.name: link for link in links(plan, staying, rules.shadow_folders)}
    now = staying | set(plan.mapping.values())

    def before(source: str, name: str, quoted: bool) -> str | None:
        for folder in ([posixpath.dirname(source)] if quoted else []) + folders:
            path = posixpath.normpath(posixpath.join(folder, name))
            if path in files:
                return path
        return None

    def after(source: str, name: str, quoted: bool) -> str | None:
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        if quoted and beside in now:
            return beside
        parts = name.split("/")
        for depth in range(len(parts), 0, -1):
            link = shadow.get("/".join(parts[:depth]))
            if link and (path := posixpath.join(link.target, *parts[depth:])) in now:
                return path
        return next((p for f in folders if (p := posixpath.normpath(posixpath.join(f, name))) in now), None)

    checked, wrong = 0, []
    for source, target in plan.mapping.items():
        if not source.endswith((".h", ".hpp", ".cuh", ".cpp", ".cu")):
            continue
        for include in includes((tree / source).read_text(encoding="utf-8", errors="replace"), Macros()):
            wanted = before(source, include.name, include.quoted)
            if wanted is None:
                continue
            checked += 1
            if after(target, include.name, include.quoted) != plan.mapping.get(wanted, wanted):
                wrong.append(f"{source}:{include.line}: {include.name}")
    assert checked > 3000
    assert wrong == []
