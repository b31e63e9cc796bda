"""The 2.6 series on other real releases, judged by us, by ``git am -3`` and by ``quilt push`` with its fuzz.

Each patch is put on the tree that ours has made so far, so all three see the same input. On the later releases the
right answer is known: what people settled there (``test_official_text``). On the others nobody knows it for every hunk,
so what is held is that a tool that succeeds makes the same tree as we do.
The planted evolutions are in tests/unit/rebase/test_rivals.py.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from decouple.base.checkout import Checkout
from decouple.base.paths import find_cache
from decouple.cli import main
from decouple.flows import rebase
from decouple.flows.census import CensusRequest, take_census
from decouple.inventory.rules import load_rules
from decouple.rebase.rebase_state import RebaseState
from decouple.rebase.series_carry import RebaseWork
from decouple.rebase.verdicts import Verdict
from decouple.relocate import stage2
from decouple.relocate.plan import make_plan
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.real import test_evolutions as evolutions
from tests.real.test_official_text import SETTLED, made, number_of
from tests.real.test_rebase import OLD, project  # noqa: F401 - a fixture
from tests.support import rivals

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
KERNEL = "torch/nativert/kernels/C10Kernel.cpp"
WHEELS = [release for release in Checkout(ROOT).list_manifest_releases() if release != "2.6"]


def compared(work: RebaseWork, release: str, folder: Path, truth: Mapping[str, rivals.Effect]) -> list[tuple[str, ...]]:
    """(patch, our verdict, and what each of the three tools made of it); asserts that ours is never the worse one.

    ``truth``: what is right, by Decouple-Id; for a patch that is not in it, what we made of it.
    """
    outcome = work.run(stop=False)
    git = rivals.GitAm(work.repository, folder / "git")
    rows: list[tuple[str, ...]] = []
    faults: list[str] = []
    for step, carried, tip in zip(outcome.steps, outcome.carried, outcome.tips, strict=False):
        if carried.verdict in (Verdict.NOT_SEEN, Verdict.REGENERATED):
            continue
        name, identity = step.patch.name, step.patch.header.decouple_id or ""
        mine = rivals.ours(work.repository, carried)
        right = truth.get(identity, mine)
        effects = [mine, git(tip, step.patch), rivals.quilt_push(work.repository, tip, step.patch, folder / "q")]
        words = ["stops" if one is None else "right" if one == right else "WRONG" for one in effects]
        rows.append((name, carried.verdict.value, *words))
        print(f"| {release} | {' | '.join(rows[-1])} |")
        if words[0] == "WRONG":
            faults.append(f"{release}: we put {name} in the wrong place")
        if words[0] == "stops" and words[1] == "right":
            faults.append(f"{release}: git am -3 is right about {name}, we stop")
        if words[0] == "stops" and words[2] == "right":
            faults.append(f"{release}: quilt is right about {name}, we stop")
    assert not faults
    return rows


def settled(work: RebaseWork, release: str) -> dict[str, rivals.Effect]:
    """Decouple-Id -> what a person made of the patch: ours, where its text has the hash that was kept of theirs."""
    outcome = work.run(stop=False)
    effects = {}
    for step, one in zip(outcome.steps, outcome.carried, strict=True):
        if made(step.patch, one) == SETTLED[release].get(number_of(one)):
            effects[step.patch.header.decouple_id or ""] = rivals.ours(work.repository, one) or {}
    assert len(effects) == len(SETTLED[release])
    return effects


def test_on_debians_patched_tree(project: Path, tmp_path: Path) -> None:  # noqa: F811
    work, *_ = rebase.prepare_work(project, RebaseState("2.6", "2.6", "auto", debian_patches=True))
    rows = compared(work, "debian", tmp_path, {})
    assert len(rows) >= 20
    assert {row[1:4] for row in rows} <= {("unmodified", "right", "right"), ("offset", "right", "right")}


def test_on_a_release_two_years_older(project: Path, tmp_path: Path) -> None:  # noqa: F811
    tarball, _ = Downloader(find_cache()).fetch_file(OLD)
    work, *_ = rebase.prepare_work(project, RebaseState("2.6", "1.13", f"local:{tarball}", debian_patches=False))
    rows = compared(work, "1.13.1", tmp_path, {})
    assert len(rows) >= 20
    assert not [row for row in rows if "WRONG" in row and row[2] != "stops"]


@pytest.mark.parametrize("release", WHEELS)
def test_on_what_the_wheel_of_a_later_release_shows(project: Path, tmp_path: Path, release: str) -> None:  # noqa: F811
    shutil.copy(ROOT / "series" / f"{release}.toml", project / "series")
    shutil.copytree(ROOT / "series/recipes", project / "series/recipes")
    work, *_ = rebase.prepare_work(project, RebaseState("2.6", release, "wheel", debian_patches=False))
    rows = compared(work, release, tmp_path, settled(work, release))
    assert len(rows) == 5


def test_what_only_this_tool_sees(project: Path, tmp_path: Path) -> None:  # noqa: F811
    """A made-up later release: three tools on each patch, and what the other two have no word for.

    Upstream mends a body that a patch moves, renames a folder of kernels, and couples core files to CUDA anew.
    """
    pristine = fetch_source(load_release(ROOT, "2.6"), "debian").path
    tree = tmp_path / "tree"
    subprocess.run(["cp", "-a", "--reflink=auto", str(pristine), str(tree)], check=True)
    for evolve in (evolutions.mended, evolutions.renamed, evolutions.grown):
        evolve(tree)
    shutil.copytree(ROOT / "series/recipes", project / "series/recipes")
    assert main(["manifest", "fill", "evolved", "--tree", str(tree), "--write"]) == 0
    work, *_ = rebase.prepare_work(project, RebaseState("2.6", "evolved", f"local:{tree}", debian_patches=False))
    rows = compared(work, "evolved", tmp_path, {})
    assert not [row for row in rows if row[2] == "stops"]
    named = {row[0].removeprefix("2.6/")[:4]: row[3:] for row in rows if row[3:] != ("right", "right")}
    assert named == {
        "0013": ("stops", "stops"),  # the body that moves was mended
        "0014": ("WRONG", "WRONG"),  # applied without a word; c10d's new bindings of CUDA stay in the core
        "0016": ("WRONG", "WRONG"),  # the same, with the new launcher
    }

    faults = stage2.check_lists(tree, make_plan(tree, load_rules()).mapping, ROOT).faults
    assert any("quantized" in fault for fault in faults)
    print(*faults, sep="\n")
    counted = [take_census(CensusRequest(ROOT, "2.6", tree=one, before=True)).before for one in (pristine, tree)]
    before, now = ({(one.path, one.symbol) for one in taken.needing_vendor} for taken in counted)
    assert {path for path, _ in now - before} >= {"torch/csrc/distributed/c10d/init.cpp", KERNEL}
    print("new couplings:", sorted(now - before))
