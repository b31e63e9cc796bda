"""Rewrite programs for ``torch.cuda`` so that they name no device.

LibCST does it, by the table ``neutral.toml``.

What is rewritten keeps its comments and its place. Whatever else of CUDA a program names is told with its line.
"""

from __future__ import annotations

import keyword
import warnings
from typing import TYPE_CHECKING

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.extras import explain_missing
from decouple.base.python_text import parse_python

if TYPE_CHECKING:  # loaded by who rewrites, not by every command
    import libcst


class RemainingName(Struct, frozen=True):
    """What was not rewritten: its line, its text, and why."""

    line: int
    text: str
    reason: str


class NeutralProgram(Struct, frozen=True):
    """A program's new text, how many places changed, and what still names CUDA."""

    text: str
    changes: int
    left: tuple[RemainingName, ...]


def rewrite_program(text: str, *, device: str = "", file: str = "the program") -> NeutralProgram:
    """Rewrite a program's text.

    ``device`` names what torch.accelerator has no function for: ``torch.NAME.X``.

    Raises DecoupleError when the text does not parse, or would not any more; UsageError when libcst is not installed,
    and for a ``device`` that is no name.
    """
    if device and (not device.isidentifier() or keyword.iskeyword(device)):
        raise UsageError(f"device {device!r}: torch.{device} is no name", next_step="name it as in torch.acme: acme")
    try:
        import libcst
        from libcst.metadata import MetadataWrapper

        from decouple.device.neutral_plan import ChangePlan, ChangeTransformer
    except ImportError:
        raise explain_missing("libcst", "neutral") from None
    try:
        parsed = libcst.parse_module(text)
    except libcst.ParserSyntaxError as error:
        message = f"{file}:{error.raw_line}: {error.message}"
        raise DecoupleError(message, next_step="give a file of Python 3") from None
    wrapper = MetadataWrapper(parsed)
    plan = ChangePlan(wrapper, device)
    made = wrapper.module.visit(ChangeTransformer(plan.instead))
    assert isinstance(made, libcst.Module)
    code = _insert_import(made) if plan.instead and plan.torch is None else made.code
    broken = _find_syntax_error(code)
    if broken and not _find_syntax_error(text):  # a program for a newer Python than this one has its own
        raise DecoupleError(
            f"{file}: rewritten, this line is no Python: {(broken.text or '').strip()}",
            next_step="rewrite that line by hand first",
        )
    return NeutralProgram(code, len(plan.instead), tuple(RemainingName(*row) for row in plan.left))


def _find_syntax_error(text: str) -> SyntaxError | None:
    with warnings.catch_warnings(action="ignore"):
        try:
            parse_python(text)
        except SyntaxError as error:
            return error
    return None


def _insert_import(module: libcst.Module) -> str:
    """Return the text with ``import torch`` where imports begin.

    What stands in it now needs the name.
    """
    from libcst.codemod import CodemodContext
    from libcst.codemod.visitors import AddImportsVisitor

    context = CodemodContext()
    AddImportsVisitor.add_needed_import(context, "torch")
    return AddImportsVisitor(context).transform_module(module).code
