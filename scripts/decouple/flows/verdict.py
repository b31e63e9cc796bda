"""Judge what a carried series is worth on the applied tree.

Asks lint, stage 2's lists, and what still needs CUDA or another vendor.

>>> from decouple.flows.verdict import JudgeRequest, judge_series
>>> found = judge_series(JudgeRequest(project, "2.6", source=f"local:{source}"))
>>> sorted({fault.split(" ")[1] for fault in found.faults})  # the headers of these three patches are short
['missing-field']
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from functools import partial
from pathlib import Path, PurePosixPath

from msgspec import Struct, structs, to_builtins

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, write_atomically
from decouple.base.untrusted_input import read_json
from decouple.build.inputs import hash_tree_content
from decouple.census import additions
from decouple.flows import pristine_tree
from decouple.flows.census import CensusRequest, take_census
from decouple.flows.listener import QUIET, Listener
from decouple.flows.pristine_tree import PristineRequest
from decouple.inventory.rules import load_rules
from decouple.patch.faults import Fault
from decouple.recipes.model import is_explained, load_recipes
from decouple.release.carried import CHECKS
from decouple.relocate import stage2
from decouple.relocate.plan import make_plan
from decouple.series.lint import lint_series

_SHOWN = 20


class JudgeRequest(PristineRequest, frozen=True):
    """Which carried series; its tree is the checkout's ``build/<release>/src``."""

    also: Path | None = None
    """Words, macros and rules of this tree alone; see ``decouple.census.additions``."""


class SeriesVerdict(Struct, frozen=True):
    """What three checks found. Empty: nothing is wrong."""

    faults: tuple[str, ...] = ()
    """Lint's, of the series and its patches, which the series that it was carried from has not."""
    sources: tuple[str, ...] = ()
    """Units that move and that no list of stage 2 compiles, and lists that find nothing."""
    couplings: tuple[str, ...] = ()
    """What in the core still needs one of ``vendors`` at compile time."""
    unasked: tuple[str, ...] = ()
    """Checks that this tree gave no answer to, or parts of one ("third_party/x: …"), and why."""
    vendors: tuple[str, ...] = ()
    """Whose couplings were counted: words of ``decouple.census.taxonomy.DATA``."""

    @property
    def is_clean(self) -> bool:
        """Whether every check was asked and nothing was found."""
        return self.count_found() == dict.fromkeys(CHECKS, 0)

    def count_found(self) -> dict[str, int]:
        """Map each of `CHECKS` that gave an answer to how many it found."""
        parts = zip(CHECKS, (self.faults, self.sources, self.couplings), strict=True)
        return {
            name: len(entries)
            for name, entries in parts
            if not any(entry.startswith(f"{name}: ") for entry in self.unasked)
        }

    def format_lines(self, release: str) -> list[str]:
        """Describe the verdict in words, with the command that shows all of each part."""
        parts = (
            (self.faults, f"decouple lint {release}"),
            (self.sources, f"decouple stages sources {release} --tree TREE"),
            (self.couplings, f"decouple census {release} --tree TREE --couplings"),
        )
        counted = self.count_found().items()
        summary = ", ".join(f"{name} {f'{count} found' if count else 'clean'}" for name, count in counted)
        lines = [f"verdict: {summary}"]
        for name, (entries, command) in zip(CHECKS, parts, strict=True):
            lines += [f"  {name}: {entry}" for entry in entries[:_SHOWN]]
            if len(entries) > _SHOWN:
                lines.append(f"  {name}: and {len(entries) - _SHOWN} more; `{command}` shows all")
        return [*lines, *(f"  not asked: {entry}" for entry in self.unasked)]


def judge_series(request: JudgeRequest, listener: Listener = QUIET) -> SeriesVerdict:
    """Ask lint, stage 2's lists and the census.

    Raises DecoupleError where the pristine tree cannot be had.
    """
    project, release = request.project, request.release
    faults = _find_new_faults(project, release)
    tree = pristine_tree.fetch_tree(request, listener)
    verdict = judge_trees(project, release, tree, Checkout(project).locate_tree(release), request.also, listener)
    return structs.replace(verdict, faults=faults)


class _KeptVerdict(Struct, frozen=True):
    key: str
    verdict: SeriesVerdict


def judge_once(request: JudgeRequest, listener: Listener = QUIET) -> SeriesVerdict:
    """Judge as `judge_series` does; repeat what was found if nothing changed.

    The verdict lies beside the applied tree, unless a check was not asked: what prevented it may be mended. Raises
    DecoupleError as `judge_series`, and where that tree is none; OSError.
    """
    path = Checkout(request.project).locate_build(request.release) / "verdict.json"
    key = _compute_key(request)
    with contextlib.suppress(OSError, DecoupleError):
        kept = read_json(path, _KeptVerdict, mend="")
        if kept.key == key:
            listener.say("verdict: of an earlier run, nothing changed since")
            return kept.verdict
    verdict = judge_series(request, listener)
    if verdict.count_found().keys() == set(CHECKS):
        write_atomically(path, json.dumps(to_builtins(_KeptVerdict(key, verdict)), indent=1) + "\n")
    return verdict


def _compute_key(request: JudgeRequest) -> str:
    """Return the digest of what a verdict depends on.

    Beside the files of the tree, as they are now, those are the series, recipes and patches that it is compared with,
    stage 2's lists, what ``also`` says, and the rules and code that judge.
    """
    checkout = Checkout(request.project)
    folders = (checkout.root / "series", checkout.patches, Path(__file__).parents[1])
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix != ".pyc"]
    files += [checkout.root / path for path in stage2.load_sources().sources]
    files += [request.also] if request.also else []
    digest = hashlib.sha256(hash_tree_content(checkout.locate_tree(request.release), ()).encode())
    for path in filter(Path.is_file, files):
        digest.update(os.fsencode(path) + f"\0{compute_sha256(path)}\0".encode())
    return digest.hexdigest()


def judge_trees(
    project: Path, release: str, tree: Path, applied: Path, own: Path | None = None, listener: Listener = QUIET
) -> SeriesVerdict:
    """Ask stage 2's lists of ``tree``, and the census of ``applied``.

    ``applied`` is ``tree`` with the series of ``release``. ``own``: words, macros and rules of this tree alone. What
    cannot be asked is said in ``unasked``.
    """
    rules = additions.load_additions(own).extend_rules(load_rules()) if own else load_rules()
    unasked: list[str] = []
    sources: tuple[str, ...] = ()
    couplings: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    try:
        plan = make_plan(tree, rules, strict=False)
        sources = plan.open_questions
        lists = stage2.load_sources().sources
        if all((project / path).is_file() for path in lists):
            found_lists = stage2.check_lists(tree, plan.mapping, project)
            sources += found_lists.faults
            unasked += [
                f"{folder}: this tree has not that submodule, so whether stage 2's patterns find its files"
                for folder in found_lists.unasked
            ]
        else:
            unasked.append(f"stage2-sources: this checkout lacks one of {', '.join(lists)}")
    except (DecoupleError, OSError) as error:
        unasked.append(f"stage2-sources: {_describe_error(error)}")
    try:
        taken = take_census(CensusRequest(project, release, tree=tree, applied=applied, also=own), listener)
        vendors = tuple(comparison.vendor for comparison in taken.comparisons)
        couplings = tuple(
            f"{coupling.path}:{coupling.line}: {coupling.category} {coupling.symbol}: {coupling.detail}"
            for comparison in taken.comparisons
            for coupling in (comparison.after or comparison.before).needing_vendor
        )
    except (DecoupleError, OSError) as error:
        unasked.append(f"couplings: {_describe_error(error)}")
    return SeriesVerdict((), sources, couplings, tuple(unasked), vendors)


def _describe_error(error: DecoupleError | OSError) -> str:
    if isinstance(error, DecoupleError):
        return error.what
    return f"{os.fsdecode(error.filename)}: {error.strerror}" if error.filename else str(error)


def _find_new_faults(project: Path, release: str) -> tuple[str, ...]:
    """Return lint's faults that no patch of that name has in another series."""
    explained = partial(is_explained, load_recipes(project))
    others = [other for other in Checkout(project).list_releases() if other != release]
    before = {_make_key(fault) for fault in lint_series(project, others, explained).faults} if others else set()
    return tuple(
        str(fault) for fault in lint_series(project, [release], explained).faults if _make_key(fault) not in before
    )


def _make_key(fault: Fault) -> tuple[str, str, str]:
    return PurePosixPath(fault.file).name, fault.code, fault.message
