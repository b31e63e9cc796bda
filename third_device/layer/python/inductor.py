"""Inductor's code for a device that has no code generator of its own.

Fused kernels run on the host. They are Inductor's kernels for CPUs; what they read is copied to the host before, and
what they write back afterwards. Operators that Inductor does not fuse, products of matrices first of all, are the
device's own as without it. A backend with a generator has classes of the names in `CLASSES` in its ``functions.py``,
which then take the place of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codegen.common import DeviceOpOverrides, register_device_op_overrides
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.virtualized import V
from torch._prims_common import compute_required_storage_length

from .._build_info import NAME

CALL = "run_on_host"
WIDEST = 16
"""Bytes of the widest type. A block begins at a multiple, so that views of every type find their elements in it."""


def run_on_host(kernel: Callable[..., None], kinds: Sequence[str], *arguments: Any) -> None:
    """Call a kernel for CPUs with tensors of the device.

    ``kinds`` are its parameters in C++, as ``const float*``. A kernel gets addresses and knows the strides, so what
    goes over is the memory from a tensor's first element to its last one. Tensors that overlap share their copy, as
    they share their memory.
    """
    given = list(arguments)
    written: list[tuple[torch.Tensor, torch.Tensor]] = []
    for begin, end, numbers in _find_blocks(arguments):
        storage = max((arguments[number].untyped_storage() for number in numbers), key=lambda each: each.nbytes())
        there = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, begin, (end - begin,), (1,))
        here = there.cpu()
        for number in numbers:
            view, size = arguments[number], arguments[number].itemsize
            given[number] = torch.empty(0, dtype=view.dtype, device="cpu").set_(
                here.untyped_storage(), view.storage_offset() - begin // size, view.shape, view.stride()
            )
        if not all(kinds[number].startswith("const ") for number in numbers):
            written.append((there, here))
    kernel(*given)
    for there, here in written:
        there.copy_(here)


def _find_blocks(arguments: Sequence[Any]) -> list[tuple[int, int, list[int]]]:
    """Return the blocks of memory that tensors of the device reach.

    Each is its first byte in the storage, its end, and the numbers of the arguments that lie in it. No two overlap.
    """
    spans = []
    for number, argument in enumerate(arguments):
        if _is_ours(argument) and argument.numel() > 0:
            begin = argument.storage_offset() * argument.itemsize
            end = begin + argument.itemsize * compute_required_storage_length(argument.shape, argument.stride(), 0)
            spans.append((argument.untyped_storage().data_ptr(), begin // WIDEST * WIDEST, end, number))
    blocks: list[tuple[int, int, list[int]]] = []
    former = None
    for place, begin, end, number in sorted(spans):
        if place == former and begin < blocks[-1][1]:
            first, last, numbers = blocks[-1]
            blocks[-1] = first, max(last, end), [*numbers, number]
        else:
            blocks.append((begin, end, [number]))
        former = place
    return blocks


def _is_ours(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.device.type == NAME


class Scheduling(CppScheduling):  # type: ignore[misc]  # torch need not be typed for who checks this
    """Kernels for CPUs, noted as such in the code that calls them."""

    def codegen_node(self, node: Any) -> None:
        # 2.13 takes a device that it does not know for one of Triton's (torch/_inductor/utils.py: get_current_backend),
        # whose variables carry no types, which kernels for CPUs need.
        with V.graph.set_current_device(torch.device("cpu")):
            super().codegen_node(node)

    def define_kernel(self, src_code: str, nodes: Any, kernel_args: Any = None) -> str:
        name: str = super().define_kernel(src_code, nodes, kernel_args)
        arguments = self.kernel_group.args if kernel_args is None else kernel_args
        V.graph.wrapper_code.host_kernels[name] = arguments.cpp_argdefs()[2]
        return name


class _HostCalls:
    """What a wrapper's code has for kernels that run on the host: their calls."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.host_kernels: dict[str, list[str]] = {}
        super().__init__(*arguments, **named)

    def wrap_kernel_call(self, name: str, call_args: Sequence[str]) -> str:
        kinds = self.host_kernels.get(name)
        if kinds is None:  # of a CPU's part of the graph
            return str(super().wrap_kernel_call(name, call_args))  # type: ignore[misc]
        return f"{CALL}({name}, {tuple(kinds)!r}, {', '.join(call_args)})"

    def _generate_kernel_call_helper(self, kernel_name: str, call_args: Any, **named: Any) -> None:
        device = named.get("device") or V.graph.get_current_device_or_throw()
        if device.type == NAME and not named.get("triton", True):
            self.writeline(self.wrap_kernel_call(kernel_name, call_args))  # type: ignore[attr-defined]
        else:
            super()._generate_kernel_call_helper(kernel_name, call_args, **named)  # type: ignore[misc]


class WrapperCodegen(_HostCalls, PythonWrapperCodegen):  # type: ignore[misc]
    """The code around kernels, in Python."""

    @staticmethod
    def create(is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, *more: Any) -> Any:
        if is_subgraph:
            return _Subgraph(subgraph_name, parent_wrapper, *more)
        return WrapperCodegen()

    def write_header(self) -> None:
        super().write_header()
        self.header.writeline(f"from {__name__} import {CALL}")


class _Subgraph(_HostCalls, SubgraphPythonWrapperCodegen):  # type: ignore[misc]
    """The same of a graph within a graph."""


class OtherCodegen:
    """The code around kernels in C++, which there is none of.

    It would call them with addresses of the device, or as a graph.
    """

    @staticmethod
    def create(*_: Any) -> Any:
        raise NotImplementedError(
            f"torch.compile for '{NAME}' writes its wrapper in Python: its fused kernels run on the host; unset "
            "torch._inductor.config.cpp_wrapper and fx_wrapper"
        )


class Overrides(DeviceOpOverrides):  # type: ignore[misc]
    """Lines about devices and streams in a wrapper's code."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"from {__name__} import get_raw_stream as {name}"

    def set_device(self, device_idx: int) -> str:
        return f"torch.{NAME}.set_device({device_idx})"

    def synchronize(self) -> str:
        return f"torch.{NAME}.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.{NAME}.device({device_idx})"


def get_raw_stream(device: int) -> int:
    """Return the address of a device's current stream, the driver's own."""
    from .compile import Interface

    return Interface.get_raw_stream(device)


register_device_op_overrides(NAME, Overrides())
if hasattr(config, "loop_reindexing_after_fusion"):
    # 2.13 takes the groups of all devices but "cpu" for those of SIMDScheduling, numbers where CppScheduling has tuples
    # (torch/_inductor/scheduler.py: Scheduler._try_reindex_pointwise_for_reduction, line 7019 in 2.13.0).
    config.loop_reindexing_after_fusion = False

CLASSES = {
    "Scheduling": Scheduling,
    "PythonWrapperCodegen": WrapperCodegen,
    "CppWrapperCodegen": OtherCodegen,
    "WrapperFxCodegen": OtherCodegen,
}
"""What Inductor asks ``torch.<name>`` for (torch/_inductor/codegen/common.py: init_backend_registration)."""
