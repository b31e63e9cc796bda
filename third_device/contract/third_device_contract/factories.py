"""Call every factory of ATen on a device, with every dtype and layout.

The result is compared with what the CPU makes.

``python -m third_device_contract.factories NAME [FIRST]`` tries the cases from number FIRST on and writes one line of
JSON before and one after each: the reader knows the case in which a process ended. The factories are the operators with
a ``device`` argument that the dispatcher has at run time, so a new release's are tried without an edit here.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

SIZE = [2, 3]
DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)
LAYOUTS = sorted({value for value in vars(torch).values() if isinstance(value, torch.layout)}, key=str)
SHARING = {torch.quint4x2: 2, torch.quint2x4: 4}
"""How many elements have a byte together."""
QUANTIZED = (torch.quint8, torch.qint8, torch.qint32)

Case = tuple[str, Callable[[str], Any]]
"""What is tried, and how to make it on a device that is named."""

Maker = Callable[[str], torch.Tensor]

#: arguments by name, where the type alone does not say what is allowed
BY_NAME: dict[str, Any] = {
    "size": SIZE, "stride": [3, 1], "physical_layout": [1, 0], "sparse_dim": 2, "dense_dim": 0, "n": 3, "m": 2,
    "nnz": 2, "row": 3, "col": 3, "high": 5, "low": 1, "start": 0, "end": 4, "step": 1, "steps": 3, "base": 2.0, "s": 2,
    "fill_value": 1, "window_length": 4, "periodic": True, "alpha": 0.5, "beta": 0.5, "mean": 0.0, "std": 1.0, "d": 1.0,
    "axis": 0, "dropout": 0.5, "train": True, "dropout_seed": 1, "shared": False, "blocksize": [],
    "index_dtype": torch.int64, "copy": True,
}  # fmt: skip
#: tensors by name; they lie on the device that is asked for
TENSORS: dict[str, Maker] = {
    "self": lambda device: torch.ones(SIZE).to(device),
    "indices": lambda device: torch.tensor([[0, 1], [0, 2]]).to(device),
    "values": lambda device: torch.ones(2).to(device),
    "crow_indices": lambda device: torch.tensor([0, 1, 2]).to(device),
    "ccol_indices": lambda device: torch.tensor([0, 1, 1, 2]).to(device),
    "compressed_indices": lambda device: torch.tensor([0, 1, 2]).to(device),
    "col_indices": lambda device: torch.tensor([0, 2]).to(device),
    "row_indices": lambda device: torch.tensor([0, 1]).to(device),
    "plain_indices": lambda device: torch.tensor([0, 2]).to(device),
    "start": lambda device: torch.tensor(0.0).to(device),
    "end": lambda device: torch.tensor(4.0).to(device),
    "high": lambda device: torch.tensor(5),  # on the CPU, wherever the result is
    "scales": lambda device: torch.tensor([0.5, 0.25]).to(device),
    "zero_points": lambda device: torch.tensor([0, 1]).to(device),
    "qtensor": lambda device: torch.quantize_per_tensor(torch.ones(SIZE), 0.5, 1, torch.quint8).to(device),
}
BLOCKS = {"values": lambda device: torch.ones(2, 1, 1).to(device)}


def find_factories() -> list[torch._ops.OpOverload]:
    """List ATen's dispatcher operators that make a tensor on a named device."""
    found = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not name.startswith("aten::"):
            continue
        packet, _, overload = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if operator is None or "out" in overload:
            continue
        schema = operator._schema
        if any("Device" in str(a.type) for a in schema.arguments) and [str(r.type) for r in schema.returns] == [
            "Tensor"
        ]:
            found.append(operator)
    return found


def _arguments(operator: torch._ops.OpOverload, device: str, file: str) -> dict[str, Any]:
    """Return the arguments ``operator`` needs on the CPU, without those by default."""
    made: dict[str, Any] = {}
    for argument in operator._schema.arguments:
        kind, name = str(argument.type), argument.name
        if kind == "Tensor":
            block = "bsr" in operator._schema.name or "bsc" in operator._schema.name
            made[name] = (BLOCKS if block and name in BLOCKS else TENSORS)[name if name in TENSORS else "self"](device)
        elif kind == "List[Tensor]":
            made[name] = [torch.ones(2).to(device), torch.ones(3).to(device)]
        elif kind == "Optional[Generator]":
            made[name] = torch.Generator(device=device).manual_seed(3)
        elif name == "filename":
            made[name] = file
        elif name == "size" and kind == "Optional[int]":
            made[name] = 2
        elif not argument.has_default_value() and name not in ("device", "dtype", "layout"):
            made[name] = BY_NAME[name]
    return made


def _call(operator: torch._ops.OpOverload, given: dict[str, Any], file: str, device: str) -> Any:
    known = {argument.name for argument in operator._schema.arguments}
    chosen = {key: value for key, value in given.items() if key in known and value is not None}
    return operator(**_arguments(operator, device, file), **chosen, device=torch.device(device))


def list_factory_calls(file: str) -> Iterator[Case]:
    """Every factory with each dtype and each layout, and with neither."""
    for operator in find_factories():
        for dtype, layout in itertools.product((None, *DTYPES), (None, *LAYOUTS)):
            yield f"{operator} {dtype} {layout}", partial(_call, operator, {"dtype": dtype, "layout": layout}, file)


def list_tensors() -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """Tensors of the CPU, of every dtype and layout that it can make."""
    for dtype in DTYPES:
        yield f"strided {dtype}", partial(_filled, SIZE, dtype)
        yield f"transposed {dtype}", partial(_transposed, dtype)
        yield f"zero-dim {dtype}", partial(_filled, [], dtype)
        yield f"empty {dtype}", partial(_filled, [0, 3], dtype)
        for name in (
            "sparse_coo",
            "sparse_csr",
            "sparse_csc",
            "sparse_bsr",
            "sparse_bsc",
            "mkldnn",
            "nested",
            "jagged",
        ):
            yield f"{name} {dtype}", partial(_laid_out, name, dtype)
    scales = torch.tensor([0.5, 0.25, 1.0, 2.0])
    for dtype in (*QUANTIZED, *SHARING):
        yield f"per tensor {dtype}", partial(torch.quantize_per_tensor, torch.ones(4, 4), 0.5, 1, dtype)
        for zeros in (torch.tensor([0, 1, 2, 3]), torch.tensor([0.0, 1.0, 2.0, 3.0])):  # the latter: float parameters
            if zeros.is_floating_point() and dtype is torch.qint32:
                continue  # it ends the process on the CPU, too (SIGILL in 2.13.0)
            name = f"per channel {dtype} {zeros.dtype}"
            yield name, partial(torch.quantize_per_channel, torch.eye(4), scales, zeros, 0, dtype)
    yield "zero tensor", partial(torch._efficientzerotensor, SIZE)
    yield "conjugate", lambda: torch.ones(SIZE, dtype=torch.complex64).mul(1j).conj()
    yield "negative", lambda: torch.ones(SIZE, dtype=torch.complex64).mul(1j).conj().imag


def _transposed(dtype: torch.dtype) -> torch.Tensor:
    return _filled(SIZE, dtype).t()


def _filled(size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Bytes 1, 2, 3, … under any dtype that has whole bytes."""
    made = torch.empty(size, dtype=dtype)
    count = made.numel() * made.element_size()
    if (dtype.is_floating_point and made.element_size() > 1) or (dtype.is_complex and made.element_size() > 4):
        return made.copy_(torch.arange(1.0, made.numel() + 1).view(size))
    storage = torch.arange(1, count + 1, dtype=torch.uint8) % (2 if dtype is torch.bool else 7)
    return torch.empty(0, dtype=dtype).set_(storage.untyped_storage(), 0, made.size(), made.stride())


def _laid_out(name: str, dtype: torch.dtype) -> torch.Tensor:
    values = _filled([2], dtype)
    if name == "sparse_coo":
        return torch.sparse_coo_tensor(torch.tensor([[0, 1], [0, 2]]), values, SIZE)
    if name in ("nested", "jagged"):
        layout = torch.jagged if name == "jagged" else torch.strided
        return torch.nested.nested_tensor([values, _filled([3], dtype)], layout=layout)
    if name == "mkldnn":
        return _filled(SIZE, dtype).to_mkldnn()
    rows = name in ("sparse_csr", "sparse_bsr")
    if name.startswith("sparse_b"):
        values = values.view(2, 1, 1)
    compressed = torch.tensor([0, 1, 2] if rows else [0, 1, 1, 2])
    plain = torch.tensor([0, 2] if rows else [0, 1])
    return torch.sparse_compressed_tensor(compressed, plain, values, SIZE, layout=getattr(torch, name))


def _save(tensor: torch.Tensor) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    buffer.seek(0)
    return buffer


CARRIERS: dict[str, Callable[[torch.Tensor, str], Any]] = {
    "to": lambda tensor, device: tensor.to(device),
    "to and back": lambda tensor, device: tensor.to(device).cpu(),
    "load": lambda tensor, device: torch.load(_save(tensor), map_location=device, weights_only=False),
    "save there": lambda tensor, device: torch.load(_save(tensor.to(device)), map_location="cpu", weights_only=False),
    "empty_like": lambda tensor, device: torch.empty_like(tensor, device=device),
    "empty_like there": lambda tensor, device: torch.empty_like(tensor.to(device)),
    "zeros_like": lambda tensor, device: torch.zeros_like(tensor, device=device),
    "clone": lambda tensor, device: tensor.to(device).clone(),
    "copy_": lambda tensor, device: torch.zeros_like(tensor, device=device).copy_(tensor),
    "back by copy_": lambda tensor, device: torch.zeros_like(tensor).copy_(tensor.to(device)),
    "detach": lambda tensor, device: tensor.to(device).detach(),
    "repr": lambda tensor, device: re.sub(rf"device='{device}:0'|[ \n]|,|j\d+", "", repr(tensor.to(device))),
    "dequantize": lambda tensor, device: tensor.to(device).dequantize(),
    "int_repr": lambda tensor, device: tensor.to(device).int_repr(),
    "to_dense": lambda tensor, device: tensor.to(device).to_dense(),
    "values": lambda tensor, device: tensor.to(device).values(),
    "transpose": lambda tensor, device: tensor.to(device).transpose(0, 1),
    "select": lambda tensor, device: tensor.to(device)[0],
    "equal": lambda tensor, device: torch.equal(tensor.to(device), tensor.to(device)),
    "add": lambda tensor, device: tensor.to(device) + tensor.to(device),
    "sum": lambda tensor, device: tensor.to(device).sum(),
    "to_sparse": lambda tensor, device: tensor.to(device).to_sparse(),
    "to_sparse_csr": lambda tensor, device: tensor.to(device).to_sparse_csr(),
    "to_mkldnn": lambda tensor, device: tensor.to(device).to_mkldnn(),
    "parameter": lambda tensor, device: torch.nn.Parameter(tensor, requires_grad=False).to(device).data,
}


def list_carried() -> Iterator[Case]:
    """Bring every kind of tensor to the device in every way, use it, bring it back."""
    for name, make in list_tensors():
        if attempt(partial(_copy, make), "cpu")[1]:
            continue  # the CPU cannot make it, or not copy it
        for way, carry in CARRIERS.items():
            yield f"{way}: {name}", partial(_carry, make, carry)


def _copy(make: Callable[[], torch.Tensor], _: str) -> torch.Tensor:
    return make().clone()


def _carry(make: Callable[[], torch.Tensor], carry: Callable[[torch.Tensor, str], Any], device: str) -> Any:
    return carry(make(), device)


def _quantize(way: str, dtype: torch.dtype, there: bool, device: str) -> torch.Tensor:
    """Quantize a tensor of ``device``; the parameters are there, too, or on the CPU."""
    place = device if there else "cpu"
    scales, zeros = torch.tensor([0.5, 0.25]).to(place), torch.tensor([0, 1]).to(place)
    whole = torch.ones(2, 4).to(device)
    if way == "per channel":
        return torch.quantize_per_channel(whole, scales, zeros, 0, dtype)
    if way == "per channel, float":
        return torch.quantize_per_channel(whole, scales, zeros.float(), 0, dtype)
    if way == "per tensor":
        return torch.quantize_per_tensor(whole, scales[0], zeros[1], dtype)
    if way == "several":
        return torch.quantize_per_tensor([whole, whole], scales, zeros, dtype)[1]
    return torch._make_per_channel_quantized_tensor(torch.ones(2, 4, dtype=torch.uint8).to(device), scales, zeros, 0)


def _quantize_dynamically(dtype: torch.dtype, reduced: bool, device: str) -> torch.Tensor:
    return torch.quantize_per_tensor_dynamic(torch.ones(2, 3).to(device), dtype, reduced)


def _read_quantizer(reader: str, dtype: torch.dtype, device: str) -> Any:
    return getattr(_quantize("per channel", dtype, False, "cpu").to(device), reader)()


def list_quantizers() -> Iterator[Case]:
    """Every way to quantize, the parameters on the CPU and on the device."""
    for dtype in (*QUANTIZED, *SHARING):
        for way in ("per channel", "per channel, float", "per tensor", "several", "of integers"):
            if way == "per channel, float" and dtype is torch.qint32:
                continue  # as in list_tensors
            for there in (False, True):
                place = "there" if there else "on the CPU"
                yield f"quantize {way} {dtype}, parameters {place}", partial(_quantize, way, dtype, there)
        for reduced in (False, True):
            yield f"quantize dynamic {dtype} {reduced}", partial(_quantize_dynamically, dtype, reduced)
        for reader in ("q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis", "qscheme"):
            yield f"{reader} {dtype}", partial(_read_quantizer, reader, dtype)


def describe(value: torch.Tensor) -> dict[str, Any]:
    """Describe what kind of tensor it is, which must be alike on all devices."""
    told: dict[str, Any] = {"dtype": str(value.dtype), "layout": str(value.layout), "nested": value.is_nested}
    if not value.is_nested:
        told["size"] = list(value.shape)
    if value.layout is torch.strided and not value.is_nested:
        told["stride"] = list(value.stride())
    if value.is_quantized:
        told["scheme"] = attempt(lambda _: str(value.qscheme()), "")[0]  # none in what torch.empty makes
    return told


def bytes_of(value: torch.Tensor) -> Any:
    """Return the content of a tensor, however it is laid out."""
    value = value.cpu()
    if value.is_nested:
        return [bytes_of(part) for part in value.unbind()]
    if value.layout is torch.sparse_coo:
        return [bytes_of(value._indices()), bytes_of(value._values())]
    if value.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [bytes_of(part) for part in (value.crow_indices(), value.col_indices(), value.values())]
    if value.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [bytes_of(part) for part in (value.ccol_indices(), value.row_indices(), value.values())]
    if value.layout is torch._mkldnn:
        return bytes_of(value.to_dense())
    more = []
    if value.is_quantized:
        per_channel = value.qscheme() not in (torch.per_tensor_affine, torch.per_tensor_symmetric)
        more = (
            [
                value.q_per_channel_scales().tolist(),
                value.q_per_channel_zero_points().tolist(),
                value.q_per_channel_axis(),
            ]
            if per_channel
            else [value.q_scale(), value.q_zero_point()]
        )
    whole = value.clone() if value._is_zerotensor() else value.resolve_conj().resolve_neg()
    if whole.numel() and not whole.is_contiguous():
        whole = whole.clone(memory_format=torch.contiguous_format)
    first = whole.storage_offset() * whole.element_size()
    last = first + whole.numel() * whole.element_size() // SHARING.get(whole.dtype, 1)
    return [list(bytes(whole.untyped_storage())[first:last]), *more]


def attempt(make: Callable[[str], Any], device: str) -> tuple[Any, str]:
    """Return what ``make`` gives on ``device``, or the error that it raised."""
    try:
        return make(device), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


UNSET = (
    "empty",
    "new_empty",
    "rand",
    "resize",
    "make_dep_token",
    "normal",
    "cudnn",
    "sparse_compressed_tensor_with_dims",
)
"""How the names begin of what makes bytes that nobody sets, or other numbers on each device."""


TO_HOST = ("to and back:", "save there:", "back by copy_:", "to_mkldnn:", "mkldnn")
"""How the names begin of what ends on the CPU."""


def _is_full_compressed(name: str) -> bool:
    """Return whether it is ``torch.full`` or ``ones`` of a compressed layout.

    Upstream leaves the indices unset.
    """
    return name.startswith(("full.", "new_full.", "ones.", "new_ones.")) and name.endswith(
        ("_csr", "_csc", "_bsr", "_bsc")
    )


def judge(name: str, make: Callable[[str], Any], device: str) -> tuple[str, str]:
    """Return ``right``, ``refused``, ``neither`` (as the CPU) or ``wrong``, and why."""
    expected, cpu_error = attempt(make, "cpu")
    found, error = attempt(make, device)
    if error:
        if "\n" in error or "INTERNAL ASSERT" in error or error.startswith("RecursionError"):
            return (
                "neither" if error.splitlines()[0] == cpu_error.splitlines()[0] else "wrong"
            ) if cpu_error else "wrong", error
        return "neither" if cpu_error else "refused", error
    if cpu_error:
        return "right", f"the CPU refuses: {cpu_error}"
    try:
        if isinstance(found, torch.Tensor) and found.device.type not in (
            device,
            *(["cpu"] if name.startswith(TO_HOST) else []),
        ):
            return "wrong", f"it is on {found.device}"
        if not isinstance(expected, torch.Tensor):
            return ("right", "") if found == expected else ("wrong", f"{found} and not {expected}")
        ours, theirs = describe(found), describe(expected)
        kept = attempt(lambda _: expected.clone().stride(), "")[0]
        if "stride" in theirs and kept != expected.stride():
            ours["stride"] = theirs["stride"]  # a copy of such a tensor has other strides
        if ours != theirs:
            return "wrong", f"{ours} and not {theirs}"
        if found.dtype in (*QUANTIZED, *SHARING) and ours.get("scheme") is None:
            return "right", ""  # no quantizer, as in the values of sparse tensors: nobody can read it
        plain = name.removeprefix("aten.").lstrip("_")
        if not (plain.startswith(UNSET) or _is_full_compressed(plain)):
            ours, theirs = bytes_of(found), bytes_of(expected)
            if ours != theirs:
                return "wrong", f"{str(ours)[:200]} and not {str(theirs)[:200]}"
    except Exception as failure:
        return "wrong", f"its result cannot be read: {type(failure).__name__}: {failure}"
    return "right", ""


def list_cases(file: str) -> Iterator[Case]:
    """All cases, in an order that stays the same in one PyTorch."""
    return itertools.chain(list_quantizers(), list_carried(), list_factory_calls(file))


def main() -> None:
    """Try the cases from a number on, and write a line before and after each."""
    device, first = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        file.write_bytes(bytes(64))
        for number, (name, make) in enumerate(list_cases(str(file))):
            if number < first:
                continue
            print(json.dumps([number, name]), flush=True)
            verdict, why = judge(name, make, device)
            print(json.dumps([number, name, verdict, why[:2000]]), flush=True)


if __name__ == "__main__":
    main()
