"""``operators.yaml`` -> C++: declarations of the kernels a vendor writes, and everything that registers them.

Schemas, signatures and names come from the torchgen of the PyTorch that is installed, so that a kernel whose signature
does not match is a compile error and an operator that this release does not have is an error of the generator.

The file has these keys, all optional but ``namespace``::

    namespace: acme                # of the kernels, in C++
    kernels:                       # operators that are entirely yours
      - op: mm.out
        dtypes: [float32]          # other operands run on the CPU
        contiguous: true
    stubs:                         # ATen does shapes, broadcasting and promotion; the inner loop is yours
      - op: add.out
        stub: add_stub
        header: ATen/native/BinaryOps.h
        kernel: add_kernel
        dtypes: [float32]
    custom:                        # operators of your own: namespace::name
      - func: swish(Tensor self) -> Tensor
        backward: swish_backward   # gets the gradient and the saved tensors, returns the gradients of the tensors
        like: self                 # the meta kernel: the output has this argument's shape and dtype
    fallback:
      deny: [conv2d]               # raise NotImplementedError instead of running on the CPU
    autocast:                      # replaces the layer's list for this policy
      lower_precision_fp: [mm]

The same input gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import difflib
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
    "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip
_KEYS = {
    "": {"namespace", "kernels", "stubs", "custom", "fallback", "autocast"},
    "kernels": {"op", "dtypes", "contiguous"},
    "stubs": {"op", "stub", "header", "kernel", "dtypes"},
    "custom": {"func", "backward", "like"},
    "fallback": {"deny"},
}
_KINDS: dict[str, type] = {"kernels": list, "stubs": list, "custom": list, "fallback": dict, "autocast": dict}
_KIND_NAMES: dict[type, str] = {list: "list", dict: "mapping"}


class OperatorsError(ValueError):
    """``operators.yaml`` is wrong; the message names the file, the entry and what is allowed."""


@dataclasses.dataclass(frozen=True)
class Generated:
    """The two files that come out: what kernels include, and what registers them."""

    header: str
    source: str

    def write(self, folder: Path) -> list[Path]:
        """Write both into ``folder`` where they differ, so that an unchanged build stays built."""
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

    def structured_class(self, function: Any) -> str:
        """The C++ class whose ``impl`` calls the operator's DispatchStub; its CPU one does nothing else."""
        from torchgen.model import DispatchKey

        if function.ufunc_inner_loop:
            return f"at::native::structured_ufunc_{function.func.name.name}_CPU"
        metadata = self._indices[DispatchKey.CPU].get_kernel(function)
        return f"at::native::structured_{metadata.kernel}"

    def find(self, name: str, where: str) -> Any:
        if name in self.functions:
            return self.functions[name]
        near = difflib.get_close_matches(name, self.functions, n=3, cutoff=0.6)
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
    def names(self) -> str:
        return ", ".join(name for _, name in self.arguments)

    def tensors(self) -> list[tuple[str, bool]]:
        """Name of each tensor argument, and whether it is optional."""
        made = []
        for kind, name in self.arguments:
            plain = kind.replace("const ", "").replace(" &", "").strip()
            if plain == "at::Tensor":
                made.append((name, False))
            elif plain.replace("::std::", "std::").startswith(
                ("std::optional<at::Tensor>", "c10::optional<at::Tensor>")
            ):
                made.append((name, True))
        return made


def _signature(function: Any) -> _Signature:
    from torchgen.api import cpp
    from torchgen.api.types import NativeSignature
    from torchgen.context import native_function_manager

    with native_function_manager(function):
        native = NativeSignature(function.func, symint=False)
        arguments = tuple((argument.type, argument.name) for argument in native.arguments())
        returns = cpp.returns_type(function.func.returns, symint=False).cpp_type()
        return _Signature(cpp.name(function.func), returns, arguments)


def generate(path: Path, defaults: Path) -> Generated:
    """Read ``path``; ``defaults`` has the autocast lists of the layer. Raises OperatorsError, OSError."""
    spec = _read(path)
    aten = _Aten()
    namespace = spec.get("namespace")
    if not isinstance(namespace, str) or not namespace.isidentifier():
        raise OperatorsError(f"{path}: namespace: a C++ identifier is needed, not {namespace!r}")
    writer = _Writer(path, namespace, aten)
    for entry in _entries(spec, "kernels", path, "op"):
        writer.kernel(entry)
    for entry in _entries(spec, "stubs", path, "op"):
        writer.stub(entry)
    for entry in _entries(spec, "custom", path, "func"):
        writer.custom(entry)
    for name in _names(spec.get("fallback", {}).get("deny", []), f"{path}: fallback: deny"):
        writer.deny(name)
    policies = _read(defaults).get("autocast", {}) | spec.get("autocast", {})
    unknown = sorted(set(policies) - set(POLICIES))
    if unknown:
        raise OperatorsError(f"{path}: autocast: unknown policy {unknown[0]!r}; there are {', '.join(POLICIES)}")
    own = spec.get("autocast", {})
    for policy in POLICIES:
        for name in _names(policies.get(policy, []), f"{path}: autocast: {policy}"):
            writer.autocast(name, policy, required=policy in own)
    return writer.finish()


def _read(path: Path) -> dict[str, Any]:
    try:
        spec = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise OperatorsError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
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
                extra = sorted(found - allowed)
                if extra:
                    place = group or "top"
                    raise OperatorsError(
                        f"{path}: {place}: unknown key {extra[0]!r}; there are {', '.join(sorted(allowed))}"
                    )
    return spec


def _entries(spec: Mapping[str, Any], group: str, path: Path, key: str) -> list[dict[str, Any]]:
    """The entries of a group as mappings; a bare name stands for ``{key: name}``. Refuses duplicates."""
    made: list[dict[str, Any]] = []
    for entry in spec.get(group) or []:
        whole = {key: entry} if isinstance(entry, str) else entry
        if not isinstance(whole, dict) or not isinstance(whole.get(key), str):
            raise OperatorsError(f"{path}: {group}: each entry needs {key!r}, this has not: {entry!r}")
        if any(other[key] == whole[key] for other in made):
            raise OperatorsError(f"{path}: {group}: {whole[key]!r} is there twice")
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
        self.customs: list[tuple[str, str]] = []

    def _register(self, op: str, wrapper: str) -> None:
        if op in self.registered:
            raise OperatorsError(f"{self.path}: {op!r} is implemented twice")
        self.registered[op] = wrapper

    def _dtypes(self, entry: Mapping[str, Any], where: str) -> list[str]:
        wanted = entry.get("dtypes") or []
        if not isinstance(wanted, list):
            raise OperatorsError(f"{where}: dtypes: a list is needed, not {wanted!r}")
        unknown = [name for name in wanted if name not in DTYPES]
        if unknown:
            raise OperatorsError(f"{where}: unknown dtype {unknown[0]!r}; there are {', '.join(DTYPES)}")
        return [DTYPES[name] for name in wanted]

    def _accepts(self, tensors: Sequence[tuple[str, bool]], dtypes: Sequence[str], contiguous: bool) -> str:
        """The condition under which the kernel may run."""
        flag = "true" if contiguous else "false"
        conditions = []
        for name, optional in tensors:
            value = f"{name}.value()" if optional else name
            plain = f"third_device::is_plain({value}, {flag})"
            if dtypes:
                either = " || ".join(f"{value}.scalar_type() == at::k{dtype}" for dtype in dtypes)
                plain += f" && ({either})" if len(dtypes) > 1 else f" && {either}"
            conditions.append(f"(!{name}.has_value() || !{value}.defined() || ({plain}))" if optional else plain)
        return " &&\n      ".join(conditions)

    def _wrapper(self, op: str, signature: _Signature, condition: str, body: str) -> str:
        base, _, overload = op.partition(".")
        operator = f"ATEN_OP2({base}, {overload})" if overload else f"ATEN_OP({base})"
        self.includes.add(f"ATen/ops/{self.aten.functions[op].root_name}_ops.h")
        name = "wrap_" + re.sub(r"\W", "_", op)
        lines = [f"{signature.returns} {name}({signature.parameters}) {{"]
        if condition:
            lines += [
                f"  if (!({condition})) {{",
                f"    using Fallback = at::native::call_fallback_fn<&third_device::cpu_fallback, {operator}>;",
                f"    return Fallback::call({signature.names});",
                "  }",
            ]
        tensors = [tensor for tensor, optional in signature.tensors() if not optional]
        if tensors:
            where = tensors[-1] if self.aten.functions[op].func.arguments.out else tensors[0]
            lines.append(f"  const c10::OptionalDeviceGuard guard(at::device_of({where}));")
        lines += [f"  {line}" for line in body.splitlines()] + ["}", ""]
        self.wrappers.append("\n".join(lines))
        return name

    def kernel(self, entry: Mapping[str, Any]) -> None:
        """An operator whose kernel takes over after the dispatcher."""
        op = entry["op"]
        where = f"{self.path}: kernels: {op}"
        signature = _signature(self.aten.find(op, where))
        dtypes, contiguous = self._dtypes(entry, where), bool(entry.get("contiguous", False))
        self.declared.append(f"{signature.returns} {signature.name}({signature.parameters});  // {op}")
        condition = self._accepts(signature.tensors(), dtypes, contiguous) if dtypes or contiguous else ""
        body = f"return {self.namespace}::{signature.name}({signature.names});"
        tensors = signature.tensors()
        if len(tensors) > 1:
            places = (
                f"{one}.has_value() ? &{one}.value() : nullptr" if optional else f"&{one}" for one, optional in tensors
            )
            body = f'third_device::check_one_device("{op}", {{{", ".join(places)}}});\n{body}'
        self._register(op, self._wrapper(op, signature, condition, body))

    def stub(self, entry: Mapping[str, Any]) -> None:
        """An operator whose shape, type and iteration logic is ATen's, with our inner loop through a DispatchStub."""
        op = entry["op"]
        where = f"{self.path}: stubs: {op}"
        missing = [key for key in ("stub", "header", "kernel") if not isinstance(entry.get(key), str)]
        if missing:
            raise OperatorsError(f"{where}: needs {missing[0]!r}")
        function = self.aten.find(op, where)
        if not op.endswith("out") or len(function.func.arguments.out) != 1:
            raise OperatorsError(f"{where}: stubs are for operators with one output; name the .out variant")
        if getattr(function, "precomputed", None):
            raise OperatorsError(f"{where}: this operator precomputes arguments; write it under kernels")
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
            body = f"return at::native::{signature.name}({signature.names});"
        dtypes = self._dtypes(entry, where)
        condition = self._accepts(signature.tensors(), dtypes, False) if dtypes else ""
        self._register(op, self._wrapper(op, signature, condition, body))
        line = f"REGISTER_PRIVATEUSE1_DISPATCH({entry['stub']}, &{self.namespace}::{entry['kernel']})"
        pointer = f"at::native::{entry['stub']}_DECLARE_DISPATCH_type::FnPtr"
        self.declared.append(f"std::remove_pointer_t<{pointer}> {entry['kernel']};  // {op} through {entry['stub']}")
        self.wrappers.append(line)

    def custom(self, entry: Mapping[str, Any]) -> None:
        """An operator of the vendor's own, with a meta kernel and, where asked, a gradient."""
        from torchgen.model import FunctionSchema

        where = f"{self.path}: custom: {entry['func']}"
        try:
            schema = FunctionSchema.parse(entry["func"])
        except Exception as error:  # torchgen raises AssertionError, RuntimeError and ValueError alike
            raise OperatorsError(f"{where}: not a schema: {str(error).splitlines()[0]}") from None
        signature = _schema_signature(schema)
        if schema.name.overload_name or any(other.split(":")[0] == signature.name for _, other in self.customs):
            raise OperatorsError(f"{where}: overloads are not possible here; give each operator a name of its own")
        tensors = [name for name, optional in signature.tensors() if not optional]
        like = entry.get("like")
        if like not in tensors or signature.returns != "at::Tensor":
            raise OperatorsError(f"{where}: needs 'like', one of the tensor arguments, and one Tensor returned")
        self.declared.append(f"{signature.returns} {signature.name}({signature.parameters});  // custom")
        name = signature.name
        meta = f"{signature.returns} meta_{name}({signature.parameters}) {{ return at::empty_like({like}); }}\n"
        self.includes.add("ATen/ops/empty_like.h")
        registrations = [f'm.def("{entry["func"]}");']
        self.wrappers.append(meta)
        backward = entry.get("backward")
        if backward:
            self.includes |= {"torch/csrc/autograd/custom_function.h"}
            saved = ", ".join(f"const at::Tensor& {tensor}" for tensor in tensors)
            self.declared.append(
                f"std::vector<at::Tensor> {backward}(const at::Tensor& grad, {saved});  // one per tensor argument"
            )
            self.wrappers.append(_autograd(self.namespace, signature, backward, tensors))
        self.customs.append(("\n  ".join(registrations), f"{name}:{'yes' if backward else 'no'}"))

    def deny(self, op: str) -> None:
        """An operator that must not run on the CPU."""
        self.aten.find(op, f"{self.path}: fallback: deny")
        if op in self.registered:
            raise OperatorsError(f"{self.path}: fallback: deny: {op!r} has a kernel")
        self.denied.append(op)

    def autocast(self, op: str, policy: str, *, required: bool) -> None:
        """An operator whose operands autocast converts. The layer's own list may name operators of other releases."""
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
        if self.customs:
            source += self._custom_registrations()
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
        return Generated("\n".join(header), "\n".join(source))

    def _custom_registrations(self) -> list[str]:
        lines = [f"TORCH_LIBRARY({self.namespace}, m) {{"]
        lines += [f"  {definition}" for definition, _ in self.customs]
        lines += ["}", ""]
        names = [entry.split(":") for _, entry in self.customs]
        for key, target in (("PrivateUse1", f"{self.namespace}::{{}}"), ("Meta", "meta_{}")):
            lines += [f"TORCH_LIBRARY_IMPL({self.namespace}, {key}, m) {{"]
            lines += [f'  m.impl("{name}", TORCH_FN({target.format(name)}));' for name, _ in names]
            lines += ["}", ""]
        graded = [name for name, graded in names if graded == "yes"]
        if graded:
            lines += [f"TORCH_LIBRARY_IMPL({self.namespace}, AutogradPrivateUse1, m) {{"]
            lines += [f'  m.impl("{name}", TORCH_FN(autograd_{name}));' for name in graded]
            lines += ["}", ""]
        return lines


def _schema_signature(schema: Any) -> _Signature:
    from torchgen import local
    from torchgen.api import cpp
    from torchgen.api.types import NativeSignature

    with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False):
        native = NativeSignature(schema, symint=False)
        arguments = tuple((argument.type, argument.name) for argument in native.arguments())
        return _Signature(cpp.name(schema), cpp.returns_type(schema.returns, symint=False).cpp_type(), arguments)


def _autograd(namespace: str, signature: _Signature, backward: str, tensors: Sequence[str]) -> str:
    """The autograd function of a custom operator: the operator below autograd, its gradient from what was saved."""
    name = signature.name
    kinds = ", ".join(kind for kind, _ in signature.arguments)
    gradients = [
        f"grads[{tensors.index(argument)}]" if argument in tensors else "at::Tensor()"
        for _, argument in signature.arguments
    ]
    unpacked = ", ".join(f"saved[{number}]" for number in range(len(tensors)))
    return f"""struct Autograd_{name} : torch::autograd::Function<Autograd_{name}> {{
  static at::Tensor forward(torch::autograd::AutogradContext* context, {signature.parameters}) {{
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({{{", ".join(tensors)}}});
    static auto operation = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("{namespace}::{name}", "")
                                .typed<{signature.returns}({kinds})>();
    return operation.call({signature.names});
  }}
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {{
    auto saved = context->get_saved_variables();
    std::vector<at::Tensor> grads = {namespace}::{backward}(outputs[0], {unpacked});
    return {{{", ".join(gradients)}}};
  }}
}};

{signature.returns} autograd_{name}({signature.parameters}) {{ return Autograd_{name}::apply({signature.names}); }}
"""
