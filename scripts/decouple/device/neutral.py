"""Programs written for ``torch.cuda``, rewritten so that they name no device: LibCST, by the table ``neutral.toml``.

What is rewritten keeps its comments and its place. Whatever else of CUDA a program names is told with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.base.extras import explain_missing

if TYPE_CHECKING:  # loaded by who rewrites, not by every command
    import libcst

TABLE = Path(__file__).with_name("neutral.toml")
_DEVICE = re.compile(r"cuda(?::(\d+))?\Z")
_SUSPECT = re.compile(r"\bcuda\b|\bcudnn\b|\bnccl\b|\bCUDA\b")


class RemainingName(Struct, frozen=True):
    """What was not rewritten: its line, its text, and why."""

    line: int
    text: str
    reason: str


class NeutralProgram(Struct, frozen=True):
    """A program's text afterwards, how many places are other, and what still names CUDA."""

    text: str
    changes: int
    left: tuple[RemainingName, ...]


class _Names(Struct, frozen=True):
    names: tuple[str, ...]


class _Places(Struct, frozen=True):
    device: tuple[str, ...]
    type: tuple[str, ...]
    backend: tuple[str, ...]


class _Table(Struct, frozen=True):
    accelerator: dict[str, str]
    torch: dict[str, str]
    module: _Names
    amp: _Names
    parameters: _Places
    first: _Places


def rewrite_program(text: str, *, device: str = "", file: str = "the program") -> NeutralProgram:
    """Rewrite a program's text. ``device`` names what torch.accelerator has no function for: ``torch.NAME.X``.

    Raises DecoupleError when the text does not parse, UsageError when libcst is not installed.
    """
    try:
        import libcst
    except ImportError:
        raise explain_missing("libcst", "neutral") from None
    from libcst.metadata import MetadataWrapper

    try:
        parsed = libcst.parse_module(text)
    except libcst.ParserSyntaxError as error:
        message = f"{file}:{error.raw_line}: {error.message}"
        raise DecoupleError(message, next_step="give a file of Python 3") from None
    wrapper = MetadataWrapper(parsed)
    plan = _plan_changes(wrapper, toml.read_toml(TABLE, _Table, mend="see the comment at its top", schema=None), device)
    made = wrapper.module.visit(_make_transformer(plan.instead))
    assert isinstance(made, libcst.Module)
    if plan.instead and plan.torch is None:
        return NeutralProgram(_insert_import(made), len(plan.instead), tuple(plan.left))
    return NeutralProgram(made.code, len(plan.instead), tuple(plan.left))


def _insert_import(module: libcst.Module) -> str:
    """Return the text with ``import torch`` where imports begin.

    What stands in it now needs the name.
    """
    from libcst.codemod import CodemodContext
    from libcst.codemod.visitors import AddImportsVisitor

    context = CodemodContext()
    AddImportsVisitor.add_needed_import(context, "torch")
    return AddImportsVisitor(context).transform_module(module).code


Change = Callable[[Any], Any]


class _Plan:
    """What becomes of which node, what is left, and the name that the program has for torch (None: it has none)."""

    def __init__(self) -> None:
        self.instead: dict[Any, Change] = {}
        self.left: list[RemainingName] = []
        self.torch: str | None = None


def _make_transformer(instead: dict[Any, Change]) -> libcst.CSTTransformer:
    import libcst

    class Applying(libcst.CSTTransformer):
        def on_leave(self, original_node: Any, updated_node: Any) -> Any:
            made = super().on_leave(original_node, updated_node)
            change = instead.get(original_node)
            return change(made) if change else made

    return Applying()


def _plan_changes(wrapper: Any, table: _Table, device: str) -> _Plan:
    """Walk the program once for what can be rewritten, and once for what then still names CUDA."""
    import libcst as cst
    from libcst import matchers as m
    from libcst.metadata import ParentNodeProvider, PositionProvider, QualifiedNameProvider, QualifiedNameSource

    plan = _Plan()
    names = wrapper.resolve(QualifiedNameProvider)
    parents = wrapper.resolve(ParentNodeProvider)
    places = wrapper.resolve(PositionProvider)
    module = wrapper.module
    settled: set[Any] = set()

    def find(wanted: Any) -> list[Any]:
        """Return the nodes of the program that a matcher takes."""
        return list(m.findall(module, wanted))

    for statement in find(m.Import()):
        for alias in statement.names:
            if m.matches(alias.name, m.Name("torch")):
                plan.torch = alias.asname.name.value if alias.asname else "torch"
            elif module.code_for_node(alias.name).startswith("torch.") and alias.asname is None:
                plan.torch = plan.torch or "torch"
    torch = plan.torch or "torch"
    accelerator = f"{torch}.accelerator.current_accelerator()"
    own = f"{torch}.{device}" if device else f"{torch}.get_device_module()"
    collective = f"{torch}.distributed.get_default_backend_for_device({accelerator})"

    def full(node: Any) -> str:
        """Return the name that an expression has by the program's imports.

        Empty for what it made itself.
        """
        found = names.get(node) or ()
        for one in found() if callable(found) else found:
            if one.source is QualifiedNameSource.IMPORT:
                return str(one.name)
        return ""

    def settle(node: Any, text: str | None = None, change: Change | None = None) -> None:
        """Let ``node`` become an expression of this text, or what ``change`` makes of it."""
        if text is not None:
            made = cst.parse_expression(text)
            plan.instead[node] = lambda _: made.deep_clone()
        elif change is not None:
            plan.instead[node] = change
        settled.add(node)

    def strings(node: Any) -> list[Any]:
        """Return the texts that an expression may be.

        Itself, or either side of ``a if c else b``.
        """
        if isinstance(node, cst.IfExp):
            return [*strings(node.body), *strings(node.orelse)]
        return [node] if isinstance(node, cst.SimpleString | cst.FormattedString) else []

    def as_device(node: Any, *, type_only: bool = False, bare: bool = False) -> None:
        """Texts that name a device: with ``type_only`` none has an index, with ``bare`` one without stays a text."""
        for one in strings(node):
            kind = f"{accelerator}.type"
            if isinstance(one, cst.FormattedString):
                exact = len(one.parts) == 2 and m.matches(one.parts[0], m.FormattedStringText("cuda:"))
                if exact and isinstance(one.parts[1], cst.FormattedStringExpression) and not type_only:
                    index = module.code_for_node(one.parts[1].expression)
                    settle(one, f"{torch}.device({index})")
                continue
            found = _DEVICE.match(str(one.evaluated_value))
            if found and found[1] is not None and not type_only:
                settle(one, f"{torch}.device({found[1]})")
            elif found and found[1] is None:
                settle(one, kind if type_only or bare or one is not node else accelerator)

    def as_backend(node: Any) -> None:
        for one in strings(node):
            if isinstance(one, cst.SimpleString) and one.evaluated_value == "nccl":
                settle(one, collective)

    def as_torch_device(call: Any) -> None:
        """``torch.device("cuda", 1)`` and its like."""
        values = [argument.value for argument in call.args]
        if not values or any(argument.star for argument in call.args):
            return
        if isinstance(values[0], cst.SimpleString) and (found := _DEVICE.match(str(values[0].evaluated_value))):
            if len(values) == 1:
                settled.add(values[0])
                settle(call, f"{torch}.device({found[1]})" if found[1] else accelerator)
            elif len(values) == 2 and found[1] is None:
                settled.add(values[0])
                settle(call, change=lambda made: made.with_changes(args=[made.args[1].with_changes(keyword=None)]))
        elif isinstance(values[0], cst.FormattedString):
            as_device(values[0])
            if values[0] in settled:
                inner = plan.instead.pop(values[0])
                settle(call, change=inner)
        else:
            as_device(values[0])

    def as_method(call: Any) -> None:
        """``tensor.cuda()``."""
        index = call.args[0] if call.args and call.args[0].keyword is None else None
        if index is not None and index.star:
            return

        def change(made: Any) -> Any:
            to = made.func.with_changes(attr=cst.Name("to"))
            rest = list(made.args)
            for place, argument in enumerate(rest):
                if argument.keyword is not None and argument.keyword.value == "device":
                    rest[place] = argument.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
                    rest.insert(0, rest.pop(place))
                    commas = (one.comma for one in made.args)
                    rest = [one.with_changes(comma=comma) for one, comma in zip(rest, commas, strict=True)]
                    return made.with_changes(func=to, args=rest)
            if index is None:
                comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if rest else cst.MaybeSentinel.DEFAULT
                rest.insert(0, cst.Arg(cst.parse_expression(accelerator), comma=comma))
            return made.with_changes(func=to, args=rest)

        settle(call, change=change)
        settled.add(call.func)

    def as_amp(call: Any, name: str) -> None:
        """``torch.cuda.amp.autocast(True)``: the type of device goes before, the others get their names."""

        def change(made: Any) -> Any:
            given = list(made.args)
            if name == "autocast":
                for place, key in enumerate(("enabled", "dtype", "cache_enabled")):
                    if place < len(given) and given[place].keyword is None:
                        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
                        given[place] = given[place].with_changes(keyword=cst.Name(key), equal=equal)
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if given else cst.MaybeSentinel.DEFAULT
            first = cst.Arg(cst.parse_expression(f"{accelerator}.type"), comma=comma)
            return made.with_changes(args=[first, *given])

        if not any(argument.star for argument in call.args):
            settle(call, change=change)

    def turned(made: Any) -> Any:
        """``==`` for ``!=``: what is not CUDA's is the CPU's."""
        return cst.NotEqual() if isinstance(made, cst.Equal) else cst.Equal()

    def as_question(made: Any) -> Any:
        """``x.is_cuda``."""
        kind = cst.Attribute(cst.Attribute(made.value, cst.Name("device")), cst.Name("type"))
        other = cst.ComparisonTarget(cst.NotEqual(), cst.SimpleString('"cpu"'))
        return cst.Comparison(kind, [other], lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    amp = {f"torch.cuda.amp.{name}" for name in table.amp.names}
    for call in find(m.Call()):
        called = full(call.func)
        method = f".{call.func.attr.value}" if isinstance(call.func, cst.Attribute) else ""
        if called == "torch.device":
            as_torch_device(call)
            continue
        if called in amp:
            as_amp(call, called.rpartition(".")[2])
        elif method == ".cuda" and called != "torch.cuda":
            as_method(call)
        elif (not called and method == ".type") or called in ("torch.einsum",):
            continue
        positional = [argument.value for argument in call.args if argument.keyword is None and not argument.star]
        for wanted, take in ((table.first.device, as_device), (table.first.backend, as_backend)):
            for entry in wanted:
                where, _, place = entry.partition(":")
                if where in (called, method) and len(positional) > int(place or 0):
                    take(positional[int(place or 0)])
        if called in table.first.type and positional:
            as_device(positional[0], type_only=True)
        for argument in call.args:
            key = argument.keyword.value if argument.keyword else ""
            if key in table.parameters.device:
                as_device(argument.value)
            elif key in table.parameters.type:
                as_device(argument.value, type_only=True)
            elif key in table.parameters.backend:
                as_backend(argument.value)

    for statement in find(m.Assign(targets=[m.AssignTarget(m.Name())])):
        if statement.targets[0].target.value.lower().endswith("device"):
            as_device(statement.value, bare=True)

    for comparison in find(m.Comparison(left=m.Attribute(attr=m.Name("type")))):
        if len(comparison.comparisons) != 1:
            continue
        (target,) = comparison.comparisons
        other = target.comparator
        named = isinstance(other, cst.SimpleString) and other.evaluated_value == "cuda"
        if named and isinstance(target.operator, cst.Equal | cst.NotEqual):
            settle(other, '"cpu"')
            settle(target.operator, change=turned)

    for attribute in find(m.Attribute()):
        found, parent = full(attribute), parents.get(attribute)
        if isinstance(parent, cst.Attribute) and parent.value is attribute and full(parent).startswith("torch.cuda."):
            continue  # the longer name says more
        if attribute in settled:
            continue
        head, _, name = found.rpartition(".")
        if head == "torch.cuda" and name in table.accelerator:
            settle(attribute, f"{torch}.accelerator.{table.accelerator[name]}")
        elif head == "torch.cuda" and name in table.torch:
            settle(attribute, f"{torch}.{table.torch[name]}")
        elif head in ("torch.cuda", "torch.cuda.memory", "torch.cuda.random") and name in table.module.names:
            settle(attribute, f"{own}.{name}")
        elif found in amp:
            settle(attribute, f"{torch}.amp.{name}")
        elif attribute.attr.value == "is_cuda":
            settle(attribute, change=as_question)

    for statement in find(m.ImportFrom()):
        source = module.code_for_node(statement.module) if statement.module else ""
        listed = [] if isinstance(statement.names, cst.ImportStar) else statement.names
        if source == "torch.cuda.amp" and all(f"{source}.{alias.evaluated_name}" in amp for alias in listed) and listed:
            plan.instead[statement.module] = lambda _: cst.parse_expression("torch.amp")
            settled.update((statement, statement.module))

    def inside(node: Any) -> bool:
        """Return whether it, or something that it stands in, has become something else with it."""
        while node is not None and not isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            if node in settled and (node in plan.instead or isinstance(node, cst.Attribute)):
                return True
            node = parents.get(node)
        return node in settled

    suspects = find(m.Name() | m.SimpleString() | m.FormattedStringText() | m.ConcatenatedString())
    told = set()
    for node in suspects:
        text = module.code_for_node(node) if not isinstance(node, cst.FormattedStringText) else node.value
        if isinstance(node, cst.Name):
            if text not in ("cuda", "is_cuda", "cudnn", "CUDA", "nccl"):
                continue
        elif not _SUSPECT.search(text) or _is_documentation(parents, node):
            continue
        whole = node
        while isinstance(parents.get(whole), cst.Attribute):
            whole = parents[whole]
        line = places[node].start.line
        if inside(node) or whole in settled or node in settled or line in told:
            continue
        told.add(line)
        plan.left.append(RemainingName(line, _read_line(module, line), _explain_rest(full(whole), text)))
    plan.left.sort(key=lambda left: left.line)
    return plan


def _is_documentation(parents: Any, node: Any) -> bool:
    """Return whether a text stands alone as a statement: a docstring."""
    import libcst

    return isinstance(parents.get(node), libcst.Expr)


def _read_line(module: Any, line: int) -> str:
    return str(module.code.splitlines()[line - 1].strip())


def _explain_rest(name: str, text: str) -> str:
    """Explain what is left."""
    if name.startswith("torch.backends.cudnn"):
        return "cuDNN has no neutral name: keep it for CUDA alone"
    if name.startswith("torch.cuda"):
        return f"torch.accelerator has nothing like {name}"
    if name.startswith("torch.version"):
        return "the version of CUDA has no neutral name"
    if "ProfilerActivity" in name:
        return "say torch.profiler.supported_activities()"
    if text[:1] in "\"'":
        return "a text: whether it means a device is not known here"
    return "what it belongs to is not known here"
