"""Every coupling to a vendor, before and after the series.

>>> from decouple.flows.census import CensusRequest, take_census
>>> found = take_census(CensusRequest(project, "2.6", tree=coupled, before=True))
>>> len(found.before.needing_vendor), found.after
(3, None)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError, UsageError, refuse_below
from decouple.base.git import Repository
from decouple.census import additions, taxonomy
from decouple.census.compare import CensusComparison, Removal, compare_censuses
from decouple.census.context import ScannedTree, make_context
from decouple.census.finding import Census
from decouple.census.scan import scan_tree
from decouple.flows import pristine_tree
from decouple.flows.listener import QUIET, Listener
from decouple.flows.pristine_tree import PristineRequest
from decouple.inventory.rules import RuleFile, load_rules
from decouple.patch import parse as patches
from decouple.patch import series_file
from decouple.relocate.plan import make_plan
from decouple.series.digest import hash_digests
from decouple.stack.journal import Journal


class CensusRequest(PristineRequest, frozen=True):
    """Which trees are counted."""

    applied: Path | None = None
    """The tree with the series on it; None: ``build/<release>/src`` where it is there."""
    before: bool = False
    """Only the pristine tree."""
    after: bool = False
    """Fail unless the applied tree is there."""
    jobs: int = 2
    vendor: tuple[str, ...] = ()
    """Whose couplings: words of ``decouple.census.taxonomy.DATA``; none: every vendor's."""
    also: Path | None = None
    """Words, macros and rules of this tree alone, laid over CUDA's; see ``decouple.census.additions``."""


class CensusResult(Struct, frozen=True):
    """The census of each tree, side by side, for each vendor that was asked for."""

    comparisons: tuple[CensusComparison, ...]
    series: str | None = None
    """Digest of the series on the applied tree; None where there is no such tree, or `apply` did not make it."""

    @property
    def comparison(self) -> CensusComparison:
        """The first vendor's: CUDA's, where nobody asked for another one alone."""
        return self.comparisons[0]

    @property
    def before(self) -> Census:
        """The first vendor's census of the pristine tree."""
        return self.comparison.before

    @property
    def after(self) -> Census | None:
        """The first vendor's census of the applied tree, where there is one."""
        return self.comparison.after


def take_census(request: CensusRequest, listener: Listener = QUIET) -> CensusResult:
    """Count.

    Raises UsageError when an applied tree is asked for and not there, or together with the pristine one alone.
    """
    refuse_below(1, jobs=request.jobs)
    project, release = request.project, request.release
    applied = request.applied or Checkout(project).locate_tree(release)
    if request.before and (request.applied or request.after):
        other = "--applied" if request.applied else "--after"
        raise UsageError(f"--before counts the pristine tree alone, {other} another one", next_step="leave one out")
    if (request.after or request.applied) and not applied.is_dir():
        mend = "name the folder of an applied tree" if request.applied else f"decouple apply {release}"
        raise UsageError(f"{applied}: no such tree", next_step=mend)
    more = additions.load_additions(request.also) if request.also else additions.TaxonomyAdditions()
    rules = more.extend_rules(load_rules())
    counts_applied = not request.before and applied.is_dir()
    edits = _find_removals(project, release) if counts_applied else {}  # before minutes of counting
    tree = pristine_tree.fetch_tree(request, listener)
    plan = make_plan(tree, rules, strict=False)
    if plan.unplaced:
        listener.say(f"census: no rule places {len(plan.unplaced)} CUDA files ({plan.unplaced[0]}, …): counted as open")
    words = _read_taxonomies(request, rules, more)
    before = _scan_tree(request, make_context(tree, rules, plan.mapping, plan.stage1), words, listener)
    after: list[Census] | list[None] = [None] * len(words)
    series = None
    if counts_applied:
        after = _scan_tree(request, make_context(applied, rules, plan.mapping, applied=True), words, listener)
        series = _read_applied_digest(applied)
    pairs = zip(before, after, strict=True)
    return CensusResult(tuple(compare_censuses(release, first, second, edits) for first, second in pairs), series)


def _read_taxonomies(
    request: CensusRequest, rules: RuleFile, more: additions.TaxonomyAdditions
) -> list[taxonomy.Taxonomy]:
    """Read the chosen vendors' files in order; CUDA's with the words of this tree."""
    if unknown := [word for word in request.vendor if word not in taxonomy.DATA]:
        raise UsageError(f"no vendor {unknown[0]!r}", next_step=f"one of {', '.join(taxonomy.DATA)}")
    asked = [word for word in taxonomy.DATA if word in (request.vendor or taxonomy.DATA)]
    read = [taxonomy.load_taxonomy(taxonomy.DATA[word], undefined=rules.stage1.undefined) for word in asked]
    return [more.extend_taxonomy(words) if words.vendor == "cuda" else words for words in read]


def _scan_tree(
    request: CensusRequest, context: ScannedTree, words: Sequence[taxonomy.Taxonomy], listener: Listener
) -> list[Census]:
    return [scan_tree(context, vendor, jobs=request.jobs, progress=listener.progress) for vendor in words]


def _read_applied_digest(tree: Path) -> str | None:
    """Return the digest of the patches that the stack has on ``tree``.

    None where it has no stack, or a state that this program cannot read, and where the tree was edited since: the count
    is of the text all the same.
    """
    try:
        repository = Repository(tree)
        state = Journal(repository).load_state()
        if repository.read_head() != state.head or repository.run("status", "--porcelain"):
            return None
        return hash_digests(patch.sha256 for patch in state.applied)
    except (OSError, DecoupleError):
        return None


def _find_removals(project: Path, release: str) -> dict[str, Sequence[Removal]]:
    """Which patch of the series removes which lines of which pristine file."""
    out: dict[str, list[Removal]] = {}
    origins: dict[str, str] = {}  # where a patch moved a file -> where the pristine tree has it
    for name in series_file.read_series(Checkout(project).locate_series(release)).names:
        for change in patches.read_patch(Checkout(project).patches / name).files:
            lines = [line.text.decode("utf-8", "replace") for h in change.hunks for line in h.lines if line.kind == "-"]
            before = change.path if change.copy else change.old_path or change.path
            origin = origins.get(before, before)
            if change.rename:
                origins[change.path] = origin
            if lines:
                out.setdefault(origin, []).append(Removal(Path(name).stem, tuple(lines)))
    return dict(out)
