"""Write the rename-only patch of a plan.

It is git-format, with a header that DEP-3 readers and ``git am`` both take. Layout of the header (docs/patches.md): the
mail fields ``git am`` needs (``From``, ``Date``, ``Subject``), a blank line, the description, a blank line, the
remaining DEP-3 fields as a last paragraph, which ``git am`` keeps in the commit message.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from email.utils import format_datetime

from msgspec import structs

from decouple.base.errors import DecoupleError
from decouple.base.git import quote_diff_path
from decouple.inventory.rules import PatchHeader, RuleFile
from decouple.relocate.plan import Move


def render_patch(moves: Sequence[Move], rules: RuleFile, release: str) -> str:
    """Write the whole patch of a plan's moves.

    The same moves and the same rules give the same bytes.

    Raises DecoupleError when nothing moves.
    """
    if not moves:
        raise DecoupleError(
            "the plan moves nothing: this tree is relocated already, or is not PyTorch's",
            next_step="give the pristine tree with --tree",
        )
    return _render_text(rules.patch, release, f"the PyTorch {release} tree", moves)


def render_python(moves: Sequence[Move], rules: RuleFile, release: str, wheel: str) -> str:
    """Write the patch for the Python files alone.

    It goes as far as the official ``wheel`` of a release shows what moves.

    Raises DecoupleError when nothing moves.
    """
    if not moves:
        raise DecoupleError(f"{wheel} has none of the Python files that move", next_step="give an official wheel")
    fixed = structs.replace(
        rules.patch,
        subject=rules.patch.python_subject,
        description=rules.patch.python_description.replace("{wheel}", wheel),
        verify=rules.patch.python_verify,
    )
    return _render_text(fixed, release, wheel, moves)


def _render_text(fixed: PatchHeader, release: str, of: str, moves: Sequence[Move]) -> str:
    date = datetime.datetime.fromisoformat(fixed.date).replace(tzinfo=datetime.UTC)
    lines = [
        f"From: {fixed.author}",
        f"Date: {format_datetime(date)}",
        f"Subject: {fixed.subject}",
        "",
        *(line.format(release=release) for line in fixed.description.splitlines()),
        "",
        f"Origin: vendor, generated from {len(moves)} renames of {of}",
        f"Forwarded: {fixed.forwarded}",
        f"Last-Update: {fixed.date}",
        f"Decouple-Id: {fixed.decouple_id}",
        f"Verify: {fixed.verify.format(release=release)}",
        f"Drop-When: {fixed.drop_when}",
        "---\n",
        *map(_render_rename, moves),
    ]
    return "\n".join(lines) + "\n"


def _render_rename(move: Move) -> str:
    return (
        f"diff --git {quote_diff_path(f'a/{move.origin}')} {quote_diff_path(f'b/{move.target}')}\n"
        "similarity index 100%\n"
        f"rename from {quote_diff_path(move.origin)}\n"
        f"rename to {quote_diff_path(move.target)}"
    )
