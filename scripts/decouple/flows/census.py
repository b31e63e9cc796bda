"""Every coupling to CUDA, before and after the series.

>>> from decouple.flows.census import TakeCensus, census
>>> found = census(TakeCensus(project, "2.6", tree=coupled, before=True))
>>> len(found.before.needing_cuda), found.after
(3, None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.census import additions, taxonomy
from decouple.census.compare import CensusComparison, Removal, compare_censuses
from decouple.census.context import make_context
from decouple.census.finding import Census
from decouple.census.scan import scan_tree
from decouple.flows import pristine
from decouple.flows.listener import QUIET, Listener
from decouple.flows.pristine import Pristine
from decouple.inventory.rules import RuleFile, load
from decouple.patch import parse as patches
from decouple.patch import seriesfile
from decouple.relocate.plan import make_plan
from decouple.syntax.include_graph import Edge


class TakeCensus(Pristine, frozen=True):
    """Which trees are counted."""

    applied: Path | None = None
    """The tree with the series on it; None: ``build/<release>/src`` where it is there."""
    before: bool = False
    """Only the pristine tree."""
    after: bool = False
    """Fail unless the applied tree is there."""
    jobs: int = 2
    also: Path | None = None
    """Words, macros and rules of this tree alone; see ``decouple.census.additions``."""


class Taken(Struct, frozen=True):
    """The census of each tree, and the two side by side."""

    before: Census
    after: Census | None
    comparison: CensusComparison


def census(request: TakeCensus, listener: Listener = QUIET) -> Taken:
    """Count. Raises UsageError when an applied tree is asked for and not there."""
    project, release = request.project, request.release
    more = additions.load_additions(request.also) if request.also else additions.TaxonomyAdditions()
    rules = more.extend_rules(load())
    tree = pristine.tree(request, listener)
    plan = make_plan(tree, rules, strict=False)
    if plan.unplaced:
        listener.say(f"census: no rule places {len(plan.unplaced)} CUDA files ({plan.unplaced[0]}, …): counted as open")
    before = _census(request, tree, rules, more, plan.mapping, listener, plan.stage1)
    applied = request.applied or Checkout(project).tree(release)
    after = None
    if not request.before and applied.is_dir():
        after = _census(request, applied, rules, more, plan.mapping, listener)
    elif request.after or request.applied:
        raise UsageError(f"{applied}: no such tree", next_step=f"decouple apply {release}")
    edits = _edits(project, release) if after else {}
    return Taken(before, after, compare_censuses(release, before, after, edits))


def _census(
    request: TakeCensus,
    tree: Path,
    rules: RuleFile,
    more: additions.TaxonomyAdditions,
    moves: dict[str, str],
    listener: Listener,
    stage1: Mapping[str, Edge | None] | None = None,
) -> Census:
    words = more.extend_taxonomy(taxonomy.load_taxonomy(undefined=rules.stage1.undefined))
    return scan_tree(make_context(tree, rules, moves, stage1), words, jobs=request.jobs, progress=listener.progress)


def _edits(project: Path, release: str) -> dict[str, Sequence[Removal]]:
    """Which patch of the series removes which lines of which file."""
    out: dict[str, list[Removal]] = {}
    for name in seriesfile.read(Checkout(project).series(release)).names:
        for change in patches.read(Checkout(project).patches / name).files:
            lines = [line.text.decode("utf-8", "replace") for h in change.hunks for line in h.lines if line.kind == "-"]
            for path in change.paths:
                if lines:
                    out.setdefault(path, []).append(Removal(Path(name).stem, tuple(lines)))
    return dict(out)
