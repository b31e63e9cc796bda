"""Generate C++ from ``operators.yaml``.

It is declarations of the kernels a vendor writes, and everything that registers them. Schemas, signatures and names
come from the torchgen of the PyTorch that is installed, so that a kernel whose signature does not match is a compile
error and an operator that this release does not have is an error of the generator.

The file has these keys, all optional but ``namespace``::

    namespace: acme                # of the kernels, in C++
    kernels:                       # operators that are entirely yours
      - op: mm.out                 # of a structured operator ATen checks the operands and shapes the output
        dtypes: [float32]          # other operands run on the CPU, as all do that are not on the device; of every
                                   # tensor, indices, masks and outputs, too: embedding needs [float32, int64]
        contiguous: true
      - op: gelu
        kernel: fast_gelu          # the C++ function, where it is not to have the operator's name
        backward: fast_gelu_backward  # your gradient in place of PyTorch's: see custom
      - op: index.Tensor
        elsewhere: true            # your kernel takes operands of the CPU and other devices, too: it is always called
      - op: add.Tensor
        key: SparsePrivateUse1     # another dispatch key; such a kernel is called for every operand
        kernel: add_sparse
    reroute:                       # operators that are another one: of the same arguments and results
      - op: silu
        to: acme::swish            # or an operator of PyTorch's
    stubs:                         # ATen does shapes, broadcasting and promotion; the inner loop is yours
      - op: add.out
        stub: add_stub
        header: ATen/native/BinaryOps.h
        kernel: add_kernel
        dtypes: [float32]
    custom:                        # operators of your own: namespace::name
      - func: swish(Tensor self) -> Tensor
        backward: swish_backward   # gets the gradient and the saved tensors, returns the gradients of the tensors;
                                   # of a Tensor? that is missing both are undefined
        like: self                 # the meta kernel: the output has this argument's shape and dtype
        python: swish              # torch.acme.swish
        elsewhere: true            # your kernel takes tensors of the CPU and other devices, too; else they are refused
      - func: split.two(Tensor self, int at) -> (Tensor, Tensor)  # overloads, several outputs
        meta: split_shapes         # the meta kernel is yours: arguments and results as the operator's
      - func: swish_(Tensor(a!) self) -> Tensor(a!)  # in place and out: the outputs are arguments, so neither is needed
    fallback:
      deny: [conv2d]               # raise NotImplementedError instead of running on the CPU
    autocast:                      # replaces the layer's list for this policy; what is named leaves its other lists
      lower_precision_fp: [mm]

The same input gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

BANNER = "// Generated from operators.yaml by third_device/layer/backend_build; do not edit.\n"
POLICIES = ("lower_precision_fp", "fp32", "fp32_set_opt_dtype", "promote")
DTYPES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble", "complex32": "ComplexHalf",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "float8_e4m3fn": "Float8_e4m3fn", "float8_e4m3fnuz": "Float8_e4m3fnuz",
    "float8_e5m2": "Float8_e5m2", "float8_e5m2fnuz": "Float8_e5m2fnuz",
}  # fmt: skip
HOST = (
    "_copy_from", "_local_scalar_dense", "zero_", "convolution_overrideable", "convolution_backward_overrideable",
    "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "native_dropout",
)  # fmt: skip
"""What the layer computes (``third_device/host_operators.h``): the CPU has no kernel of most."""
COPY = "_copy_from"
"""What ``copy_`` and ``to`` end in: the one of `HOST` whose tensors may be on several devices."""
KEYS = (
    "PrivateUse1",
    *(f"{kind}PrivateUse1" for kind in ("Autograd", "Autocast", "Sparse", "SparseCsr", "Quantized", "NestedTensor")),
)
"""The dispatch keys that a kernel may be for."""
_KEYS = {
    "": {"namespace", "kernels", "stubs", "custom", "reroute", "fallback", "autocast"},
    "kernels": {"op", "dtypes", "contiguous", "elsewhere", "kernel", "backward", "key"},
    "stubs": {"op", "stub", "header", "kernel", "dtypes"},
    "custom": {"func", "elsewhere", "backward", "like", "meta", "python"},
    "reroute": {"op", "to"},
    "fallback": {"deny"},
}
_FUNCTIONS = {"kernel", "backward", "meta", "python", "stub", "to"}
_SWITCHES = {"contiguous", "elsewhere"}
_KINDS: dict[str, type] = {
    **dict.fromkeys(("kernels", "stubs", "custom", "reroute"), list),
    **dict.fromkeys(("fallback", "autocast"), dict),
}
_KIND_NAMES: dict[type, str] = {list: "list", dict: "mapping"}


class OperatorsError(ValueError):
    """``operators.yaml`` is wrong; the message: file, entry and what is allowed."""


@dataclasses.dataclass(frozen=True)
class Generated:
    """The two files that come out: what kernels include, and what registers them."""

    header: str
    source: str

    def write(self, folder: Path) -> list[Path]:
        """Write both into ``folder`` where they differ: an unchanged build stays built."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / "operators.h", folder / "operators.cpp"]
        for path, text in zip(paths, (self.header, self.source), strict=True):
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.unlink(missing_ok=True)  # not through a link in its place
                path.write_text(text, encoding="utf-8")
        return paths


class _Aten:
    """PyTorch's own operators, as the installed torchgen reads them."""

    def __init__(self) -> None:
        import torchgen
        from torchgen.gen import parse_native_yaml

        folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
        parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
        self.functions = {str(function.func.name): function for function in parsed.native_functions}
        self._indices = parsed.backend_indices
        gradients = folder.parents[1] / "autograd" / "derivatives.yaml"
        text = gradients.read_text(encoding="utf-8") if gradients.is_file() else ""  # a distribution may lack it
        self._formulas = set(re.findall(r"^- name: ([\w.]+)\(", text, re.MULTILINE))

    def loses_gradient(self, function: Any) -> bool:
        """Return whether a kernel of an operator takes its gradient away.

        PyTorch composes the operator of others, which have the gradient and are not called any more.
        """
        composed = function.has_composite_implicit_autograd_kernel and not function.func.arguments.out
        return composed and bool(self._formulas) and str(function.func.name) not in self._formulas

    def structured_class(self, function: Any) -> str:
        """Name the C++ class whose ``impl`` calls the operator's DispatchStub.

        It is the operator's CPU class, which does nothing else.
        """
        from torchgen.model import DispatchKey

        if function.ufunc_inner_loop:
            return f"at::native::structured_ufunc_{function.func.name.name}_CPU"
        metadata = self._indices[DispatchKey.CPU].get_kernel(function)
        return f"at::native::structured_{metadata.kernel}"

    def shapes_class(self, function: Any) -> str | None:
        """Name the C++ class of a structured operator.

        It checks operands and shapes the output. None for other operators.
        """
        if not function.structured or len(function.func.arguments.out) != 1:
            return None
        for other in self.functions.values():
            if other.structured_delegate == function.func.name and str(other.func.kind()) == "SchemaKind.functional":
                return f"at::meta::structured_{str(other.func.name).replace('.', '_')}"
        return None

    def across_devices(self, function: Any) -> str | None:
        """Name ATen's function of an operator whose tensors may be on several devices.

        Of operators on lists it has each tensor do the work, of ``copy_`` it copies from one to the other. None for
        other operators.
        """
        from torchgen.model import DeviceCheckType, DispatchKey

        takes = function.root_name.startswith("_foreach_") or function.root_name == "copy"
        if function.device_check is not DeviceCheckType.NoCheck or not takes:
            return None
        metadata = self._indices[DispatchKey.CompositeExplicitAutograd].get_kernel(function)
        return f"at::native::{metadata.kernel}" if metadata else None

    def host_function(self, function: Any) -> str | None:
        """Name ATen's function that is the operator on the CPU.

        It has another name than the operator where several overloads have one. None where ATen has no such function.
        """
        from torchgen.model import DispatchKey

        keys = (
            DispatchKey.CPU,
            DispatchKey.CompositeExplicitAutograd,
            DispatchKey.CompositeExplicitAutogradNonFunctional,
            DispatchKey.CompositeImplicitAutograd,
        )
        found = (self._indices[key].get_kernel(function) for key in keys if key in self._indices)
        return next((f"at::native::{metadata.kernel}" for metadata in found if metadata), None)

    def find(self, name: str, where: str) -> Any:
        if name in self.functions:
            return self.functions[name]
        overloads = [known for known in self.functions if known.partition(".")[0] == name][:3]
        near = overloads or difflib.get_close_matches(name, self.functions, n=3, cutoff=0.6)
        import torch

        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise OperatorsError(f"{where}: torch {torch.__version__} has no operator {name!r}{hint}")


@dataclasses.dataclass(frozen=True)
class _Signature:
    """One operator in C++."""

    name: str  # of the C++ function, e.g. mm_out
    returns: str
    arguments: tuple[tuple[str, str], ...]  # type, name

    @property
    def parameters(self) -> str:
        return ", ".join(f"{kind} {name}" for kind, name in self.arguments)

    @property
    def kinds(self) -> str:
        return ", ".join(kind for kind, _ in self.arguments)

    @property
    def names(self) -> str:
        return ", ".join(name for _, name in self.arguments)

    def tensors(self) -> list[tuple[str, bool]]:
        """Name of each tensor argument, and whether it is optional."""
        made = []
        for kind, name in self.arguments:
            plain = _strip_type(kind)
            if plain == "at::Tensor":
                made.append((name, False))
            elif plain in ("std::optional<at::Tensor>", "c10::optional<at::Tensor>"):
                made.append((name, True))
        return made

    def lists(self) -> list[tuple[str, bool]]:
        """Name of each argument that is a list of tensors, and whether these are optional."""
        kinds = {"at::TensorList": False, "at::ITensorListRef": False, "c10::List<std::optional<at::Tensor>>": True}
        return [(name, kinds[_strip_type(kind)]) for kind, name in self.arguments if _strip_type(kind) in kinds]

    def format_operands(self) -> str:
        """Return the names of the tensors and the lists of them, as arguments."""
        known = {name for name, _ in (*self.tensors(), *self.lists())}
        return ", ".join(name for _, name in self.arguments if name in known)


def _strip_type(kind: str) -> str:
    """Return a C++ type without const, reference and the leading colons of std."""
    return kind.replace("const ", "").replace(" &", "").replace("::std::", "std::").strip()


def _signature(function: Any) -> _Signature:
    from torchgen.api import cpp
    from torchgen.api.types import NativeSignature
    from torchgen.context import native_function_manager

    with native_function_manager(function):
        native = NativeSignature(function.func, symint=False)
        arguments = tuple((argument.type, argument.name) for argument in native.arguments())
        returns = cpp.returns_type(function.func.returns, symint=False).cpp_type()
        return _Signature(cpp.name(function.func), returns, arguments)


def _make_identifier(op: str) -> str:
    """Return the name of an operator and its overload as a part of a C++ name."""
    return re.sub(r"\W", "_", op)


def _count_outputs(schema: Any, where: str) -> int:
    """Return how many tensors an operator returns.

    Raises OperatorsError for one that returns anything else, or a view.
    """
    if not schema.returns or any(str(returned.type) != "Tensor" for returned in schema.returns):
        raise OperatorsError(f"{where}: a gradient is for operators that return tensors and nothing else: {schema}")
    if any(argument.annotation for argument in (*schema.arguments.flat_all, *schema.returns)):
        raise OperatorsError(f"{where}: a gradient is for operators that return new tensors; name that one: {schema}")
    return len(schema.returns)


def generate(path: Path, defaults: Path) -> Generated:
    """Read ``path``; ``defaults`` has the autocast lists of the layer.

    Raises OperatorsError.
    """
    spec = _read(path)
    aten = _Aten()
    namespace = spec.get("namespace")
    if not isinstance(namespace, str) or not namespace.isidentifier():
        raise OperatorsError(f"{path}: namespace: a C++ identifier is needed, not {namespace!r}")
    writer = _Writer(path, namespace, aten)
    for entry in _entries(spec, "kernels", path, "op", "key"):
        writer.kernel(entry)
    for entry in _entries(spec, "stubs", path, "op"):
        writer.stub(entry)
    for entry in _entries(spec, "custom", path, "func"):
        writer.custom(entry)
    for entry in _entries(spec, "reroute", path, "op"):
        writer.add_reroute(entry)
    writer.refuse_lost_gradients()
    for name in _names(spec.get("fallback", {}).get("deny", []), f"{path}: fallback: deny"):
        writer.deny(name)
    own = _read_policies(path, spec)
    listed = {name for names in own.values() for name in names}
    kernels = writer.keys.get(("aten", "AutocastPrivateUse1"), {})
    both = sorted(listed & set(kernels))
    if both:
        raise OperatorsError(f"{path}: autocast: {both[0]!r} has a kernel at AutocastPrivateUse1; leave one out")
    listed |= set(kernels)
    for policy, names in (_read_policies(defaults, _read(defaults)) | own).items():
        for name in names:
            if policy in own or name not in listed:  # of two policies for one operator PyTorch would take the later
                writer.autocast(name, policy, required=policy in own)
    return writer.finish()


def _read_policies(path: Path, spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the operators of each autocast policy, which has an operator once.

    Raises OperatorsError.
    """
    given = spec.get("autocast", {})
    unknown = sorted(set(given) - set(POLICIES), key=str)
    if unknown:
        raise OperatorsError(f"{path}: autocast: unknown policy {unknown[0]!r}; there are {', '.join(POLICIES)}")
    policies: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for policy in POLICIES:
        if policy not in given:
            continue
        policies[policy] = _names(given[policy], f"{path}: autocast: {policy}")
        for name in policies[policy]:
            if name in found:
                raise OperatorsError(f"{path}: autocast: {policy}: {name!r} is in {found[name]} already")
            found[name] = policy
    return policies


class _Loader(yaml.SafeLoader):
    """Reads YAML and refuses a key that is there twice.

    PyYAML takes the last one alone.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in keys:
                line = key.start_mark.line + 1
                raise OperatorsError(f"line {line}: {key.value!r} is there twice; put what both have under one")
            keys.add(key.value)
        return super().construct_mapping(node, deep)


def _read(path: Path) -> dict[str, Any]:
    try:
        spec = yaml.load(path.read_text(encoding="utf-8"), _Loader) or {}
    except OSError as error:
        raise OperatorsError(f"{path}: {error.strerror}; it has 'namespace: NAME' at least") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise OperatorsError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except OperatorsError as error:
        raise OperatorsError(f"{path}: {error}") from None
    if not isinstance(spec, dict):
        raise OperatorsError(f"{path}: a mapping is needed at the top")
    spec = {key: value for key, value in spec.items() if value is not None}  # a key with nothing after it is as none
    for group, kind in _KINDS.items():
        if not isinstance(spec.get(group, kind()), kind):
            raise OperatorsError(f"{path}: {group}: a {_KIND_NAMES[kind]} is needed, not {spec[group]!r}")
    for group, allowed in _KEYS.items():
        for entry in [spec] if group == "" else spec.get(group) or []:
            found = set(entry) if isinstance(entry, dict) else set()
            if group == "fallback":
                found = set(spec[group])
            if isinstance(entry, dict) or group == "fallback":
                extra = sorted(found - allowed, key=str)
                if extra:
                    place = group or "top"
                    raise OperatorsError(
                        f"{path}: {place}: unknown key {extra[0]!r}; there are {', '.join(sorted(allowed))}"
                    )
    return spec


def _entries(spec: Mapping[str, Any], group: str, path: Path, key: str, more: str = "") -> list[dict[str, Any]]:
    """Return the entries of a group as mappings.

    A bare name stands for ``{key: name}``. Refuses entries with one ``key`` and one value of ``more``, where that is
    named, and values that are no text.
    """
    made: list[dict[str, Any]] = []
    for entry in spec.get(group) or []:
        whole = {key: entry} if isinstance(entry, str) else entry
        if not isinstance(whole, dict) or not isinstance(whole.get(key), str):
            raise OperatorsError(f"{path}: {group}: each entry needs {key!r}, this has not: {entry!r}")
        if any(other[key] == whole[key] and other.get(more) == whole.get(more) for other in made):
            raise OperatorsError(f"{path}: {group}: {whole[key]!r} is there twice")
        where = f"{path}: {group}: {whole[key]}"
        for name in sorted(_FUNCTIONS & set(whole)):
            text = whole[name]
            parts = re.split(r"::|\.", text) if name == "to" and isinstance(text, str) else [text]  # to an operator
            if not all(isinstance(part, str) and part.isidentifier() for part in parts):
                raise OperatorsError(f"{where}: {name}: a name is needed, not {text!r}")
        for name in sorted(_SWITCHES & set(whole)):
            if not isinstance(whole[name], bool):
                raise OperatorsError(f"{where}: {name}: true or false is needed, not {whole[name]!r}")
        made.append(whole)
    return made


def _names(value: object, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise OperatorsError(f"{where}: a list of operator names is needed")
    return value


class _Writer:
    def __init__(self, path: Path, namespace: str, aten: _Aten) -> None:
        self.path, self.namespace, self.aten = path, namespace, aten
        self.declared: list[str] = []
        self.wrappers: list[str] = []
        self.registered: dict[str, str] = {}
        self.includes: set[str] = set()
        self.denied: list[str] = []
        self.casts: list[str] = []
        self.definitions: list[str] = []
        self.schemas: dict[str, Any] = {}  # of custom operators, by name and overload
        self.keys: dict[tuple[str, str], dict[str, str]] = {}  # (namespace, key) -> operator -> function
        self.python: dict[str, str] = {}
        self.stubs: dict[str, str] = {}  # DispatchStub -> kernel

    def _register(self, op: str, wrapper: str) -> None:
        if op in self.registered:
            raise OperatorsError(f"{self.path}: {op!r} is implemented twice")
        self.registered[op] = wrapper

    def _register_at(self, namespace: str, key: str, op: str, function: str) -> None:
        """Register a function at another key than PrivateUse1.

        Of two PyTorch would call the later one alone. Raises OperatorsError.
        """
        registered = self.keys.setdefault((namespace, key), {})
        if op in registered:
            raise OperatorsError(f"{self.path}: {op!r} is registered twice at {key}; leave one out")
        registered[op] = function

    def _dtypes(self, entry: Mapping[str, Any], where: str) -> list[str]:
        wanted = entry.get("dtypes") or []
        if not isinstance(wanted, list):
            raise OperatorsError(f"{where}: dtypes: a list is needed, not {wanted!r}")
        unknown = [name for name in wanted if not isinstance(name, str) or name not in DTYPES]
        if unknown:
            raise OperatorsError(f"{where}: unknown dtype {unknown[0]!r}; there are {', '.join(DTYPES)}")
        return [DTYPES[name] for name in wanted]

    def _accepts(self, signature: _Signature, dtypes: Sequence[str], contiguous: bool) -> str:
        """Write the condition under which the kernel may run.

        All operands are on the device, also where ATen would take a number of the CPU: a kernel takes addresses.
        """
        flag = "true" if contiguous else "false"
        conditions = []
        for name, optional in signature.tensors():
            value = f"{name}.value()" if optional else name
            plain = f"third_device::is_plain({value}, {flag})"
            if dtypes:
                either = " || ".join(f"{value}.scalar_type() == at::k{dtype}" for dtype in dtypes)
                plain += f" && ({either})" if len(dtypes) > 1 else f" && {either}"
            conditions.append(f"(!{name}.has_value() || !{value}.defined() || ({plain}))" if optional else plain)
        wanted = ", ".join(f"at::k{dtype}" for dtype in dtypes)
        conditions += [f"third_device::are_plain({name}, {flag}, {{{wanted}}})" for name, _ in signature.lists()]
        return " &&\n      ".join(conditions)

    def _wrapper(self, op: str, signature: _Signature, condition: str, body: str, otherwise: str = "") -> str:
        """Write the function that is registered.

        Where the condition does not hold it returns ``otherwise``, an expression, or what the CPU makes if that is
        empty.
        """
        base, _, overload = op.partition(".")
        operator = f"ATEN_OP2({base}, {overload})" if overload else f"ATEN_OP({base})"
        self.includes.add(f"ATen/ops/{self.aten.functions[op].root_name}_ops.h")
        name = f"wrap_{_make_identifier(op)}"
        lines = [f"{signature.returns} {name}({signature.parameters}) {{"]
        fallback: list[str] = []
        if op in HOST and condition:
            self.includes.add("third_device/host_operators.h")
            call = f"return third_device::host::{signature.name}({signature.names});"
            fallback += [f'if (third_device::host::computes("{op}")) {call}']
        fallback += [f"using Fallback = at::native::call_fallback_fn<&third_device::cpu_fallback, {operator}>;"]
        fallback += [f"return Fallback::call({signature.names});"]
        if condition:
            others = [f"return {otherwise};"] if otherwise else fallback
            lines += [f"  if (!({condition})) {{", *(f"    {line}" for line in others), "  }"]
        lines += _write_guard(signature, self.aten.functions[op].func, anywhere=not condition)
        lines += [f"  {line}" for line in body.splitlines()] + ["}", ""]
        self.wrappers.append("\n".join(lines))
        return name

    def kernel(self, entry: Mapping[str, Any]) -> None:
        """Add an operator whose kernel takes over after the dispatcher."""
        op = entry["op"]
        where = f"{self.path}: kernels: {op}"
        function = self.aten.find(op, where)
        key, backward = entry.get("key", "PrivateUse1"), entry.get("backward")
        if key not in KEYS:
            raise OperatorsError(f"{where}: unknown key {key!r}; there are {', '.join(KEYS)}: {function.func}")
        signature = _signature(function)
        own = dataclasses.replace(signature, name=entry.get("kernel", signature.name))
        dtypes, contiguous = self._dtypes(entry, where), bool(entry.get("contiguous", False))
        elsewhere = bool(entry.get("elsewhere", False))
        self._write_declaration(own, f"{op}{'' if key == 'PrivateUse1' else f' of {key}'}")
        if key != "PrivateUse1":
            if dtypes or contiguous or elsewhere or backward or "kernel" not in entry:
                raise OperatorsError(f"{where}: at {key} a kernel has a name and nothing else: {function.func}")
            guarded = "Auto" not in key  # a kernel for AutogradPrivateUse1 or its like calls others, which have theirs
            if guarded:
                call = self._wrap_guarded(f"{key}_{op}", own, function.func, anywhere=True)
            else:
                call = self._write_cast(own)
            self._register_at("aten", key, op, call)
            return
        if elsewhere and (dtypes or contiguous):
            raise OperatorsError(
                f"{where}: with 'elsewhere' a kernel is always called; leave out dtypes and contiguous: {function.func}"
            )
        condition = "" if elsewhere else self._accepts(signature, dtypes, contiguous)
        body = self._kernel_call(function, signature, own.name)
        otherwise = ""
        if not elsewhere and (len(signature.tensors()) > 1 or signature.lists()):
            across = self.aten.across_devices(function)
            if across or op == COPY:
                condition += f" &&\n      {_write_devices(signature)}.are_one()"
            if across:
                self.includes.add(f"ATen/ops/{function.root_name}_native.h")
                otherwise = f"{across}({signature.names})"  # some may be the CPU's: each result is where its operand is
            elif op != COPY:
                body = f"{_write_device_check(op, signature)}\n{body}"
        if op == COPY:
            body = f"third_device::check_overlap({signature.format_operands()});\n{body}"
        self._register(op, self._wrapper(op, signature, condition, body, otherwise))
        if backward:
            call = self._aten_call(function, signature, signature.names)
            self._autograd("aten", op, function.func, signature, backward, call, where)

    def _kernel_call(self, function: Any, signature: _Signature, kernel: str) -> str:
        """Write the call of a kernel.

        An output is checked and shaped by ATen where ATen has that apart from its own kernel. Not where an operand may
        be missing or is a list, which those functions of ATen take as other types.
        """
        shapes = self.aten.shapes_class(function)
        plain = all(not optional for _, optional in signature.tensors()) and not signature.lists()
        if shapes is None or not plain:
            return f"return {self.namespace}::{kernel}({signature.names});"
        self.includes.add(f"ATen/ops/{function.root_name}_meta.h")
        inputs = ", ".join(name for _, name in signature.arguments[:-1])
        out = signature.arguments[-1][1]
        return (
            f"third_device::Structured<{shapes}> operation({out});\n"
            f"operation.meta({inputs});\n"
            "at::Tensor shaped = operation.target();\n"
            f"{self.namespace}::{kernel}({inputs}, shaped);\n"
            "return operation.finish();"
        )

    def add_reroute(self, entry: Mapping[str, Any]) -> None:
        """Add an operator that is another one, of PyTorch's or of the vendor's own."""
        op, target = entry["op"], entry.get("to", "")
        where = f"{self.path}: reroute: {op}"
        function = self.aten.find(op, where)
        here = _signature(function)
        namespace, _, name = target.rpartition("::")
        if not target or namespace not in ("", "aten", self.namespace):
            raise OperatorsError(f"{where}: needs 'to', an operator of PyTorch's or {self.namespace}::NAME")
        if namespace == self.namespace:
            if name not in self.schemas:
                raise OperatorsError(f"{where}: there is no custom operator {name!r}; for {function.func}")
            schema, there = self.schemas[name], _schema_signature(self.schemas[name])
            call = _write_call(namespace, name, there, here.names)
        else:
            other = self.aten.find(name, where)
            schema, there = other.func, _signature(other)
            call = self._aten_call(other, there, here.names)
        if (here.kinds, here.returns) != (there.kinds, there.returns):
            raise OperatorsError(f"{where}: {schema} has not the arguments and results of {function.func}")
        if name == op and namespace != self.namespace:
            raise OperatorsError(f"{where}: that is itself: {function.func}")
        self._register(op, self._wrapper(op, here, "", f"return {call};"))

    def _aten_call(self, function: Any, signature: _Signature, names: str) -> str:
        """Write an expression that calls an operator of PyTorch's.

        It is called by the function or the method that it is in C++.
        """
        self.includes.add(f"ATen/ops/{function.root_name}.h")
        if function.func.arguments.out:
            return f"at::{signature.name}f({names})"  # outputs last
        if "function" in {variant.name for variant in function.variants}:
            return f"at::{signature.name}({names})"
        first, _, others = names.partition(", ")
        return f"{first}.{signature.name}({others})"

    def _write_declaration(self, signature: _Signature, what: str) -> None:
        self.declared.append(f"{signature.returns} {signature.name}({signature.parameters});  // {what}")

    def _wrap_guarded(self, name: str, own: _Signature, schema: Any, check: str = "", *, anywhere: bool) -> str:
        """Write a function that calls the vendor's on the device of its tensors.

        ``check`` is a line that comes first; ``anywhere``: see `_write_guard`. Returns it as a registration takes it.
        """
        wrapper = f"guarded_{_make_identifier(name)}"
        first = [f"  {check}"] if check else []
        lines = [f"{own.returns} {wrapper}({own.parameters}) {{", *first, *_write_guard(own, schema, anywhere=anywhere)]
        lines += [f"  return {self.namespace}::{own.name}({own.names});", "}", ""]
        self.wrappers.append("\n".join(lines))
        return f"TORCH_FN({wrapper})"

    def _write_cast(self, signature: _Signature) -> str:
        """Write the vendor's function as a registration takes it.

        Overloads have one name, so its type says which.
        """
        pointer = f"{signature.returns} (*)({signature.kinds})"
        return f"static_cast<{pointer}>(&{self.namespace}::{signature.name})"

    def _autograd(
        self, namespace: str, op: str, schema: Any, signature: _Signature, backward: str, call: str, where: str
    ) -> None:
        """Register the vendor's gradient of an operator; ``call`` runs below autograd."""
        count = _count_outputs(schema, where)
        if signature.lists():
            raise OperatorsError(f"{where}: a gradient is for tensors, not for lists of them: {schema}")
        tensors = signature.tensors()
        self.includes |= {"torch/csrc/autograd/custom_function.h"}
        saved = "".join(f", const at::Tensor& {tensor}" for tensor, _ in tensors)
        first = "const at::Tensor& grad" if count == 1 else "at::TensorList grads"
        declared = f"std::vector<at::Tensor> {backward}({first}{saved});  // one per tensor argument"
        if declared not in self.declared:
            self.declared.append(declared)
        name = _make_identifier(f"{namespace}_{op}")
        self.wrappers.append(_autograd(self.namespace, name, signature, backward, tensors, count, call))
        # An operator of the vendor's own has no other gradient, whatever the tensor is: those that torch.func passes
        # have no key of the device on 2.6 (ATen/functorch/BatchedTensorImpl.h: kKeysToPropagateToWrapper).
        key = "AutogradPrivateUse1" if namespace == "aten" else "Autograd"
        self._register_at(namespace, key, op, f"TORCH_FN(autograd_{name})")

    def refuse_lost_gradients(self) -> None:
        """Let backward raise where an operator has a kernel and no gradient.

        PyTorch would warn, and train what stands before it with no gradient.
        """
        known = self.keys.get(("aten", "AutogradPrivateUse1"), {})
        for op in self.registered:
            if op not in known and self.aten.loses_gradient(self.aten.functions[op]):
                self.includes.add("torch/csrc/autograd/autograd_not_implemented_fallback.h")
                refusal = "torch::autograd::autogradNotImplementedFallback()"
                self._register_at("aten", "AutogradPrivateUse1", op, refusal)

    def stub(self, entry: Mapping[str, Any]) -> None:
        """Add an operator with our inner loop through a DispatchStub.

        Its shape, type and iteration logic is ATen's.
        """
        op = entry["op"]
        where = f"{self.path}: stubs: {op}"
        missing = [key for key in ("stub", "header", "kernel") if not isinstance(entry.get(key), str)]
        if missing:
            raise OperatorsError(f"{where}: needs {missing[0]!r}")
        function = self.aten.find(op, where)
        if len(function.func.arguments.out) != 1:
            raise OperatorsError(
                f"{where}: stubs are for operators with one output; name the .out variant, or write it under kernels: "
                f"{function.func}"
            )
        if getattr(function, "precomputed", None):
            raise OperatorsError(
                f"{where}: this operator precomputes arguments; write it under kernels: {function.func}"
            )
        signature = _signature(function)
        self.includes |= {entry["header"], f"ATen/ops/{function.root_name}_native.h"}
        inputs = ", ".join(name for _, name in signature.arguments[:-1])
        out = signature.arguments[-1][1]
        if function.structured:
            kind = self.aten.structured_class(function)
            body = (
                f"third_device::Structured<{kind}> operation({out});\n"
                f"operation.meta({inputs});\n"
                f"operation.impl({inputs}, operation.target());\n"
                "return operation.finish();"
            )
        else:
            host = self.aten.host_function(function)
            if host is None:
                raise OperatorsError(f"{where}: no stub is called on the CPU; write it under kernels: {function.func}")
            body = f"return {host}({signature.names});"
        if len(signature.tensors()) > 1 or signature.lists():
            body = f"{_write_device_check(op, signature)}\n{body}"
        condition = self._accepts(signature, self._dtypes(entry, where), False)
        self._register(op, self._wrapper(op, signature, condition, body))
        stub, kernel = entry["stub"], entry["kernel"]
        if stub in self.stubs:  # as add_stub is add's and sub's: it has one kernel
            if self.stubs[stub] != kernel:
                raise OperatorsError(f"{where}: {stub} has the kernel {self.stubs[stub]!r} already, not {kernel!r}")
            return
        self.stubs[stub] = kernel
        pointer = f"at::native::{stub}_DECLARE_DISPATCH_type::FnPtr"
        self.declared.append(f"std::remove_pointer_t<{pointer}> {kernel};  // {op} through {stub}")
        self.wrappers.append(f"REGISTER_PRIVATEUSE1_DISPATCH({stub}, &{self.namespace}::{kernel})")

    def custom(self, entry: Mapping[str, Any]) -> None:
        """Add the vendor's own operator, a meta kernel and, where asked, a gradient."""
        from torchgen.model import FunctionSchema

        where = f"{self.path}: custom: {entry['func']}"
        try:
            schema = FunctionSchema.parse(entry["func"])
        except Exception as error:  # torchgen raises AssertionError, RuntimeError and ValueError alike
            raise OperatorsError(f"{where}: not a schema: {str(error).splitlines()[0]}") from None
        op = str(schema.name)
        if "::" in op:
            raise OperatorsError(f"{where}: its name stands without a namespace, which is {self.namespace}")
        if op in self.schemas:
            raise OperatorsError(f"{where}: {op!r} is there twice; overloads have names, as {op.split('.')[0]}.other")
        signature = _schema_signature(schema)
        self.schemas[op] = schema
        self.definitions.append(f"  m.def({json.dumps(entry['func'])});")  # a C++ literal alike: defaults have quotes
        self._write_declaration(signature, "custom")
        check, elsewhere = "", entry.get("elsewhere", False)
        if not elsewhere and (len(signature.tensors()) > 1 or signature.lists()):
            devices = f"third_device::OperandDevices::of_any({signature.format_operands()})"
            check = f'third_device::check_one_device("{self.namespace}::{op}", {devices});'
        call = self._wrap_guarded(f"custom_{op}", signature, schema, check, anywhere=elsewhere)
        self._register_at(self.namespace, "PrivateUse1", op, call)
        written = [argument.name for argument in schema.arguments.flat_all if argument.is_write]
        if set(written) & {name for name, _ in signature.lists()}:
            raise OperatorsError(f"{where}: a list of tensors cannot be written to: {schema}")
        if written:
            self._note_writes(op, signature, written)
        self._register_meta(entry, op, schema, signature, where)
        backward = entry.get("backward")
        if backward:
            call = _write_call(self.namespace, op, signature, signature.names)
            self._autograd(self.namespace, op, schema, signature, backward, call, where)
        python = entry.get("python")
        if python:
            if python in self.python:
                raise OperatorsError(f"{where}: python: {python!r} is there twice")
            self.python[python] = op.split(".")[0]

    def _register_meta(self, entry: Mapping[str, Any], op: str, schema: Any, signature: _Signature, where: str) -> None:
        """Register a custom operator's output shapes and types, without data."""
        meta, like = entry.get("meta"), entry.get("like")
        if meta:
            own = dataclasses.replace(signature, name=meta)
            self._write_declaration(own, f"shapes and types of {op}")
            self._register_at(self.namespace, "Meta", op, self._write_cast(own))
            return
        if not any(str(returned.type) == "Tensor" for returned in schema.returns):
            if signature.returns == "void" or not schema.returns:
                return  # nothing comes out
            raise OperatorsError(f"{where}: needs 'meta': its results are no tensors: {schema}")
        tensors = [name for name, optional in signature.tensors() if not optional]
        written = [argument.name for argument in schema.arguments.flat_all if argument.is_write]
        if all(returned.is_write for returned in schema.returns) and len(written) == len(schema.returns):
            made = written
        else:
            wanted = like if isinstance(like, list) else [like]
            if len(wanted) != len(schema.returns) or not all(one in tensors for one in wanted):
                raise OperatorsError(
                    f"{where}: needs 'like', one of the tensor arguments for each of its results, or 'meta', a "
                    f"function of yours that makes them: {schema}"
                )
            if any(str(returned.type) != "Tensor" for returned in schema.returns):
                raise OperatorsError(f"{where}: needs 'meta': not all of its results are tensors: {schema}")
            made = [f"at::empty_like({one})" for one in wanted]
            self.includes.add("ATen/ops/empty_like.h")
        # a tuple of references where the outputs are arguments
        value = made[0] if len(made) == 1 else f"{signature.returns}({', '.join(made)})"
        name = f"meta_{_make_identifier(op)}"
        self.wrappers.append(f"{signature.returns} {name}({signature.parameters}) {{ return {value}; }}\n")
        self._register_at(self.namespace, "Meta", op, f"TORCH_FN({name})")

    def _note_writes(self, op: str, signature: _Signature, written: Sequence[str]) -> None:
        """Count up the versions of the tensors that a custom operator writes to.

        By them autograd knows of it.
        """
        name = f"inplace_{_make_identifier(op)}"
        optional = {tensor for tensor, may_be_missing in signature.tensors() if may_be_missing}
        tensors = ", ".join(f"{one}.value_or(at::Tensor())" if one in optional else one for one in written)
        self.wrappers.append(
            f"{signature.returns} {name}({signature.parameters}) {{\n"
            f"  const third_device::CountedWrites counted_({{{tensors}}});\n"
            "  at::AutoDispatchBelowADInplaceOrView below_;\n"
            f"  return {_write_call(self.namespace, op, signature, signature.names)};\n"
            "}\n"
        )
        self._register_at(self.namespace, "ADInplaceOrView", op, f"TORCH_FN({name})")

    def deny(self, op: str) -> None:
        """Add an operator that must not run on the CPU."""
        self.aten.find(op, f"{self.path}: fallback: deny")
        if op in self.registered:
            raise OperatorsError(f"{self.path}: fallback: deny: {op!r} has a kernel")
        self.denied.append(op)

    def autocast(self, op: str, policy: str, *, required: bool) -> None:
        """Add an operator whose operands autocast converts.

        The layer's own list may name operators of other releases.
        """
        if op not in self.aten.functions:
            if required:
                self.aten.find(op, f"{self.path}: autocast: {policy}")
            return
        base, _, overload = op.partition(".")
        arguments = f"{base}, {overload}, {policy}" if overload else f"{base}, {policy}"
        self.casts.append(f"  KERNEL_PRIVATEUSEONE({arguments})")

    def finish(self) -> Generated:
        stubs = sorted(name for name in self.includes if name.startswith("ATen/native/"))
        header = [
            BANNER,
            "#pragma once",
            "",
            "#include <ATen/core/Tensor.h>",
            *(f"#include <{name}>" for name in stubs),
            "",
            "#include <optional>",
            "#include <type_traits>",
            "#include <vector>",
            "",
            f"namespace {self.namespace} {{",
            "",
            *self.declared,
            "",
            f"}}  // namespace {self.namespace}",
            "",
        ]
        source = [
            BANNER,
            '#include "operators.h"',
            "",
            "#include <ATen/DeviceGuard.h>",
            "#include <ATen/autocast_mode.h>",
            "#include <ATen/native/CPUFallback.h>",
            *(f"#include <{name}>" for name in sorted(self.includes - set(stubs))),
            "#include <torch/library.h>",
            "",
            "#include <third_device/backend.h>",
            "#include <third_device/structured.h>",
            "",
            "namespace at::native {",
            "",
            *(line for line in self.wrappers if line.startswith("REGISTER_")),
            "",
            "}  // namespace at::native",
            "",
            "namespace {",
            "",
            *(line for line in self.wrappers if not line.startswith("REGISTER_")),
        ]
        source += ["TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {"]
        source += [f'  m.impl("{op}", TORCH_FN({wrapper}));' for op, wrapper in self.registered.items()]
        source += [
            f'  m.impl("{op}", torch::CppFunction::makeFromBoxedFunction<&third_device::refuse>());'
            for op in self.denied
        ]
        source += ["}", ""]
        if self.definitions:
            source += [f"TORCH_LIBRARY({self.namespace}, m) {{", *self.definitions, "}", ""]
        for (namespace, key), registrations in self.keys.items():
            source += [f"TORCH_LIBRARY_IMPL({namespace}, {key}, m) {{"]
            source += [f'  m.impl("{op}", {function});' for op, function in registrations.items()]
            source += ["}", ""]
        source += [
            "TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {",
            "  m.fallback(torch::CppFunction::makeFallthrough());",
            "}",
            "",
            "TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {",
            *self.casts,
            "}",
            "",
            "}  // namespace",
            "",
        ]
        own = [("PrivateUse1", op) for op in (*self.registered, *self.denied)]
        own += [(key, op) for (namespace, key), ops in self.keys.items() if namespace == "aten" for op in ops]
        listed = "".join(f'      {{c10::DispatchKey::{key}, "{op}"}},\n' for key, op in own)
        source += [
            "namespace third_device {",
            "std::vector<std::pair<c10::DispatchKey, std::string>> own_operators() {",
            f"  return {{\n{listed}  }};",
            "}",
            "}  // namespace third_device",
            "",
        ]
        if self.python:
            names = ", ".join(f'{{"{name}", "{self.namespace}::{op}"}}' for name, op in self.python.items())
            source += [
                "namespace third_device {",
                "std::vector<std::pair<std::string, std::string>> python_functions() {",
                f"  return {{{names}}};",
                "}",
                "}  // namespace third_device",
                "",
            ]
        return Generated("\n".join(header), "\n".join(source))


def _write_passable(kind: str) -> str:
    """Return a C++ type that the dispatcher's boxed calls can pass.

    They make a ``std::optional`` for the call, which no reference without const takes: what torchgen writes for a
    ``Tensor?`` that is written to.
    """
    return f"const {kind}" if re.fullmatch(r"(::)?(std|c10)::optional<at::Tensor> &", kind) else kind


def _schema_signature(schema: Any) -> _Signature:
    from torchgen import local
    from torchgen.api import cpp
    from torchgen.api.types import NativeSignature

    with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False):
        native = NativeSignature(schema, symint=False)
        arguments = tuple((_write_passable(argument.type), argument.name) for argument in native.arguments())
        return _Signature(cpp.name(schema), cpp.returns_type(schema.returns, symint=False).cpp_type(), arguments)


def _write_guard(signature: _Signature, schema: Any, *, anywhere: bool) -> list[str]:
    """Write the line by which an operator's device is the current one meanwhile.

    It is the device of the output where that is an argument, else that of the first tensor; where tensors may be
    ``anywhere``, of the first one on a device of the backend. No line without a tensor.
    """
    if anywhere and signature.format_operands():
        operands = signature.format_operands().split(", ")
        listed = ", ".join(reversed(operands) if schema.arguments.out else operands)
        return [f"  const c10::OptionalDeviceGuard guard_(third_device::OperandDevices({listed}).first_or_none());"]
    tensors = [name for name, optional in signature.tensors() if not optional]
    where = tensors or [name for name, optional in signature.lists() if not optional]
    where = where or [name for name, _ in signature.tensors()]
    if not where:
        return []
    return [f"  const c10::OptionalDeviceGuard guard_(at::device_of({where[-1 if schema.arguments.out else 0]}));"]


def _write_devices(signature: _Signature) -> str:
    """Write an expression for the devices that an operator's operands are on."""
    return f"third_device::OperandDevices({signature.format_operands()})"


def _write_device_check(op: str, signature: _Signature) -> str:
    """Write the line that raises where the operands are on several devices.

    A kernel would take an address on another device for one of its own.
    """
    return f'third_device::check_one_device("{op}", {_write_devices(signature)});'


def _write_call(namespace: str, op: str, signature: _Signature, names: str) -> str:
    """Write an expression that calls an operator through the dispatcher."""
    base, _, overload = op.partition(".")
    return (
        f'c10::Dispatcher::singleton().findSchemaOrThrow("{namespace}::{base}", "{overload}")'
        f".typed<{signature.returns}({signature.kinds})>().call({names})"
    )


def _autograd(
    namespace: str,
    name: str,
    signature: _Signature,
    backward: str,
    tensors: Sequence[tuple[str, bool]],
    count: int,
    call: str,
) -> str:
    """Write the autograd function of an operator.

    It calls the operator below autograd, and has the gradient from what was saved. ``tensors``: see _Signature.
    """
    names = [tensor for tensor, _ in tensors]
    gradients = ", ".join(
        f"grads[{names.index(argument)}]" if argument in names else "at::Tensor()"
        for _, argument in signature.arguments
    )
    values = ", ".join(f"{tensor}.value_or(at::Tensor())" if optional else tensor for tensor, optional in tensors)
    saved = "".join(f", saved[{number}]" for number in range(len(tensors)))
    one = count == 1
    outputs = "at::Tensor" if one else "torch::autograd::variable_list"
    made = f"return {call};"
    passed_on = f"return Autograd_{name}::apply({signature.names});"
    if not one:
        parts = ", ".join(f"std::get<{number}>(made_)" for number in range(count))
        made = f"auto made_ = {call};\n    return {{{parts}}};"
        taken = ", ".join(f"made_[{number}]" for number in range(count))
        passed_on = f"auto made_ = Autograd_{name}::apply({signature.names});\n  return {{{taken}}};"
    return f"""struct Autograd_{name} : torch::autograd::Function<Autograd_{name}> {{
  static {outputs} forward(torch::autograd::AutogradContext* context_, {signature.parameters}) {{
    at::AutoDispatchBelowADInplaceOrView below_;
    context_->save_for_backward({{{values}}});
    {made}
  }}
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context_,
                                                 torch::autograd::variable_list outputs) {{
    auto saved = context_->get_saved_variables();
    std::vector<at::Tensor> grads = {namespace}::{backward}({"outputs[0]" if one else "outputs"}{saved});
    TORCH_CHECK(grads.size() == {len(tensors)}, "{backward} returns a gradient for each of {len(tensors)} tensors");
    return {{{gradients}}};
  }}
}};

{signature.returns} autograd_{name}({signature.parameters}) {{
  {passed_on}
}}
"""
