"""Plan what becomes of each place of a program that names CUDA.

The plan is made on the tree that LibCST makes of the program.

`neutral` imports this module when a program is rewritten: libcst comes with an extra.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import libcst as cst
from libcst import matchers as m
from libcst.metadata import (
    ExpressionContext,
    ExpressionContextProvider,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameProvider,
    QualifiedNameSource,
)
from msgspec import Struct

from decouple.base import toml

TABLE = Path(__file__).with_name("neutral.toml")
_DEVICE = re.compile(r"cuda(?::(\d+))?\Z")
_HANDLES = ("cuda_stream", "cuda_event")
"""What a stream and an event of torch.cuda have, and none of torch's."""
_NAMES = {"cuda", "is_cuda", "cudnn", "CUDA", "nccl"}
_NUMBER = m.Integer() | m.UnaryOperation(m.Minus(), m.Integer())
_KNOWN_NUMBER = m.Integer() | m.Call(
    func=m.Name("int") | m.Name("len") | m.Attribute(attr=m.Name("current_device_index") | m.Name("get_rank"))
)
"""What is a number and no text of one, whatever else the program says."""
_OF_KNOWN_NUMBER = m.Call(args=[m.Arg(value=_NUMBER | m.Name("None"), keyword=None, star="")])
_NO_DEVICE = m.Arg(value=m.Name("None"), keyword=None) | m.Arg(value=m.Name("None"), keyword=m.Name("device"))
_SUSPECT = re.compile(r"\bcuda\b|\bcudnn\b|\bnccl\b|\bCUDA\b")
Change = Callable[[Any], Any]


class _Names(Struct, frozen=True):
    names: tuple[str, ...]


class _Places(Struct, frozen=True):
    device: tuple[str, ...]
    type: tuple[str, ...]
    backend: tuple[str, ...]


class _Parameters(Struct, frozen=True):
    """How many arguments a call may give by place, and which by name."""

    places: int
    names: tuple[str, ...] = ()

    def can_take_call(self, call: Any) -> bool:
        """Return whether they take what ``call`` gives."""
        by_place = sum(argument.keyword is None for argument in call.args)
        names = {argument.keyword.value for argument in call.args if argument.keyword is not None}
        return by_place <= self.places and names <= set(self.names) and not any(arg.star for arg in call.args)


class NameTable(Struct, frozen=True):
    """``neutral.toml``, which explains its keys."""

    accelerator: dict[str, str]
    torch: dict[str, _Parameters]
    module: _Names
    amp: _Names
    parameters: _Places
    first: _Places


class ChangeTransformer(cst.CSTTransformer):
    """Makes of each planned node what the plan says."""

    def __init__(self, instead: dict[Any, Change]) -> None:
        super().__init__()
        self._instead = instead

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Change a node when all below it is done."""
        made = super().on_leave(original_node, updated_node)
        change = self._instead.get(original_node)
        return change(made) if change else made


class ChangePlan:
    """What becomes of which node, what is left, torch's name in it (None: none)."""

    def __init__(self, wrapper: MetadataWrapper, device: str) -> None:
        """Walk the program for what can be rewritten, then for what still names CUDA.

        ``device`` names what torch.accelerator has no function for: ``torch.NAME.X``.
        """
        self.instead: dict[Any, Change] = {}
        self.left: list[tuple[int, str, str]] = []
        """Line, text and reason."""
        self._module: Any = wrapper.module
        self._table = toml.read_own_table(TABLE, NameTable, schema=None)
        self._names = wrapper.resolve(QualifiedNameProvider)
        self._parents: Any = wrapper.resolve(ParentNodeProvider)
        self._places: Any = wrapper.resolve(PositionProvider)
        self._settled: set[Any] = set()
        self._replaced: set[Any] = set()
        """Settled nodes of which nothing stays, not even what stands in them."""
        self._kept: dict[Any, str] = {}
        """Names that are left as they are, and why."""
        self._contexts: Any = wrapper.resolve(ExpressionContextProvider)
        self._amp = self._list_movable_amp()
        self._own_questions = {
            self._module.code_for_node(attribute)
            for attribute in self._find(m.Attribute(attr=m.OneOf(*map(m.Name, ("is_cuda", *_HANDLES)))))
            if self._contexts.get(attribute) is not ExpressionContext.LOAD
        }
        self.torch = self._find_torch()
        self._torch = torch = self.torch or "torch"
        self._accelerator = f"{torch}.accelerator.current_accelerator()"
        self._own = f"{torch}.{device}" if device else f"{torch}.get_device_module()"
        for call in self._find(m.Call()):
            self._plan_call(call)
        for statement in self._find(m.Assign(targets=[m.AssignTarget(m.Name())])):
            if statement.targets[0].target.value.lower().endswith("device"):
                self._plan_device(statement.value, bare=True)
        for comparison in self._find(m.Comparison(left=m.Attribute(attr=m.Name("type")))):
            self._plan_comparison(comparison)
        for attribute in self._find(m.Attribute()):
            self._plan_attribute(attribute)
        for statement in self._find(m.ImportFrom()):
            self._plan_import(statement)
        self._list_left()

    def _find(self, wanted: Any) -> list[Any]:
        """Return the nodes of the program that a matcher takes."""
        return list(m.findall(self._module, wanted))

    def _find_torch(self) -> str | None:
        """Return the name that torch has everywhere in the program."""
        found = None
        for statement in self._find(m.Import()):
            if self._is_local(statement):
                continue
            for alias in statement.names:
                if m.matches(alias.name, m.Name("torch")):
                    found = alias.asname.name.value if alias.asname else "torch"
                elif self._module.code_for_node(alias.name).startswith("torch.") and alias.asname is None:
                    found = found or "torch"
        return found

    def _is_local(self, statement: Any) -> bool:
        """Return whether an import is not for the whole program, or for type checkers."""
        while (statement := self._parents.get(statement)) is not None:
            if isinstance(statement, cst.FunctionDef | cst.ClassDef):
                return True
            if isinstance(statement, cst.If) and "TYPE_CHECKING" in self._module.code_for_node(statement.test):
                return True
        return False

    def _list_movable_amp(self) -> frozenset[str]:
        """List the names of torch.cuda.amp that can be torch.amp's in the whole program.

        torch.amp's take the type of the device first, so each use must be a call that can be given it, and the import
        must be one that becomes torch.amp's.
        """
        names = {f"torch.cuda.amp.{name}" for name in self._table.amp.names}
        for node in self._find(m.Name() | m.Attribute()):
            parent = self._parents.get(node)
            if self._contexts.get(node) is not ExpressionContext.LOAD or self._is_type(node):
                continue
            if not (isinstance(parent, cst.Call) and parent.func is node and not any(arg.star for arg in parent.args)):
                names.discard(self._read_full_name(node))
        imports = [self._list_amp_imports(statement) for statement in self._find(m.ImportFrom())]
        while kept := {name for listed in imports if not listed <= names for name in listed & names}:
            names -= kept
        return frozenset(names)

    def _list_amp_imports(self, statement: Any) -> set[str]:
        """Return the full names that a statement imports from torch.cuda.amp."""
        module = m.Attribute(m.Attribute(m.Name("torch"), m.Name("cuda")), m.Name("amp"))
        if not m.matches(statement, m.ImportFrom(module=module, names=[m.ZeroOrMore()])):
            return set()
        return {f"torch.cuda.amp.{alias.evaluated_name}" for alias in statement.names}

    def _is_type(self, node: Any) -> bool:
        """Return whether a class is only asked about: by an annotation or isinstance."""
        above = self._parents.get(node)
        while isinstance(above, cst.BaseExpression | cst.BaseElement | cst.SubscriptElement | cst.Index | cst.Arg):
            if isinstance(above, cst.Call):
                return m.matches(above, m.Call(func=m.Name("isinstance")))
            above = self._parents.get(above)
        return isinstance(above, cst.Annotation)

    def _read_full_name(self, node: Any) -> str:
        """Return the name that an expression has by the program's imports.

        Empty for what it made itself.
        """
        found: Any = self._names.get(node) or ()
        for one in found() if callable(found) else found:
            if one.source is QualifiedNameSource.IMPORT:
                return str(one.name)
        return ""

    def _settle(self, node: Any, text: str | None = None, change: Change | None = None) -> None:
        """Let ``node`` become an expression of this text, or what ``change`` makes of it."""
        if text is not None:
            made = cst.parse_expression(text)
            self.instead[node] = lambda _: made.deep_clone()
            self._replaced.add(node)
        elif change is not None:
            self.instead[node] = change
        self._settled.add(node)

    def _plan_call(self, call: Any) -> None:
        called, table = self._read_full_name(call.func), self._table
        method = f".{call.func.attr.value}" if isinstance(call.func, cst.Attribute) else ""
        if called == "torch.device":
            self._plan_torch_device(call)
            return
        if called in self._amp:
            self._plan_amp(call, called.rpartition(".")[2])
        elif method == ".cuda" and called != "torch.cuda":
            self._plan_method(call)
        elif (not called and method == ".type") or called in ("torch.einsum",):
            return
        positional = [argument.value for argument in call.args if argument.keyword is None and not argument.star]
        for wanted, take in ((table.first.device, self._plan_device), (table.first.backend, self._plan_backend)):
            for entry in wanted:
                where, _, place = entry.partition(":")
                if where in (called, method) and len(positional) > int(place or 0):
                    take(positional[int(place or 0)])
        if called in table.first.type and positional:
            self._plan_device(positional[0], type_only=True)
        for argument in call.args:
            key = argument.keyword.value if argument.keyword else ""
            if key in table.parameters.device:
                self._plan_device(argument.value)
            elif key in table.parameters.type:
                self._plan_device(argument.value, type_only=True)
            elif key in table.parameters.backend:
                self._plan_backend(argument.value)

    def _plan_device(self, node: Any, *, type_only: bool = False, bare: bool = False) -> None:
        """Plan texts that name a device.

        With ``type_only`` none has an index, with ``bare`` one without stays a text.
        """
        for string in _list_strings(node):
            kind = f"{self._accelerator}.type"
            if isinstance(string, cst.FormattedString):
                exact = len(string.parts) == 2 and m.matches(string.parts[0], m.FormattedStringText("cuda:"))
                if exact and m.matches(string.parts[1], m.FormattedStringExpression(equal=None)) and not type_only:
                    self._settle(string, change=self._change_formatted)
                    self._settled.add(string.parts[0])
                continue
            found = _DEVICE.match(str(string.evaluated_value))
            if found and found[1] is not None and not type_only:
                self._settle(string, f"{self._torch}.device({found[1]})")
            elif found and found[1] is None:
                self._settle(string, kind if type_only or bare or string is not node else self._accelerator)

    def _change_formatted(self, made: Any) -> Any:
        """``f"cuda:{rank}"``, where ``rank`` may be a text: ``os.environ["LOCAL_RANK"]``."""
        number = made.parts[1].expression
        if not m.matches(number, _KNOWN_NUMBER):
            number = cst.Call(cst.Name("int"), [cst.Arg(number)])
        return cst.Call(cst.parse_expression(f"{self._torch}.device"), [cst.Arg(number)])

    def _plan_backend(self, node: Any) -> None:
        for string in _list_strings(node):
            if isinstance(string, cst.SimpleString) and string.evaluated_value == "nccl":
                question = f"{self._torch}.distributed.get_default_backend_for_device"
                self._settle(string, f"{question}({self._accelerator})")

    def _plan_torch_device(self, call: Any) -> None:
        """``torch.device("cuda", 1)`` and its like."""
        values = [argument.value for argument in call.args]
        if not values or any(argument.star for argument in call.args):
            return
        if isinstance(values[0], cst.SimpleString) and (found := _DEVICE.match(str(values[0].evaluated_value))):
            if len(values) == 1:
                self._settled.add(values[0])
                self._settle(call, f"{self._torch}.device({found[1]})" if found[1] else self._accelerator)
            elif len(values) == 2 and found[1] is None:
                self._settled.add(values[0])
                self._settle(
                    call,
                    change=lambda made: made.with_changes(
                        args=[made.args[1].with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)]
                    ),
                )
        elif isinstance(values[0], cst.FormattedString):
            self._plan_device(values[0])
            if values[0] in self._settled:
                change = self.instead.pop(values[0])
                self._settle(call, change=lambda made: change(made.args[0].value))
        else:
            self._plan_device(values[0])

    def _plan_method(self, call: Any) -> None:
        """``tensor.cuda()``."""
        index = call.args[0].value if call.args and call.args[0].keyword is None else None
        takes = _Parameters(1, ("device", "non_blocking", "memory_format"))
        if not takes.can_take_call(call) or any(m.matches(argument, _NO_DEVICE) for argument in call.args):
            self._kept[call.func] = ".to takes one argument by place, and moves nothing to None"
            return
        if self._moves_storage(call):
            self._kept[call.func] = ".to of a storage takes no device by place: give map_location the device itself"
            return
        self._settle(call, change=lambda made: self._change_method(made, has_index=index is not None))
        self._settled.add(call.func)

    def _moves_storage(self, call: Any) -> bool:
        """Return whether ``call`` stands in a lambda for ``map_location``.

        What torch.load gives such a function is a storage.
        """
        above, in_lambda = self._parents.get(call), False
        while above is not None and not (in_lambda and isinstance(above, cst.Arg)):
            in_lambda = in_lambda or isinstance(above, cst.Lambda)
            above = self._parents.get(above)
        if above is None:
            return False
        named = above.keyword is not None and above.keyword.value == "map_location"
        return named or self._read_full_name(self._parents[above].func) == "torch.load"

    def _change_method(self, made: Any, *, has_index: bool) -> Any:
        to = made.func.with_changes(attr=cst.Name("to"))
        rest = list(made.args)
        for place, argument in enumerate(rest):
            if argument.keyword is not None and argument.keyword.value == "device":
                rest[place] = argument.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
                rest.insert(0, rest.pop(place))
                commas = (argument.comma for argument in made.args)
                rest = [argument.with_changes(comma=comma) for argument, comma in zip(rest, commas, strict=True)]
                return made.with_changes(func=to, args=rest)
        if not has_index:
            rest.insert(0, _make_first_argument(self._accelerator, rest))
        return made.with_changes(func=to, args=rest)

    def _plan_amp(self, call: Any, name: str) -> None:
        """Plan ``torch.cuda.amp.autocast(True)`` and its like.

        The type of device goes before, the others get their names.
        """
        if not any(argument.star for argument in call.args):
            self._settle(call, change=lambda made: self._change_amp(made, name))

    def _change_amp(self, made: Any, name: str) -> Any:
        given = list(made.args)
        if name == "autocast":
            for place, key in enumerate(("enabled", "dtype", "cache_enabled")):
                if place < len(given) and given[place].keyword is None:
                    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
                    given[place] = given[place].with_changes(keyword=cst.Name(key), equal=equal)
        return made.with_changes(args=[_make_first_argument(f"{self._accelerator}.type", given), *given])

    def _plan_comparison(self, comparison: Any) -> None:
        """``device.type == "cuda"``: what is not CUDA's is the CPU's."""
        if len(comparison.comparisons) != 1:
            return
        (target,) = comparison.comparisons
        other = target.comparator
        named = isinstance(other, cst.SimpleString) and other.evaluated_value == "cuda"
        if named and isinstance(target.operator, cst.Equal | cst.NotEqual):
            self._settle(other, f"{other.quote}cpu{other.quote}")
            self._settle(
                target.operator, change=lambda made: cst.NotEqual() if isinstance(made, cst.Equal) else cst.Equal()
            )

    def _plan_attribute(self, attribute: Any) -> None:
        found, parent = self._read_full_name(attribute), self._parents.get(attribute)
        longer = isinstance(parent, cst.Attribute) and parent.value is attribute
        if longer and self._read_full_name(parent).startswith("torch.cuda."):
            return  # the longer name says more
        if attribute in self._settled:
            return
        head, _, name = found.rpartition(".")
        call = parent if isinstance(parent, cst.Call) and parent.func is attribute else None
        if head == "torch.cuda" and call and (why := self._explain_refusal(name, call)):
            self._kept[attribute] = why
        elif found == "torch.cuda.device" and not (call and m.matches(call, _OF_KNOWN_NUMBER)):
            self._settle(attribute, f"{self._own}.device")
        elif head == "torch.cuda" and name in self._table.accelerator:
            self._settle(attribute, f"{self._torch}.accelerator.{self._table.accelerator[name]}")
        elif head == "torch.cuda" and name in self._table.torch:
            self._settle(attribute, f"{self._torch}.{name}")
        elif head in ("torch.cuda", "torch.cuda.memory", "torch.cuda.random") and name in self._table.module.names:
            self._settle(attribute, f"{self._own}.{name}")
        elif found in self._amp:
            self._settle(attribute, f"{self._torch}.amp.{name}")
        elif attribute.attr.value == "is_cuda":
            self._plan_question(attribute)

    def _explain_refusal(self, name: str, call: Any) -> str:
        """Explain why what ``torch.cuda.NAME`` becomes is not called so; "" where it is."""
        above = self._parents.get(call)
        if isinstance(above, cst.Attribute) and above.attr.value in _HANDLES:
            return _explain_rest("", above.attr.value)
        taken = self._table.torch.get(name)
        if taken and not taken.can_take_call(call):
            names = ", ".join(taken.names) or "none"
            return f"torch.{name} takes arguments by name: {names}; by place {taken.places} at most"
        if name in self._table.accelerator and name != "device" and not _Parameters(1).can_take_call(call):
            return f"torch.accelerator.{self._table.accelerator[name]} takes no argument by name, and one at most"
        return ""

    def _plan_question(self, attribute: Any) -> None:
        """``x.is_cuda``, unless the program sets it or calls it.

        Then it is no tensor's.
        """
        parent, quote = self._parents.get(attribute), self._choose_quote(attribute)
        called = isinstance(parent, cst.Call) and parent.func is attribute
        if quote and not called and self._module.code_for_node(attribute) not in self._own_questions:
            self._settle(attribute, change=lambda made: _change_question(made, quote))

    def _choose_quote(self, node: Any) -> str:
        """Return a quote that no f-string around ``node`` has, as Python before 3.12 asks.

        "" where they have both.
        """
        taken = ""
        while (node := self._parents.get(node)) is not None:
            taken += node.start if isinstance(node, cst.FormattedString) else ""
        return next((quote for quote in "\"'" if quote not in taken), "")

    def _plan_import(self, statement: Any) -> None:
        names = self._list_amp_imports(statement)
        if names and names <= self._amp:
            self.instead[statement.module] = lambda _: cst.parse_expression("torch.amp")
            self._settled.update((statement, statement.module))

    def _list_left(self) -> None:
        suspects = self._find(m.Name() | m.SimpleString() | m.FormattedStringText() | m.ConcatenatedString())
        told = set()
        for node in suspects:
            text = node.value if isinstance(node, cst.FormattedStringText) else self._module.code_for_node(node)
            if isinstance(node, cst.Name):
                if text not in _NAMES and not self._is_handle(node):
                    continue
            elif not _SUSPECT.search(text) or isinstance(self._parents.get(node), cst.Expr):  # a docstring
                continue
            whole = node
            while isinstance(self._parents.get(whole), cst.Attribute):
                whole = self._parents[whole]
            line = self._places[node].start.line
            if self._is_changed(node) or line in told:
                continue
            told.add(line)
            shown = str(self._module.code.splitlines()[line - 1].strip())
            above = self._parents.get(whole)
            name = "torch.cuda.amp" if self._list_amp_imports(above) else self._read_full_name(whole)
            self.left.append((line, shown, self._kept.get(whole) or _explain_rest(name, text)))
        self.left.sort(key=lambda left: left[0])

    def _is_changed(self, node: Any) -> bool:
        """Return whether ``node``, or something that it stands in, has been replaced.

        What is changed keeps what stands in it: the arguments of a call, the object of a method.
        """
        above = self._parents.get(node)
        if node in self._settled or (above in self._settled and m.matches(above, m.Attribute()) and above.attr is node):
            return True
        while node is not None and not isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            if node in self._replaced:
                return True
            node = self._parents.get(node)
        return node in self._settled

    def _is_handle(self, name: Any) -> bool:
        """Return whether ``name`` is a handle of CUDA's that the program does not set."""
        above = self._parents.get(name)
        handle = name.value in _HANDLES and isinstance(above, cst.Attribute) and above.attr is name
        return handle and self._module.code_for_node(above) not in self._own_questions


def _list_strings(node: Any) -> list[Any]:
    """Return the texts that an expression may be.

    Itself, or either side of ``a if c else b``.
    """
    if isinstance(node, cst.IfExp):
        return [*_list_strings(node.body), *_list_strings(node.orelse)]
    return [node] if isinstance(node, cst.SimpleString | cst.FormattedString) else []


def _make_first_argument(text: str, others: list[Any]) -> cst.Arg:
    """Make the argument that goes before ``others``."""
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if others else cst.MaybeSentinel.DEFAULT
    return cst.Arg(cst.parse_expression(text), comma=comma)


def _change_question(made: Any, quote: str) -> Any:
    """``x.is_cuda``."""
    kind = cst.Attribute(cst.Attribute(made.value, cst.Name("device")), cst.Name("type"))
    other = cst.ComparisonTarget(cst.NotEqual(), cst.SimpleString(f"{quote}cpu{quote}"))
    return cst.Comparison(kind, [other], lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _explain_rest(name: str, text: str) -> str:
    """Explain what is left."""
    if name.startswith("torch.backends.cudnn"):
        return "cuDNN has no neutral name: keep it for CUDA alone"
    if name.startswith("torch.cuda.amp"):
        return "torch.amp has it with the type of the device as an argument: import it from there, and call it so"
    if name.startswith("torch.cuda"):
        return f"torch.accelerator has nothing like {name}"
    if name.startswith("torch.version"):
        return "the version of CUDA has no neutral name"
    if "ProfilerActivity" in name:
        return "say torch.profiler.supported_activities()"
    if text in _HANDLES:
        return f"torch.Stream and torch.Event have no {text}: a library of CUDA's takes CUDA's alone"
    if text[:1] in "\"'":
        return "a text: whether it means a device is not known here"
    return "what it belongs to is not known here"
