"""Make the rename-only patch of what the rules move in a release's tree.

>>> from decouple.flows.relocate import RelocateRequest, relocate_files
>>> len(relocate_files(RelocateRequest(project, "2.6", tree=coupled)).plan.moves)
9
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.flows import pristine_tree
from decouple.flows.listener import QUIET, Listener
from decouple.flows.pristine_tree import PristineRequest
from decouple.inventory.rules import RuleFile, load_rules
from decouple.relocate import plan
from decouple.relocate.plan import Plan
from decouple.relocate.relocation_patch import render_patch

PATCH = "0001-relocate-cuda-sources.patch"


class RelocateRequest(PristineRequest, frozen=True):
    """Which tree; ``write`` replaces the patch by what the rules generate."""

    write: bool = False


class Relocation(Struct, frozen=True):
    """What moves, by which rules; ``same``: whether the patch was what they generate."""

    plan: Plan
    rules: RuleFile
    patch: Path
    same: bool


def relocate_files(request: RelocateRequest, listener: Listener = QUIET) -> Relocation:
    """Plan what moves, and write the patch where asked to.

    Raises DecoupleError where a file has two places, the rules or the source cannot be read, or a unit is hollow that
    the patch to be written would leave in the core.
    """
    rules = load_rules()
    made = plan.make_plan(pristine_tree.fetch_tree(request, listener), rules)
    path = Checkout(request.project).patches / request.release / PATCH
    if request.write and made.hollow:
        more = f" and {len(made.hollow) - 1} more" if made.hollow[1:] else ""
        raise DecoupleError(f"{made.hollow[0]}{more}: {plan.HOLLOW_REASON}", next_step=plan.HOLLOW_MEND)
    text = render_patch(made.moves, rules, request.release)
    same = path.exists() and path.read_bytes() == text.encode()
    if request.write and not same:
        write_atomically(path, text)
    return Relocation(made, rules, path, same)


def find_unplaced(of: PristineRequest, listener: Listener = QUIET) -> list[str]:
    """Return the CUDA files of the tree that no rule places. Raises DecoupleError."""
    return plan.list_unclassified(pristine_tree.fetch_tree(of, listener), load_rules())
